"""CAGE-2 for many networks at once (Cage2VecEnv) and for one (Cage2Env), over the same kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briskrl.core.spec import ArraySpec, DiscreteSpec, EnvSpec
from briskrl.core.types import Array, Bools
from briskrl.envs.cage2 import render, scenario
from briskrl.envs.cage2.config import Cage2Config
from briskrl.envs.cage2.ground_truth import Truth, read_truth
from briskrl.envs.cage2.kernels import layout as k
from briskrl.envs.cage2.kernels.observation import write_masks
from briskrl.envs.cage2.kernels.step import KERNELS
from briskrl.envs.cage2.layout import Layout, params_of, track_hosts
from briskrl.envs.cage2.state_check import check_networks
from briskrl.envs.kernels.episode_log import REC_EXTRA, REC_SCORE
from briskrl.envs.native import NativeEnv, NativeVecEnv
from briskrl.envs.native_batch import BatchMemory


class Cage2VecEnv(NativeVecEnv):
    """N networks with one attacker each, stepped by one compiled call.

    Observation: activity and compromise of every host as four flags, float32; `frames`, `clock` and
    the `*_memory` settings add more numbers.

    Action: one of 145 blue actions (sleep, monitor, analyse, remove, restore or set up a decoy, per
    host), or one of 37 if `actions` is "reduced".

    Reward: minus the cost of compromised hosts and of restores in this step, 0 at best.

    Truncation: `length` steps; a termination if `terminal` is set.

    Args: see NativeVecEnv and Cage2Config. `cell_px` scales rgb_array frames, which are 40 times as
    wide.
    """

    config_class = Cage2Config
    config: Cage2Config
    kernels = KERNELS
    state_name = "cage2"
    metadata: dict[str, Any] = {  # noqa: RUF012
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 4,
    }

    def _prepare(self) -> EnvSpec:
        self.layout = Layout(self.config)
        return spec_of(self.layout)

    def _lay_out(self, chunks: int) -> BatchMemory:
        # One word per network for `track_incidents`.
        return BatchMemory(self.layout.row_words, self.num_envs, params_of(self.layout))

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the actions, by index."""
        reduced = self.config.actions == "reduced"
        return scenario.REDUCED_NAMES if reduced else scenario.ACTION_NAMES

    def track_incidents(self, categories: Sequence[Sequence[str]]) -> NDArray[np.uint8]:
        """Let kernels note which categories of hosts are open and which one blue works on.

        Args:
            categories: Names of the hosts of each category; at most 7 categories.

        Returns:
            (N, 8), a view that every step updates: whether red holds a host of the category, and in
            the last column, as int8, the category of the host that the last action removed red from
            or restored, or -1.
        """
        used = self._rows.size
        track_hosts(self._params, categories, first_word=used)
        if self._started:
            self._rebuild()
        return self._state[used:].view(np.uint8).reshape(self.num_envs, 8)

    def truth(self) -> Truth:
        """The true state of all networks, which blue does not see; copies."""
        return read_truth(self._rows)

    def shown(self, env: int) -> int:
        """The 52 bits that blue sees of one network, as a number."""
        return int(self._rows[env, k.SHOWN])

    def _check_rows(self, rows: NDArray[np.uint64]) -> None:
        check_networks(rows, self.layout)

    def _write_mask(self, out: Bools, *, final: bool) -> None:
        write_masks(self._params, self._state, final, out)

    def _episode_infos(self, rows: NDArray[np.float64]) -> dict[str, Array]:
        infos = super()._episode_infos(rows)
        infos["score"] = rows[:, REC_SCORE].astype(np.float32)
        infos["red"] = rows[:, REC_EXTRA].astype(np.int32)
        return infos

    def _frame(self, env: int) -> str | NDArray[np.uint8]:
        truth, shown = read_truth(self._rows[env : env + 1]), self.shown(env)
        if self.render_mode == "rgb_array":
            return render.rgb(truth, shown, self.config.length, self.cell_px)
        return render.ansi(truth, shown, self.config.length)


class Cage2Env(NativeEnv):
    """One network; see Cage2VecEnv."""

    vec_env_class = Cage2VecEnv
    metadata: dict[str, Any] = Cage2VecEnv.metadata


build = Cage2VecEnv.build


def spec_of(layout: Layout) -> EnvSpec:
    """The spec of one network with these settings."""
    return EnvSpec(
        obs=ArraySpec.of((layout.obs_size,), "float32", -1.0, 1.0),
        action=DiscreteSpec(layout.num_actions),
        max_steps=layout.config.length,
        has_mask=layout.config.mask != "none",
        exact_state=True,
    )
