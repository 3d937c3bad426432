"""Surface fire behavior against the golden tables, and properties they cannot show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from briskrl.envs.wildfire.behavior import FT, fuel_beds, head_fire, wind_factor
from briskrl.envs.wildfire.fuels import fuel_table

GOLDEN = Path(__file__).parent / "golden"
DRY = (0.03, 0.04, 0.05, 0.30, 0.60)


@pytest.fixture(scope="module")
def point() -> dict[str, np.ndarray]:
    with np.load(GOLDEN / "point_behavior.npz") as file:
        return dict(zip(file["columns"].tolist(), file["data"].T, strict=True))


def beds(point):
    names = ("m_dead_1h", "m_dead_10h", "m_dead_100h", "m_live_herb", "m_live_woody")
    return fuel_beds(point["fuel_model"], np.stack([point[name] for name in names], axis=1))


def fires(point, *, wind_limit):
    return head_fire(
        beds(point),
        midflame=point["midflame_wind_m_min"],
        wind_from_deg=point["wind_from_deg"],
        slope=point["slope_rise_run"],
        aspect_deg=point["aspect_deg"],
        wind_limit=wind_limit,
    )


def assert_close(found, golden):
    # The reference is in single precision, so 1e-12 there means 0.
    np.testing.assert_allclose(found, golden, rtol=1e-3, atol=1e-8)


def test_every_golden_row_is_there(point):
    assert len(point["fuel_model"]) == 5088
    assert len(np.unique(point["fuel_model"])) == 53


def test_rates_without_wind_and_slope_match_the_reference(point):
    bed = beds(point)
    assert_close(bed.r0, point["r0_m_min"])
    assert_close(0.9 * bed.reaction * FT, point["u_eff_max_m_min"])


@pytest.mark.parametrize("wind_limit", [False, True])
def test_head_fires_match_the_reference(point, wind_limit):
    fire = fires(point, wind_limit=wind_limit)
    tail = "_limited" if wind_limit else ""
    assert_close(fire.rate, point[f"ros_head{tail}_m_min"])
    assert_close(fire.intensity, point[f"intensity{tail}_kw_m"])
    assert_close(fire.flame, point[f"flame_length{tail}_m"])
    assert_close(fire.length_to_width, point[f"lw_ratio{tail}"])
    np.testing.assert_allclose(fire.eccentricity, point[f"eccentricity{tail}"], atol=2e-3)


def test_directions_backs_and_flanks_match_the_reference(point):
    fire = fires(point, wind_limit=False)
    e = fire.eccentricity
    assert_close(fire.rate * (1 - e) / (1 + e), point["ros_back_m_min"])
    assert_close(fire.rate * np.sqrt((1 - e) / (1 + e)), point["ros_flank_dir90_m_min"])
    for found, axis in ((fire.east, "x"), (fire.north, "y"), (fire.up, "z")):
        np.testing.assert_allclose(found, point[f"head_dir_{axis}"], atol=2e-3)


def test_wind_factors_match_the_reference():
    with np.load(GOLDEN / "wind_adjustment.npz") as file:
        depth, height, cover, golden = file["data"].T
    assert_close(wind_factor(depth, cover, height, any_canopy=True), golden)
    # The reference lets any canopy shelter; ours needs a minimum cover and height.
    real = (cover / 3 >= 0.05) & (height / FT >= 6)
    bare = (cover == 0) | (height == 0)
    found = wind_factor(depth, cover, height)
    assert_close(found[real | bare], golden[real | bare])
    assert_close(found[~real], wind_factor(depth[~real]))


def test_what_cannot_burn_has_no_rate():
    table = fuel_table()
    codes = table.number[~table.burnable]
    bed = fuel_beds(codes, np.tile(DRY, (len(codes), 1)))
    fire = head_fire(bed, midflame=100, wind_from_deg=0, slope=0.5, aspect_deg=90)
    assert codes.tolist() == [91, 92, 93, 98, 99]
    assert not fire.rate.any()
    assert not fire.intensity.any()


def test_wet_fuel_does_not_burn():
    table = fuel_table()
    codes = table.number[table.burnable]
    assert not fuel_beds(codes, np.full((len(codes), 5), 3.0)).r0.any()


@settings(max_examples=60, deadline=None)
@given(
    fuel=st.sampled_from([1, 4, 10, 102, 122, 145, 165, 183]),
    wind=st.floats(0, 400),
    turn=st.floats(0, 360),
    slope=st.floats(0, 1.5),
    aspect=st.floats(0, 360),
    wind_from=st.floats(0, 360),
)
def test_turning_wind_and_slope_turns_the_fire(fuel, wind, turn, slope, aspect, wind_from):
    bed = fuel_beds([fuel], [DRY])
    one, other = (
        head_fire(
            bed, midflame=wind, wind_from_deg=wind_from + t, slope=slope, aspect_deg=aspect + t
        )
        for t in (0, turn)
    )
    np.testing.assert_allclose(other.rate, one.rate, rtol=1e-9)
    angle = np.deg2rad(turn)
    if np.hypot(wind, slope) > 1e-3:
        east = np.cos(angle) * one.east + np.sin(angle) * one.north
        np.testing.assert_allclose(other.east, east, atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(fuel=st.sampled_from([1, 4, 102, 145, 183]), wind=st.floats(0, 300), more=st.floats(0, 200))
def test_more_wind_never_slows_the_head(fuel, wind, more):
    bed = fuel_beds([fuel], [DRY])
    calm, windy = (
        head_fire(bed, midflame=w, wind_from_deg=0, slope=0.0, aspect_deg=0)
        for w in (wind, wind + more)
    )
    assert (windy.rate >= calm.rate).all()
    assert (windy.length_to_width >= calm.length_to_width - 1e-12).all()
    assert 0 <= windy.eccentricity[0] < 1
