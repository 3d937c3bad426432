"""Ordered visit for many grids at once (OrderedVisitVecEnv) and for one, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from briskrl.core.spec import EnvSpec
from briskrl.core.types import Ints
from briskrl.envs.native import NativeEnv, NativeVecEnv
from briskrl.envs.native_batch import BatchMemory
from briskrl.envs.ordered_visit import render
from briskrl.envs.ordered_visit.config import OrderedVisitConfig
from briskrl.envs.ordered_visit.kernels import step as k
from briskrl.envs.ordered_visit.layout import hidden_order, memory_of, spec_of
from briskrl.envs.ordered_visit.state_check import check_grids
from briskrl.orders.workflow import Workflow


class OrderedVisitVecEnv(NativeVecEnv):
    """N grids with regions in their corners, of which a hidden order of visits is rewarded.

    Observation: position; offset and visit of every region; walls within two cells; float32.

    Action: move north (0), east (1), south (2) or west (3); walls stop a move.

    Reward: -0.01 per step, and k for the k-th region visited if it is the next one of the hidden
    order, the first of those not visited yet.

    Termination: all regions are visited. Truncation: `max_steps` steps.

    Args: see NativeVecEnv and OrderedVisitConfig.
    """

    config_class = OrderedVisitConfig
    config: OrderedVisitConfig
    kernels = k.KERNELS
    state_name = "ordered-visit"
    default_cell_px = 12
    metadata: dict[str, Any] = {  # noqa: RUF012
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 12,
    }

    def _prepare(self) -> EnvSpec:
        return spec_of(self.config)

    def _lay_out(self, chunks: int) -> BatchMemory:
        return memory_of(self.config, self.num_envs, chunks)

    def _check_rows(self, rows: NDArray[np.uint64]) -> None:
        check_grids(rows, self.config)

    @property
    def hidden_order(self) -> Workflow:
        """The rewarded order of the regions."""
        return hidden_order(self.config)

    @property
    def incidents(self) -> NDArray[np.uint8]:
        """What the last step did to the regions, (N, 8); a view that every step updates.

        A column is 1 if its region is not visited yet. The last one is, as int8, the region that
        the step entered for the first time, or -1.
        """
        first = int(self._params[k.R_INCIDENTS])
        words = self._state[first : first + self.num_envs]
        return words.view(np.uint8).reshape(self.num_envs, 8)

    def moves_towards(self, regions: Ints) -> Ints:
        """The first moves (N,) of shortest ways to these regions (N,) through no other region."""
        moves = np.zeros(self.num_envs, np.int64)
        scratch = int(self._params[k.R_SCRATCH])
        k.moves_towards(self._params, self._state, regions, scratch, moves)
        return moves

    def grid(self, env: int) -> render.Grid:
        """What is drawn of one env."""
        return render.read_grid(self._rows[env], self.config)

    def _frame(self, env: int) -> str | NDArray[np.uint8]:
        if self.render_mode == "rgb_array":
            return render.rgb(self.grid(env), self.cell_px)
        return render.ansi(self.grid(env))


class OrderedVisitEnv(NativeEnv):
    """One grid; see OrderedVisitVecEnv."""

    vec_env_class = OrderedVisitVecEnv
    metadata: dict[str, Any] = OrderedVisitVecEnv.metadata


build = OrderedVisitVecEnv.build
