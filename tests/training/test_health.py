"""Clipped returns and diverging losses are reported while a run trains, once each."""

from __future__ import annotations

import pytest

from briskrl.core.counters import Counters
from briskrl.training.health import HealthCheck
from briskrl.training.loop import train
from briskrl.training.reporter import SilentReporter
from tests.algos.transitions import make, random_batch, small, spec
from tests.training.runs import fused_config


def messages(rows):
    check = HealthCheck()
    return [text for row in rows for text in check.observe(row)]


def test_a_share_outside_the_support_is_reported_once():
    rows = [{"outside_support": share} for share in (0.0, 0.01, 0.25, 0.9)]
    found = messages(rows)
    assert len(found) == 1
    assert "25%" in found[0]
    assert "--v-max" in found[0]


def test_skipped_updates_are_reported():
    (found,) = messages([{}, {"skipped_updates": 3}, {"skipped_updates": 5}])
    assert "3 updates were skipped" in found


def losses(*values):
    return [{"loss": value} for value in values]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([1, 2, 1, 1, 10, 100, 2000, 40000], 1),
        ([1, 2, 1, 1, 1, 10, 100, 900], 0),
        ([0.001, 5, 8, 5, 6, 7, 5, 6, 5], 0),
        ([1, 1, 1, 1, 5000, 1, 5000, 1], 0),
        ([1] * 200 + [10, 100, 2000, 40000, 800000], 1),
        ([0.0] * 20, 0),
    ],
)
def test_only_a_loss_that_keeps_growing_diverges(values, found):
    assert len(messages(losses(*values))) == found


@pytest.mark.parametrize("reward", [0.0, 5.5, -5.5])
def test_the_share_of_clipped_targets_is_that_of_the_projection(engine, reward):
    """With discount 0 every target is the reward: outside if it is beyond the support."""
    algo = make(small(atoms=7, v_min=-1.0, v_max=1.0), engine=engine)
    batch = random_batch(spec(), 1)
    batch.reward[...] = reward
    batch.discount[...] = 0
    assert "outside_support" not in algo.progress(Counters())
    algo.update(batch, 1, Counters())
    assert algo.progress(Counters())["outside_support"] == pytest.approx(float(reward != 0))
    assert "outside_support" not in algo.progress(Counters())


def test_only_categorical_distributions_have_a_support():
    for options in ({}, {"atoms": 7, "distribution": "quantile"}):
        algo = make(small(**options))
        algo.update(random_batch(spec(), 1), 1, Counters())
        assert "outside_support" not in algo.progress(Counters())


class Notes(SilentReporter):
    def __init__(self):
        self.notes = []

    def on_note(self, text):
        self.notes.append(text)


@pytest.mark.parametrize("v_max", [1.0, 200.0])
def test_a_run_whose_returns_are_clipped_reports_it(tmp_path, v_max):
    notes = Notes()
    algo = {"v_min": 0.0, "v_max": v_max, "gamma": 0.9}
    options = {"env": "cartpole", "algo_config": algo, "log_seconds": 1e-6, "overlap": True}
    train(fused_config(tmp_path / "run", "c51", **options), reporter=notes)
    found = [note for note in notes.notes if "outside the support" in note]
    assert len(found) == (v_max == 1.0)


@pytest.fixture(params=["torch", "fused"])
def engine(request):
    return request.param
