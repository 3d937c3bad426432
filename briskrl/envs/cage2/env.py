"""CAGE-2 for many networks at once (Cage2VecEnv) and for one (Cage2Env), over the same kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import msgspec
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from briskrl.core.errors import ConfigError
from briskrl.core.spec import ArraySpec, DiscreteSpec, EnvSpec
from briskrl.core.types import Array, Bools
from briskrl.envs.cage2 import render, scenario
from briskrl.envs.cage2 import text_render as telling
from briskrl.envs.cage2.config import Cage2Config
from briskrl.envs.cage2.ground_truth import Truth, read_truth
from briskrl.envs.cage2.kernels import layout as k
from briskrl.envs.cage2.kernels.observation import write_masks
from briskrl.envs.cage2.kernels.step import share, step
from briskrl.envs.cage2.layout import Layout, rules_of
from briskrl.envs.kernels.episode_log import REC_EXTRA, REC_SCORE
from briskrl.envs.native import NativeVecEnv
from briskrl.envs.single_env import NativeEnv


class Cage2VecEnv(NativeVecEnv):
    """N networks with one attacker each, stepped by one compiled call.

    Args:
        num_envs: N.
        config: All settings at once; without it, the keywords of Cage2Config.
        autoreset_mode: What happens to ended episodes.
        copy: Whether `reset` and `step` return copies; else buffers that the next call overwrites.
        object_final_obs: Give infos["final_obs"] as the object array of Gymnasium's own classes.
        threads: Threads for batches of about a thousand networks and more.
        render_mode: "ansi", "rgb_array" or None.
        render_index: Render this network alone.
        cell_px: Size of rgb_array frames: they are 40 times as wide.
        settings: Fields of Cage2Config.

    Raises:
        ConfigError: The settings cannot be played.
    """

    _step = staticmethod(step)
    _share = staticmethod(share)
    _state_name = "cage2"
    metadata: dict[str, Any] = {  # noqa: RUF012
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 4,
    }

    def __init__(
        self,
        num_envs: int = 1,
        *,
        config: Cage2Config | None = None,
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
        self.layout = Layout(self.config)
        super().__init__(
            num_envs,
            spec_of(self.layout),
            autoreset_mode=autoreset_mode,
            copy=copy,
            object_final_obs=object_final_obs,
            threads=threads,
        )
        self.draw_as(render_mode)
        self.render_index = render_index
        self.cell_px = cell_px
        row = self.layout.row_words
        self._words = np.zeros(num_envs * row, np.uint64)
        self._rules = rules_of(self.layout)
        self._games = self._words.reshape(num_envs, row)
        self._shorts = self._games.view(np.int16)

    @property
    def action_names(self) -> tuple[str, ...]:
        """What the actions are called, by index."""
        reduced = self.config.actions == "reduced"
        return scenario.REDUCED_NAMES if reduced else scenario.ACTION_NAMES

    def truth(self) -> Truth:
        """The true state of all networks, which blue does not see; copies."""
        return read_truth(self._games)

    def _write_mask(self, out: Bools, *, final: bool) -> None:
        write_masks(self._rules, self._words, final, out)

    @property
    def _random_states(self) -> NDArray[np.uint64]:
        return self._games[:, k.RNG]

    @property
    def _ended(self) -> NDArray[np.int16]:
        return self._shorts[:, k.ENDED]

    def _episode_infos(self, rows: NDArray[np.float64]) -> Mapping[str, Array]:
        infos = dict(super()._episode_infos(rows))
        infos["score"] = rows[:, REC_SCORE].astype(np.float32)
        infos["red"] = rows[:, REC_EXTRA].astype(np.int32)
        return infos

    def _frame(self, env: int) -> str | NDArray[np.uint8]:
        truth, shown = read_truth(self._games[env : env + 1]), int(self._games[env, k.SHOWN])
        if self.render_mode == "rgb_array":
            return render.rgb(truth, shown, self.config.length, self.cell_px)
        return telling.board(truth, shown, self.config.length)


class Cage2Env(NativeEnv):
    """One network as a plain Gymnasium environment; everything it returns is a copy.

    Takes the keywords of Cage2VecEnv that make sense for a single network.
    """

    metadata: dict[str, Any] = Cage2VecEnv.metadata

    def __init__(
        self, *, render_mode: str | None = None, cell_px: int = 16, **settings: Any
    ) -> None:
        games = Cage2VecEnv(
            1,
            autoreset_mode=AutoresetMode.DISABLED,
            render_mode=render_mode,
            cell_px=cell_px,
            **settings,
        )
        super().__init__(games)


def checked(config: Cage2Config | None, settings: Mapping[str, Any]) -> Cage2Config:
    """The settings as one config that can be played."""
    config = replace(config or Cage2Config(), **settings)
    try:
        config = msgspec.convert(asdict(config), Cage2Config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"CAGE-2 cannot be played with these settings: {error}.") from error
    wrong = config.check()
    if wrong:
        raise ConfigError(" ".join(wrong))
    return config


def spec_of(layout: Layout) -> EnvSpec:
    """What one network of these settings looks like from outside."""
    return EnvSpec(
        obs=ArraySpec.of((layout.obs_size,), "float32", -1.0, 1.0),
        action=DiscreteSpec(layout.num_actions),
        max_steps=layout.config.length,
        has_mask=layout.config.mask != "none",
        exact_state=True,
    )


def build(num_envs: int, config: Cage2Config, *, threads: int, hold_ended: bool) -> Cage2VecEnv:
    """The factory of the registry."""
    mode = AutoresetMode.DISABLED if hold_ended else AutoresetMode.SAME_STEP
    return Cage2VecEnv(num_envs, config=config, threads=threads, autoreset_mode=mode)
