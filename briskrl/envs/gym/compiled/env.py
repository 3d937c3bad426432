"""N environments of Gymnasium stepped by compiled code, as the sync backend would step them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from briskrl.core.errors import BriskError, EnvStepError
from briskrl.core.spec import DiscreteSpec, EnvSpec
from briskrl.core.types import Array, Bools, StepBuffers
from briskrl.envs.gym import snapshot
from briskrl.envs.gym.compiled.kernels import step as k
from briskrl.envs.gym.compiled.registry import StandIn
from briskrl.envs.gym.env_factory import EnvRecipe, GymEnv
from briskrl.envs.gym.env_group import SEEDS
from briskrl.envs.gym.env_state import Record
from briskrl.envs.gym.episode_records import pack, unpack
from briskrl.envs.native import NativeVecEnv, Phase
from briskrl.envs.seeding import Seeds

WORD = 2**64


class GymCompiledEnv(NativeVecEnv):
    """N environments of one recipe in compiled code, equal to those of GymSyncEnv to the bit.

    Each has NumPy's generator of its own, seeded as Gymnasium seeds it. A saved state is the text
    that the other backends write, so that any of them can go on from it.

    Args:
        recipe: How one of them would be made.
        num_envs: N.
        spec: What `recipe.spec()` gave.
        stand_in: Its compiled version; `proof.offer` tells whether it is equal.
        threads: Threads for batches of about a thousand and more.
        autoreset_mode: What happens to ended episodes.
    """

    def __init__(
        self,
        recipe: EnvRecipe,
        num_envs: int,
        spec: EnvSpec,
        stand_in: StandIn,
        *,
        threads: int = 1,
        autoreset_mode: AutoresetMode = AutoresetMode.SAME_STEP,
    ) -> None:
        self._recipe = recipe
        self._stand_in = stand_in
        self._step, self._share = stand_in.step, stand_in.share
        self._real = recipe.make()
        """One of Gymnasium's own, in whose terms states are saved."""
        self._real.reset(seed=0)
        self._canvas: GymEnv | None = None
        self.metadata = dict(self._real.metadata)
        super().__init__(num_envs, spec, threads=threads, autoreset_mode=autoreset_mode)
        # A copy: a batch of a space draws from its random numbers, which are saved.
        self.single_observation_space = copy.deepcopy(self._real.observation_space)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.notes: list[str] = []
        """Sentences about how the environments are run, to be shown once."""
        assert isinstance(spec.action, DiscreteSpec)
        row = k.STATE + stand_in.num_state
        self._rules = np.array(
            [recipe.max_steps or 0, spec.action.n, num_envs * row, *stand_in.settings(self._real)],
            np.int64,
        )
        # The word behind all rows tells of a wrong action.
        self._words = np.zeros(num_envs * row + 1, np.uint64)
        self._wrong = self._words[-1:]
        self._games = self._words[:-1].reshape(num_envs, row)
        self._states = self._games.view(np.float64)[:, k.STATE :]
        self._seeds = [0] * num_envs

    @property
    def _random_states(self) -> NDArray[np.uint64]:
        """The first of four words each; `_seed` sets them all."""
        return self._games[:, k.STATE_HIGH]

    @property
    def _ended(self) -> NDArray[np.int16]:
        return self._games.view(np.int16)[:, k.ENDED]

    @property
    def states(self) -> NDArray[np.float64]:
        """The numbers of all envs, (N, S); writing to them puts the envs elsewhere."""
        return self._states

    def step_into(self, actions: Array, out: StepBuffers) -> None:
        """Advance every env by one transition, writing all of `out`.

        Raises:
            EnvStepError: An action is none of the environment's; others have been stepped.
        """
        super().step_into(actions, out)
        if self._wrong[0]:
            index = int(self._wrong[0]) - 1
            self._wrong[0] = 0
            raise EnvStepError(
                f"Environment {index} (gym:{self._recipe.id}) was given the action "
                f"{actions[index]}, which is not in {self._real.action_space}.",
                index,
            )

    def get_state(self) -> Mapping[str, Array]:
        """The state of every environment, and what it shows, as the sync backend tells it."""
        self._run(self._actions, self._own, Phase.LOOK.value)
        records = [self._record(env).as_text() for env in range(self.num_envs)]
        return {"envs": pack(records), "obs": self._own.obs.copy()}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Continue from what get_state gave, here or in another backend.

        Environments whose state could not be saved there begin new episodes.

        Raises:
            BriskError: It is the state of an environment unlike those made here.
        """
        records = [Record.of_text(text) for text in unpack(state["envs"])]
        if len(records) != self.num_envs:
            raise ValueError(f"The state is of {len(records)} envs, not of {self.num_envs}.")
        reader = self._recipe.make()
        try:
            for env, record in enumerate(records):
                reader.reset(seed=0)
                self._take(env, record, reader)
        finally:
            reader.close()
        self._run(self._actions, self._own, Phase.RESET.value)
        self._started = True
        self._log.clear()

    def close_extras(self, **kwargs: Any) -> None:
        """Stop the threads, and close what was made of Gymnasium's own."""
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
        self._games[env, : k.COUNTERS] = _words_of(generator)
        self._seeded[env] = True

    def _frame(self, env: int) -> Any:
        if self._canvas is None:
            self._canvas = self._recipe.make(self.render_mode)
            self._canvas.reset(seed=0)
        self._stand_in.write(self._canvas, self._states[env])
        return self._canvas.render()

    def _record(self, env: int) -> Record:
        """What the sync backend would save of one environment."""
        row = self._games[env]
        self._stand_in.write(self._real, self._states[env])
        self._real.np_random.bit_generator.state = _generator_of(row[: k.COUNTERS].tolist())
        self._real._np_random_seed = self._seeds[env]
        return Record(
            env=snapshot.take(self._real),
            seed=self._seeds[env],
            steps=int(row.view(np.int32)[k.STEPS]),
            returns=float(row.view(np.float64)[k.RETURN]),
            held=False,
        )

    def _take(self, env: int, record: Record, reader: GymEnv) -> None:
        """Continue env from a record, with an instance of Gymnasium's that may be changed."""
        if record.env is None:
            self._seed_one(env, snapshot.next_seed(record.seed, SEEDS))
            self._ended[env] = 1
            return
        snapshot.restore(reader, record.env)
        row = self._games[env]
        row[: k.COUNTERS] = _words_of(reader.np_random)
        self._states[env] = self._stand_in.read(reader)
        row.view(np.int32)[k.STEPS] = record.steps
        row.view(np.int16)[k.ENDED] = 0
        row.view(np.float64)[k.RETURN] = record.returns
        self._seeds[env], self._seeded[env] = record.seed, True
        # Restoring takes over all attributes, the physics among them, which are fixed here.
        if self._record(env) != record:
            raise BriskError(
                f"The saved state of environment {env} is not that of a gym:{self._recipe.id} as "
                "it is made here; another version of Gymnasium may have saved it. To go on from it "
                'as it is, set backend = "sync" in the run\'s config.toml.'
            )


def _words_of(generator: np.random.Generator) -> list[int]:
    """The state of a PCG64 as the kernels keep it."""
    held = generator.bit_generator.state["state"]
    return [*divmod(held["state"], WORD), *divmod(held["inc"], WORD)]


def _generator_of(words: list[int]) -> dict[str, Any]:
    """The state that NumPy's PCG64 takes."""
    high, low, inc_high, inc_low = words
    held = {"state": high * WORD + low, "inc": inc_high * WORD + inc_low}
    return {"bit_generator": "PCG64", "state": held, "has_uint32": 0, "uinteger": 0}
