"""Fire spread: golden fires, a plain-Python reference, and invariances."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from briskrl.envs.wildfire.directions import MOVES, compass
from briskrl.envs.wildfire.landscape import landscape_of
from briskrl.envs.wildfire.simulate import Fires, Scene, Simulator
from briskrl.envs.wildfire.weather import constant_weather
from tests.envs.wildfire.reference import burn, crossed
from tests.envs.wildfire.toy_landscapes import (
    DRY,
    random_breaks,
    rough_landscape,
    rough_scene,
    some_weather,
    uniform_landscape,
)

GOLDEN = Path(__file__).parent / "golden" / "fire_arrival.npz"
EXACT_AREAS = (1106, 667, 293)
seeds = st.integers(0, 10_000)
directions = st.sampled_from([8, 16, 32])


def golden_case(number: int, count: int):
    with np.load(GOLDEN) as file:
        layers = {
            name: file[f"case{number:02d}_{name}"]
            for name in ("fuel", "elevation", "slope", "aspect", "arrival_min")
        }
        meta = json.loads(str(file[f"case{number:02d}_meta"]))
    golden = layers.pop("arrival_min")
    landscape = landscape_of(layers.pop("fuel"), cell_m=meta["cell_m"], **layers)
    names = ("m_dead_1h", "m_dead_10h", "m_dead_100h", "m_live_herb", "m_live_woody")
    weather = constant_weather(
        meta["wind_10m_kmh"],
        meta["wind_from_deg"],
        tuple(meta[name] for name in names),
        meta["duration_min"],
    )
    start = meta["ignition_row"] * landscape.shape[1] + meta["ignition_col"]
    return Simulator(Scene(landscape, weather, compass(count))).arrival(start, 0).minutes, golden


def overlap(found, golden):
    one, other = np.isfinite(found), np.isfinite(golden)
    return (one & other).sum() / (one | other).sum()


def test_sixteen_directions_reproduce_the_golden_fires():
    overlaps = []
    for number in range(10):
        found, golden = golden_case(number, 16)
        overlaps.append(overlap(found, golden))
        both = np.isfinite(found) & np.isfinite(golden) & (golden > 1)
        assert 0.95 <= np.median(found[both] / golden[both]) <= 1.18
        if number < 3:
            assert abs(np.isfinite(found).sum() / EXACT_AREAS[number] - 1) < 0.09
    assert min(overlaps) >= 0.80
    assert np.mean(overlaps) >= 0.88


def test_more_directions_approximate_the_ellipse_better():
    for number, exact in enumerate(EXACT_AREAS):
        areas = [np.isfinite(golden_case(number, count)[0]).sum() for count in (8, 16, 32)]
        assert areas == sorted(areas)
        assert abs(areas[-1] / exact - 1) < 0.05


@pytest.mark.parametrize("count", [8, 16, 32])
def test_moves_cross_the_cells_under_them(count):
    for move, crossing in zip(MOVES, compass(count).crossings, strict=False):
        parts, corner = crossed(move)
        assert crossing.cells == tuple(cell for cell, _ in parts)
        np.testing.assert_allclose(crossing.weights, [float(share) for _, share in parts])
        assert set(crossing.corner or ()) == set(corner)


@settings(max_examples=25, deadline=None)
@given(seed=seeds, count=directions, share=st.floats(0, 0.4), leaky=st.booleans())
def test_arrivals_equal_the_reference_to_the_bit(seed, count, share, leaky):
    scene = rough_scene(seed, directions=count, leaky=leaky, height=6, width=7)
    treated = random_breaks(scene.landscape, seed, share)
    start = seed % scene.landscape.cells
    found = Simulator(scene).arrival(start, 0, treated)
    np.testing.assert_array_equal(found.minutes, burn(scene, start, 0, treated, leaky=leaky))


@settings(max_examples=60, deadline=None)
@given(seed=seeds, count=directions)
def test_another_break_never_burns_more(seed, count):
    scene = rough_scene(seed, directions=count)
    simulator, treated = Simulator(scene), random_breaks(scene.landscape, seed, 0.1)
    start = int(np.flatnonzero(scene.burnable)[seed % scene.burnable.sum()])
    before = simulator.arrival(start, 0, treated).minutes.ravel()
    more = treated.copy()
    more[np.random.default_rng(seed).choice(np.flatnonzero(scene.burnable))] = True
    after = simulator.arrival(start, 0, more).minutes.ravel()
    reached = np.isfinite(after)
    assert np.isfinite(before)[reached].all()
    assert (after[reached] >= before[reached]).all()


@settings(max_examples=60, deadline=None)
@given(seed=seeds, count=directions, turns=st.integers(1, 3))
def test_a_rotated_landscape_burns_identically_to_the_bit(seed, count, turns):
    landscape, weather = rough_landscape(seed), some_weather(seed)
    treated = random_breaks(landscape, seed)
    start = np.zeros(landscape.cells, np.bool_)
    start[seed % landscape.cells] = True

    def turned(layer):
        return np.rot90(layer.reshape(landscape.shape), -turns)

    other = landscape_of(
        turned(landscape.fuel),
        slope=turned(landscape.slope),
        aspect=(turned(landscape.aspect) + 90 * turns) % 360,
        elevation=turned(landscape.elevation),
    )
    wind = replace(weather, wind_from_deg=(weather.wind_from_deg + 90 * turns) % 360)
    points = compass(count)
    plain = Simulator(Scene(landscape, weather, points))
    rotated = Simulator(Scene(other, wind, points))
    one = plain.arrival(int(start.argmax()), 0, treated).minutes
    two = rotated.arrival(int(turned(start).argmax()), 0, turned(treated).ravel()).minutes
    np.testing.assert_array_equal(turned(one), two)


@pytest.mark.parametrize("count", [8, 16, 32])
def test_a_still_fire_on_flat_ground_has_the_symmetries_of_the_grid(count):
    scene = Scene(uniform_landscape(31, 31), constant_weather(0, 0, DRY, 900), compass(count))
    minutes = Simulator(scene).arrival(15 * 31 + 15, 0).minutes
    assert 50 < np.isfinite(minutes).sum() < 961
    for turn in range(4):
        np.testing.assert_array_equal(np.rot90(minutes, turn), minutes)
        np.testing.assert_array_equal(np.rot90(minutes, turn).T, minutes)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, count=directions, radius=st.integers(1, 3), round_=st.booleans())
def test_a_closed_ring_confines_the_fire(seed, count, radius, round_):
    """A square ring, and a diamond whose breaks touch at corners only."""
    landscape = rough_landscape(seed, height=13, width=13)
    rows, cols = np.abs(np.indices((13, 13)) - 6)
    distance = rows + cols if round_ else np.maximum(rows, cols)
    treated = ((distance == radius) & landscape.burnable).ravel()
    scene = Scene(landscape, some_weather(seed, duration_min=1e5), compass(count))
    minutes = Simulator(scene).arrival(6 * 13 + 6, 0, treated).minutes
    assert not np.isfinite(minutes[distance >= radius]).any()


def test_diagonals_leak_only_if_configured():
    landscape = uniform_landscape(9, 9)
    treated = np.eye(9, dtype=bool).ravel()
    weather = constant_weather(10, 45, DRY, 1e5)
    tight, leaky = (
        Simulator(Scene(landscape, weather, compass(8, leaky_diagonals=leak)))
        .arrival(8, 0, treated)
        .minutes
        for leak in (False, True)
    )
    below = np.tri(9, 9, -1, dtype=bool)
    assert not np.isfinite(tight[below]).any()
    assert np.isfinite(leaky[below]).all()


def test_a_line_of_lakes_holds_like_a_line_of_breaks():
    fuel = np.full((9, 9), 102)
    fuel[np.eye(9, dtype=bool)] = 98
    for count in (8, 16, 32):
        scene = Scene(landscape_of(fuel), constant_weather(10, 45, DRY, 1e5), compass(count))
        minutes = Simulator(scene).arrival(8, 0).minutes
        assert not np.isfinite(minutes[np.tri(9, 9, -1, dtype=bool)]).any()


@settings(max_examples=30, deadline=None)
@given(seed=seeds, count=directions)
def test_parents_explain_every_arrival(seed, count):
    scene = rough_scene(seed, directions=count)
    fire = Simulator(scene).arrival(int(np.flatnonzero(scene.burnable)[0]), 0)
    minutes, parent = fire.minutes.ravel(), fire.parent.ravel()
    edges = scene.tables.minutes[0]
    width = scene.landscape.shape[1]
    offsets = scene.compass.rows * width + scene.compass.cols
    assert (parent >= 0).sum() == np.isfinite(minutes).sum() - 1
    for cell in np.flatnonzero(parent >= 0):
        ways = np.flatnonzero(offsets == cell - parent[cell])
        assert any(
            np.float32(minutes[parent[cell]] + edges[parent[cell], k]) == minutes[cell]
            for k in ways
        )


@settings(max_examples=20, deadline=None)
@given(seed=seeds)
def test_downstream_value_counts_subtrees_and_paths(seed):
    landscape = rough_landscape(seed, value=True)
    scene = Scene(landscape, some_weather(seed), compass(16))
    simulator = Simulator(scene)
    fires = scene.draw_fires(np.random.default_rng(seed), 3)
    protects, through = np.zeros(landscape.cells), np.zeros(landscape.cells)
    for start, weather in zip(fires.cell, fires.weather, strict=True):
        fire = simulator.arrival(int(start), int(weather))
        parent, reached = fire.parent.ravel(), np.isfinite(fire.minutes).ravel()
        ends = reached & ~np.isin(np.arange(landscape.cells), parent)
        for cell in np.flatnonzero(reached):
            up = cell
            while up >= 0:
                protects[up] += scene.value[cell]
                through[up] += ends[cell]
                up = parent[up]
    found = simulator.downstream(fires)
    np.testing.assert_allclose(found[0], protects / 3, rtol=1e-9)
    np.testing.assert_allclose(found[1], through / 3, rtol=1e-9)


def test_fires_of_different_lengths_share_a_simulator():
    scene = rough_scene(3)
    weather = scene.weather
    two = replace(
        weather,
        wind_kmh=np.repeat(weather.wind_kmh, 2),
        wind_from_deg=np.repeat(weather.wind_from_deg, 2),
        moisture=np.repeat(weather.moisture, 2, axis=0),
        duration_min=np.array([30.0, 3000.0]),
    )
    simulator = Simulator(Scene(scene.landscape, two, compass(16)))
    starts = np.repeat(np.flatnonzero(scene.burnable)[:6], 2)
    mixed = simulator.burned_cells(Fires(starts, np.tile([0, 1], 6)))
    for weather_index in (0, 1):
        alone = Simulator(simulator.scene).burned_cells(
            Fires(starts[::2], np.full(6, weather_index))
        )
        np.testing.assert_array_equal(mixed[weather_index::2], alone)


def test_a_fire_on_a_break_or_a_lake_burns_nothing():
    landscape = rough_landscape(1)
    simulator = Simulator(Scene(landscape, some_weather(1), compass(16)))
    treated = random_breaks(landscape, 1)
    shut = np.flatnonzero(treated | ~landscape.burnable.ravel())
    assert not simulator.burned_cells(Fires(shut, np.zeros_like(shut)), treated).any()
    assert not np.isfinite(simulator.arrival(int(shut[0]), 0, treated).minutes).any()


def test_losses_counts_and_probabilities_describe_the_same_fires():
    landscape = rough_landscape(5, value=True)
    simulator = Simulator(Scene(landscape, some_weather(5), compass(16)))
    fires = simulator.scene.draw_fires(np.random.default_rng(0), 40)
    counts, probability = simulator.burned_cells(fires), simulator.burn_probability(fires)
    assert (counts >= 1).all()
    np.testing.assert_allclose(probability.sum(), counts.mean())
    expected = (probability * simulator.scene.value).sum()
    np.testing.assert_allclose(simulator.losses(fires).mean(), expected)
    np.testing.assert_allclose(simulator.burned_frac(fires), expected / simulator.scene.value.sum())
