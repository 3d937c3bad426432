"""Collect transitions from environments that step together: act, step, store."""

from __future__ import annotations

from typing import Protocol

from briskrl.core.counters import Counters
from briskrl.core.phase import Phase, PhaseTimer
from briskrl.core.spec import EnvSpec
from briskrl.core.state_checks import loaded, loaded_finite
from briskrl.core.types import Array, Bools, Decision, EpisodeStats, State, StepBuffers, StepSlot
from briskrl.envs.base import VecEnv
from briskrl.memory.base import Memory


class Actor(Protocol):
    """Chooses the actions of the environments."""

    def act(self, obs: Array, mask: Bools | None, counters: Counters, out: Decision) -> None:
        """Write actions for N environments into `out`."""
        ...


class Collecting(Protocol):
    """Collects transitions into the memory."""

    @property
    def now(self) -> StepBuffers:
        """Row i: the observation and mask that env i acts on next."""
        ...

    def start(self, seed: int) -> None:
        """Begin new episodes everywhere."""
        ...

    def collect(self) -> tuple[int, EpisodeStats]:
        """Write some transitions; returns how many, and the episodes that ended."""
        ...

    def cancel_or_wait(self) -> None:
        """Wait for steps under way and discard their results."""
        ...

    @property
    def is_exact(self) -> bool:
        """Whether a saved state continues bit-identically; if not, new episodes must begin."""
        ...

    def state(self) -> State:
        """The observations to act on next, and the state of the environments."""
        ...

    def load_state(self, state: State) -> None:
        """Continue from what `state` returned."""
        ...


class Collector:
    """Steps all environments once per call, with buffers allocated once."""

    def __init__(
        self,
        env: VecEnv,
        actor: Actor,
        slots: StepSlots,
        timer: PhaseTimer,
        counters: Counters,
        *,
        replicas: int = 1,
    ) -> None:
        self._env = env
        self._slots = slots
        # Bound once, because the overhead of each step besides acting and stepping matters.
        self._calls = (slots.next_slot, actor.act, env.step_into, slots.advance, env.drain_stats)
        self._num_envs = env.num_envs
        # All replicas take their steps together.
        self._counted = env.num_envs * replicas
        self._timer = timer
        self._spans = [timer[phase] for phase in (Phase.ACT, Phase.ENV, Phase.STORE, Phase.LOG)]
        self._counters = counters

    @property
    def now(self) -> StepBuffers:
        """The observations and masks to act on next."""
        return self._slots.next_slot().before

    def start(self, seed: int) -> None:
        """Begin new episodes everywhere."""
        # The slot shares its rewards and flags with the step before, which must not change.
        first = StepBuffers.allocate(self._env.env_spec, self._env.num_envs)
        self._env.start(seed, first)
        self.now.obs[...] = first.obs
        if self.now.mask is not None:
            self.now.mask[...] = first.mask
        if self.now.code is not None:
            self.now.code[...] = first.code

    def collect(self) -> tuple[int, EpisodeStats]:
        """Advance every environment by one transition; returns N and the episodes that ended."""
        next_slot, act, step_into, advance, drain_stats = self._calls
        now, counters = self._timer.clock, self._counters
        slot = next_slot()
        before, decision = slot.before, slot.decision
        begin = now()
        act(before.obs, before.mask, counters, decision)
        acted = now()
        step_into(decision.action, slot.after)
        stepped = now()
        advance()
        stored = now()
        ended = drain_stats()
        logged = now()
        acting, stepping, storing, logging = self._spans
        acting.add(acted - begin)
        stepping.add(stepped - acted)
        storing.add(stored - stepped)
        logging.add(logged - stored)
        counters.env_steps += self._counted
        counters.episodes += ended.count
        return self._num_envs, ended

    def cancel_or_wait(self) -> None:
        """Do nothing: no step is under way between two calls."""

    @property
    def is_exact(self) -> bool:
        """Whether the state of the environments can be saved and restored exactly."""
        return self._env.env_spec.exact_state

    def state(self) -> State:
        """The observations to act on next, and the environments if they can be saved."""
        arrays = saved_view(self.now)
        if self.is_exact:
            arrays |= {f"env.{name}": array for name, array in self._env.get_state().items()}
        return State(arrays)

    def load_state(self, state: State) -> None:
        """Restore observations and environments."""
        load_view(state.arrays, self.now)
        if self.now.code is not None and self._env.codec is not None:
            self._env.codec.check_codes("code", self.now.code)
        saved = {name: array for name, array in state.arrays.items() if name.startswith("env.")}
        if saved:
            self._env.set_state({name.removeprefix("env."): a for name, a in saved.items()})


def collect_round(collector: Collecting, transitions: int) -> tuple[int, EpisodeStats]:
    """Collect until there are at least `transitions` more; returns how many, and ended episodes."""
    collected, ended = 0, []
    while collected < transitions:
        count, stats = collector.collect()
        collected += count
        ended.append(stats)
    return collected, EpisodeStats.joined(ended)


def saved_view(now: StepBuffers) -> dict[str, Array]:
    """The observations, masks and codes to act on next; copies."""
    arrays = {"obs": now.obs.copy()}
    if now.mask is not None:
        arrays["mask"] = now.mask.copy()
    if now.code is not None:
        arrays["code"] = now.code.copy()
    return arrays


def load_view(arrays: dict[str, Array], now: StepBuffers) -> None:
    """Restore what `saved_view` returned.

    Raises:
        InvalidStateError: It is of other environments, or not finite.
    """
    now.obs[...] = loaded_finite(arrays, "obs", now.obs)
    if now.mask is not None:
        now.mask[...] = loaded(arrays, "mask", now.mask)
    if now.code is not None:
        now.code[...] = loaded(arrays, "code", now.code)


class StepSlots(Protocol):
    """Where vector steps are written, one slot after another."""

    def next_slot(self) -> StepSlot:
        """Where the next step goes; its `before` holds what to act on."""
        ...

    def advance(self) -> None:
        """Finish the slot that was written; its `after` is the `before` of the next one."""
        ...


class DoubleBuffer:
    """Two alternating sets of step buffers; each step is copied into the memory.

    The observations that were acted on stay readable while the environments write the next ones.
    """

    def __init__(self, memory: Memory, spec: EnvSpec, num_envs: int) -> None:
        self._memory = memory
        first, second = (StepBuffers.allocate(spec, num_envs) for _ in range(2))
        decision = Decision.allocate(spec, num_envs)
        self._slot = StepSlot(first, decision, second)
        self._other = StepSlot(second, decision, first)

    def next_slot(self) -> StepSlot:
        """Where the next step goes."""
        return self._slot

    def advance(self) -> None:
        """Copy the step into the memory and swap the buffers."""
        slot = self._slot
        self._memory.write(slot.before, slot.decision, slot.after)
        self._slot, self._other = self._other, slot
