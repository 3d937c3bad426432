"""Snake for many games at once (SnakeVecEnv) and for one (SnakeEnv), over the same kernels."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, cast

import msgspec
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from briskrl.core.errors import ConfigError
from briskrl.core.spec import ArraySpec, DiscreteSpec, EnvSpec
from briskrl.core.types import Array, Bools, Ints
from briskrl.envs.kernels.episode_log import REC_EXTRA
from briskrl.envs.native import NativeVecEnv, Phase
from briskrl.envs.single_env import NativeEnv
from briskrl.envs.snake import render
from briskrl.envs.snake.config import SnakeConfig
from briskrl.envs.snake.kernels import board as k
from briskrl.envs.snake.kernels.step import share, step, write_masks
from briskrl.envs.snake.layout import Layout, rules_of

FEATURES = {"features": 11, "flood": 14, "extended": 24}


class SnakeVecEnv(NativeVecEnv):
    """N games of Snake, stepped by one compiled call.

    Args:
        num_envs: N.
        config: All settings at once; without it, the keywords of SnakeConfig, in which case
            `grid_dtype` is float32 unless given.
        autoreset_mode: What happens to ended games.
        copy: Whether `reset` and `step` return copies; else buffers that the next call overwrites.
        object_final_obs: Give infos["final_obs"] as the object array of Gymnasium's own classes.
        threads: Threads for batches of about a thousand games and more.
        render_mode: "ansi", "rgb_array" or None.
        render_index: Render this game alone.
        cell_px: Side of a cell in rgb_array frames.
        settings: Fields of SnakeConfig.

    Raises:
        ConfigError: The settings cannot be played.
    """

    _step = staticmethod(step)
    _share = staticmethod(share)
    _state_name = "snake"
    metadata: dict[str, Any] = {  # noqa: RUF012
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 12,
    }

    def __init__(
        self,
        num_envs: int = 1,
        *,
        config: SnakeConfig | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        copy: bool = True,
        object_final_obs: bool = False,
        threads: int = 1,
        render_mode: str | None = None,
        render_index: int | None = None,
        cell_px: int = 16,
        **settings: Any,
    ) -> None:
        self.config = checked(config, settings)
        super().__init__(
            num_envs,
            spec_of(self.config),
            autoreset_mode=autoreset_mode,
            copy=copy,
            object_final_obs=object_final_obs,
            threads=threads,
        )
        self.draw_as(render_mode)
        self.render_index = render_index
        self.cell_px = cell_px
        self._layout = Layout(self.config.height, self.config.width)
        row = self._layout.row_words
        # Rows behind the games are scratch space, one per chunk of games.
        self._words = np.zeros((num_envs + len(self._bounds)) * row, np.uint64)
        self._rules = rules_of(self.config, self._layout, num_envs * row)
        self._games = self._words[: num_envs * row].reshape(num_envs, row)
        self._ints = self._games.view(np.int32)
        self._shorts = self._games.view(np.int16)

    def _write_mask(self, out: Bools, *, final: bool) -> None:
        write_masks(self._rules, self._words, k.FINAL_OPEN if final else k.OPEN, out)

    @property
    def _random_states(self) -> NDArray[np.uint64]:
        return self._games[:, k.RNG]

    @property
    def _ended(self) -> NDArray[np.int16]:
        return self._shorts[:, k.ENDED]

    def _episode_infos(self, rows: NDArray[np.float64]) -> Mapping[str, Array]:
        infos = dict(super()._episode_infos(rows))
        infos["fill"] = rows[:, REC_EXTRA].astype(np.float32)
        if self.config.start == "cycle":
            infos["start_length"] = rows[:, REC_EXTRA + 1].astype(np.int32)
        return infos

    def peek(self) -> dict[str, Array]:
        """The games as plain numbers, (N,) each; cells are row * width + column, no food is -1."""
        shorts, ints, layout = self._shorts, self._ints, self._layout
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
        row, layout = self._shorts[env], self._layout
        places = (int(row[k.RING_HEAD]) - np.arange(self._ints[env, k.LENGTH])) & layout.ring_mask
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

        Follow it with `observe_into` to see the position.
        """
        body = np.asarray(cells, np.int64)
        layout, row, ints = self._layout, self._shorts[env], self._ints[env]
        row[layout.ring : layout.ring + len(body)] = layout.from_cell(body[::-1])
        row[k.RING_HEAD] = len(body) - 1
        row[k.FOOD] = -1 if food < 0 else layout.from_cell(np.array(food))
        row[k.HEADING] = heading
        row[k.START_LENGTH] = len(body) - score
        row[k.ENDED] = 0
        ints[k.LENGTH], ints[k.SCORE] = len(body), score
        ints[k.STEPS], ints[k.HUNGER] = steps, hunger
        self._started = True
        self._run(self._actions, self._own, Phase.LOOK.value)

    def _frame(self, env: int) -> str | NDArray[np.uint8]:
        config, row = self.config, self._shorts[env]
        food = -1 if row[k.FOOD] < 0 else int(self._layout.to_cell(row[k.FOOD]))
        body = self.body(env)
        if self.render_mode == "rgb_array":
            return render.rgb(body, food, (config.height, config.width), self.cell_px)
        counts = (int(self._ints[env, at]) for at in (k.SCORE, k.STEPS, k.HUNGER))
        return render.ansi(body, food, (config.height, config.width), *counts)


class SnakeEnv(NativeEnv):
    """One game of Snake as a plain Gymnasium environment; everything it returns is a copy.

    Takes the keywords of SnakeVecEnv that make sense for a single game.
    """

    metadata: dict[str, Any] = SnakeVecEnv.metadata

    def __init__(
        self, *, render_mode: str | None = None, cell_px: int = 16, **settings: Any
    ) -> None:
        games = SnakeVecEnv(
            1,
            autoreset_mode=AutoresetMode.DISABLED,
            render_mode=render_mode,
            cell_px=cell_px,
            **settings,
        )
        super().__init__(games)


def checked(config: SnakeConfig | None, settings: Mapping[str, Any]) -> SnakeConfig:
    """The settings as one config that can be played."""
    if config is None:
        config = SnakeConfig(**{"grid_dtype": "float32", **settings})
        dtype = np.dtype(config.grid_dtype).name
        config = replace(config, grid_dtype=cast(Any, dtype))
    elif settings:
        config = replace(config, **settings)
    try:
        config = msgspec.convert(asdict(config), SnakeConfig)
    except msgspec.ValidationError as error:
        raise ConfigError(f"Snake cannot be played with these settings: {error}.") from error
    wrong = config.check()
    if wrong:
        raise ConfigError(" ".join(wrong))
    if 0 < config.hunger < config.cells:
        warnings.warn(
            f"hunger_limit {config.hunger} is below the {config.cells} cells of the board: play "
            "that follows a cycle cannot fill it.",
            stacklevel=3,
        )
    return config


def spec_of(config: SnakeConfig) -> EnvSpec:
    """What one game of these settings looks like from outside."""
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
    # Each food comes within the hunger limit of the one before, and a board has so many at most.
    limits = [config.hunger * (config.cells - 3), config.max_steps]
    return EnvSpec(
        obs=ArraySpec.of(shape, dtype, 0.0, high),
        action=DiscreteSpec(3 if config.actions == "relative" else 4),
        max_steps=min((limit for limit in limits if limit > 0), default=None),
        has_mask=config.masks,
        exact_state=True,
    )


def build(num_envs: int, config: SnakeConfig, *, threads: int, hold_ended: bool) -> SnakeVecEnv:
    """The factory of the registry."""
    mode = AutoresetMode.DISABLED if hold_ended else AutoresetMode.SAME_STEP
    return SnakeVecEnv(num_envs, config=config, threads=threads, autoreset_mode=mode)
