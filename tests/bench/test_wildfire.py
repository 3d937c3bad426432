"""`brisk bench env wildfire`: complete figures, and an error for shrinking fires."""

from __future__ import annotations

import numpy as np
import pytest

from briskrl.bench import wildfire
from briskrl.bench.wildfire import WildfireBench


def test_figures_are_complete():
    figures = wildfire.measure_wildfire(WildfireBench(seconds=0.3, num_envs=4))
    assert figures.fires_per_cpu_s > 0
    assert 10 < figures.mean_burned_cells < 400
    assert figures.burnout_fires_per_cpu_s < figures.fires_per_cpu_s
    assert figures.steps_per_cpu_s > 0
    assert figures.table_ms > 0
    assert abs(figures.untreated_drift_sigma) < wildfire.MAX_SIGMA
    assert figures.episodes >= 4 * 4


def test_steady_losses_do_not_drift():
    rng = np.random.default_rng(0)
    landscape = rng.integers(5, size=400)
    losses = landscape / 10 + rng.normal(0, 0.05, 400)
    assert abs(wildfire.drift_sigma(landscape, losses)) < 3.5
    assert wildfire.drift_sigma(landscape[:3], losses[:3]) == 0


def test_the_order_of_landscapes_is_no_drift():
    """Landscapes that burn less may come last."""
    landscape = np.repeat([0, 1], 100)
    losses = np.where(landscape == 0, 0.5, 0.2) + np.random.default_rng(0).normal(0, 0.02, 200)
    assert abs(wildfire.drift_sigma(landscape, losses)) < 3.5


def test_shrinking_fires_fail_the_benchmark(monkeypatch):
    rng = np.random.default_rng(0)
    landscape = rng.integers(5, size=400)
    losses = landscape / 10 + rng.normal(0, 0.05, 400) - np.linspace(0, 0.1, 400)
    assert wildfire.drift_sigma(landscape, losses) < -wildfire.MAX_SIGMA
    monkeypatch.setattr(wildfire, "drift_sigma", lambda *_: -9.0)
    with pytest.raises(wildfire.DriftError, match=r"drifted by -9\.0 standard errors"):
        wildfire.measure_wildfire(WildfireBench(seconds=0.1, num_envs=2))
