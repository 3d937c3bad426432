"""Collecting rollouts: figures of the benchmark, and memory allocated while collecting."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from typing import Literal

import numpy as np
import pytest
import torch

from briskrl.algos.ppo.config import PPOConfig
from briskrl.bench.rollout import RolloutBench, RolloutTrial, measure_rollout
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
"""Bytes per ended episode, for the arrays that describe it."""


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


def test_figures_of_one_slice_are_consistent() -> None:
    figures = measure_rollout(RolloutBench(num_envs=32, update_steps=4, slices=1, seconds=0.01))
    assert figures.rollout_cost_ratio == pytest.approx(
        figures.collect_us / (figures.act_us + figures.env_us)
    )
    assert figures.steps_per_cpu_s == pytest.approx(32 / figures.collect_us * 1e6)
    assert figures.rollouts >= 1
    assert min(figures.act_us, figures.env_us) > 0


def test_repeating_the_calls_of_a_rollout_does_not_change_the_run() -> None:
    trainers = [build(16, 4) for _ in range(2)]
    try:
        trials = [RolloutTrial(trainer, 4) for trainer in trainers]
        for _ in range(5):
            trials[0].take_turn()
            for _ in range(4):
                trainers[1].collector.collect()
            trials[1].memory.next_rollout()
        states = [trainer.state().states for trainer in trainers]
        for name, array in states[0]["collector"].arrays.items():
            np.testing.assert_array_equal(array, states[1]["collector"].arrays[name], name)
    finally:
        for each in trainers:
            each.close()


def test_a_different_result_of_repeated_calls_raises() -> None:
    trainer = build(16, 4)
    try:
        trial = RolloutTrial(trainer, 4)
        trial.take_turn()
        trial._slots[2].decision.action[3] += 1
        with pytest.raises(BriskError, match="different result"):
            trial._check()
    finally:
        trainer.close()


def test_collecting_allocates_no_array_of_one_entry_per_game(trainer: Trainer) -> None:
    assert SMALL_B < NUM_ENVS
    episodes = 0
    tracemalloc.start()
    try:
        for _ in range(3 * STEPS):
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            _, ended = trainer.collector.collect()
            _, peak = tracemalloc.get_traced_memory()
            assert peak - before < SMALL_B + RECORD_B * ended.count
            episodes += ended.count
            finish(trainer)
    finally:
        tracemalloc.stop()
    assert 0 < episodes < 3 * STEPS * NUM_ENVS // 4


def test_collecting_with_the_fused_engine_calls_no_torch_operation(trainer: Trainer) -> None:
    if trainer.config.engine == "torch":
        pytest.skip("torch allocates the outputs of its layers")
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        for _ in range(STEPS):
            trainer.collector.collect()
            finish(trainer)
    events = profile.events()
    assert [event.name for event in events if event.name.startswith("aten::")] == []


def finish(trainer: Trainer) -> None:
    """Start the next rollout without learning from this one."""
    memory = trainer.memory
    if not memory.has_room.any():
        memory.next_rollout()  # type: ignore[attr-defined]


def test_the_command_prints_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--num-envs", "16", "--update-steps", "4", "--slices", "2", "--seconds", "0.01"]
    assert main(["bench", "rollout", *words, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["num_envs"], figures["update_steps"], figures["slices"]) == (16, 4, 2)
    assert figures["rollout_cost_ratio"] > 0
    assert main(["bench", "rollout", *words]) == 0
    assert capsys.readouterr().out.split()[0] == "rollout_cost_ratio"
