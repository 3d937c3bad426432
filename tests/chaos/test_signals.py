"""Signals at random moments of every stage: a state that resumes to the same bits, or nothing.

One run is interrupted and resumed again and again, and then has the result of a run that nothing
disturbed. CHAOS_MOMENTS sets the number of signals for each stage.
"""

from __future__ import annotations

import json
import os
import random
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.chaos.signalled import SIGNALS, Ended, run_brisk
from tests.training.runs import policy_hash

pytestmark = pytest.mark.chaos

MOMENTS = int(os.environ.get("CHAOS_MOMENTS", "20"))
CURRICULUM = """
env = "snake"
algo = "ppo"
engine = "fused"
steps = 400_000
num_envs = 64
seed = 5
[algo_config]
lr_schedule = "constant"
""" + "".join(
    f"""
[[curriculum]]
env = {{ height = {5 + stage % 3}, width = 5 }}
until = "steps"
value = {10_000 * (stage + 1)}
"""
    for stage in range(30)
)
# With --engine auto, the engine would depend on measured times.
SNAKE = "train snake --engine fused --seed 5 --num-envs 64 --log-seconds 0.2"
PRETRAINING = (
    "train wildfire --algo {} --height 10 --width 10 --landscapes 4 --num-envs 16 --steps 800 "
    "--body mlp --engine fused --seed 5 --checkpoint-seconds 1 "
    "--pretrain-from dpv-iterative --pretrain-steps {}"
)


@dataclass(frozen=True)
class Stage:
    """A command, and where in its course signals arrive."""

    words: str
    marker: str = "engine "
    """Part of the line after which they arrive."""
    window_s: float = 1.5
    """How long after it, at most."""
    signals: int = 1


STAGES = {
    "import": Stage(f"{SNAKE} --steps 60000", "ready", 2.5),
    "warm-up": Stage(f"{SNAKE} --steps 60000", "warming up", 0.6),
    "dqn": Stage(f"{SNAKE} --algo dqn --steps 2000000"),
    "overlap": Stage(f"{SNAKE} --algo double-dqn --overlap --steps 2000000"),
    "ppo with worker processes": Stage(
        "train gym:CartPole-v1 --algo ppo --backend process --num-envs 8 "
        "--steps 150000 --seed 5 --engine fused"
    ),
    "saving": Stage(f"{SNAKE} --algo rainbow --steps 300000 --checkpoint-steps 640"),
    "two signals": Stage(f"{SNAKE} --steps 300000 --checkpoint-steps 640", signals=2),
    "pretraining of ppo": Stage(
        PRETRAINING.format("ppo --update-steps 20 --minibatch-size 80", 400), "plans its games", 3.0
    ),
    "pretraining of dqn": Stage(
        PRETRAINING.format("double-dqn --pretrain-transitions 4000", 1500), "plans its games", 3.0
    ),
    "curriculum": Stage("train --config curriculum.toml"),
    "final report": Stage(f"{SNAKE} --steps 6000 --learning-starts 1000", window_s=0.5),
}


def signals_of(chance: random.Random, count: int) -> tuple[int, ...]:
    return tuple(chance.choice(SIGNALS) for _ in range(count))


def check_end(ended: Ended, sent: tuple[int, ...]) -> None:
    """The exit code is that of one of the signals, or of success if none came in time.

    Before brisk has begun, the system ends the process; shells report that with the same code.
    """
    early = ended.output == "ready\n" and not ended.errors
    ends = {128 + number for number in sent} | {-number for number in sent if early}
    assert ended.code in {0, *ends}, ended


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_a_run_stopped_at_random_moments_resumes_to_the_same_bits(tmp_path: Path, stage: Stage):
    (tmp_path / "curriculum.toml").write_text(CURRICULUM)
    words = stage.words.split()
    whole = run_brisk([*words, "--run-dir", "whole"], folder=tmp_path)
    assert whole.code == 0, whole
    chance = random.Random(stage.words)
    number, stops = 0, 0
    for _ in range(MOMENTS):
        run = tmp_path / f"run-{number}"
        command = ["resume", run.name] if run.exists() else [*words, "--run-dir", run.name]
        sent = signals_of(chance, stage.signals)
        ended = run_brisk(
            command,
            folder=tmp_path,
            marker=stage.marker,
            delay_s=chance.uniform(0, stage.window_s),
            signals=sent,
            apart_s=chance.uniform(0, 0.1),
        )
        check_end(ended, sent)
        stops += ended.code != 0
        if run.exists() and is_finished(run):
            number += 1
    assert stops > 0
    run = tmp_path / f"run-{number}"
    if run.exists():
        assert run_brisk(["resume", run.name], folder=tmp_path).code == 0
    for run in tmp_path.glob("run-*"):
        assert policy_hash(run) == policy_hash(tmp_path / "whole")


def is_finished(run: Path) -> bool:
    """Whether a run has reached its budget; a signal may arrive in its last iteration or later."""
    try:
        status = json.loads((run / "status.json").read_text())
    except FileNotFoundError:
        return False
    return bool(status["env_steps"] >= status["total_steps"])


@pytest.mark.parametrize("command", ["eval run --episodes 200000", "play run", "bench env snake"])
def test_other_commands_end_with_the_code_of_the_signal(tmp_path: Path, command: str):
    train = [*SNAKE.split(), "--steps", "3000", "--run-dir", "run"]
    assert run_brisk(train, folder=tmp_path).code == 0
    chance = random.Random(command)
    for _ in range(MOMENTS):
        sent = signals_of(chance, 1)
        ended = run_brisk(
            command.split(),
            folder=tmp_path,
            marker="ready",
            delay_s=chance.uniform(0, 4.0),
            signals=sent,
        )
        check_end(ended, sent)
        if ended.code:
            assert ended.reaction_s < 5.0, ended


COMPILING = [
    (f"{SNAKE} --steps 3000 --run-dir run", "warming up"),
    ("resume started", "warming up"),
    ("eval snake --player heuristic", "ready"),
    ("bench env snake", "ready"),
    ("bench train snake --steps 20000", "ready"),
    ("doctor snake --budget 10", "ready"),
    ("play snake", "ready"),
]


@pytest.mark.parametrize(("command", "marker"), COMPILING)
def test_a_first_compilation_ends_within_five_seconds(tmp_path: Path, command: str, marker: str):
    assert run_brisk([*SNAKE.split(), "--steps", "3000", "--run-dir", "started"], folder=tmp_path)
    chance, stops = random.Random(command), 0
    for moment in range(max(3, MOMENTS // 4)):
        sent = signals_of(chance, 1)
        ended = run_brisk(
            command.split(),
            folder=tmp_path,
            marker=marker,
            delay_s=chance.uniform(0.0, 10.0),
            signals=sent,
            XDG_CACHE_HOME=str(tmp_path / f"cache-{moment}"),
        )
        check_end(ended, sent)
        stops += ended.code != 0
        assert ended.reaction_s < 5.0, ended
        assert not list(tmp_path.glob("brisk-*"))
        if (tmp_path / "run").exists():
            assert (tmp_path / "run" / "config.toml").exists()
            (tmp_path / "run").rename(tmp_path / f"run-{moment}")
    assert stops > 0
    for run in tmp_path.glob("run-*"):
        assert run_brisk(["resume", run.name], folder=tmp_path).code == 0
        assert policy_hash(run) == policy_hash(tmp_path / "started")


def test_nohup_ignores_a_hangup(tmp_path: Path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        ended = run_brisk(
            [*SNAKE.split(), "--steps", "200000", "--run-dir", "run"],
            folder=tmp_path,
            marker="engine ",
            delay_s=0.3,
            signals=(signal.SIGHUP,),
        )
    finally:
        signal.signal(signal.SIGHUP, before)
    assert ended.code == 0
