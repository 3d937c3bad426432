"""Weather scenarios: wind and moistures, constant during a fire."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from briskrl.envs.wildfire.fuels import Reals

MOISTURES = np.array(
    [
        [0.03, 0.04, 0.05, 0.30, 0.60],
        [0.06, 0.07, 0.08, 0.60, 0.90],
        [0.09, 0.10, 0.11, 0.90, 1.20],
    ]
)
"""Standard scenarios D1L1, D2L2 and D3L3: dead 1h, 10h, 100h, live herb, live woody."""
MOISTURES.flags.writeable = False
MOISTURE_WEIGHTS = (0.3, 0.5, 0.2)
MAX_WIND_KMH = 60.0


@dataclass(frozen=True, slots=True, eq=False)
class Weather:
    """B scenarios."""

    wind_kmh: Reals
    """(B,): at 10 m."""
    wind_from_deg: Reals
    """(B,): direction it comes from, clockwise from north."""
    moisture: Reals
    """(B, 5): dead 1h, 10h, 100h, live herb, live woody, as fractions."""
    duration_min: Reals
    """(B,): how long fires burn."""

    def __len__(self) -> int:
        return len(self.wind_kmh)


@dataclass(frozen=True, slots=True)
class Climate:
    """How weather scenarios are drawn."""

    n_weather: int = 8
    """Scenarios per landscape."""
    wind_kmh: float = 20.0
    """Mean wind at 10 m."""
    wind_sd_kmh: float = 7.0
    """Its standard deviation; 0 for the mean always."""
    kappa: float = 2.0
    """Concentration around the prevailing direction (von Mises); 0 for any direction."""
    duration_min: float = 720.0
    """How long a fire burns."""


def constant_weather(
    wind_kmh: float,
    wind_from_deg: float,
    moisture: tuple[float, float, float, float, float],
    duration_min: float,
) -> Weather:
    """One scenario."""
    return Weather(
        np.array([wind_kmh], np.float64),
        np.array([wind_from_deg], np.float64),
        np.array([moisture], np.float64),
        np.array([duration_min], np.float64),
    )


def draw_weather(
    rng: np.random.Generator, climate: Climate, prevailing_deg: float | None
) -> Weather:
    """Scenarios around a prevailing wind, or with any wind direction if it is None."""
    count = climate.n_weather
    if prevailing_deg is None or climate.kappa == 0:
        direction = rng.uniform(0, 360, count)
    else:
        direction = np.rad2deg(rng.vonmises(np.deg2rad(prevailing_deg), climate.kappa, count)) % 360
    if climate.wind_sd_kmh > 0 and climate.wind_kmh > 0:
        shape = (climate.wind_kmh / climate.wind_sd_kmh) ** 2
        speed = rng.gamma(shape, climate.wind_kmh / shape, count)
    else:
        speed = np.full(count, climate.wind_kmh)
    moisture = MOISTURES[rng.choice(len(MOISTURES), count, p=MOISTURE_WEIGHTS)]
    return Weather(
        np.clip(speed, 0, MAX_WIND_KMH), direction, moisture, np.full(count, climate.duration_min)
    )
