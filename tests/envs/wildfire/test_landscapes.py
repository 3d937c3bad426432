"""Landscapes: synthetic ones, LANDFIRE crops, their splits, slopes and weather."""

from __future__ import annotations

import numpy as np
import pytest

from briskrl.core.errors import ConfigError
from briskrl.envs.wildfire import landfire
from briskrl.envs.wildfire.config import SPLITS, WildfireConfig
from briskrl.envs.wildfire.landscape import horn, landscape_of
from briskrl.envs.wildfire.landscape_pool import pool_of, prepare
from briskrl.envs.wildfire.synthetic import Terrain, synthetic
from briskrl.envs.wildfire.weather import MOISTURES, Climate, draw_weather


def test_a_seed_makes_one_landscape():
    one, again, other = synthetic(5, 20, 24), synthetic(5, 20, 24), synthetic(6, 20, 24)
    assert one.digest() == again.digest() != other.digest()
    assert one.shape == (20, 24)
    assert set(np.unique(one.fuel)) == {98, 102, 122, 145, 165, 183}
    assert one.elevation.min() == 500
    assert one.elevation.max() == 700
    assert (~one.burnable).sum() == round(0.03 * 480)


def test_changing_one_layer_leaves_the_others_unchanged():
    plain = synthetic(5, 20, 20)
    rich = synthetic(5, 20, 20, terrain=Terrain(n_lines=2, n_settlements=3, road_ignitions=4.0))
    np.testing.assert_array_equal(plain.elevation, rich.elevation)
    road = rich.fuel == 91
    np.testing.assert_array_equal(plain.fuel[~road], rich.fuel[~road])
    assert road.sum() > 20
    assert 5 < rich.value.max() <= 10
    assert plain.value.max() == 1
    assert set(np.unique(rich.ignition_weight)) == {0.0, 1.0, 4.0}


def test_fuels_follow_their_weights():
    fuels, weights = (102, 145), (9.0, 1.0)
    shares = [
        (
            synthetic(s, 40, 40, terrain=Terrain(fuels=fuels, fuel_weights=weights)).fuel == 102
        ).mean()
        for s in range(5)
    ]
    assert np.mean(shares) > 0.8


def test_hills_are_smooth():
    rough, smooth = (synthetic(1, 40, 40, terrain=Terrain(relief_scale=scale)) for scale in (1, 6))
    assert smooth.slope.mean() < rough.slope.mean()


@pytest.mark.parametrize(
    ("east", "north", "aspect"), [(1, 0, 270), (0, 1, 180), (-1, 0, 90), (0, -1, 0), (1, 1, 225)]
)
def test_planes_have_the_slope_and_aspect_of_a_plane(east, north, aspect):
    rows, cols = np.indices((7, 7))
    slope, found = horn(30 * 0.2 * (east * cols - north * rows), 30.0)
    np.testing.assert_allclose(slope[1:-1, 1:-1], 0.2 * np.hypot(east, north))
    np.testing.assert_allclose(found[1:-1, 1:-1] % 360, aspect, atol=1e-6)


def test_slopes_follow_from_the_elevation_if_not_given():
    elevation = np.random.default_rng(0).uniform(0, 50, (6, 6))
    found = landscape_of(np.full((6, 6), 102), elevation=elevation, cell_m=25.0)
    np.testing.assert_array_equal(found.slope, horn(elevation, 25.0)[0])


def test_layers_are_copies_that_cannot_be_written_to():
    fuel = np.full((4, 4), 102)
    found = landscape_of(fuel)
    before = found.digest()
    fuel[:] = 145
    assert found.digest() == before
    for name in ("fuel", "elevation", "slope", "value", "ignition_weight", "burnable"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(found, name)[0, 0] = 0


def test_splits_share_no_landscape():
    seeds = {name: set(range(first, first + count)) for name, (first, count) in SPLITS.items()}
    assert seeds["train"].isdisjoint(seeds["validation"] | seeds["test"])
    assert seeds["validation"].isdisjoint(seeds["test"])
    config = {"height": 8, "width": 8, "landscapes": 12, "n_weather": 1, "obs_channels": ("legal",)}
    digests = {
        name: {
            member.scene.landscape.digest()
            for member in pool_of(WildfireConfig(split=name, **config)).members
        }
        for name in SPLITS
    }
    assert all(len(found) == 12 for found in digests.values())
    assert len(set.union(*digests.values())) == 36


def test_crops_of_different_splits_share_no_row():
    rows = {
        split: landfire._windows(50, 50, split)[:, 0] for split in ("train", "validation", "test")
    }
    assert rows["train"].max() + 50 <= rows["validation"].min()
    assert rows["validation"].max() + 50 <= rows["test"].min()


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_crops_are_whole_and_mostly_burnable(split):
    found = [landfire.crop(number, 50, 50, split=split) for number in range(5)]
    for crop in found:
        assert crop.shape == (50, 50)
        assert crop.cell_m == 30
        assert crop.burnable.mean() >= 0.8
        assert crop.canopy_cover.max() <= 1
        assert crop.slope.min() >= 0
        assert crop.slope.max() < 3
    assert len({crop.digest() for crop in found}) == 5
    assert landfire.crop(1, 50, 50, split=split).digest() == found[1].digest()


def test_the_tile_lists_the_windows_it_has():
    """Every listed window is complete; windows beside them that are not listed are not."""
    fuel = landfire._tile()["fbfm40"]
    listed = {tuple(corner) for corner in landfire._windows(100, 100, "validation").tolist()}
    rng = np.random.default_rng(0)
    low, high = (round(share * len(fuel)) for share in landfire.BANDS["validation"])
    for _ in range(300):
        row, col = int(rng.integers(low, high - 99)), int(rng.integers(fuel.shape[1] - 99))
        window = fuel[row : row + 100, col : col + 100]
        whole = not (window == landfire.NO_DATA).any()
        bare = np.isin(window, [91, 92, 93, 98, 99])
        assert ((row, col) in listed) == (whole and (~bare).mean() >= 0.8)


def test_winds_keep_to_the_prevailing_direction():
    rng = np.random.default_rng(0)
    weather = draw_weather(rng, Climate(n_weather=4000), 90.0)
    angle = np.deg2rad(weather.wind_from_deg)
    assert abs(np.rad2deg(np.arctan2(np.sin(angle).mean(), np.cos(angle).mean())) - 90) < 5
    anywhere = draw_weather(rng, Climate(n_weather=4000, kappa=0.0), 90.0)
    assert np.abs(np.exp(1j * np.deg2rad(anywhere.wind_from_deg)).mean()) < 0.05
    assert abs(weather.wind_kmh.mean() - 20) < 0.6
    assert abs(weather.wind_kmh.std() - 7) < 0.6
    assert weather.wind_kmh.max() <= 60
    shares = [(weather.moisture == row).all(axis=1).mean() for row in MOISTURES]
    np.testing.assert_allclose(shares, [0.3, 0.5, 0.2], atol=0.03)


def test_equal_requests_share_a_pool_and_others_do_not():
    config = WildfireConfig(height=6, width=6, landscapes=2, obs_fires=4)
    assert pool_of(config) is pool_of(WildfireConfig(**_with(config, reward="terminal")))
    assert pool_of(config) is not pool_of(WildfireConfig(**_with(config, wind_kmh=5.0)))


def test_a_pool_keeps_one_copy_of_its_edge_times():
    pool = pool_of(WildfireConfig(height=6, width=6, landscapes=2, obs_fires=4))
    for number, member in enumerate(pool.members):
        minutes = member.scene.tables.minutes
        assert np.shares_memory(minutes, pool.data)
        fresh = prepare(WildfireConfig(height=6, width=6), number).scene.tables.minutes
        np.testing.assert_array_equal(minutes, fresh)


def _with(config, **changes):
    from dataclasses import asdict

    return asdict(config) | changes


def test_protected_and_adjusted_landscapes_keep_everything_else():
    plain = WildfireConfig(height=12, width=12, n_settlements=2)
    guarded = WildfireConfig(**_with(plain, protect_above=2.0, ignition_radius=3))
    one, other = prepare(plain, 0).scene.landscape, prepare(guarded, 0).scene.landscape
    for name in ("fuel", "elevation", "slope", "aspect", "value"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(other.protected, one.value > 2)
    assert other.ignition_weight.sum() < one.ignition_weight.sum()
    assert other.prevailing_deg == one.prevailing_deg


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ({"fuel": np.full((3, 3), 77)}, "'fuel' has 77 at row 0, column 0, and 9 such"),
        ({"fuel": np.full((3, 3), 98)}, "no cell of the layer 'fuel' can burn"),
        ({"fuel": np.full(9, 102)}, r"must be a grid of 2x2 cells or more, not \(9,\)"),
        ({"elevation": np.zeros((2, 3))}, r"'elevation' has the shape \(2, 3\)"),
        ({"canopy_cover": np.diag([0, 40.0, 0])}, "'canopy_cover' has 40 at row 1, column 1"),
        ({"value": np.diag([0, 1, np.nan])}, "'value' has nan at row 2, column 2"),
        ({"slope": np.zeros((3, 3))}, "'aspect' is missing"),
        ({"value": np.zeros((3, 3))}, "'value' is 0 on every burnable cell"),
        ({"ignition_weight": np.zeros((3, 3))}, "'ignition_weight' is 0 on every"),
        ({"heat": np.zeros((3, 3))}, "unknown layer 'heat'"),
        ({"cell_m": 0.0}, "up to 10,000 m"),
    ],
)
def test_invalid_layers_are_refused(layers, message):
    with pytest.raises(ConfigError, match=message):
        landscape_of(**({"fuel": np.full((3, 3), 102)} | layers))
