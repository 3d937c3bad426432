"""The compiled backend: Gymnasium environments stepped by a kernel, equal to the sync backend."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Space
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from briskrl.core.errors import BriskError, EnvStepError
from briskrl.core.spec import DiscreteSpec, EnvSpec
from briskrl.core.state_checks import check_finite, invalid_state
from briskrl.core.types import Array, Bools, StepBuffers
from briskrl.envs.gym import snapshot
from briskrl.envs.gym.compiled.kernels import step as k
from briskrl.envs.gym.compiled.registry import CompiledVersion
from briskrl.envs.gym.env_factory import EnvFactory, GymEnv
from briskrl.envs.gym.env_group import SEEDS
from briskrl.envs.gym.snapshot import EnvState, pack_states, unpack_states
from briskrl.envs.native import NativeVecEnv
from briskrl.envs.native_batch import BatchMemory
from briskrl.envs.seeding import Seeds

WORD = 2**64


class GymCompiledEnv(NativeVecEnv):
    """N Gymnasium environments in compiled code, bit-identical to `GymSyncEnv`.

    Each has its own NumPy generator, seeded as Gymnasium seeds it. Saved states have the same
    format in all backends, so that any backend can continue from them.

    Args:
        factory: Makes the original environment.
        num_envs: N.
        spec: The result of `factory.spec()`.
        version: The compiled version; `registry.find_compiled` checks that it is identical.
        threads: Threads for batches of about a thousand envs and more.
        autoreset_mode: What happens to ended episodes.
    """

    def __init__(
        self,
        factory: EnvFactory,
        num_envs: int,
        spec: EnvSpec,
        version: CompiledVersion,
        *,
        threads: int = 1,
        autoreset_mode: AutoresetMode = AutoresetMode.SAME_STEP,
    ) -> None:
        self._factory = factory
        self._spec = spec
        self._version = version
        self.kernels = version.kernels
        self._real = factory.make()
        """An original environment, used to save states in its format."""
        self._real.reset(seed=0)
        self._canvas: GymEnv | None = None
        self.metadata = dict(self._real.metadata)
        super().__init__(num_envs, config=factory, threads=threads, autoreset_mode=autoreset_mode)
        self._invalid = self._state[-1:]
        """The word after all rows, which reports an invalid action."""
        self._states = self._f64[:, k.STATE :]
        self._seeds = [0] * num_envs

    def _resolve_config(self, config: EnvFactory, settings: Mapping[str, Any]) -> EnvFactory:
        return config

    def _prepare(self) -> EnvSpec:
        return self._spec

    def _lay_out(self, chunks: int) -> BatchMemory:
        assert isinstance(self._spec.action, DiscreteSpec)
        row, limit = k.STATE + self._version.num_state, self._factory.max_steps or 0
        settings = self._version.settings(self._real)
        params = [limit, self._spec.action.n, self.num_envs * row, *settings]
        return BatchMemory(row, scratch_words=1, params=np.array(params, np.int64))

    def _check_rows(self, rows: NDArray[np.uint64]) -> None:
        check_finite(f"{self._factory.name}: state", rows.view(np.float64)[:, k.STATE :])

    def _observation_space(self, env_spec: EnvSpec) -> Space[Any]:
        # A copy, because batching a space uses its random numbers, which are part of the state.
        return copy.deepcopy(self._real.observation_space)

    @property
    def states(self) -> NDArray[np.float64]:
        """The state variables of all envs, (N, S); a writable view."""
        return self._states

    def step_into(self, actions: Array, out: StepBuffers) -> None:
        """Step every env, writing all of `out`.

        Raises:
            EnvStepError: An action is not in the action space; the other envs have been stepped.
        """
        super().step_into(actions, out)
        if self._invalid[0]:
            index = int(self._invalid[0]) - 1
            self._invalid[0] = 0
            raise EnvStepError(
                f"Environment {index} ({self._factory.name}) got the action "
                f"{actions[index]}, which is not in {self._real.action_space}.",
                index,
            )

    def get_state(self) -> Mapping[str, Array]:
        """A copy of the state and observation of every env, in the format of the sync backend."""
        self._rebuild()
        states = [self._env_state(env).to_text() for env in range(self.num_envs)]
        return {"envs": pack_states(states), "obs": self._own.obs.copy()}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Restore a state that `get_state` returned, of any backend.

        Environments whose state could not be saved begin new episodes.

        Raises:
            BriskError: The state is of an environment with other constants.
            InvalidStateError: It is not a state of these environments.
        """
        states = [EnvState.from_text(text) for text in unpack_states(state, self.num_envs)]
        reader = self._factory.make()
        try:
            for env, env_state in enumerate(states):
                reader.reset(seed=0)
                self._restore(env, env_state, reader)
        finally:
            reader.close()
        self._begin(self._own)
        self._log.clear()

    def close_extras(self, **kwargs: Any) -> None:
        """Stop the threads and close the original environments."""
        super().close_extras(**kwargs)
        self._real.close()
        if self._canvas is not None:
            self._canvas.close()

    def _seed(self, seed: Seeds, which: Bools) -> None:
        for env in np.flatnonzero(which).tolist():
            if isinstance(seed, int | np.integer):
                own: int | None = int(seed + env) % SEEDS
            else:
                own = None if seed is None else seed[env]
            if own is not None or not self._seeded[env]:
                self._seed_one(env, own)

    def _seed_one(self, env: int, seed: int | None) -> None:
        generator, self._seeds[env] = np_random(seed)
        self._rows[env, : k.COUNTERS] = _generator_words(generator)
        self._seeded[env] = True

    def _frame(self, env: int) -> Any:
        if self._canvas is None:
            self._canvas = self._factory.make(self.render_mode)
            self._canvas.reset(seed=0)
        self._version.write(self._canvas, self._states[env])
        return self._canvas.render()

    def _env_state(self, env: int) -> EnvState:
        """The state of one env, as the sync backend would save it."""
        row = self._rows[env]
        self._version.write(self._real, self._states[env])
        self._real.np_random.bit_generator.state = _generator_state(row[: k.COUNTERS].tolist())
        self._real._np_random_seed = self._seeds[env]
        return EnvState(
            env=snapshot.take(self._real),
            seed=self._seeds[env],
            steps=int(row.view(np.int32)[k.STEPS]),
            returns=float(row.view(np.float64)[k.RETURN]),
            held=False,
        )

    def _restore(self, env: int, state: EnvState, reader: GymEnv) -> None:
        """Restore one env; `reader` is an original environment that may be changed."""
        if state.env is None:
            self._seed_one(env, snapshot.next_seed(state.seed, SEEDS))
            self._ended[env] = 1
            return
        row = self._rows[env]
        with invalid_state(f"the state of environment {env}"):
            snapshot.restore(reader, state.env)
            row[: k.COUNTERS] = _generator_words(reader.np_random)
            self._states[env] = self._version.read(reader)
        self._check_rows(self._rows[env : env + 1])
        row.view(np.int32)[k.STEPS] = state.steps
        row.view(np.int16)[k.ENDED] = 0
        row.view(np.float64)[k.RETURN] = state.returns
        self._seeds[env], self._seeded[env] = state.seed, True
        # The saved attributes include the physics constants, which the kernel cannot change.
        if self._env_state(env) != state:
            raise BriskError(
                f"The saved state of environment {env} has other constants than "
                f"{self._factory.name} has here; another version of Gymnasium may have saved it. "
                'To continue from it, set backend = "sync" in the run\'s config.toml.'
            )


def _generator_words(generator: np.random.Generator) -> list[int]:
    """The state of a PCG64 generator as the four words that kernels use."""
    held = generator.bit_generator.state["state"]
    return [*divmod(held["state"], WORD), *divmod(held["inc"], WORD)]


def _generator_state(words: list[int]) -> dict[str, Any]:
    """The four words as the state of NumPy's PCG64."""
    high, low, inc_high, inc_low = words
    held = {"state": high * WORD + low, "inc": inc_high * WORD + inc_low}
    return {"bit_generator": "PCG64", "state": held, "has_uint32": 0, "uinteger": 0}
