"""What every compiled environment family shares: buffers, Gymnasium's reset and step, lanes, infos.

A family subclasses NativeVecEnv and says how rows of games are advanced; everything about seeding,
automatic resets, episode records and threads is here. Whoever trains calls `start` and `step_into`
with buffers of its own; `reset` and `step` are shells over the same calls.
"""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import partial
from itertools import pairwise
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from briskrl.core.spec import DiscreteSpec, EnvSpec, SubsetSpec
from briskrl.core.types import (
    Array,
    Bools,
    EpisodeStats,
    Ints,
    ObsCodec,
    StepBuffers,
    action_layout,
)
from briskrl.envs.crew import CAN_SHARE, Crew, new_board
from briskrl.envs.episode_log import Aggregates, EpisodeLog
from briskrl.envs.kernels import episode_log as episode_log_kernels
from briskrl.envs.seeding import Seeds, seed_rows
from briskrl.envs.validation import check_buffers, checked_actions, reset_mask

Infos = dict[str, Any]

SMALLEST_SHARED_BATCH = 1000
"""Below this many envs, waking threads costs more than they save."""
CHUNKS_PER_LANE = 16
"""Threads take chunks of envs as they come to them, so that a disturbed core does fewer."""


class Phase(IntEnum):
    """What one compiled pass over the rows does."""

    SAME_STEP = 0
    """Step; ended games begin again at once."""
    NEXT_STEP = 1
    """Step, or begin again where a game ended before."""
    DISABLED = 2
    """Step; ended games stay as they are."""
    RESET = 3
    """Begin again where a game is marked as ended; leave the others alone."""
    LOOK = 4
    """Derive everything from the state anew and write observations."""


class NativeVecEnv(VectorEnv[Array, Array, Array]):
    """N compiled environments in one state array, for trainers and for Gymnasium.

    `metadata["autoreset_mode"]` says what happens to ended games; `step_into` and `step` both
    follow it. Trainers use SAME_STEP, the default, which wastes no step.

    A family gives its compiled `_step` and `_share` (see `step_loop.share_of`), and in its own
    `__init__` the arrays that they work on: `_rules` and `_words`, whose first N rows are `_games`.
    """

    _step: Callable[..., None]
    _share: Callable[..., None]
    _state_name: str
    """What `get_state` calls the games."""
    _smallest_shared_batch = SMALLEST_SHARED_BATCH
    """From how many envs on threads are used; fewer pay off where a step is much work."""
    _rules: Array
    """Settings, as the kernels read them."""
    _words: NDArray[np.uint64]
    """Memory of all games and of scratch space, flat."""
    _games: NDArray[np.uint64]
    """(N, words): memory of each game, random state included; a view of `_words`."""

    def __init__(
        self,
        num_envs: int,
        env_spec: EnvSpec,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        copy: bool = True,
        object_final_obs: bool = False,
        threads: int = 1,
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs must be 1 or more, not {num_envs}.")
        action = env_spec.action
        assert isinstance(action, DiscreteSpec | SubsetSpec)
        self.num_envs = num_envs
        mode = AutoresetMode(autoreset_mode)
        self.metadata = {**self.metadata, "autoreset_mode": mode}
        self._env_spec = env_spec
        # A plain number: Numba would compile once more for a member of an enum.
        self._phase = Phase[mode.name].value
        self._copy = copy
        self._object_final_obs = object_final_obs
        box = env_spec.obs
        self.single_observation_space = gymnasium.spaces.Box(
            box.low, box.high, box.shape, box.dtype.type
        )
        self._num_actions = action.n
        self.single_action_space: gymnasium.spaces.Space[Any] = (
            gymnasium.spaces.Discrete(action.n)
            if isinstance(action, DiscreteSpec)
            else gymnasium.spaces.MultiDiscrete([action.n] * action.k)
        )
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        shared = num_envs >= self._smallest_shared_batch and CAN_SHARE
        self._lanes = threads if shared else 1
        chunks = self._lanes * CHUNKS_PER_LANE if self._lanes > 1 else 1
        cuts = [num_envs * chunk // chunks for chunk in range(chunks + 1)]
        self._bounds = list(pairwise(cuts))
        self._log = EpisodeLog(self._bounds)
        self._crew: Crew | None = None
        self._own = StepBuffers.allocate(env_spec, num_envs)
        self._actions = np.zeros((num_envs, *action_layout(env_spec)[0]), np.int64)
        self._checked: StepBuffers | None = None
        self._seeded = np.zeros(num_envs, np.bool_)
        self._started = False
        self.notes: list[str] = []
        """Sentences about how the environments are run, to be shown once."""
        self.render_mode: str | None = None
        self.render_index: int | None = None
        self.cell_px = 16

    @property
    def codec(self) -> ObsCodec | None:
        """See VecEnv.codec."""
        return None

    @property
    def async_env(self) -> None:
        """All envs step together."""
        return None

    def _pass(
        self, actions: Ints, out: StepBuffers, low: int, high: int, lane: int, phase: int
    ) -> None:
        """Run one compiled pass over the envs low..high-1, with the log and scratch of a lane."""
        self._step(
            self._rules,
            self._words,
            self._log.rows,
            actions,
            out.obs,
            out.reward,
            out.terminated,
            out.truncated,
            out.final_obs,
            low,
            high,
            lane,
            phase,
        )

    def _sharer(self, board: Ints, bounds: Ints) -> Callable[..., None]:
        """The family's compiled `share`, to be called as `Share` says.

        It is bound to arrays and not to this object, which threads must not keep alive. Chunk c of
        a pass is the envs bounds[c]..bounds[c+1]-1; it has the log and the scratch of lane c.
        """
        return partial(self._share, self._rules, self._words, self._log.rows, board, bounds)

    def _seed(self, seed: Seeds, which: Bools) -> None:
        """Give the envs `which` (N,) new random states where there is a seed."""
        seed_rows(self._random_states, self._seeded, seed, which)

    def _write_mask(self, out: Bools, *, final: bool) -> None:
        """Write the legal actions (N, A) of the games as they stand, or as the ended ones ended."""
        out[...] = True

    def _write_code(self, out: Array) -> None:
        """Write the codes (N, W) of the games as they stand, if they have any."""

    def _write_extras(self, out: StepBuffers) -> None:
        if out.mask is not None:
            self._write_mask(out.mask, final=False)
        if out.code is not None:
            self._write_code(out.code)

    @property
    @abstractmethod
    def _random_states(self) -> NDArray[np.uint64]:
        """The random state of each env, (N,), writable."""

    @property
    @abstractmethod
    def _ended(self) -> NDArray[np.int16]:
        """Non-zero where a game has ended and not begun again, (N,), writable."""

    @abstractmethod
    def _frame(self, env: int) -> str | NDArray[np.uint8]:
        """One game as `render_mode` says, which is not None."""

    @property
    def env_spec(self) -> EnvSpec:
        """Shapes, dtypes and promises of one environment."""
        return self._env_spec

    def start(self, seed: int, out: StepBuffers) -> None:
        """Begin new episodes everywhere, env i with seed + i; writes obs and mask."""
        self._check(out)
        self._seed(seed, np.ones(self.num_envs, np.bool_))
        self._log.clear()
        self._begin(out)

    def step_into(self, actions: Array, out: StepBuffers) -> None:
        """Advance every env by one transition, writing all of `out`.

        Actions (N,) are not checked: those out of range have no defined effect.
        """
        if out is not self._checked:
            if not self._started:
                raise gymnasium.error.ResetNeeded("Call start or reset before the first step.")
            self._check(out)
        if actions.dtype != np.int64 or not actions.flags.carray:
            # Another dtype or a read-only array would make Numba compile the kernel once more.
            np.copyto(self._actions, actions, casting="unsafe")
            actions = self._actions
        self._run(actions, out, self._phase)
        self._write_extras(out)
        if out.final_mask is not None:
            self._write_mask(out.final_mask, final=True)

    def observe_into(self, out: StepBuffers) -> None:
        """Write obs, mask and code of the games as they stand, derived from the state alone."""
        self._check(out)
        self._run(self._actions, out, Phase.LOOK.value)
        self._write_extras(out)

    def action_masks(self) -> Bools:
        """Actions that do not end the game at once, (N, A)."""
        mask = np.empty((self.num_envs, self._num_actions), np.bool_)
        self._write_mask(mask, final=False)
        return mask

    def drain_stats(self) -> EpisodeStats:
        """Episodes finished since the last call, by step and then by env."""
        return self._log.drain()

    def drain_aggregates(self) -> Aggregates:
        """Count, sums, squares, maxima and causes of the episodes finished since the last call.

        The specification calls this `drain_stats`; that name gives single episodes here.
        """
        return self._log.drain_aggregates()

    def reset(self, *, seed: Seeds = None, options: Infos | None = None) -> tuple[Array, Infos]:
        """Begin new episodes, everywhere or where options["reset_mask"] (N,) says so.

        Args:
            seed: n seeds env i with n + i; a list gives one seed (or None) each; without a seed the
                random streams go on.
            options: May hold "reset_mask", a bool array with at least one True.
        """
        which = reset_mask(options, self.num_envs, started=self._started)
        self._seed(seed, which)
        self._ended[which] = 1
        self._begin(self._own, everywhere=bool(which.all()))
        return self._given(self._own.obs), {}

    def step(self, actions: ArrayLike) -> tuple[Array, Array, Array, Array, Infos]:
        """Advance every env by one step; infos hold records only when an episode ended."""
        if not self._started:
            raise gymnasium.error.ResetNeeded("Call reset before step.")
        chosen = checked_actions(actions, self._actions.shape, self._num_actions)
        waiting = self._waiting()
        own = self._own
        self.step_into(chosen, own)
        ended = own.terminated | own.truncated
        infos = self._infos(ended) if ended.any() else {}
        if waiting is not None:
            infos["reset_only"], infos["_reset_only"] = waiting, waiting.copy()
        return (
            self._given(own.obs),
            self._given(own.reward),
            self._given(own.terminated),
            self._given(own.truncated),
            infos,
        )

    def get_state(self) -> Mapping[str, Array]:
        """All games as one array (N, words), random states included; a copy."""
        return {self._state_name: self._games.copy()}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Continue from what get_state gave; records of other episodes are dropped."""
        games = state[self._state_name]
        if games.shape != self._games.shape or games.dtype != self._games.dtype:
            raise ValueError(
                f"The state of {self.num_envs} games of these settings is a uint64 array of shape "
                f"{self._games.shape}, not {games.dtype} {games.shape}."
            )
        self._games[:] = games
        self._seeded[:] = True
        self._started = True
        self._log.clear()
        # What is derived from the state may be there as other settings derived it.
        self._run(self._actions, self._own, Phase.LOOK.value)

    def render(self) -> tuple[Any, ...] | None:
        """One frame per game, or of `render_index` alone; None without a render_mode."""
        if self.render_mode is None:
            return None
        envs = range(self.num_envs) if self.render_index is None else (self.render_index,)
        return tuple(self._frame(env) for env in envs)

    def draw_as(self, render_mode: str | None) -> None:
        """Set how `render` draws.

        Raises:
            ValueError: These games cannot be drawn that way.
        """
        modes = self.metadata["render_modes"]
        if render_mode not in (None, *modes):
            known = ", ".join(modes)
            raise ValueError(f"render_mode must be {known} or None, not {render_mode!r}.")
        self.render_mode = render_mode

    def close_extras(self, **kwargs: Any) -> None:
        """Stop the threads."""
        if self._crew is not None:
            self._crew.stop()

    def _episode_infos(self, rows: NDArray[np.float64]) -> Mapping[str, Array]:
        """The records that infos show, by key, one per row of the log."""
        return {
            "score": rows[:, episode_log_kernels.REC_SCORE].astype(np.int32),
            "episode_steps": rows[:, episode_log_kernels.REC_STEPS].astype(np.int32),
            "return": rows[:, episode_log_kernels.REC_RETURN].astype(np.float32),
            "cause": rows[:, episode_log_kernels.REC_CAUSE].astype(np.uint8),
        }

    def _infos(self, ended: Bools) -> Infos:
        rows = self._log.latest()
        envs = rows[:, episode_log_kernels.REC_ENV].astype(np.int64)
        records: Infos = {}
        for key, values in self._episode_infos(rows).items():
            records[key] = np.zeros(self.num_envs, values.dtype)
            records[key][envs] = values
            records["_" + key] = ended.copy()
        if self._phase != Phase.SAME_STEP:
            return records
        nested = {key: array.copy() for key, array in records.items()}
        return {
            **records,
            "final_obs": self._final_obs(ended),
            "_final_obs": ended.copy(),
            "final_info": nested,
            "_final_info": ended.copy(),
        }

    def _final_obs(self, ended: Bools) -> Array:
        if not self._object_final_obs:
            return self._given(self._own.final_obs)
        rows = np.full(self.num_envs, None, dtype=object)
        for env in np.flatnonzero(ended):
            rows[env] = self._own.final_obs[env].copy()
        return rows

    def _given(self, array: Array) -> Array:
        return array.copy() if self._copy else array

    def _waiting(self) -> Bools | None:
        """Games that this step only resets; None if there are none."""
        if self._phase == Phase.SAME_STEP:
            return None
        waiting: Bools = self._ended != 0
        if not waiting.any():
            return None
        if self._phase == Phase.DISABLED:
            which = np.flatnonzero(waiting)
            raise gymnasium.error.ResetNeeded(
                f"{len(which)} games have ended (the first is {which[0]}); "
                'reset them with options={"reset_mask": mask} before the next step.'
            )
        return waiting

    def _begin(self, out: StepBuffers, *, everywhere: bool = True) -> None:
        if everywhere:
            self._ended[:] = 1
        self._run(self._actions, out, Phase.RESET.value)
        self._started = True
        self._write_extras(out)

    def _run(self, actions: Ints, out: StepBuffers, phase: int) -> None:
        if self._lanes == 1:
            self._pass(actions, out, 0, self.num_envs, 0, phase)
            return
        if self._crew is None:
            self._crew = self._hire()
        self._crew.run(actions, out, phase)

    def _hire(self) -> Crew:
        chunks = len(self._bounds)
        board = new_board(self._lanes, chunks)
        bounds = np.array([0, *(high for _, high in self._bounds)], np.int64)
        crew = Crew(self._lanes, self._sharer(board, bounds), self._actions, self._own)
        weakref.finalize(self, crew.stop)
        return crew

    def _check(self, out: StepBuffers) -> None:
        """Refuse buffers that kernels cannot write to."""
        check_buffers(out, self._own)
        self._checked = out
