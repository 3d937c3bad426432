"""Stages of a curriculum: when they end, what the memory stores, and how they resume."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from briskrl.core.errors import ConfigError
from briskrl.core.types import EpisodeStats
from briskrl.training.config import Stage
from briskrl.training.curriculum import Curriculum
from briskrl.training.loop import resume, train
from briskrl.training.resolve import load_config
from briskrl.training.storage.line_files import read_jsonl
from briskrl.training.trainer import Trainer
from tests.training.runs import policy_hash, small_config

STAGES = (
    Stage(env={"height": 4, "width": 4}, until="steps", value=700),
    Stage(env={"height": 6, "width": 6, "start": "random"}, until="score", value=-1.0, window=20),
)


def episodes(scores: list[float], won: bool = False) -> EpisodeStats:
    count = len(scores)
    values = np.array(scores, np.float32)
    return EpisodeStats(
        env=np.zeros(count, np.int32),
        steps=np.ones(count, np.int32),
        returns=values,
        score=values,
        won=np.full(count, won),
        cause=np.zeros(count, np.uint8),
    )


def test_a_stage_ends_when_the_mean_score_of_a_full_window_is_reached():
    curriculum = Curriculum([Stage(until="score", value=5.0, window=4)])
    assert not curriculum.observe(10, episodes([9, 9, 9]))
    assert not curriculum.observe(10, episodes([0, 1, 2]))
    assert not curriculum.observe(10, episodes([5, 5, 4]))
    assert curriculum.observe(10, episodes([6, 6]))
    curriculum.promote()
    assert curriculum.current is None
    assert not curriculum.observe(10, episodes([9] * 9))


def test_a_stage_ends_when_its_win_rate_is_reached():
    curriculum = Curriculum([Stage(until="success", value=0.5, window=4)])
    assert not curriculum.observe(1, episodes([0, 0, 0], won=False))
    assert not curriculum.observe(1, episodes([0], won=True))
    assert curriculum.observe(1, episodes([0], won=True))


def test_a_stage_ends_after_its_own_steps():
    curriculum = Curriculum([Stage(until="steps", value=20), Stage(until="steps", value=20)])
    assert not curriculum.observe(19, episodes([]))
    assert curriculum.observe(1, episodes([]))
    curriculum.promote()
    assert not curriculum.observe(19, episodes([]))


def test_the_counts_of_a_stage_are_saved_and_restored():
    stages = [Stage(until="steps", value=5), Stage(until="score", value=5.0, window=4)]
    curriculum, copy = Curriculum(stages), Curriculum(stages)
    curriculum.promote()
    curriculum.observe(3, episodes([9, 9, 9]))
    copy.load_state(curriculum.state())
    assert copy.stage == 1
    assert copy.observe(3, episodes([9]))


@pytest.mark.parametrize("preset", ["dqn", "ppo"])
def test_a_run_passes_its_stages_and_resumes_in_any_of_them(tmp_path, preset):
    config = small_config(
        tmp_path / "whole",
        preset,
        curriculum=STAGES,
        steps=4000,
        log_seconds=1e-3,
        algo_config={"n_step": 3} if preset == "dqn" else {},
    )
    train(config)
    train(replace(config, run_dir=str(tmp_path / "parts"), steps=300))
    for steps in (1000, 1600, 4000):
        resume(tmp_path / "parts", steps=steps)
    assert policy_hash(tmp_path / "parts") == policy_hash(tmp_path / "whole")
    stages = [row["stage"] for row in read_jsonl(tmp_path / "whole" / "metrics.jsonl")]
    assert stages == sorted(stages)
    assert set(stages) == {1, 2, 3}
    assert load_config(tmp_path / "whole" / "config.toml").curriculum == STAGES


@pytest.mark.parametrize("preset", ["dqn", "ppo"])
def test_no_transition_spans_two_stages(tmp_path, preset):
    stages = (Stage(env={"height": 4, "width": 4}, until="steps", value=160),)
    trainer = Trainer(_complete(small_config(tmp_path / "run", preset, curriculum=stages)))
    trainer.start()
    for _ in range(10):
        before = trainer.collector.now.obs.copy()
        trainer.iterate()
    assert trainer.curriculum.stage == 1
    ends, finals = _last_transitions(trainer, preset)
    assert ends.all()
    assert not np.array_equal(finals, trainer.collector.now.obs)
    assert finals.shape == before.shape
    trainer.close()


def _last_transitions(trainer: Trainer, preset: str):
    """Whether each env's last transition ended an episode, and where."""
    memory = trainer.memory
    if preset == "ppo":
        rollout = memory.rollouts()[0]
        return rollout.terminated[9] | rollout.truncated[9], rollout.final_obs[9]
    last = slice(9 * memory.num_envs, 10 * memory.num_envs)
    return memory.ring.flags[last] != 0, memory.ring.final_obs[last]


def _complete(config):
    from briskrl.training.resolve import complete

    return complete(config)


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ({"env": {"heigth": 5}}, "Did you mean 'height'"),
        ({"env": {"height": 1}}, "In stage 1 of the curriculum: height"),
        ({"until": "success", "value": 3.0}, "a share of episodes won"),
        ({"until": "steps", "value": 0.0}, "a number of transitions"),
        ({"envs": {}}, "Did you mean 'env'"),
        ({"env": {"obs": "flood"}}, "other observations or actions"),
    ],
)
def test_invalid_stages_raise_before_anything_is_written(tmp_path, stage, message):
    with pytest.raises(ConfigError, match=message):
        train(small_config(tmp_path / "run", curriculum=[stage]))
    assert not (tmp_path / "run").exists()
