"""Memory layout of a game, and the settings as kernels read them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from briskrl.core.types import Ints
from briskrl.envs.snake.config import SnakeConfig
from briskrl.envs.snake.kernels import board as k

_CACHE_LINE_WORDS = 8


@dataclass(frozen=True, slots=True)
class Layout:
    """Places in the row of words of one game; see `kernels/board.py`."""

    height: int
    width: int

    @property
    def stride(self) -> int:
        """Bits per board row, guard included."""
        return self.width + 1

    @property
    def pad(self) -> int:
        """Zero words before the board: at least one board row and one bit."""
        return self.stride // 64 + 1

    @property
    def board_words(self) -> int:
        """Words of the board itself."""
        return -(-self.height * self.stride // 64)

    @property
    def padded_words(self) -> int:
        """Words of a bitboard with its padding; kernels read one word beyond it."""
        return self.pad + self.board_words + self.pad + 1

    @property
    def board(self) -> int:
        """Bit of the first cell."""
        return (k.ROW_SCALARS + self.pad) * 64

    @property
    def ring(self) -> int:
        """Place of the body ring, in 16-bit numbers."""
        return (k.ROW_SCALARS + self.padded_words) * 4

    @property
    def ring_mask(self) -> int:
        """Capacity of the ring less one; the capacity is a power of two."""
        return (1 << (self.height * self.width - 1).bit_length()) - 1

    @property
    def row_words(self) -> int:
        """Words of a game, a whole number of cache lines."""
        words = self.ring // 4 + (self.ring_mask + 1) // 4
        return -(-max(words, 3 * self.padded_words) // _CACHE_LINE_WORDS) * _CACHE_LINE_WORDS

    def to_cell(self, bits: ArrayLike) -> Ints:
        """Row-major cell numbers of bits."""
        row, col = np.divmod(np.asarray(bits, np.int64) - self.board, self.stride)
        return np.asarray(row * self.width + col, np.int64)

    def from_cell(self, cells: ArrayLike) -> Ints:
        """Bits of row-major cell numbers."""
        row, col = np.divmod(np.asarray(cells, np.int64), self.width)
        return np.asarray(self.board + row * self.stride + col, np.int64)


def params_of(config: SnakeConfig, layout: Layout, scratch: int) -> NDArray[np.int64]:
    """The settings as the array that kernels read; `scratch` is the first word of scratch space."""
    params = np.zeros(k.R_EMPTY_BOARD + layout.board_words, np.int64)
    shortest, longest = config.cycle_lengths
    starts = {"center": k.START_CENTER, "random": k.START_RANDOM, "cycle": k.START_CYCLE}
    modes = {
        "features": k.OBS_FEATURES,
        "flood": k.OBS_FLOOD,
        "extended": k.OBS_EXTENDED,
        "grid": k.OBS_GRID,
    }
    for at, number in {
        k.R_OBS: modes[config.obs],
        k.R_HEIGHT: config.height,
        k.R_WIDTH: config.width,
        k.R_CELLS: config.cells,
        k.R_ROW: layout.row_words,
        k.R_BOARD: layout.board,
        k.R_BOARD_WORDS: layout.board_words,
        k.R_RING: layout.ring,
        k.R_RING_MASK: layout.ring_mask,
        k.R_SCRATCH: scratch,
        k.R_SCRATCH_STRIDE: layout.padded_words,
        k.R_ABSOLUTE: config.actions == "absolute",
        k.R_SOLID: config.tail_rule == "solid",
        k.R_HUNGER: config.hunger,
        k.R_MAX_STEPS: config.max_steps,
        k.R_MIRROR: config.mirror,
        k.R_TRACK: config.obs in ("flood", "extended"),
        k.R_START: starts[config.start],
        k.R_SHORTEST: shortest,
        k.R_LONGEST: longest,
        k.R_MIX: int(config.start_mix * k.MIX_ALWAYS),
        k.R_EGO: config.grid_frame == "ego",
        k.R_CENTERED: config.grid_center == "head",
        k.R_REACHABLE: config.grid_reachable,
        k.R_ONE: 255 if config.grid_dtype == "uint8" else 1,
    }.items():
        params[at] = number
    values = params.view(np.float64)
    values[k.R_DEATH] = config.reward_death
    values[k.R_EAT] = config.reward_food
    values[k.R_WIN] = config.reward_win
    values[k.R_STEP] = config.reward_step
    values[k.R_STARVED] = config.reward_starved
    values[k.R_SHAPING] = config.shaping
    bits = layout.from_cell(np.arange(config.cells)) - layout.board
    empty = params.view(np.uint64)[k.R_EMPTY_BOARD :]
    np.bitwise_or.at(empty, bits // 64, np.uint64(1) << (bits % 64).astype(np.uint64))
    return params
