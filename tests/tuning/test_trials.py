"""Slices of real training."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
import torch

from briskrl.bench.steady_config import steady_config
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete
from briskrl.tuning import trials as module
from briskrl.tuning.config import TuneConfig
from briskrl.tuning.space import Space
from briskrl.tuning.trials import TrialError, Trials, cpu_seconds

TINY = TrainConfig(
    num_envs=16, engine="fused", algo_config={"net": [8], "learning_starts": 5000, "batch_size": 8}
)


def space(config: TrainConfig = TINY, **settings: Any) -> Space:
    return Space(complete(config), TuneConfig(**settings), cores=1, fused=True)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """All trainers that are built."""
    made: list[Any] = []
    real = module.Trainer

    def build(config: TrainConfig) -> Any:
        made.append(real(config))
        return made[-1]

    monkeypatch.setattr(module, "Trainer", build)
    return made


def test_slices_learn_at_the_configured_ratio_from_the_start(opened: list[Any]) -> None:
    found = space()
    with closing(Trials(found, "wall", 0.02)) as trials:
        assert trials.rate(found.start) > 0
        counters = opened[0].counters
        steps, updates = counters.env_steps, counters.updates
        for _ in range(3):
            trials.rate(found.start)
        assert len(opened) == 1
        assert counters.updates - updates == (counters.env_steps - steps) / 32


def test_slices_of_policy_gradients_are_whole_rollouts(opened: list[Any]) -> None:
    config = TrainConfig(algo="ppo", num_envs=16, algo_config={"net": [8], "update_steps": 32})
    found = space(config)
    with closing(Trials(found, "cpu", 0.01)) as trials:
        for _ in range(3):
            trials.rate(found.start)
            assert opened[0].counters.env_steps % (16 * 32) == 0


def test_a_config_that_cannot_be_trained_is_reported_and_closed(opened: list[Any]) -> None:
    found = space(replace(TINY, overlap=True, engine="torch"))
    with closing(Trials(found, "wall", 0.01)) as trials:
        with pytest.raises(TrialError, match="overlap needs the fused engine"):
            trials.rate(found.start)
        assert trials.rate(next(p for p in found.points if p["engine"] == "fused")) > 0


def test_any_exception_is_a_trial_error(opened: list[Any]) -> None:
    found = space()
    with closing(Trials(found, "wall", 0.01)) as trials:
        trials.rate(found.start)
        opened[0].iterate = lambda: 1 / 0
        with pytest.raises(TrialError, match="ZeroDivisionError"):
            trials.rate(found.start)
        # A new trainer replaces the broken one.
        assert trials.rate(found.start) > 0


def test_the_number_of_open_trainers_is_limited(
    opened: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_OPEN", 2)
    closed: list[Any] = []
    found = space()
    first, second, third = found.points[:3]
    with closing(Trials(found, "wall", 0.01)) as trials:
        for point in (first, second):
            trials.rate(point)
        for trainer in opened:
            real = trainer.close
            trainer.close = lambda real=real, trainer=trainer: (closed.append(trainer), real())
        trials.rate(first)
        trials.rate(third)
        assert closed == [opened[1]]


def test_fewer_trainers_are_open_if_memory_is_short(
    opened: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MEMORY_SHARE", 0.0)
    found = space()
    first, second, third = found.points[:3]
    with closing(Trials(found, "wall", 0.005)) as trials:
        for point in (first, second, first, second):
            trials.rate(point)
        assert len(opened) == 2
        for point in (third, first):
            trials.rate(point)
        assert len(opened) == 4


def test_a_slow_slice_is_cut_off_within_its_rollout(opened: list[Any]) -> None:
    config = TrainConfig(algo="ppo", num_envs=16, algo_config={"net": [8], "update_steps": 30_000})
    found = space(config)
    with closing(Trials(found, "wall", 0.005)) as trials:
        assert trials.rate(found.start, floor=1e12) < 1e12
        assert opened[0].counters.updates == 0
        # What was cut off is not continued.
        trials.rate(found.start, floor=1e12)
        assert len(opened) == 2


def test_a_slice_without_an_update_ends_in_time() -> None:
    config = TrainConfig(algo="ppo", num_envs=16, algo_config={"net": [8], "update_steps": 30_000})
    found = space(config)
    with (
        closing(Trials(found, "wall", 0.005, patience_s=0.02)) as trials,
        pytest.raises(TrialError, match="no update"),
    ):
        trials.rate(found.start)


def test_torch_threads_are_restored() -> None:
    before = torch.get_num_threads()
    found = space(replace(TINY, threads=1))
    trials = Trials(found, "wall", 0.01)
    trials.rate(found.start)
    trials.close()
    trials.close()
    assert torch.get_num_threads() == before


def test_trials_explore_and_learn_as_in_most_of_the_run() -> None:
    config = complete(replace(TINY, max_episodes=3, run_dir="runs/x"))
    found = steady_config(config)
    assert found.algo_config.epsilon_start == config.algo_config.epsilon_end
    assert found.algo_config.learning_starts == 0
    assert (found.max_episodes, found.run_dir) == (None, None)
    assert found.algo_config.train_steps_ratio == config.algo_config.train_steps_ratio


def test_cpu_time_increases() -> None:
    first = cpu_seconds()
    sum(range(1_000_000))
    assert cpu_seconds() > first > 0
