"""Memory layout of an episode, and the settings as kernels read them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from briskrl.envs.wildfire.config import WildfireConfig
from briskrl.envs.wildfire.kernels import layout as k
from briskrl.envs.wildfire.landscape_pool import Pool
from briskrl.envs.wildfire.simulate import new_scratch
from briskrl.envs.wildfire.static_features import DYNAMIC

_LINE = 8
_MODES = {
    "episode": k.MODE_EPISODE,
    "fixed": k.MODE_SET,
    "test": k.MODE_SET,
    "fresh": k.MODE_FRESH,
    "round": k.MODE_ROUND,
}
_REWARDS = {
    "delta": k.REWARD_DELTA,
    "relative": k.REWARD_RELATIVE,
    "terminal": k.REWARD_TERMINAL,
}
_CHANNELS = {
    "treated": k.CHANNEL_TREATED,
    "legal": k.CHANNEL_LEGAL,
    "budget": k.CHANNEL_BUDGET,
}


@dataclass(frozen=True, slots=True)
class Layout:
    """Places in the row of words of one episode."""

    cells: int
    n_fires: int

    @property
    def bits(self) -> int:
        """Words of a bitmap."""
        return -(-self.cells // 64)

    @property
    def fires(self) -> int:
        """First fire; one word each."""
        return k.ROW_SCALARS

    @property
    def losses(self) -> int:
        """First loss; one word each."""
        return self.fires + self.n_fires

    @property
    def legal(self) -> int:
        """Bitmap of legal cells."""
        return self.losses + self.n_fires

    @property
    def final(self) -> int:
        """Bitmap of legal cells at the end of the last episode."""
        return self.legal + self.bits

    @property
    def closed(self) -> int:
        """Bitmap of cells that are treated or cannot burn."""
        return self.final + self.bits

    @property
    def gates(self) -> int:
        """Open directions, half a word per cell."""
        return self.closed + self.bits

    @property
    def row_words(self) -> int:
        """Words of an episode, a whole number of cache lines."""
        return -(-(self.gates + -(-self.cells // 2)) // _LINE) * _LINE


def lane_words(pool: Pool) -> int:
    """Words of scratch space per lane."""
    height, width = pool.shape
    return new_scratch(height * width, width, pool.points.reach).size // 2


def fire_words(config: WildfireConfig, pool: Pool) -> tuple[int, int]:
    """Words per episode, and per fire in it, for the arrival times of fires.

    Terminal rewards read each fire once, so all fires can share one place.
    """
    height, width = pool.shape
    wide = height * width + 2 * (pool.points.reach * width + pool.points.reach)
    fire = -(-(4 * wide + wide) // (8 * _LINE)) * _LINE
    return (fire, 0) if config.reward == "terminal" else (config.n_fires * fire, fire)


def params_of(
    config: WildfireConfig, pool: Pool, layout: Layout, num_envs: int, lanes: int
) -> NDArray[np.int64]:
    """The settings as the array that kernels read.

    Memory holds the episodes, then scratch space of the lanes, then arrival times of the fires.
    """
    height, width = pool.shape
    points, places = pool.points, pool.places
    scratch, (kept, kept_fire) = num_envs * layout.row_words, fire_words(config, pool)
    stencil = np.concatenate([points.cuts.ravel(), points.pinches.ravel()])
    params = np.zeros(k.R_STENCIL + len(stencil), np.int64)
    static = [name for name in config.channels if name not in DYNAMIC]
    for at, number in {
        k.R_POOL: pool.data.ctypes.data,
        k.R_POOL_WORDS: pool.data.size,
        k.R_HEIGHT: height,
        k.R_WIDTH: width,
        k.R_CELLS: layout.cells,
        k.R_BITS: layout.bits,
        k.R_DIRECTIONS: points.num_directions,
        k.R_REACH: points.reach,
        k.R_CUTS: len(points.cuts),
        k.R_PINCHES: len(points.pinches),
        k.R_LANDSCAPES: len(pool.members),
        k.R_WEATHER: len(pool.members[0].scene.weather),
        k.R_FIRES: config.n_fires,
        k.R_MODE: _MODES[config.fires],
        k.R_REWARD: _REWARDS[config.reward],
        k.R_BUDGET: pool.budget,
        k.R_PER_STEP: config.cells_per_step,
        k.R_ROW: layout.row_words,
        k.R_ROW_FIRES: layout.fires,
        k.R_ROW_LOSSES: layout.losses,
        k.R_ROW_LEGAL: layout.legal,
        k.R_ROW_FINAL: layout.final,
        k.R_ROW_CLOSED: layout.closed,
        k.R_ROW_GATES: layout.gates,
        k.R_SCRATCH: 2 * scratch,
        k.R_SCRATCH_STRIDE: 2 * lane_words(pool),
        k.R_KEPT: 2 * (scratch + lanes * lane_words(pool)),
        k.R_KEPT_ENV: 2 * kept,
        k.R_KEPT_FIRE: 2 * kept_fire,
        k.R_CHANNELS: len(config.channels),
        k.R_STATIC: len(static),
        k.P_MINUTES: places["minutes"],
        k.P_LIMITS: places["limits"],
        k.P_PLANES: places["planes"],
        k.P_VALUE: places["value"],
        k.P_IGNITION: places["ignition"],
        k.P_TOTAL: places["total"],
        k.P_LEGAL: places["legal"],
        k.P_CLOSED: places["closed"],
        k.P_COUNT: places["count"],
        k.P_FIXED: places.get("fixed", 0),
        k.P_OFFSETS: places["offsets"],
    }.items():
        params[at] = number
    params.view(np.float64)[k.R_PENALTY] = config.illegal_penalty
    for n, name in enumerate(config.channels):
        params[k.R_CHANNEL + n] = _CHANNELS[name] if name in DYNAMIC else static.index(name)
    params[k.R_STENCIL :] = stencil
    return params
