"""Sides in processes of their own: requests, slices, figures, missing peers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.peers import processes
from benchmarks.peers.compare import PeersBench
from benchmarks.peers.ppo_settings import PROCESS_SCALE, process_config, runner_settings
from benchmarks.peers.processes import (
    LEARNERS,
    STEPPERS,
    ProcessSide,
    measure_env_steps,
    measure_ppo_processes,
    peer_pythons,
)
from benchmarks.peers.runners.briskrl_steps import Games
from briskrl.algos.ppo.config import PPOConfig
from briskrl.bench.process import BenchProcess, ProcessDiedError
from briskrl.core.errors import ConfigError
from briskrl.training.resolve import complete

RUNNER = """
from runner_protocol import serve, settings
SETTINGS = settings()
print("output of a library")

def train(rounds):
    return sum(range(rounds * 20000)) and 7.0

serve("slow 1.0", train, rollout=SETTINGS["num_envs"] * SETTINGS["update_steps"])
"""


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A peer that only answers requests, in a copy of the runners folder."""
    folder = tmp_path / "runners"
    folder.mkdir()
    protocol = Path(processes.__file__).parent / "runners" / "runner_protocol.py"
    (folder / "runner_protocol.py").write_text(protocol.read_text())
    script = folder / "slow.py"
    script.write_text(RUNNER)
    monkeypatch.setitem(LEARNERS, "jax", str(script))
    return script


def test_all_sides_train_with_the_same_settings() -> None:
    config = complete(process_config(engine="torch", threads=2, seed=5))
    settings = json.loads(json.dumps(runner_settings(config)))
    algo: PPOConfig = config.algo_config
    assert (config.env, config.algo, config.engine, config.threads) == (
        "cartpole",
        "ppo",
        "torch",
        2,
    )
    assert (settings["num_envs"], settings["update_steps"], settings["minibatch_size"]) == (
        1024,
        32,
        4096,
    )
    assert (settings["epochs"], settings["net"], settings["activation"]) == (4, [64, 64], "tanh")
    assert not algo.shared
    assert not algo.normalize_reward
    assert settings["max_steps"] == config.env_config.max_steps == 500
    for name in ("lr", "gamma", "gae_lambda", "clip", "max_grad_norm"):
        assert settings[name] == getattr(algo, name)
    assert (settings["seed"], settings["threads"]) == (5, 2)


def test_every_peer_has_a_runner() -> None:
    folder = Path(processes.__file__).parent / "runners"
    assert {folder / name for name in (LEARNERS | STEPPERS).values()} <= set(folder.iterdir())


def test_a_runner_answers_requests_and_nothing_else(runner: Path) -> None:
    settings = json.dumps({"num_envs": 3, "update_steps": 4})
    with BenchProcess([sys.executable, str(runner), settings]) as process:
        assert process.ready["version"] == "slow 1.0"
        assert process.ready["start_cpu_s"] > 0
        answers = [process.request(rounds) for rounds in ("1", "5")]
    assert [answer["steps"] for answer in answers] == [12, 60]
    assert all(answer["mean_return"] == 7.0 for answer in answers)
    assert all(answer["cpu_s"] > 0 for answer in answers)
    assert process._process.returncode == 0


def test_a_runner_without_its_library_raises(tmp_path: Path) -> None:
    script = tmp_path / "broken.py"
    script.write_text("import no_such_library\n")
    with pytest.raises(ProcessDiedError, match="has ended"):
        BenchProcess([sys.executable, str(script)])


class FakeProcess:
    """Answers from a list."""

    def __init__(self, answers: list[dict[str, Any]]) -> None:
        self.ready = {"version": "x", "start_cpu_s": 1.0, "note": ""}
        self.answers = answers
        self.requests: list[str] = []

    def request(self, line: str) -> dict[str, Any]:
        self.requests.append(line)
        return self.answers[len(self.requests) - 1]


def test_slices_have_the_requested_length_and_the_first_does_not_count() -> None:
    def answer(steps: int, cpu_s: float) -> dict[str, Any]:
        return {"steps": steps, "cpu_s": cpu_s, "wall_s": 2 * cpu_s, "mean_return": 9.0}

    process = FakeProcess([answer(100, 0.5), answer(300, 1.0), answer(300, 1.5), answer(300, 3.0)])
    side = ProcessSide(process, cpu_s=1.6)  # type: ignore[arg-type]
    side.calibrate()
    rates = [side.run_slice() for _ in range(3)]
    assert process.requests == ["1", "3", "3", "3"]
    assert rates == [300, 200, 100]
    figures = side.figures(200)
    assert figures.steps_per_cpu_s == 200
    assert figures.steps_per_s == 100
    assert figures.rounds == 3


def test_ppo_is_compared_with_a_process(runner: Path) -> None:
    bench = PeersBench(peer_python={"jax": sys.executable}, slices=2, seconds=0.01, engine="fused")
    figures = measure_ppo_processes(bench)
    assert figures.ours.version.startswith("briskrl ")
    assert figures.ours.note == "fused"
    peer = figures.peers["jax"]
    assert peer.version == "slow 1.0"
    assert peer.mean_return == 7.0
    assert min(figures.ours.steps_per_cpu_s, peer.steps_per_cpu_s) > 0
    assert np.isfinite([figures.cpu_ratio["jax"], figures.wall_ratio["jax"]]).all()
    assert figures.missing == ("pufferlib", "sample-factory", "tianshou")
    assert figures.scale == PROCESS_SCALE


STEPPER = """
from runner_protocol import serve, settings
SETTINGS = settings()
serve("pool 1.0", lambda rounds: None, rollout=SETTINGS["num_envs"] * SETTINGS["update_steps"])
"""


def test_steps_are_compared_with_a_process(runner: Path, monkeypatch) -> None:
    script = runner.with_name("pool.py")
    script.write_text(STEPPER)
    monkeypatch.setitem(STEPPERS, "envpool", str(script))
    bench = PeersBench(peer_python={"envpool": sys.executable}, slices=2, seconds=0.01)
    figures = measure_env_steps(bench)
    assert figures.ours.version.startswith("briskrl ")
    assert figures.peers["envpool"].version == "pool 1.0"
    assert figures.peers["envpool"].mean_return is None
    assert min(figures.ours.steps_per_cpu_s, figures.cpu_ratio["envpool"]) > 0
    assert figures.missing == ()
    assert figures.scale is None


def test_stepped_games_continue_and_end() -> None:
    settings = {"num_envs": 7, "update_steps": 5, "max_steps": 20, "seed": 3, "threads": 1}
    games = Games(settings)
    for rounds in (1, 2, 8):
        before = games.out.obs.copy()
        games.step(rounds)
        assert (games.out.obs != before).any(1).all()
    assert games.env.drain_stats().count == 0


def test_pythons_come_from_the_option_and_the_environment_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(processes.VARIABLE, f"tianshou={sys.executable},jax=/nowhere/python")
    found = peer_pythons({"jax": sys.executable})
    assert found == {"tianshou": sys.executable, "jax": sys.executable}
    with pytest.raises(ConfigError, match="not at '/nowhere/python'"):
        peer_pythons({})
    monkeypatch.delenv(processes.VARIABLE)
    assert peer_pythons({}) == {}
    with pytest.raises(ConfigError, match="Did you mean 'tianshou'"):
        peer_pythons({"tianshuo": sys.executable})
