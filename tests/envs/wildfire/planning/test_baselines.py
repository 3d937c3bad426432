"""The baselines: legal cells within the budget, ranked by the right quantity."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from briskrl.envs.wildfire.config import WildfireConfig
from briskrl.envs.wildfire.directions import compass
from briskrl.envs.wildfire.landscape import landscape_of
from briskrl.envs.wildfire.landscape_pool import prepare
from briskrl.envs.wildfire.planning.baselines import BASELINES, plan_cells
from briskrl.envs.wildfire.planning.evaluator import Trials
from briskrl.envs.wildfire.simulate import Scene, Simulator
from briskrl.envs.wildfire.weather import constant_weather
from tests.envs.wildfire.toy_landscapes import DRY, random_breaks, rough_landscape, some_weather

BUDGET = 8
SEARCH = 3000


@pytest.fixture(scope="module")
def prepared():
    config = WildfireConfig(height=14, width=13, n_settlements=1, protect_above=5.0)
    return prepare(config, 2)


def plan(prepared, name, *, budget=BUDGET, search=SEARCH):
    return plan_cells(
        name,
        Simulator(prepared.scene),
        prepared.fires("training", 40),
        budget,
        np.random.default_rng(0),
        search_fires=search,
    )


def mask(prepared, cells):
    treated = np.zeros(prepared.scene.landscape.cells, np.bool_)
    treated[cells] = True
    return treated


@pytest.mark.parametrize("name", BASELINES)
def test_plans_are_legal_full_and_repeatable(prepared, name):
    cells = plan(prepared, name)
    assert cells.dtype == np.int64
    assert len(np.unique(cells)) == BUDGET
    assert prepared.scene.legal[cells].all()
    np.testing.assert_array_equal(cells, plan(prepared, name))


@pytest.mark.parametrize("name", BASELINES)
def test_a_budget_beyond_the_legal_cells_treats_them_all(name):
    fuel = np.full((3, 3), 98)
    fuel[0] = 102
    fuel[1, 1] = 145
    scene = Scene(landscape_of(fuel), constant_weather(10, 0, DRY, 300), compass(16))
    fires = scene.draw_fires(np.random.default_rng(0), 5)
    cells = plan_cells(name, Simulator(scene), fires, 7, np.random.default_rng(0), search_fires=100)
    assert sorted(cells.tolist()) == [0, 1, 2, 4]


def test_rankings_use_the_quantity_they_are_named_after(prepared):
    simulator, fires = Simulator(prepared.scene), prepared.fires("training", 40)
    protects, through = simulator.downstream(fires)
    for name, score in (
        ("burn-prob", simulator.burn_probability(fires)),
        ("dpv-static", protects),
        ("betweenness", through),
    ):
        cells = plan(prepared, name)
        legal = np.where(prepared.scene.legal, score, -1)
        assert cells[0] == legal.argmax()
        np.testing.assert_allclose(legal[cells], np.sort(legal)[::-1][:BUDGET])


def test_iterative_values_are_recomputed_after_each_pick(prepared):
    simulator, fires = Simulator(prepared.scene), prepared.fires("training", 40)
    cells = plan(prepared, "dpv-iterative")
    for n in range(BUDGET):
        treated = mask(prepared, cells[:n])
        protects, _ = simulator.downstream(fires, treated)
        assert cells[n] == np.where(prepared.scene.legal & ~treated, protects, -1).argmax()


def test_greedy_takes_the_best_of_the_cells_it_tries(prepared):
    simulator, fires = Simulator(prepared.scene), prepared.fires("training", 40)
    cells = plan(prepared, "greedy", budget=3)
    for n in range(3):
        treated = mask(prepared, cells[:n])
        protects, _ = simulator.downstream(fires, treated)
        order = np.argsort(np.where(prepared.scene.legal & ~treated, -protects, np.inf))[:64]
        losses = [simulator.burned_frac(fires, mask(prepared, [*cells[:n], c])) for c in order]
        chosen = simulator.burned_frac(fires, mask(prepared, cells[: n + 1]))
        assert chosen == pytest.approx(min(losses), rel=1e-9)


def test_the_search_improves_on_its_start(prepared):
    simulator, fires = Simulator(prepared.scene), prepared.fires("training", 40)
    losses = {
        name: simulator.burned_frac(fires, mask(prepared, plan(prepared, name, search=40_000)))
        for name in ("dpv-iterative", "greedy", "local-search")
    }
    assert losses["local-search"] < min(losses["dpv-iterative"], losses["greedy"])


@pytest.mark.parametrize(("wind_from", "straight"), [(0, "row"), (90, "column"), (180, "row")])
def test_a_line_lies_across_the_wind_through_the_center(wind_from, straight):
    landscape = landscape_of(np.full((9, 9), 102), prevailing_deg=float(wind_from))
    scene = Scene(landscape, constant_weather(10, wind_from, DRY, 300), compass(16))
    fires = scene.draw_fires(np.random.default_rng(0), 3)
    cells = plan_cells("line", Simulator(scene), fires, 9, np.random.default_rng(0))
    rows, cols = np.divmod(cells, 9)
    assert (rows == 4).all() if straight == "row" else (cols == 4).all()
    assert cells[0] == 40
    assert len(np.unique(cells)) == 9


def test_a_slanting_line_holds_a_fire():
    landscape = landscape_of(np.full((11, 11), 102), prevailing_deg=30.0)
    scene = Scene(landscape, constant_weather(10, 30, DRY, 1e5), compass(32))
    simulator = Simulator(scene)
    fires = scene.draw_fires(np.random.default_rng(0), 3)
    cells = plan_cells("line", simulator, fires, 11, np.random.default_rng(0))
    treated = np.zeros(121, np.bool_)
    treated[cells] = True
    burned = np.isfinite(simulator.arrival(5, 0, treated).minutes)
    assert 20 < burned.sum() < 100


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.sampled_from([8, 16, 32]))
def test_evaluations_of_changes_equal_full_simulation_exactly(seed, count):
    landscape = rough_landscape(seed, value=True)
    scene = Scene(landscape, some_weather(seed), compass(count))
    simulator, rng = Simulator(scene), np.random.default_rng(seed)
    fires = scene.draw_fires(rng, 10)
    breaks = np.flatnonzero(random_breaks(landscape, seed, 0.1))
    trials = Trials(scene, fires)

    def loss(cells):
        treated = np.zeros(landscape.cells, np.bool_)
        treated[cells] = True
        return simulator.losses(fires, treated).sum() / 10

    assert trials.loss(breaks) == pytest.approx(loss(breaks), rel=1e-12)
    free = np.setdiff1d(np.flatnonzero(scene.burnable), breaks)
    candidates = rng.choice(free, size=8)
    found = trials.with_each(breaks, candidates)
    np.testing.assert_allclose(found, [loss([*breaks, c]) for c in candidates], rtol=1e-12)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.sampled_from([8, 16, 32]))
def test_swapping_keeps_the_number_the_legality_and_the_losses_of_breaks(seed, count):
    landscape = rough_landscape(seed, value=True)
    scene = Scene(landscape, some_weather(seed), compass(count))
    rng = np.random.default_rng(seed)
    fires = scene.draw_fires(rng, 10)
    breaks = rng.permutation(np.flatnonzero(scene.legal))[:6]
    trials = Trials(scene, fires)
    before = trials.loss(breaks)
    random = np.array([seed], np.uint64)
    simulated = trials.swap(breaks, np.ones(landscape.cells), random, 400)
    kept = float(trials._sample.losses.sum()) / 10
    assert 0 < simulated < 400 + len(fires)
    assert len(np.unique(breaks)) == 6
    assert scene.legal[breaks].all()
    # The losses of the search equal a full simulation of its breaks.
    assert kept == pytest.approx(trials.loss(breaks), rel=1e-12)
    assert kept <= before * (1 + 1e-12)
