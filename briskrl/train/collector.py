"""Collecting experience: act, step, store, with buffers allocated once."""

from __future__ import annotations

from briskrl.algos.base import Algorithm
from briskrl.core.clock import Clock
from briskrl.core.phase import Phase, PhaseTimer
from briskrl.core.types import Decision, EpisodeStats, State, StepBuffers
from briskrl.envs.base import VecEnv
from briskrl.memory.base import Memory


class Collector:
    """Steps all environments once per call and writes every transition into the memory."""

    def __init__(
        self, env: VecEnv, algo: Algorithm, memory: Memory, timer: PhaseTimer, clock: Clock
    ) -> None:
        self._env = env
        self._algo = algo
        self._memory = memory
        self._timer = timer
        self._clock = clock
        # Two sets of buffers take turns: what was acted on stays readable while the env writes.
        self._now = StepBuffers.allocate(env.env_spec, env.num_envs)
        self._next = StepBuffers.allocate(env.env_spec, env.num_envs)
        self._decision = Decision.allocate(env.env_spec, env.num_envs)

    def start(self, seed: int) -> None:
        """Begin the first episodes."""
        self._env.start(seed, self._now)

    def collect(self) -> EpisodeStats:
        """Advance every environment by one transition; returns the episodes that ended."""
        timer, now = self._timer, self._now
        with timer[Phase.ACT]:
            self._algo.act(now.obs, now.mask, self._clock, self._decision)
        with timer[Phase.ENV]:
            self._env.step_into(self._decision.action, self._next)
        with timer[Phase.STORE]:
            self._memory.write(now, self._decision, self._next)
        self._now, self._next = self._next, now
        with timer[Phase.LOG]:
            ended = self._env.drain_stats()
        self._clock.env_steps += self._env.num_envs
        self._clock.episodes += ended.count
        return ended

    def state(self) -> State:
        """The observations to act on next, and the environments."""
        arrays = {"obs": self._now.obs.copy()}
        if self._now.mask is not None:
            arrays["mask"] = self._now.mask.copy()
        arrays |= {f"env.{name}": array for name, array in self._env.get_state().items()}
        return State(arrays)

    def load_state(self, state: State) -> None:
        """Continue with the saved observations and environments."""
        self._now.obs[...] = state.arrays["obs"]
        if self._now.mask is not None:
            self._now.mask[...] = state.arrays["mask"]
        self._env.set_state(
            {
                name.removeprefix("env."): array
                for name, array in state.arrays.items()
                if name.startswith("env.")
            }
        )
