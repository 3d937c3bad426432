"""Collecting rollouts: the benchmark's figures, and that nothing large is allocated on the way."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from typing import Literal

import numpy as np
import pytest
import torch

from briskrl.algos.ppo.config import PPOConfig
from briskrl.bench.config import RolloutBench
from briskrl.bench.rollout import Trial, measure_rollout
from briskrl.cli.main import main
from briskrl.core.errors import BriskError
from briskrl.envs.snake.config import SnakeConfig
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete
from briskrl.training.trainer import Trainer
from briskrl.training.warmup import warm_up

NUM_ENVS, STEPS = 8192, 4
SMALL_B = 3072
"""Bytes for Python's own objects; an array of one byte per game would be larger."""
RECORD_B = 96
"""Bytes per ended episode: the arrays that tell of it."""


def build(num_envs: int, steps: int, engine: Literal["torch", "fused"] = "torch") -> Trainer:
    config = TrainConfig(
        env="snake",
        algo="ppo",
        engine=engine,
        num_envs=num_envs,
        env_config=SnakeConfig(obs="flood"),
        algo_config=PPOConfig(update_steps=steps),
    )
    return Trainer(complete(config))


@pytest.fixture(scope="module", params=["torch", "fused"])
def trainer(request: pytest.FixtureRequest) -> Iterator[Trainer]:
    trainer = build(NUM_ENVS, STEPS, request.param)
    warm_up(trainer)
    for _ in range(2 * STEPS):
        trainer.iterate()
    yield trainer
    trainer.close()


def test_figures_are_those_of_one_stretch() -> None:
    figures = measure_rollout(RolloutBench(num_envs=32, update_steps=4, slices=1, seconds=0.01))
    assert figures.rollout_cost_ratio == pytest.approx(
        figures.collect_us / (figures.act_us + figures.env_us)
    )
    assert figures.steps_per_cpu_s == pytest.approx(32 / figures.collect_us * 1e6)
    assert figures.rollouts >= 1
    assert min(figures.act_us, figures.env_us) > 0


def test_doing_the_calls_again_leaves_the_run_as_it_was() -> None:
    trainers = [build(16, 4) for _ in range(2)]
    try:
        trials = [Trial(trainer, 4) for trainer in trainers]
        for _ in range(5):
            trials[0].turn()
            for _ in range(4):
                trainers[1].collector.collect()
            trials[1]._memory.next_rollout()
        states = [trainer.state().parts for trainer in trainers]
        for name, array in states[0]["collector"].arrays.items():
            np.testing.assert_array_equal(array, states[1]["collector"].arrays[name], name)
    finally:
        for each in trainers:
            each.close()


def test_calls_that_differ_are_refused() -> None:
    trainer = build(16, 4)
    try:
        trial = Trial(trainer, 4)
        trial.turn()
        trial._rows[2].decision.action[3] += 1
        with pytest.raises(BriskError, match="another result"):
            trial._compare()
    finally:
        trainer.close()


def test_collecting_allocates_nothing_that_grows_with_the_number_of_games(trainer: Trainer) -> None:
    assert SMALL_B < NUM_ENVS
    told = 0
    tracemalloc.start()
    try:
        for _ in range(3 * STEPS):
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            _, ended = trainer.collector.collect()
            _, peak = tracemalloc.get_traced_memory()
            assert peak - before < SMALL_B + RECORD_B * ended.count
            told += ended.count
            finish(trainer)
    finally:
        tracemalloc.stop()
    assert 0 < told < 3 * STEPS * NUM_ENVS // 4


def test_collecting_with_the_fused_engine_makes_torch_do_nothing(trainer: Trainer) -> None:
    if trainer.config.engine == "torch":
        pytest.skip("torch allocates what its layers put out")
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        for _ in range(STEPS):
            trainer.collector.collect()
            finish(trainer)
    events = profile.events()
    assert [event.name for event in events if event.name.startswith("aten::")] == []


def finish(trainer: Trainer) -> None:
    """Begin the next rollout without learning from this one."""
    memory = trainer.memory
    if not memory.has_room.any():
        memory.next_rollout()  # type: ignore[attr-defined]


def test_the_command_prints_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--num-envs", "16", "--update-steps", "4", "--slices", "2", "--seconds", "0.01"]
    assert main(["bench", "rollout", *words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["num_envs"], told["update_steps"], told["slices"]) == (16, 4, 2)
    assert told["rollout_cost_ratio"] > 0
    assert main(["bench", "rollout", *words]) == 0
    assert capsys.readouterr().out.split()[0] == "rollout_cost_ratio"
