"""Fuel-break placement for many landscapes at once (WildfireVecEnv) and for one (WildfireEnv)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from briskrl.core.spec import ArraySpec, DiscreteSpec, EnvSpec, SubsetSpec
from briskrl.core.types import Array, Bools, Floats, Ints, StepBuffers
from briskrl.envs.kernels.episode_log import REC_EXTRA, REC_SCORE
from briskrl.envs.native import Infos, NativeEnv, NativeVecEnv
from briskrl.envs.native_batch import BatchMemory
from briskrl.envs.seeding import Seeds
from briskrl.envs.wildfire import render
from briskrl.envs.wildfire.codec import PlaneCodec
from briskrl.envs.wildfire.config import WildfireConfig
from briskrl.envs.wildfire.kernels import layout as k
from briskrl.envs.wildfire.kernels.observation import write_codes, write_masks
from briskrl.envs.wildfire.kernels.step import KERNELS
from briskrl.envs.wildfire.landscape_pool import Pool, pool_of
from briskrl.envs.wildfire.layout import Layout, fire_words, lane_words, params_of
from briskrl.envs.wildfire.simulate import Fires
from briskrl.envs.wildfire.state_check import check_episodes


class WildfireVecEnv(NativeVecEnv):
    """N episodes of fuel-break placement, stepped by one compiled call.

    Observation: planes (C, H, W) of the landscape, the breaks and the budget; see `obs_channels`.

    Action: a cell to treat, row * W + column, or (N, k) of them if `cells_per_step` is k > 1; then
    duplicates and illegal cells are dropped, and -1 stands for no cell.

    Reward: by how much the treated cells reduce the mean burned value of the episode's fires; see
    the setting `reward`. An illegal cell costs `illegal_penalty`.

    Termination: the budget is spent, or no legal cell is left. Every step spends its part of the
    budget, whether its cells were legal or not, so that episodes have the same length.

    Args: see NativeVecEnv and WildfireConfig.
    """

    config_class = WildfireConfig
    config: WildfireConfig
    kernels = KERNELS
    state_name = "wildfire"
    # One step burns many fires: a few episodes are enough work for two threads.
    smallest_parallel_batch = 4
    metadata: dict[str, Any] = {  # noqa: RUF012
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 4,
    }
    action_mask: Bools
    """(N, H * W): cells that may be treated; `reset` and `step` refresh it in place."""

    def _prepare(self) -> EnvSpec:
        self.pool: Pool = pool_of(self.config)
        height, width = self.pool.shape
        self._layout = Layout(height * width, self.config.n_fires)
        return spec_of(self.config, self.pool)

    def _lay_out(self, chunks: int) -> BatchMemory:
        num_envs, layout = self.num_envs, self._layout
        self.action_mask = np.zeros((num_envs, layout.cells), np.bool_)
        per_env, _ = fire_words(self.config, self.pool)
        scratch = chunks * lane_words(self.pool) + num_envs * per_env
        params = params_of(self.config, self.pool, layout, num_envs, chunks)
        return BatchMemory(layout.row_words, scratch_words=scratch, params=params)

    def _check_rows(self, rows: NDArray[np.uint64]) -> None:
        check_episodes(rows, self._layout, self.pool)

    def _write_mask(self, out: Bools, *, final: bool) -> None:
        write_masks(self._params, self._state, k.R_ROW_FINAL if final else k.R_ROW_LEGAL, out)

    def _write_code(self, out: Array) -> None:
        write_codes(self._params, self._state, out)

    @property
    def codec(self) -> PlaneCodec:
        """Rebuilds planes and masks from codes; see VecEnv.codec."""
        return PlaneCodec(self._params, self.pool, self.env_spec)

    def start(self, seed: int, out: StepBuffers) -> None:
        """Begin new episodes everywhere, env i with seed + i; writes obs and mask."""
        self._i32[:, k.EPISODE] = 0
        super().start(seed, out)

    def step_into(self, actions: Array, out: StepBuffers) -> None:
        """Advance every episode by one step, writing all of `out`.

        Raises:
            ValueError: A cell is illegal, and `illegal` is "raise".
        """
        if self.config.illegal == "raise" and self.config.cells_per_step == 1 and self._started:
            self._check_legal(actions)
        super().step_into(actions, out)

    def reset(self, *, seed: Seeds = None, options: Infos | None = None) -> tuple[Array, Infos]:
        """Begin new episodes; see NativeVecEnv. infos["action_mask"] is (N, H * W)."""
        if seed is not None:
            self._i32[:, k.EPISODE] = 0
        obs, infos = super().reset(seed=seed, options=options)
        return obs, self._with_mask(infos)

    def step(self, actions: ArrayLike) -> tuple[Array, Array, Array, Array, Infos]:
        """Advance every episode by one step; infos["action_mask"] is (N, H * W)."""
        *rest, infos = super().step(actions)
        obs, reward, terminated, truncated = rest
        return obs, reward, terminated, truncated, self._with_mask(infos)

    def pin(self, landscapes: ArrayLike | None) -> None:
        """Let env i play landscapes[i] of the pool from its next episode on; None lifts this."""
        ids = np.full(self.num_envs, -1) if landscapes is None else np.asarray(landscapes)
        if ids.shape != (self.num_envs,) or ids.max() >= len(self.pool.members):
            raise ValueError(
                f"landscapes must be {self.num_envs} numbers below {len(self.pool.members)}."
            )
        self._i32[:, k.PINNED] = ids + 1

    def playing(self) -> Ints:
        """The landscape of the pool that each episode plays, (N,)."""
        return self._i32[:, k.LAND].astype(np.int64)

    def episode_keys(self) -> Ints:
        """A nonnegative random number of each episode, (N,)."""
        return (self._rows[:, k.KEY] >> np.uint64(32)).astype(np.int64)

    def peek(self) -> dict[str, Array]:
        """The episodes as plain numbers, (N,) each; treated is (N, H * W)."""
        f64, ints = self._f64, self._i32
        return {
            "landscape": self.playing(),
            "steps": ints[:, k.STEPS].astype(np.int64),
            "spent": ints[:, k.SPENT].astype(np.int64),
            "budget": ints[:, k.BUDGET].astype(np.int64),
            "dropped": ints[:, k.DROPPED].astype(np.int64),
            "burned_frac": f64[:, k.LOSS].copy(),
            "burned_frac_untreated": f64[:, k.LOSS_FIRST].copy(),
            "treated": self.treated(),
            "random_state": self._random_states.copy(),
        }

    def treated(self) -> Bools:
        """The treated cells, (N, H * W)."""
        closed = np.zeros((self.num_envs, self._layout.cells), np.bool_)
        write_masks(self._params, self._state, k.R_ROW_CLOSED, closed)
        for env, land in enumerate(self._i32[:, k.LAND]):
            closed[env] &= self.pool.members[land].scene.burnable
        return closed

    def fires(self, env: int) -> Fires:
        """The sample of fires that an episode is measured with."""
        first = self._layout.fires * 2
        pairs = self._i32[env, first : first + 2 * self.config.n_fires].reshape(-1, 2)
        return Fires(pairs[:, 0].astype(np.int64), pairs[:, 1].astype(np.int64))

    def _check_legal(self, actions: Array) -> None:
        self._write_mask(self.action_mask, final=False)
        legal = self.action_mask[np.arange(self.num_envs), actions]
        if not legal.all():
            env = int(np.flatnonzero(~legal)[0])
            row, col = divmod(int(actions[env]), self.pool.shape[1])
            raise ValueError(
                f"Env {env}: the cell at row {row}, column {col} cannot be treated: it is treated "
                "already, protected, or cannot burn. See the action mask."
            )

    def _with_mask(self, infos: Infos) -> Infos:
        self._write_mask(self.action_mask, final=False)
        infos["action_mask"] = self._copy_out(self.action_mask)
        infos["_action_mask"] = np.ones(self.num_envs, np.bool_)
        return infos

    def _episode_infos(self, rows: NDArray[np.float64]) -> dict[str, Array]:
        infos = super()._episode_infos(rows)
        extra = rows[:, REC_EXTRA:]
        infos["score"] = rows[:, REC_SCORE].astype(np.float32)
        infos["burned_frac"], infos["burned_frac_untreated"] = extra[:, 0], extra[:, 1]
        infos["n_treated"] = extra[:, 2].astype(np.int32)
        infos["landscape_id"] = extra[:, 3].astype(np.int32) + self._first_id
        infos["dropped"] = extra[:, 4].astype(np.int32)
        infos["seed"] = extra[:, 5].astype(np.int64)
        return infos

    @property
    def _first_id(self) -> int:
        return self.pool.members[0].number

    def _frame(self, env: int) -> str | NDArray[np.uint8]:
        land = int(self._i32[env, k.LAND])
        scene, treated = self.pool.members[land].scene, self.treated()[env]
        if self.render_mode == "rgb_array":
            return render.rgb(scene, treated, cell_px=self.cell_px)
        f64 = self._f64[env]
        left = int(self._i32[env, k.BUDGET] - self._i32[env, k.SPENT])
        return render.ansi(scene, treated, left, float(f64[k.LOSS]), float(f64[k.LOSS_FIRST]))


class WildfireEnv(NativeEnv):
    """One episode; see WildfireVecEnv. Infos always hold "action_mask" (H * W,)."""

    vec_env_class = WildfireVecEnv
    metadata: dict[str, Any] = WildfireVecEnv.metadata

    def reset(
        self, *, seed: int | None = None, options: Infos | None = None
    ) -> tuple[Array, Infos]:
        """Begin a new episode."""
        obs, infos = super().reset(seed=seed, options=options)
        return obs, {**infos, "action_mask": self.action_masks()}


build = WildfireVecEnv.build


def topk_masked(values: Floats, mask: Bools, count: int) -> Ints:
    """The `count` best legal cells of each row (N, A), best first; -1 where too few are legal."""
    held = np.where(mask, values, -np.inf)
    best = np.argsort(-held, axis=1, kind="stable")[:, :count]
    legal: Bools = np.take_along_axis(mask, best, axis=1)
    return np.where(legal, best, -1)


def spec_of(config: WildfireConfig, pool: Pool) -> EnvSpec:
    """The spec of one episode with these settings."""
    height, width = pool.shape
    return EnvSpec(
        obs=ArraySpec.of((len(config.channels), height, width), "float32", -1.0, 1.0),
        action=SubsetSpec(height * width, config.cells_per_step)
        if config.cells_per_step > 1
        else DiscreteSpec(height * width),
        max_steps=-(-pool.budget // config.cells_per_step),
        has_mask=True,
        exact_state=True,
        code_words=1 + -(-height * width // 64),
    )
