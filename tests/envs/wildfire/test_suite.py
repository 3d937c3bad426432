"""Official evaluations: the same held-out fires for all methods, paired differences, intervals."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from briskrl.envs.registry import ENVS
from briskrl.envs.wildfire import suite
from briskrl.envs.wildfire.config import WildfireConfig
from briskrl.envs.wildfire.landscape_pool import prepare
from briskrl.training.evaluate import Agent, find_suite, run_suite


@pytest.fixture
def few(monkeypatch):
    """Suites of a few landscapes, to save time."""
    monkeypatch.setattr(suite, "LANDSCAPES", 3)
    monkeypatch.setattr(suite, "RANDOM_DRAWS", 2)


def agent(name: str, **settings) -> Agent:
    player = ENVS.get("wildfire").players[name]
    config = WildfireConfig(plan_fires=32, **settings)
    return Agent(player.policy(), "wildfire", replace(config, **player.needs))


def test_a_baseline_that_plays_equals_itself(few):
    report = run_suite(agent("dpv-iterative"), "wildfire20").as_json()
    assert report["suite"] == "wildfire20"
    assert report["landscapes"] == 3
    assert report["burned_pct"] < report["untreated_pct"]
    expected = 100 * (1 - report["burned_pct"] / report["untreated_pct"])
    assert report["reduction_pct"] == pytest.approx(expected)
    assert set(report["vs"]) == set(suite.QUICK)
    own = report["vs"]["dpv-iterative"]
    assert own["diff_pct"] == pytest.approx(0, abs=1e-4)
    other = report["vs"]["random"]
    assert other["diff_pct"] < 0
    assert other["ci"][0] <= other["diff_pct"] <= other["ci"][1]
    json.dumps(report, allow_nan=False)


def test_the_report_lists_every_baseline(few):
    text = run_suite(agent("line"), "wildfire20").as_text()
    assert "against dpv-iterative" in text
    assert "1,000 held-out fires each" in text


def test_every_registered_suite_exists():
    names = ENVS.get("wildfire").suites
    assert {"wildfire20", "wildfire40", "landfire50", "wildfire-own"} <= set(names)
    assert all(callable(find_suite("wildfire", name)) for name in names)


def test_own_landscapes_are_measured_with_held_out_fires():
    report = run_suite(
        agent("burn-prob", height=8, width=8, landscapes=1, first_landscape=3), "wildfire-own"
    ).as_json()
    assert report["landscapes"] == 1
    assert report["vs"]["burn-prob"]["diff_pct"] == pytest.approx(0, abs=1e-4)
    assert report["vs"]["random"]["ci"] is None


def test_test_fires_are_those_of_the_landscape_and_no_others():
    prepared = prepare(WildfireConfig(split="test", height=8, width=8), 2)
    one, again = prepared.fires("test", 1000), prepared.fires("test", 1000)
    np.testing.assert_array_equal(one.cell, again.cell)
    assert not np.array_equal(one.cell, prepared.fires("training", 1000).cell)
    assert prepared.number == 20_002


def test_intervals_have_about_their_nominal_coverage():
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(200):
        noise = rng.normal(1.0, 2.0, 20)
        found = suite.difference(noise + 5, np.full(20, 5.0))
        assert found.ci is not None
        inside += found.ci[0] <= 1.0 <= found.ci[1]
    assert 0.85 <= inside / 200 <= 0.99


def test_pairing_removes_variance_between_landscapes():
    land = np.random.default_rng(0).uniform(10, 60, 20)
    found = suite.difference(land - 1, land)
    assert found.ci == pytest.approx((-1, -1))
    assert found.relative_pct == pytest.approx(-100 / land.mean())
