"""Snake for many games at once (SnakeVecEnv) and for one (SnakeEnv), over the same kernels."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from briskrl.core.spec import ArraySpec, DiscreteSpec, EnvSpec
from briskrl.core.types import Array, Bools, Ints
from briskrl.envs.kernels.episode_log import REC_EXTRA
from briskrl.envs.native import NativeEnv, NativeVecEnv
from briskrl.envs.native_batch import BatchMemory
from briskrl.envs.snake import render
from briskrl.envs.snake.config import SnakeConfig
from briskrl.envs.snake.kernels import board as k
from briskrl.envs.snake.kernels.step import KERNELS, write_masks
from briskrl.envs.snake.layout import Layout, params_of
from briskrl.envs.snake.state_check import check_games

FEATURES = {"features": 11, "flood": 14, "extended": 24}


class SnakeVecEnv(NativeVecEnv):
    """N games of Snake, stepped by one compiled call.

    Observation: features (11 numbers), flood (14: with reachable space), extended (24) or grid
    (planes of the board), as `config.obs` says.

    Action: straight, right, left (relative) or up, right, down, left (absolute).

    Reward: `reward_food` for food (`reward_win` more for the last one), `reward_death` for a
    collision, else `reward_step`, plus `shaping` for moves toward the food.

    Termination: a collision, or a full board, which wins. Truncation: `hunger_limit` moves without
    food, or `max_steps` moves.

    Args: see NativeVecEnv and SnakeConfig. Without `config`, `grid_dtype` is float32 unless given.
    """

    config_class = SnakeConfig
    config: SnakeConfig
    kernels = KERNELS
    state_name = "snake"
    metadata: dict[str, Any] = {  # noqa: RUF012
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 12,
    }

    def _resolve_config(
        self, config: SnakeConfig | None, settings: Mapping[str, Any]
    ) -> SnakeConfig:
        if config is None:
            dtype = np.dtype(settings.get("grid_dtype", "float32")).name
            settings = {**settings, "grid_dtype": dtype}
        found: SnakeConfig = super()._resolve_config(config, settings)
        if 0 < found.hunger < found.cells:
            warnings.warn(
                f"hunger_limit {found.hunger} is below the {found.cells} cells of the board: play "
                "that follows a cycle cannot fill it.",
                stacklevel=4,
            )
        return found

    def _prepare(self) -> EnvSpec:
        self._layout = Layout(self.config.height, self.config.width)
        return spec_of(self.config)

    def _lay_out(self, chunks: int) -> BatchMemory:
        row = self._layout.row_words
        params = params_of(self.config, self._layout, self.num_envs * row)
        return BatchMemory(row, scratch_words=chunks * row, params=params)

    def _check_rows(self, rows: NDArray[np.uint64]) -> None:
        check_games(rows, self._layout)

    def _write_mask(self, out: Bools, *, final: bool) -> None:
        write_masks(self._params, self._state, k.FINAL_OPEN if final else k.OPEN, out)

    def _episode_infos(self, rows: NDArray[np.float64]) -> dict[str, Array]:
        infos = super()._episode_infos(rows)
        infos["fill"] = rows[:, REC_EXTRA].astype(np.float32)
        if self.config.start == "cycle":
            infos["start_length"] = rows[:, REC_EXTRA + 1].astype(np.int32)
        return infos

    def peek(self) -> dict[str, Array]:
        """The games as plain numbers, (N,) each; cells are row * width + column, no food is -1."""
        shorts, ints, layout = self._i16, self._i32, self._layout
        length = ints[:, k.LENGTH].astype(np.int64)
        oldest = (shorts[:, k.RING_HEAD] - length + 1) & layout.ring_mask
        tail = np.take_along_axis(shorts, (layout.ring + oldest)[:, None], axis=1)[:, 0]
        food = layout.to_cell(shorts[:, k.FOOD])
        return {
            "head": layout.to_cell(shorts[:, k.HEAD]),
            "tail": layout.to_cell(tail),
            "length": length,
            "food": np.where(shorts[:, k.FOOD] < 0, -1, food),
            "heading": shorts[:, k.HEADING].astype(np.int64),
            "score": ints[:, k.SCORE].astype(np.int64),
            "steps": ints[:, k.STEPS].astype(np.int64),
            "hunger": ints[:, k.HUNGER].astype(np.int64),
            "random_state": self._random_states.copy(),
        }

    def body(self, env: int) -> Ints:
        """Cells of one snake, head first."""
        row, layout = self._i16[env], self._layout
        places = (int(row[k.RING_HEAD]) - np.arange(self._i32[env, k.LENGTH])) & layout.ring_mask
        return layout.to_cell(row[layout.ring + places])

    def set_game(
        self,
        env: int,
        cells: ArrayLike,
        *,
        food: int,
        heading: int,
        score: int = 0,
        steps: int = 0,
        hunger: int = 0,
    ) -> None:
        """Put one game into a position: body cells head first, food -1 for none.

        Call `observe_into` to get its observation.
        """
        body = np.asarray(cells, np.int64)
        layout, row, ints = self._layout, self._i16[env], self._i32[env]
        row[layout.ring : layout.ring + len(body)] = layout.from_cell(body[::-1])
        row[k.RING_HEAD] = len(body) - 1
        row[k.FOOD] = -1 if food < 0 else layout.from_cell(np.array(food))
        row[k.HEADING] = heading
        row[k.START_LENGTH] = len(body) - score
        row[k.ENDED] = 0
        ints[k.LENGTH], ints[k.SCORE] = len(body), score
        ints[k.STEPS], ints[k.HUNGER] = steps, hunger
        self._started = True
        self._rebuild()

    def _frame(self, env: int) -> str | NDArray[np.uint8]:
        config, row = self.config, self._i16[env]
        food = -1 if row[k.FOOD] < 0 else int(self._layout.to_cell(row[k.FOOD]))
        body = self.body(env)
        if self.render_mode == "rgb_array":
            return render.rgb(body, food, (config.height, config.width), self.cell_px)
        counts = (int(self._i32[env, at]) for at in (k.SCORE, k.STEPS, k.HUNGER))
        return render.ansi(body, food, (config.height, config.width), *counts)


class SnakeEnv(NativeEnv):
    """One game of Snake; see SnakeVecEnv."""

    vec_env_class = SnakeVecEnv
    metadata: dict[str, Any] = SnakeVecEnv.metadata


build = SnakeVecEnv.build


def spec_of(config: SnakeConfig) -> EnvSpec:
    """The spec of one game with these settings."""
    high: float = 1.0
    if config.obs != "grid":
        shape: tuple[int, ...] = (FEATURES[config.obs],)
        dtype = "float32"
    else:
        planes, height, width = 5 + config.grid_reachable, config.height, config.width
        if config.grid_center == "head":
            planes, height, width = planes + 1, 2 * height - 1, 2 * width - 1
        shape, dtype = (planes, height, width), config.grid_dtype
        high = 255.0 if dtype == "uint8" else 1.0
    # Each food comes within the hunger limit, and a board has room for cells - 3 of them.
    limits = [config.hunger * (config.cells - 3), config.max_steps]
    return EnvSpec(
        obs=ArraySpec.of(shape, dtype, 0.0, high),
        action=DiscreteSpec(3 if config.actions == "relative" else 4),
        max_steps=min((limit for limit in limits if limit > 0), default=None),
        has_mask=config.masks,
        exact_state=True,
    )
