"""Prepared landscapes, packed into one read-only array for the kernels."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briskrl.core.errors import ConfigError
from briskrl.core.rng import Streams, derive_seed
from briskrl.core.types import Ints
from briskrl.envs.wildfire import landfire
from briskrl.envs.wildfire.config import SPLITS, WildfireConfig
from briskrl.envs.wildfire.directions import Compass, compass
from briskrl.envs.wildfire.files import read_landscape
from briskrl.envs.wildfire.fuels import fuel_table
from briskrl.envs.wildfire.landscape import Landscape, landscape_of
from briskrl.envs.wildfire.planning.baselines import plan_cells
from briskrl.envs.wildfire.planning.evaluator import bits_of
from briskrl.envs.wildfire.simulate import Fires, Scene, Simulator
from briskrl.envs.wildfire.static_features import static_planes
from briskrl.envs.wildfire.synthetic import Terrain, synthetic
from briskrl.envs.wildfire.weather import Climate, draw_weather

_LINE = 8
"""Words of a cache line."""


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """One landscape, ready for episodes and planners."""

    scene: Scene
    number: int
    """Seed of a synthetic landscape, or index of a crop in its split."""
    streams_seed: int
    """Root of its random streams: weather, observation, training, fixed and test fires."""

    def fires(self, purpose: str, count: int) -> Fires:
        """Fires for a purpose, independent of those for other purposes."""
        return self.scene.draw_fires(Streams(self.streams_seed)[f"{purpose} fires"], count)


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """P landscapes of one size, packed for the kernels."""

    members: tuple[Prepared, ...]
    data: NDArray[np.int64]
    """All parts, read-only."""
    places: dict[str, int]
    """First element of each part, in elements of its own type."""
    points: Compass
    budget: int

    @property
    def shape(self) -> tuple[int, int]:
        """(H, W)."""
        return self.members[0].scene.landscape.shape


def pool_of(config: WildfireConfig) -> Pool:
    """The prepared landscapes of a config; equal requests share one pool.

    Raises:
        ConfigError: There are no such landscapes.
    """
    # Settings that do not matter here must not create another pool.
    plain = WildfireConfig()
    kept = replace(
        config,
        cells_per_step=plain.cells_per_step,
        reward=plain.reward,
        illegal=plain.illegal,
        illegal_penalty=plain.illegal_penalty,
        teacher_plans=plain.teacher_plans,
        teacher_keep=plain.teacher_keep,
        teacher_fires=plain.teacher_fires,
        fires=config.fires if config.fires in ("fixed", "test") else plain.fires,
        n_fires=config.n_fires if config.fires in ("fixed", "test") else plain.n_fires,
    )
    return _pool(kept, _changed(config.landscape))


def prepare(config: WildfireConfig, number: int) -> Prepared:
    """Landscape `number` of the config's own ones, with its weather and edge times."""
    landscape, seed = _landscape(config, config.first_landscape + number)
    landscape = _adjusted(landscape, config)
    climate = Climate(
        n_weather=config.n_weather,
        wind_kmh=config.wind_kmh,
        wind_sd_kmh=config.wind_sd_kmh,
        kappa=config.wind_kappa,
        duration_min=config.duration_min,
    )
    weather = draw_weather(Streams(seed)["weather"], climate, landscape.prevailing_deg)
    points = compass(config.directions, leaky_diagonals=config.leaky_diagonals)
    scene = Scene(landscape, weather, points, wind_limit=config.wind_limit)
    synthetic_one = config.source == "synthetic" and config.landscape is None
    shown = seed if synthetic_one else config.first_landscape + number
    return Prepared(scene, shown, seed)


def budget_of(config: WildfireConfig, cells: int) -> int:
    """Cells that may be treated."""
    return max(1, round(config.budget_frac * cells))


def planned(config: WildfireConfig, prepared: Prepared) -> Ints:
    """The cells that the config's baseline would treat, in order."""
    return plan_cells(
        config.plan,
        Simulator(prepared.scene),
        prepared.fires("training", config.plan_fires),
        budget_of(config, prepared.scene.landscape.cells),
        Streams(prepared.streams_seed)["plan"],
    )


@lru_cache(maxsize=4)
def _pool(config: WildfireConfig, changed: int) -> Pool:
    count = 1 if config.landscape is not None else config.landscapes
    members = tuple(prepare(config, number) for number in range(count))
    points = members[0].scene.compass
    parts = _parts(config, members)
    data, places = _packed(parts)
    minutes = data.view(np.float32)[places["minutes"] :][: parts["minutes"].size]
    shared = minutes.reshape(parts["minutes"].shape)
    for member, own in zip(members, shared, strict=True):
        member.scene.adopt(own)
    budget = budget_of(config, members[0].scene.landscape.cells)
    return Pool(members, data, places, points, budget)


def _changed(path: str | None) -> int:
    """Modification time of a file: a changed file needs another pool."""
    if path is None or not os.path.exists(path):
        return 0
    return os.stat(path).st_mtime_ns


def _landscape(config: WildfireConfig, number: int) -> tuple[Landscape, int]:
    if config.landscape is not None:
        return read_landscape(config.landscape), derive_seed(number, "landscape file")
    shape = (config.height, config.width)
    if config.source == "landfire":
        found = landfire.crop(number, *shape, split=config.split)
        return found, derive_seed(number, f"landfire {config.split}")
    known = fuel_table().rows(config.fuels)
    if (known < 0).any():
        code = config.fuels[int(np.flatnonzero(known < 0)[0])]
        raise ConfigError(f"fuels: {code} is not a fuel model. Use 1-13 or 101-204.")
    terrain = Terrain(
        relief_m=config.relief_m,
        relief_scale=config.relief_scale,
        fuels=config.fuels,
        fuel_weights=config.fuel_weights,
        patch_scale=config.patch_scale,
        nb_frac=config.nb_frac,
        n_lines=config.n_lines,
        n_settlements=config.n_settlements,
        road_ignitions=config.road_ignitions,
    )
    seed = SPLITS[config.split][0] + number
    return synthetic(seed, *shape, cell_m=config.cell_m, terrain=terrain), seed


def _adjusted(landscape: Landscape, config: WildfireConfig) -> Landscape:
    """The landscape with the config's own ignitions and protected cells."""
    if config.ignition_radius is None and config.protect_above == 0:
        return landscape
    ignition, protected = landscape.ignition_weight, landscape.protected
    if config.ignition_radius is not None:
        rows, cols = np.indices(landscape.shape)
        height, width = landscape.shape
        far = np.maximum(np.abs(rows - height // 2), np.abs(cols - width // 2))
        ignition = np.where(far <= config.ignition_radius, ignition, 0.0)
    if config.protect_above > 0:
        protected = protected | (landscape.value > config.protect_above)
    return landscape_of(
        landscape.fuel,
        name=landscape.name,
        cell_m=landscape.cell_m,
        prevailing_deg=landscape.prevailing_deg,
        elevation=landscape.elevation,
        slope=landscape.slope,
        aspect=landscape.aspect,
        canopy_cover=landscape.canopy_cover,
        canopy_height=landscape.canopy_height,
        value=landscape.value,
        ignition_weight=ignition,
        protected=protected,
    )


def _parts(config: WildfireConfig, members: tuple[Prepared, ...]) -> dict[str, NDArray[Any]]:
    """The arrays that kernels read, each with the landscape first."""
    scenes = [member.scene for member in members]
    points, width = scenes[0].compass, scenes[0].landscape.shape[1]
    legal = [scene.legal for scene in scenes]
    parts: dict[str, NDArray[Any]] = {
        "minutes": np.stack([scene.tables.minutes for scene in scenes]),
        "limits": np.stack([scene.limits for scene in scenes]),
        "planes": np.stack([_planes(config, member) for member in members]),
        "value": np.stack([scene.value for scene in scenes]),
        "ignition": np.cumsum([s.landscape.ignition_weight.ravel() for s in scenes], axis=1),
        "total": np.array([scene.total_value for scene in scenes]),
        "legal": np.stack([bits_of(cells) for cells in legal]),
        "closed": np.stack([bits_of(~scene.burnable) for scene in scenes]),
        "count": np.array([cells.sum() for cells in legal], np.int64),
        "offsets": points.rows * width + points.cols,
    }
    if config.fires in ("fixed", "test"):
        sets = [member.fires(config.fires, config.n_fires) for member in members]
        parts["fixed"] = np.stack(
            [np.stack([fires.cell, fires.weather], axis=1) for fires in sets]
        ).astype(np.int32)
    return parts


def _planes(config: WildfireConfig, member: Prepared) -> NDArray[np.float32]:
    channels, given = config.channels, {}
    simulator, fires = Simulator(member.scene), member.fires("observation", config.obs_fires)
    if "burn_prob" in channels:
        given["burn_prob"] = simulator.burn_probability(fires)
    if "downstream" in channels:
        behind, _ = simulator.downstream(fires)
        given["downstream"] = behind / max(behind.max(), 1e-9)
    if "plan" in channels:
        cells = planned(config, member)
        given["plan"] = np.zeros(member.scene.landscape.cells)
        given["plan"][cells] = 1 - np.arange(len(cells)) / len(cells)
    return static_planes(member.scene, channels, given)


def _packed(parts: dict[str, NDArray[Any]]) -> tuple[NDArray[np.int64], dict[str, int]]:
    """All parts in one array, each starting on its own cache line."""
    words = {name: (part.nbytes // (8 * _LINE) + 1) * _LINE for name, part in parts.items()}
    begins = dict(zip(words, np.cumsum([0, *words.values()]).tolist(), strict=False))
    data = np.zeros(sum(words.values()), np.int64)
    places = {}
    for name, part in parts.items():
        raw = data[begins[name] :].view(np.uint8)
        raw[: part.nbytes] = np.ascontiguousarray(part).view(np.uint8).ravel()
        places[name] = begins[name] * 8 // part.dtype.itemsize
    data.flags.writeable = False
    return data, places
