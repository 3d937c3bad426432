"""Plain-Python references of the memories, and random transitions for both."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from briskrl.core.spec import ArraySpec, BoxSpec, DiscreteSpec, EnvSpec
from briskrl.core.types import Batch, Decision, StepBuffers

NUM_ACTIONS = 3


def make_spec(shape=(3,), dtype=np.float32, *, mask=True) -> EnvSpec:
    return EnvSpec(
        obs=ArraySpec.of(shape, dtype, 0, 255),
        action=DiscreteSpec(NUM_ACTIONS),
        max_steps=None,
        has_mask=mask,
        exact_state=True,
    )


def make_box_spec() -> EnvSpec:
    return replace(make_spec(mask=False), action=BoxSpec((2,), -1.0, 1.0))


class Feed:
    """Random but consistent steps: each acts on the observations of the one before."""

    def __init__(self, spec: EnvSpec, num_envs: int, seed: int, *, ends: float = 0.3) -> None:
        self.spec = spec
        self.num_envs = num_envs
        self.rng = np.random.default_rng(seed)
        self.ends = ends
        self.obs = self._some_obs(num_envs)
        self.mask = self._some_mask(num_envs)

    def step(self, ids=None) -> tuple[StepBuffers, Decision, StepBuffers]:
        """Buffers whose row j belongs to env ids[j], with rows to spare if there are ids."""
        envs = np.arange(self.num_envs) if ids is None else ids
        rows = self.num_envs
        before = StepBuffers.allocate(self.spec, rows)
        after = StepBuffers.allocate(self.spec, rows)
        before.obs[: len(envs)] = self.obs[envs]
        after.obs[:] = self._some_obs(rows)
        after.final_obs[:] = self._some_obs(rows)
        after.reward[:] = self.rng.normal(size=rows)
        after.terminated[:] = self.rng.random(rows) < self.ends
        after.truncated[:] = self.rng.random(rows) < self.ends
        if self.spec.has_mask:
            before.mask[: len(envs)] = self.mask[envs]
            after.mask[:] = self._some_mask(rows)
            after.final_mask[:] = self._some_mask(rows)
            self.mask[envs] = after.mask[: len(envs)]
        self.obs[envs] = after.obs[: len(envs)]
        return before, Decision(self._some_actions(rows)), after

    def some_ids(self) -> np.ndarray:
        number = self.rng.integers(0, self.num_envs + 1)
        return self.rng.permutation(self.num_envs)[:number]

    def _some_obs(self, rows: int) -> np.ndarray:
        return self.rng.integers(0, 256, (rows, *self.spec.obs.shape)).astype(self.spec.obs.dtype)

    def _some_mask(self, rows: int) -> np.ndarray:
        return self.rng.random((rows, NUM_ACTIONS)) < 0.5

    def _some_actions(self, rows: int) -> np.ndarray:
        if isinstance(self.spec.action, BoxSpec):
            return self.rng.normal(size=(rows, *self.spec.action.shape)).astype(np.float32)
        return self.rng.integers(0, NUM_ACTIONS, rows)


@dataclass
class Transition:
    obs: np.ndarray
    mask: np.ndarray | None
    action: object
    reward: float
    terminated: bool
    truncated: bool
    final_obs: np.ndarray
    final_mask: np.ndarray | None


class ReferenceReplay:
    """All transitions ever written, in one list per env; slow and simple."""

    def __init__(self, *, num_envs: int, capacity: int, n_step: int, gamma: float) -> None:
        self.num_envs = num_envs
        self.num_rows = max(-(-capacity // num_envs), n_step + 2)
        self.n_step = n_step
        self.gamma = gamma
        self.history: list[list[Transition]] = [[] for _ in range(num_envs)]

    def write(self, before, decision, after, ids=None) -> None:
        envs = range(self.num_envs) if ids is None else [int(e) for e in ids]
        for j, env in enumerate(envs):
            self.history[env].append(
                Transition(
                    obs=before.obs[j].copy(),
                    mask=None if before.mask is None else before.mask[j].copy(),
                    action=decision.action[j].copy(),
                    reward=float(after.reward[j]),
                    terminated=bool(after.terminated[j]),
                    truncated=bool(after.truncated[j]),
                    final_obs=after.final_obs[j].copy(),
                    final_mask=None if after.final_mask is None else after.final_mask[j].copy(),
                )
            )

    def slot(self, env: int, k: int) -> int:
        return k % self.num_rows * self.num_envs + env

    def sampleable(self) -> list[tuple[int, int]]:
        """(env, position) of each transition that can be sampled: env by env, oldest first."""
        found = []
        for env, history in enumerate(self.history):
            oldest = max(0, len(history) - self.num_rows)
            found += [(env, k) for k in range(oldest, len(history) - self.n_step)]
        return found

    def choose(self, draws) -> list[int]:
        found = self.sampleable()
        return [self.slot(*found[int(draw * len(found))]) for draw in draws]

    def window(self, env: int, k: int):
        """(return, discount, next_obs, next_mask) of the window that begins at position k."""
        total, scale = 0.0, 1.0
        for step in self.history[env][k : k + self.n_step]:
            total += scale * step.reward
            scale *= self.gamma
            k += 1
            if step.terminated:
                return total, 0.0, None, None
            if step.truncated:
                return total, scale, step.final_obs, step.final_mask
        follower = self.history[env][k]
        return total, scale, follower.obs, follower.mask

    def check(self, out: Batch, updates: int) -> None:
        """Assert that every transition in `out` is the one at its index."""
        by_slot = {self.slot(*found): found for found in self.sampleable()}
        for k in range(updates):
            for b in range(out.index.shape[1]):
                env, position = by_slot[int(out.index[k, b])]
                step = self.history[env][position]
                total, scale, next_obs, next_mask = self.window(env, position)
                assert np.array_equal(out.obs[k, b], step.obs)
                assert np.array_equal(out.action[k, b], step.action)
                assert out.reward[k, b] == np.float32(total)
                assert out.discount[k, b] == np.float32(scale)
                if next_obs is not None:
                    assert np.array_equal(out.next_obs[k, b], next_obs)
                    if next_mask is not None:
                        assert np.array_equal(out.next_mask[k, b], next_mask)


class ReferencePrioritizedReplay(ReferenceReplay):
    """Priorities by (env, position); sums are taken pairwise over the slots, like a tree's."""

    def __init__(self, *, alpha: float, **shape) -> None:
        super().__init__(**shape)
        self.alpha = alpha
        self.largest = 1.0
        self.priority: dict[tuple[int, int], float] = {}

    def write(self, before, decision, after, ids=None) -> None:
        super().write(before, decision, after, ids)
        self.priority = {
            found: self.priority.get(found, self.largest) for found in self.sampleable()
        }

    def feedback(self, index, errors) -> None:
        by_slot = {self.slot(*found): found for found in self.sampleable()}
        for slot, error in zip(index.ravel().tolist(), errors.ravel().tolist(), strict=True):
            if np.isfinite(error):
                priority = (abs(error) + 1e-6) ** self.alpha
                self.priority[by_slot[slot]] = priority
                self.largest = max(self.largest, priority)

    def leaves(self) -> np.ndarray:
        leaves = np.zeros(self.num_rows * self.num_envs)
        for found, priority in self.priority.items():
            leaves[self.slot(*found)] = priority
        return leaves


def plain_tree(leaves) -> list[list[float]]:
    """Levels of pairwise sums, leaves (padded with zeros to a power of two) first, root last."""
    width = 1
    while width < len(leaves):
        width *= 2
    levels = [[float(x) for x in leaves] + [0.0] * (width - len(leaves))]
    while len(levels[-1]) > 1:
        below = levels[-1]
        levels.append([below[i] + below[i + 1] for i in range(0, len(below), 2)])
    return levels


def flat_tree(leaves) -> np.ndarray:
    """The same tree, root at 1 and the children of i at 2i and 2i + 1."""
    return np.array([0.0] + [x for level in reversed(plain_tree(leaves)) for x in level])


def descend(leaves, target: float) -> int:
    """The leaf of a number in [0, total)."""
    levels = plain_tree(leaves)
    place = 0
    for level in reversed(levels[:-1]):
        place *= 2
        if target >= level[place] and level[place + 1] > 0:
            target -= level[place]
            place += 1
    return place


def chi_square_excess(counts, expected) -> float:
    """How many standard deviations a chi-square statistic lies above its mean."""
    counts, expected = np.asarray(counts, float), np.asarray(expected, float)
    freedom = len(counts) - 1
    statistic = ((counts - expected) ** 2 / expected).sum()
    return float((statistic - freedom) / np.sqrt(2 * freedom))


def same_batch(a: Batch, b: Batch) -> bool:
    names = ("obs", "action", "reward", "next_obs", "discount", "weight", "index", "next_mask")
    pairs = [(getattr(a, name), getattr(b, name)) for name in names]
    return all(x is y or x.tobytes() == y.tobytes() for x, y in pairs)
