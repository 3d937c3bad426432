"""Rollout memory: T steps of N environments, written where they will be learnt from.

The environments write straight into the memory's rows (`row`, `advance`), so nothing is copied.
Environments that finish out of step with one another hand in their transitions with `write`, each
filling a column of its own. The last rollouts can be kept to be learnt from again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from briskrl.core.spec import EnvSpec
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
"""Arrays of a saved rollout by name, with the field of Rollout they come from.

The names are those of chunk files, so they never change. Final observations are saved beside them,
for ended episodes alone.
"""


class RolloutBuffer:
    """The rollout being collected, and those kept for reuse, in one ring of slots.

    Args:
        spec: What the environments look like.
        num_envs: N.
        steps: T, the length of a rollout.
        reuse: How many past rollouts are kept beside the newest.
    """

    def __init__(self, *, spec: EnvSpec, num_envs: int, steps: int, reuse: int) -> None:
        if min(num_envs, steps) < 1 or reuse < 0:
            raise ValueError("num_envs and steps must be at least 1, reuse at least 0.")
        self.num_envs = num_envs
        self.steps = steps
        slots = reuse + 1
        self._arrays = _allocate(spec, (slots, steps + 1, num_envs))
        self._rollouts = [Rollout(**self._slot(k)) for k in range(slots)]
        self._rows = [_rows(rollout, spec, num_envs) for rollout in self._rollouts]
        self._steps: dict[str, Array] = {
            name: self._arrays[name].reshape(-1, *self._arrays[name].shape[3:])
            for name in MINIBATCH_FIELDS
            if name in self._arrays
        }
        self._places = _places(slots, steps, num_envs)
        self._order: Ints = np.zeros_like(self._places)
        self._owner = np.zeros(len(self._places), np.int32)
        self._draws = np.zeros(len(self._places))
        self._bounds: Ints = np.zeros(2, np.int64)
        self._ends: Ints = np.zeros(1, np.int64)
        self._everyone: Ints = np.arange(num_envs)
        self._collected = 0
        self._handed_in: Ints = np.zeros(num_envs, np.int64)
        self._together = 0
        """Steps that all envs have taken since `_handed_in` was last looked at."""
        self._at = 0
        """Where `row` is: the steps of env 0."""

    @property
    def nbytes(self) -> int:
        """Bytes of all rows; those of final observations are committed only where used."""
        return sum(array.nbytes for array in self._arrays.values())

    @property
    def has_room(self) -> Bools:
        """(N,): environments whose next transition still belongs to this rollout."""
        return self._filled < self.steps

    @property
    def kept(self) -> int:
        """Rollouts to learn from once this one is full, itself included."""
        return min(self._collected + 1, len(self._rollouts))

    @property
    def reuses(self) -> bool:
        """Whether rollouts are learnt from again beside newer ones."""
        return len(self._rollouts) > 1

    def next_slot(self) -> StepSlot:
        """Where the next step of all environments goes; the same objects every time round.

        Raises:
            ValueError: The rollout is full: learn from it and begin the next one first.
        """
        at = self._at
        if at == self.steps:
            raise ValueError("The rollout is full; begin the next one first.")
        return self._rows[self._current][at]

    def advance(self) -> None:
        """The row that `row` gave has been written."""
        # Numbers instead of an array of N: this is done in every step of the loop.
        self._at += 1
        self._together += 1

    def write(
        self,
        before: StepBuffers,
        decision: Decision,
        after: StepBuffers,
        ids: Ints | None = None,
    ) -> None:
        """Append one transition per env to its own column.

        Args:
            before: Gives the observations and masks acted on.
            decision: Gives the actions and their log probabilities.
            after: Gives rewards, ends and the observations that follow.
            ids: (M,) distinct envs that the first M rows of the buffers belong to; all if absent.

        Raises:
            ValueError: One of the envs has handed in all its steps already.
        """
        who = self._everyone if ids is None else ids
        at, count = self._filled[who], len(who)
        if count and int(at.max()) == self.steps:
            raise ValueError("An environment has more steps than the rollout has room for.")
        rollout = self._rollouts[self._current]
        rollout.obs[at, who] = before.obs[:count]
        rollout.obs[at + 1, who] = after.obs[:count]
        rollout.action[at, who] = decision.action[:count]
        rollout.behavior_log_prob[at, who] = decision.log_prob[:count]
        rollout.reward[at, who] = after.reward[:count]
        rollout.terminated[at, who] = after.terminated[:count]
        rollout.truncated[at, who] = after.truncated[:count]
        rollout.final_obs[at, who] = after.final_obs[:count]
        if rollout.mask is not None:
            assert before.mask is not None
            assert after.mask is not None
            rollout.mask[at, who] = before.mask[:count]
            rollout.mask[at + 1, who] = after.mask[:count]
        self._filled[who] += 1
        self._at = int(self._handed_in[0])

    def truncate_episodes(self, now: StepBuffers) -> None:
        """End the episodes under way: each env's last transition is truncated at `now`."""
        rollout = self._rollouts[self._current]
        envs = np.flatnonzero(self._filled)
        last = self._filled[envs] - 1
        under_way = ~(rollout.terminated[last, envs] | rollout.truncated[last, envs])
        last, envs = last[under_way], envs[under_way]
        rollout.truncated[last, envs] = True
        rollout.final_obs[last, envs] = now.obs[envs]

    def rollouts(self) -> list[Rollout]:
        """What there is to learn from, the newest first."""
        found = []
        for age in range(self.kept):
            rollout = self._rollouts[(self._current - age) % len(self._rollouts)]
            rollout.age = age
            found.append(rollout)
        return found

    def shuffle(self, rng: np.random.Generator, parts: int) -> None:
        """Deal all steps of the rollouts out to so many equal parts at random.

        Parts differ by at most one step in size where they cannot be equal.
        """
        # Rollouts are kept in the first slots, or in all of them.
        total = self.kept * self.steps * self.num_envs
        if (len(self._bounds), self._bounds[-1]) != (parts + 1, total):
            self._bounds = total * np.arange(parts + 1) // parts
            self._ends = np.zeros(parts, np.int64)
        draws = self._draws[:total]
        rng.random(out=draws)
        assign_minibatches(draws, self._places, self._bounds, self._owner, self._ends, self._order)

    def minibatch(self, k: int) -> Minibatch:
        """The k-th part of what was dealt last, in views of the memory."""
        indices = self._order[self._bounds[k] : self._bounds[k + 1]]
        return Minibatch(**self._steps, indices=indices)

    def next_rollout(self) -> None:
        """Begin a new rollout where the full one ended."""
        ended = self._rollouts[self._current]
        self._collected += 1
        self._fill(0)
        begun = self._rollouts[self._current]
        begun.obs[0] = ended.obs[self.steps]
        if begun.mask is not None and ended.mask is not None:
            begun.mask[0] = ended.mask[self.steps]

    def clear(self) -> None:
        """Forget everything; what follows is what a newly built memory would do."""
        # What lies in the rows is overwritten before it is read again.
        self._collected = 0
        self._fill(0)

    def state(self) -> State:
        """What the chunks do not hold; copies."""
        return State({"filled": self._filled.copy()}, {"collected": self._collected})

    def load_state(self, state: State) -> None:
        """Continue from a saved state; its chunks may be loaded before or after."""
        self._fill(state.arrays["filled"])
        self._collected = int(state.scalars["collected"])

    def chunk_versions(self) -> Mapping[str, int]:
        """One chunk per rollout that holds data, with the number of steps ever written to it."""
        most = self.steps * self.num_envs + 1
        versions = {}
        for age in range(self.kept):
            number = self._collected - age
            written = int(self._filled.sum()) if age == 0 else most - 1
            versions[f"rollout_{number % len(self._rollouts)}"] = number * most + written
        return versions

    def read_chunk(self, name: str) -> Mapping[str, Array]:
        """The recorded arrays of one rollout, final observations only where an episode ended."""
        rollout = self._named(name)
        ended = np.flatnonzero(rollout.terminated | rollout.truncated)
        arrays = {
            name: getattr(rollout, field)
            for name, field in RECORDED.items()
            if getattr(rollout, field) is not None
        }
        finals = rollout.final_obs.reshape(-1, *rollout.final_obs.shape[2:])[ended]
        return {**arrays, "ended": ended, "final_obs": finals}

    def load_chunk(self, name: str, arrays: Mapping[str, Array]) -> None:
        """Put back what read_chunk gave."""
        rollout = self._named(name)
        for name, field in RECORDED.items():
            target = getattr(rollout, field)
            if target is not None:
                target[...] = arrays[name]
        flat = rollout.final_obs.reshape(-1, *rollout.final_obs.shape[2:])
        flat[arrays["ended"]] = arrays["final_obs"]

    @property
    def _filled(self) -> Ints:
        """(N,): steps of the present rollout that every env has handed in."""
        if self._together:
            self._handed_in += self._together
            self._together = 0
        return self._handed_in

    def _fill(self, steps: Ints | int) -> None:
        self._handed_in[:] = steps
        self._together = 0
        self._at = int(self._handed_in[0])

    @property
    def _current(self) -> int:
        return self._collected % len(self._rollouts)

    def _named(self, name: str) -> Rollout:
        return self._rollouts[int(name.removeprefix("rollout_"))]

    def _slot(self, k: int) -> dict[str, Any]:
        views = {name: array[k] for name, array in self._arrays.items()}
        return {"mask": None, **views}


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


def _places(slots: int, steps: int, num_envs: int) -> Ints:
    """Where steps lie in an array of all slots, one after the other; those of row T are none."""
    places: Ints = np.arange(slots * (steps + 1) * num_envs).reshape(slots, steps + 1, num_envs)
    return places[:, :steps].reshape(-1)


def _rows(rollout: Rollout, spec: EnvSpec, num_envs: int) -> list[StepSlot]:
    """The T rows of a rollout; row t's observations lie where row t - 1 wrote them."""
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
        )
        for t in range(steps)
    ]
    return [
        StepSlot(
            buffers[t], Decision(rollout.action[t], rollout.behavior_log_prob[t]), buffers[t + 1]
        )
        for t in range(steps)
    ]
