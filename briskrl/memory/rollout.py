"""The rollout buffer: T steps of N environments.

Environments that step together write directly into the buffer (`next_slot`, `advance`), so nothing
is copied. Asynchronous environments append their transitions with `write`, each to its own column.
Past rollouts can be kept to be learned from again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from briskrl.core.errors import InvalidStateError
from briskrl.core.spec import EnvSpec
from briskrl.core.state_checks import (
    check_actions,
    check_not_diverged,
    check_range,
    loaded,
    loaded_finite,
    whole,
)
from briskrl.core.types import (
    MINIBATCH_FIELDS,
    Array,
    Bools,
    Decision,
    Ints,
    Minibatch,
    Rollout,
    State,
    StepBuffers,
    StepSlot,
    action_layout,
    aligned_zeros,
)
from briskrl.memory.kernels.shuffle import assign_minibatches

RECORDED = {
    "obs": "obs",
    "action": "action",
    "log_prob": "behavior_log_prob",
    "reward": "reward",
    "terminated": "terminated",
    "truncated": "truncated",
    "mask": "mask",
}
"""Names of the arrays of a saved rollout, and the fields of Rollout they hold.

The names are part of the checkpoint format and must not change. Final observations are saved
beside them, for ended episodes only.
"""


class RolloutBuffer:
    """The rollout being collected, and the past ones kept for reuse.

    Args:
        spec: Observations and actions of the environments.
        num_envs: N.
        steps: T, the length of a rollout.
        reuse: Past rollouts to keep beside the newest.
        final_masks: Keep the legal actions of final observations, where there are masks.
    """

    def __init__(
        self,
        *,
        spec: EnvSpec,
        num_envs: int,
        steps: int,
        reuse: int,
        final_masks: bool = False,
    ) -> None:
        if min(num_envs, steps) < 1 or reuse < 0:
            raise ValueError("num_envs and steps must be at least 1, reuse at least 0.")
        self._spec = spec
        self.num_envs = num_envs
        self.steps = steps
        kept = reuse + 1
        self._arrays = _allocate(spec, (kept, steps + 1, num_envs))
        if final_masks and spec.has_mask:
            self._arrays["final_mask"] = np.zeros_like(self._arrays["mask"])
        self._rollouts = [Rollout(**self._views(k)) for k in range(kept)]
        self._slots = [_step_slots(rollout, spec, num_envs) for rollout in self._rollouts]
        self._steps: dict[str, Array] = {
            name: self._arrays[name].reshape(-1, *self._arrays[name].shape[3:])
            for name in MINIBATCH_FIELDS
            if name in self._arrays
        }
        self._indices = _step_indices(kept, steps, num_envs)
        self._order: Ints = np.zeros_like(self._indices)
        self._owner = np.zeros(len(self._indices), np.int32)
        self._draws = np.zeros(len(self._indices))
        self._bounds: Ints = np.zeros(2, np.int64)
        self._ends: Ints = np.zeros(1, np.int64)
        self._all_envs: Ints = np.arange(num_envs)
        self._collected = 0
        self._first_version = 0
        self._versions_seen = False
        self._versions_per_rollout = steps * num_envs + 1
        self._filled_by_env: Ints = np.zeros(num_envs, np.int64)
        self._uncounted = 0
        """Steps of all envs together that are not yet counted in `_filled_by_env`."""
        self._at = 0
        """Steps of env 0 in this rollout: the index of the next slot."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays; pages of final observations are committed only where used."""
        return sum(array.nbytes for array in self._arrays.values())

    @property
    def has_room(self) -> Bools:
        """(N,): whether the environment's next transition belongs to this rollout."""
        return self._filled < self.steps

    @property
    def filled(self) -> Ints:
        """(N,): steps of the present rollout that every env has written; a copy."""
        return self._filled.copy()

    @property
    def kept(self) -> int:
        """Rollouts to learn from when the present one is complete, including it."""
        return min(self._collected + 1, len(self._rollouts))

    @property
    def reuses(self) -> bool:
        """Whether past rollouts are learned from again."""
        return len(self._rollouts) > 1

    def next_slot(self) -> StepSlot:
        """The buffers that the next step of all environments is written to.

        The same objects come again in every rollout.

        Raises:
            ValueError: The rollout is complete; call `next_rollout` first.
        """
        at = self._at
        if at == self.steps:
            raise ValueError("The rollout is full; begin the next one first.")
        return self._slots[self._current][at]

    def advance(self) -> None:
        """Go on to the next slot, after the one from `next_slot` has been written."""
        # Two numbers instead of an array (N,), because this happens in every step.
        self._at += 1
        self._uncounted += 1

    def write(
        self,
        before: StepBuffers,
        decision: Decision,
        after: StepBuffers,
        ids: Ints | None = None,
    ) -> None:
        """Append one transition per env to its own column.

        Args:
            before: The observations and masks acted on.
            decision: The actions and their log probabilities.
            after: The rewards, ends and next observations.
            ids: (M,) distinct envs of the first M rows of the buffers; all envs if None.

        Raises:
            ValueError: One of the envs has written all its steps of this rollout already.
        """
        envs = self._all_envs if ids is None else ids
        at, count = self._filled[envs], len(envs)
        if count and int(at.max()) == self.steps:
            raise ValueError("An environment has more steps than the rollout has room for.")
        rollout = self._rollouts[self._current]
        rollout.obs[at, envs] = before.obs[:count]
        rollout.obs[at + 1, envs] = after.obs[:count]
        rollout.action[at, envs] = decision.action[:count]
        rollout.behavior_log_prob[at, envs] = decision.log_prob[:count]
        rollout.reward[at, envs] = after.reward[:count]
        rollout.terminated[at, envs] = after.terminated[:count]
        rollout.truncated[at, envs] = after.truncated[:count]
        rollout.final_obs[at, envs] = after.final_obs[:count]
        if rollout.final_mask is not None and after.final_mask is not None:
            rollout.final_mask[at, envs] = after.final_mask[:count]
        if rollout.mask is not None:
            assert before.mask is not None
            assert after.mask is not None
            rollout.mask[at, envs] = before.mask[:count]
            rollout.mask[at + 1, envs] = after.mask[:count]
        self._filled[envs] += 1
        self._at = int(self._filled_by_env[0])

    def truncate_episodes(self, now: StepBuffers) -> None:
        """Mark each env's last transition as truncated, with `now` as the final observation."""
        rollout = self._rollouts[self._current]
        envs = np.flatnonzero(self._filled)
        last = self._filled[envs] - 1
        under_way = ~(rollout.terminated[last, envs] | rollout.truncated[last, envs])
        last, envs = last[under_way], envs[under_way]
        rollout.truncated[last, envs] = True
        rollout.final_obs[last, envs] = now.obs[envs]
        if rollout.final_mask is not None and now.mask is not None:
            rollout.final_mask[last, envs] = now.mask[envs]

    def rollouts(self) -> list[Rollout]:
        """The rollouts to learn from, the newest first."""
        found = []
        for age in range(self.kept):
            rollout = self._rollouts[(self._current - age) % len(self._rollouts)]
            rollout.age = age
            found.append(rollout)
        return found

    def shuffle(self, rng: np.random.Generator, minibatches: int) -> None:
        """Assign all steps of the rollouts to `minibatches` minibatches at random.

        Their sizes differ by at most one step.
        """
        # The rollouts to learn from fill the first of the kept ones, or all of them.
        total = self.kept * self.steps * self.num_envs
        if (len(self._bounds), self._bounds[-1]) != (minibatches + 1, total):
            self._bounds = total * np.arange(minibatches + 1) // minibatches
            self._ends = np.zeros(minibatches, np.int64)
        draws = self._draws[:total]
        rng.random(out=draws)
        assign_minibatches(draws, self._indices, self._bounds, self._owner, self._ends, self._order)

    def minibatch(self, k: int) -> Minibatch:
        """The k-th minibatch of the last shuffle; views of the buffer."""
        indices = self._order[self._bounds[k] : self._bounds[k + 1]]
        return Minibatch(**self._steps, indices=indices)

    def next_rollout(self) -> None:
        """Begin a new rollout with the last observations of the complete one."""
        ended = self._rollouts[self._current]
        self._collected += 1
        self._fill(0)
        begun = self._rollouts[self._current]
        begun.obs[0] = ended.obs[self.steps]
        if begun.mask is not None and ended.mask is not None:
            begun.mask[0] = ended.mask[self.steps]

    def clear(self) -> None:
        """Remove all data; the memory then behaves like a newly built one."""
        # Old steps are overwritten before they are read again. Versions that were read go on,
        # because a checkpoint could take new data for old.
        if self._versions_seen:
            self._first_version += (self._collected + 1) * self._versions_per_rollout
        self._collected = 0
        self._fill(0)

    def state(self) -> State:
        """Everything that is not in the chunks; copies."""
        return State({"filled": self.filled}, {"collected": self._collected})

    def load_state(self, state: State) -> None:
        """Continue from a saved state; its chunks may be loaded before or after.

        Raises:
            InvalidStateError: The state is that of a memory of another shape, or impossible.
        """
        filled = loaded(state.arrays, "filled", self._filled_by_env)
        check_range("filled", filled, 0, self.steps)
        collected = whole(state.scalars, "collected")
        self._fill(filled)
        self._collected = collected

    def chunk_versions(self) -> Mapping[str, int]:
        """One chunk per rollout that holds data, with a number that grows on every change."""
        self._versions_seen = True
        most = self._versions_per_rollout
        versions = {}
        for age in range(self.kept):
            number = self._collected - age
            written = int(self._filled.sum()) if age == 0 else most - 1
            version = self._first_version + number * most + written
            versions[f"rollout_{number % len(self._rollouts)}"] = version
        return versions

    def read_chunk(self, name: str) -> Mapping[str, Array]:
        """The arrays of one rollout, with final observations only where an episode ended.

        Raises:
            DivergedError: A reward or an observation is not finite.
        """
        rollout = self._named(name)
        ended = np.flatnonzero(rollout.terminated | rollout.truncated)
        arrays: dict[str, Array] = {
            name: getattr(rollout, field)
            for name, field in RECORDED.items()
            if getattr(rollout, field) is not None
        }
        finals = rollout.final_obs.reshape(-1, *rollout.final_obs.shape[2:])[ended]
        arrays |= {"ended": ended, "final_obs": finals}
        if rollout.final_mask is not None:
            arrays["final_mask"] = _by_step(rollout.final_mask)[ended]
        check_not_diverged("rollout buffer", arrays)
        return arrays

    def load_chunk(self, name: str, arrays: Mapping[str, Array]) -> None:
        """Restore what `read_chunk` returned.

        Raises:
            InvalidStateError: The arrays do not belong to a rollout of this shape, or hold
                impossible numbers; the memory is as it was.
        """
        rollout = self._named(name)
        targets = {name: getattr(rollout, field) for name, field in RECORDED.items()}
        targets = {name: array for name, array in targets.items() if array is not None}
        for name, target in targets.items():
            loaded_finite(arrays, name, target)
        check_actions("action", arrays["action"], self._spec.action)
        ended = np.flatnonzero(arrays["terminated"] | arrays["truncated"])
        found = loaded(arrays, "ended", ended)
        check_range("ended: distance from the ended episodes", found - ended, 0, 0)
        flat = rollout.final_obs.reshape(-1, *rollout.final_obs.shape[2:])
        finals = loaded_finite(arrays, "final_obs", flat[: len(ended)])
        for name, target in targets.items():
            target[...] = arrays[name]
        flat[ended] = finals
        if rollout.final_mask is not None:
            masks = _by_step(rollout.final_mask)
            masks[ended] = loaded(arrays, "final_mask", masks[: len(ended)])

    @property
    def _filled(self) -> Ints:
        """(N,): steps of the present rollout that every env has written."""
        if self._uncounted:
            self._filled_by_env += self._uncounted
            self._uncounted = 0
        return self._filled_by_env

    def _fill(self, steps: Ints | int) -> None:
        self._filled_by_env[:] = steps
        self._uncounted = 0
        self._at = int(self._filled_by_env[0])

    @property
    def _current(self) -> int:
        return self._collected % len(self._rollouts)

    def _named(self, name: str) -> Rollout:
        digits = name.removeprefix("rollout_")
        if not digits.isdecimal() or int(digits) >= len(self._rollouts):
            raise InvalidStateError(f"This memory has no chunk {name!r}.")
        return self._rollouts[int(digits)]

    def _views(self, k: int) -> dict[str, Any]:
        """The fields of the k-th Rollout."""
        views = {name: array[k] for name, array in self._arrays.items()}
        return {"mask": None, **views}


def _by_step(array: Array) -> Array:
    """(T + 1, N, ...) as ((T + 1) * N, ...), a view."""
    return array.reshape(-1, *array.shape[2:])


def _allocate(spec: EnvSpec, lead: tuple[int, int, int]) -> dict[str, Array]:
    shape, dtype = action_layout(spec)
    floats = (
        "behavior_log_prob",
        "reward",
        "old_log_prob",
        "weight",
        "value",
        "advantage",
        "returns",
    )
    arrays: dict[str, Array] = {
        "obs": aligned_zeros((*lead, *spec.obs.shape), spec.obs.dtype),
        "action": aligned_zeros((*lead, *shape), dtype),
        "final_obs": aligned_zeros((*lead, *spec.obs.shape), spec.obs.dtype),
        "terminated": np.zeros(lead, np.bool_),
        "truncated": np.zeros(lead, np.bool_),
        **{name: aligned_zeros(lead, np.float32) for name in floats},
    }
    if spec.has_mask:
        arrays["mask"] = np.zeros((*lead, spec.mask_width), np.bool_)
    return arrays


def _step_indices(kept: int, steps: int, num_envs: int) -> Ints:
    """Flat indices of all steps in arrays (kept, T + 1, N); row T holds no step."""
    indices: Ints = np.arange(kept * (steps + 1) * num_envs).reshape(kept, steps + 1, num_envs)
    return indices[:, :steps].reshape(-1)


def _step_slots(rollout: Rollout, spec: EnvSpec, num_envs: int) -> list[StepSlot]:
    """The T slots of a rollout; slot t acts on the observations that slot t - 1 wrote."""
    steps = len(rollout.obs) - 1
    first = StepBuffers.allocate(spec, num_envs)
    first.obs = rollout.obs[0]
    first.mask = None if rollout.mask is None else rollout.mask[0]
    first.code = None
    buffers = [first] + [
        StepBuffers(
            obs=rollout.obs[t + 1],
            reward=rollout.reward[t],
            terminated=rollout.terminated[t],
            truncated=rollout.truncated[t],
            final_obs=rollout.final_obs[t],
            mask=None if rollout.mask is None else rollout.mask[t + 1],
            final_mask=None if rollout.final_mask is None else rollout.final_mask[t],
        )
        for t in range(steps)
    ]
    return [
        StepSlot(
            buffers[t], Decision(rollout.action[t], rollout.behavior_log_prob[t]), buffers[t + 1]
        )
        for t in range(steps)
    ]
