"""Ratios from the samples of a run, on runs with known costs."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from briskrl.bench.progress_sampler import MAX_ROWS, ProgressSampler, early_speed, late_cost_ratio
from briskrl.core.counters import Counters
from briskrl.training.config import TrainConfig
from briskrl.training.loop import train

NUM_ENVS, ITERATIONS, STARTS = 100, 4000, 10_000


def history(cost_of: Callable[[int], float]) -> dict[str, np.ndarray]:
    """Samples of a run with the given cost per iteration; learning starts at step 10,000."""
    steps = np.arange(1, ITERATIONS + 1) * NUM_ENVS
    costs = [cost_of(step) for step in steps.tolist()]
    return {
        "env_steps": steps.astype(float),
        "episodes": np.floor(steps / 20),
        "updates": np.maximum(0, np.floor((steps - STARTS) / 32)),
        "cpu_s": np.cumsum(costs),
    }


def flat(step: int) -> float:
    return 1.0 if step > STARTS else 0.1


def early(run: dict[str, np.ndarray]) -> tuple[float, float, float]:
    found = early_speed(**run, episodes_early=5 * NUM_ENVS)
    assert found is not None
    return (found.ratio, *found.spread)


def test_a_run_with_constant_cost_has_ratios_of_one() -> None:
    run = history(flat)
    assert early(run) == pytest.approx((1, 1, 1), abs=1e-6)
    assert late_cost_ratio(run["env_steps"], run["cpu_s"]) == pytest.approx(1, abs=1e-6)


def test_slow_first_updates_show_in_the_early_ratio() -> None:
    slow = history(lambda step: 2.0 if STARTS < step <= 2 * STARTS else flat(step))
    assert early(slow) == pytest.approx((0.5, 1, 1), abs=0.01)


def test_one_outlier_does_not_change_the_steady_state() -> None:
    burst = history(lambda step: 500.0 if step == 200_000 else flat(step))
    assert early(burst) == pytest.approx((1, 1, 1), abs=1e-6)


def test_noise_of_the_machine_shows_in_the_spread() -> None:
    noisy = history(lambda step: flat(step) * (2 if step // 40_000 % 2 else 1))
    _, low, high = early(noisy)
    assert high / low == pytest.approx(2, abs=0.1)


def test_growing_cost_shows_in_the_late_ratio() -> None:
    run = history(lambda step: step / 1000)
    assert late_cost_ratio(run["env_steps"], run["cpu_s"]) == pytest.approx(3, abs=0.01)


def test_runs_too_short_have_no_ratios() -> None:
    run = history(flat)
    short = {name: values[:50] for name, values in run.items()}
    assert early_speed(**short, episodes_early=500) is None
    learning = {name: values[:130] for name, values in run.items()}
    assert early_speed(**learning, episodes_early=500) is None
    assert late_cost_ratio(run["env_steps"][:1], run["cpu_s"][:1]) is None


def test_samples_follow_a_real_run_from_its_first_iteration_to_its_last(tmp_path) -> None:
    samples = ProgressSampler(steps=4000, num_envs=16)
    config = TrainConfig(
        steps=4000,
        num_envs=16,
        run_dir=str(tmp_path / "run"),
        algo_config={"learning_starts": 1000, "buffer_size": 2048, "net": (16,)},
    )
    result = train(config, hooks=[samples])
    assert samples.env_steps.tolist() == list(range(16, 4001, 16))
    assert samples.episodes[-1] == result.episodes
    assert samples.updates[-1] == result.updates > 0
    assert (np.diff(samples.cpu_s) >= 0).all()
    assert 0 < samples.cpu_s[-1] - samples.cpu_s[0] <= result.cpu_s
    assert abs(samples.rss_growth_mb) < 500


def test_samples_of_a_very_long_run_fit_into_the_preallocated_rows() -> None:
    steps = 3 * MAX_ROWS + 5
    samples = ProgressSampler(steps=steps, num_envs=1)
    counters = Counters()
    run = SimpleNamespace(trainer=SimpleNamespace(counters=counters))
    for _ in range(steps):
        counters.env_steps += 1
        counters.iterations += 1
        samples(run)
    assert len(samples.env_steps) <= MAX_ROWS + 2
    assert samples.env_steps[-1] == steps
