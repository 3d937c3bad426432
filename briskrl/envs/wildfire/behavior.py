"""Surface fire behavior at a point: Rothermel (1972) with Albini's (1976) changes, in float64.

Andrews (2018, RMRS-GTR-371) lists all equations. Everything takes and returns arrays;
inside, the units are the published ones (pounds, feet, minutes, Btu).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from briskrl.envs.wildfire.fuels import DEAD, LIVE, Reals, fuel_table

FT = 0.3048
"""Meters per foot."""
KW_M = 3.4613
"""kW/m per Btu/ft/s."""
MI_H = 26.8224
"""m/min per mile per hour."""
KMH = 1000 / 60
"""m/min per km/h."""
WIND_20FT = 1 / 1.15
"""The wind 20 ft above the vegetation over the wind at 10 m."""

_DENSITY = 32.0
_MINERAL, _SILICA_FREE = 0.0555, 0.01
_MINERAL_DAMPING = 0.174 * _SILICA_FREE**-0.19
_SIZE_LIMITS = np.array([1200.0, 192.0, 96.0, 48.0, 16.0])
_LW_MAX = 8.0
_TINY = 1e-300


@dataclass(frozen=True, slots=True)
class FuelBed:
    """Fuel beds at given moistures, without wind and slope, (M,) each."""

    depth_ft: Reals
    r0: Reals
    """m/min without wind and slope; 0 where nothing burns."""
    reaction: Reals
    """Reaction intensity, Btu/ft2/min."""
    heat_per_area: Reals
    """Btu/ft2 released by the passing front."""
    wind_b: Reals
    """Exponent of the wind factor."""
    wind_c: Reals
    """Wind factor of a midflame wind of 1 ft/min."""
    slope_c: Reals
    """Slope factor of a slope of 1."""

    def take(self, index: NDArray[np.int64]) -> FuelBed:
        """The beds at these places, in any shape."""
        return FuelBed(
            self.depth_ft[index],
            self.r0[index],
            self.reaction[index],
            self.heat_per_area[index],
            self.wind_b[index],
            self.wind_c[index],
            self.slope_c[index],
        )


@dataclass(frozen=True, slots=True)
class HeadFire:
    """The head fire with wind and slope; all arrays have one shape."""

    rate: Reals
    """m/min along the slope, at the head."""
    east: Reals
    """The head's direction is the unit vector (east, north, up) in the slope plane."""
    north: Reals
    up: Reals
    intensity: Reals
    """Fireline intensity at the head, kW/m."""
    flame: Reals
    """Flame length at the head, m."""
    length_to_width: Reals
    eccentricity: Reals


def fuel_beds(codes: ArrayLike, moisture: ArrayLike) -> FuelBed:
    """Fuels (M,) at moistures (M, 5): 1h, 10h, 100h, live herb, live woody, as fractions.

    Codes must be known; those that cannot burn have no rate.
    """
    table = fuel_table()
    rows = table.rows(codes)
    moisture = np.asarray(moisture, np.float64)
    load, sav = _cured(rows, moisture[:, 3]), table.sav[rows]
    wet = moisture[:, [0, 1, 2, 0, 3, 4]]
    area = sav * load / _DENSITY
    area_of = np.stack([area[:, DEAD].sum(1), area[:, LIVE].sum(1)], axis=1)
    total = area_of.sum(1)
    share_of = _ratio(area_of, total[:, None])
    share = np.concatenate(
        [_ratio(area[:, DEAD], area_of[:, :1]), _ratio(area[:, LIVE], area_of[:, 1:])], axis=1
    )
    weight = share * share_of[:, [0, 0, 0, 0, 1, 1]]
    sigma = (weight * sav).sum(1)
    burns = table.burnable[rows] & (sigma > 0)
    sigma = np.where(burns, sigma, 1.0)
    depth = np.where(burns, table.depth_ft[rows], 1.0)
    density = load.sum(1) / depth
    beta = np.where(burns, density / _DENSITY, 1.0)
    ratio = beta / (3.348 * sigma**-0.8189)
    damping = _moisture_damping(load, sav, wet, share, table.mx_dead[rows])
    burning = (_net_load(load, sav, share) * damping).sum(1)
    reaction = _velocity(sigma, ratio) * burning * table.heat_btu_lb[rows] * _MINERAL_DAMPING
    flux = np.exp((0.792 + 0.681 * np.sqrt(sigma)) * (beta + 0.1)) / (192 + 0.2595 * sigma)
    sink = density * (weight * _decay(138, sav) * (250 + 1116 * wet)).sum(1)
    reaction = np.where(burns, reaction, 0.0)
    wind_b = 0.02526 * sigma**0.54
    wind_e = 0.715 * np.exp(-3.59e-4 * sigma)
    return FuelBed(
        depth_ft=depth,
        r0=FT * _ratio(reaction * flux, sink),
        reaction=reaction,
        heat_per_area=reaction * 384 / sigma,
        wind_b=wind_b,
        wind_c=7.47 * np.exp(-0.133 * sigma**0.55) * ratio**-wind_e,
        slope_c=5.275 * beta**-0.3,
    )


def wind_factor(
    depth_ft: ArrayLike,
    cover: ArrayLike = 0.0,
    height_m: ArrayLike = 0.0,
    *,
    any_canopy: bool = False,
) -> Reals:
    """Midflame wind over the 20-ft wind, for bed depth, canopy cover (fraction) and height.

    Args:
        depth_ft: Depth of the fuel bed.
        cover: Canopy cover, as a fraction.
        height_m: Canopy height.
        any_canopy: Let every canopy shelter, even a thin or low one. Otherwise it must fill 5 % of
            the crown space and be 6 ft high (Andrews 2012), because the formula for sheltered fuel
            would make thin canopies speed up the wind.
    """
    depth, height = np.asarray(depth_ft, np.float64), np.asarray(height_m, np.float64) / FT
    crown = np.asarray(cover, np.float64) / 3
    depth, height, crown = np.broadcast_arrays(depth, height, crown)
    sheltered = (crown > 0) & (height > 0)
    if not any_canopy:
        sheltered &= (crown >= 0.05) & (height >= 6)
    tall = np.where(sheltered, height, 6.0)
    under = 0.555 / (
        np.sqrt(np.where(sheltered, crown, 0.05) * tall)
        * np.log((20 + 0.36 * tall) / (0.13 * tall))
    )
    return np.where(sheltered, under, 1.83 / np.log((20 + 0.36 * depth) / (0.13 * depth)))


def azimuth(degrees: ArrayLike, *, turned: int = 0) -> tuple[Reals, Reals]:
    """East and north of an azimuth plus `turned` right angles.

    Quarter turns only swap and negate the two, so rotated landscapes burn identically, to the bit.
    """
    angle = np.asarray(degrees, np.float64) % 360
    quarter = np.floor(angle / 90)
    rest = np.deg2rad(angle - 90 * quarter)
    sin, cos = np.sin(rest), np.cos(rest)
    turn = (quarter.astype(np.int64) + turned) % 4
    east = np.choose(turn, [sin, cos, -sin, -cos])
    return east, np.choose(turn, [cos, -sin, -cos, sin])


def head_fire(
    bed: FuelBed,
    *,
    midflame: ArrayLike,
    wind_from_deg: ArrayLike,
    slope: ArrayLike,
    aspect_deg: ArrayLike,
    wind_limit: bool = False,
) -> HeadFire:
    """The head fire of beds in a midflame wind (m/min) on a slope (rise over run).

    Azimuths are clockwise from north; the aspect is the downslope one. All arguments broadcast.
    """
    slope = np.asarray(slope, np.float64)
    wind_e, wind_n = azimuth(wind_from_deg, turned=2)
    up_e, up_n = azimuth(aspect_deg, turned=2)
    # Lifted into the slope plane, a horizontal unit vector rises by the slope along it.
    wind_up = slope * (wind_e * up_e + wind_n * up_n)
    stretch = np.sqrt(1 + wind_up**2)
    wind_ft = np.asarray(midflame, np.float64) * stretch / FT
    phi_w = bed.wind_c * wind_ft**bed.wind_b / stretch
    phi_s = bed.slope_c * slope**2 / np.sqrt(1 + slope**2)
    east = phi_w * wind_e + phi_s * up_e
    north = phi_w * wind_n + phi_s * up_n
    up = phi_w * wind_up + phi_s * slope
    phi = np.sqrt(east**2 + north**2 + up**2)
    still = phi <= 1e-12
    scale = 1 / np.where(still, 1.0, phi)
    effective = (phi / bed.wind_c) ** (1 / bed.wind_b)
    if wind_limit:
        capped = np.minimum(effective, 0.9 * bed.reaction)
        phi = np.where(capped < effective, bed.wind_c * capped**bed.wind_b, phi)
        effective = capped
    rate = bed.r0 * (1 + phi)
    intensity = bed.heat_per_area * (rate / FT) / 60 * KW_M
    ratio = _length_to_width(effective * FT / MI_H)
    return HeadFire(
        rate=rate,
        east=np.where(still, 0.0, east * scale),
        north=np.where(still, 1.0, north * scale),
        up=np.where(still, 0.0, up * scale),
        intensity=intensity,
        flame=0.0775 * intensity**0.46,
        length_to_width=ratio,
        eccentricity=np.sqrt(ratio**2 - 1) / ratio,
    )


def _length_to_width(miles_h: Reals) -> Reals:
    """Shape of the ellipse for an effective wind in miles per hour."""
    wind = np.minimum(miles_h, 60.0)
    ratio = 0.936 * np.exp(0.1147 * wind) + 0.461 * np.exp(-0.0692 * wind) - 0.397
    return np.clip(ratio, 1.0, _LW_MAX)


def _cured(rows: NDArray[np.int64], herb_moisture: Reals) -> Reals:
    """Loads (M, 6) with the cured fraction of the herbs of dynamic models moved to dead fuel."""
    table = fuel_table()
    load = table.load[rows]
    green = np.where(table.dynamic[rows], np.clip(herb_moisture / 0.9 - 1 / 3, 0, 1), 1.0)
    load[:, 3] = (1 - green) * load[:, 4]
    load[:, 4] *= green
    return load


def _net_load(load: Reals, sav: Reals, share: Reals) -> Reals:
    """Net loads (M, 2) of dead and live fuel, pooled over classes of like size."""
    size = (sav[:, :, None] < _SIZE_LIMITS).sum(2)
    dead = np.array([True] * 4 + [False] * 2)
    alike = (size[:, :, None] == size[:, None, :]) & (dead[:, None] == dead)
    pooled = (alike * share[:, None, :]).sum(2)
    # Only fuel finer than the smallest limit has no bin.
    net = np.where(sav < _SIZE_LIMITS[-1], 0.0, pooled) * load * (1 - _MINERAL)
    return np.stack([net[:, DEAD].sum(1), net[:, LIVE].sum(1)], axis=1)


def _moisture_damping(load: Reals, sav: Reals, wet: Reals, share: Reals, mx_dead: Reals) -> Reals:
    """Moisture damping (M, 2) of dead and live fuel, 0 to 1."""
    fine_dead = load[:, DEAD] * _decay(138, sav[:, DEAD])
    fine_live = (load[:, LIVE] * _decay(500, sav[:, LIVE])).sum(1)
    fine = fine_dead.sum(1)
    fine_wet = _ratio((fine_dead * wet[:, DEAD]).sum(1), fine)
    mx = np.where(mx_dead > 0, mx_dead, 1.0)
    live = 2.9 * _ratio(fine, fine_live) * (1 - fine_wet / mx) - 0.226
    mx_live = np.where((fine > 0) & (fine_live > 0), np.maximum(mx, live), mx)
    wetness = np.stack([(share * wet)[:, DEAD].sum(1), (share * wet)[:, LIVE].sum(1)], axis=1)
    r = np.minimum(1.0, wetness / np.stack([mx, mx_live], axis=1))
    damping = 1 - 2.59 * r + 5.11 * r**2 - 3.52 * r**3
    return np.where(r >= 1, 0.0, np.maximum(damping, 0.0))


def _velocity(sigma: Reals, ratio: Reals) -> Reals:
    """Optimum reaction velocity, 1/min."""
    fastest = sigma**1.5 / (495 + 0.0594 * sigma**1.5)
    a = 133 * sigma**-0.7913
    return np.asarray(fastest * ratio**a * np.exp(a * (1 - ratio)), np.float64)


def _decay(scale: float, sav: Reals) -> Reals:
    """exp(-scale / sav); 0 where there is no fuel."""
    return np.exp(-scale / np.maximum(sav, 0.1))


def _ratio(top: Reals, bottom: Reals) -> Reals:
    """The quotient, 0 where bottom is 0."""
    return np.where(bottom > 0, top / np.maximum(bottom, _TINY), 0.0)
