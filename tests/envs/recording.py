"""Recorded runs of any environment, and when two of them are equal."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from briskrl.core.spec import ArraySpec, DiscreteSpec, EnvSpec, MultiDiscreteSpec, SubsetSpec
from briskrl.core.types import EpisodeStats, StepBuffers
from briskrl.envs.base import VecEnv

SEED = 7_000_000_000_001


def poisoned(spec: EnvSpec, num_envs: int, byte: int) -> StepBuffers:
    """Buffers filled with one byte, so that unwritten elements show."""
    out = StepBuffers.allocate(spec, num_envs)
    poison(out, byte)
    return out


def poison(out: StepBuffers, byte: int) -> None:
    for field in fields(out):
        array = getattr(out, field.name)
        if array is not None:
            # A bool must be 0 or 1, so flags get the lowest bit.
            array.view(np.uint8)[...] = byte & 1 if array.dtype == bool else byte


def random_actions(spec: EnvSpec, num_steps: int, num_envs: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if isinstance(spec.action, DiscreteSpec):
        return rng.integers(spec.action.n, size=(num_steps, num_envs))
    if isinstance(spec.action, MultiDiscreteSpec):
        nvec = spec.action.nvec
        return rng.integers(nvec, size=(num_steps, num_envs, len(nvec)))
    if isinstance(spec.action, SubsetSpec):
        # With duplicates, illegal actions and -1 for none.
        return rng.integers(-1, spec.action.n, size=(num_steps, num_envs, spec.action.k))
    # Some of them are out of bounds, like those of a policy.
    low, high = 1.5 * spec.action.low, 1.5 * spec.action.high
    shape = (num_steps, num_envs, *spec.action.shape)
    return rng.uniform(low, high, size=shape).astype(np.float32)


@dataclass
class Trace:
    """All outputs of a run, time first; final rows are zero where no episode ended."""

    first_obs: np.ndarray
    rows: dict[str, np.ndarray]

    @property
    def ended(self) -> np.ndarray:
        return self.rows["terminated"] | self.rows["truncated"]

    def of(self, envs: slice) -> Trace:
        rows = {name: array[:, envs] for name, array in self.rows.items()}
        return Trace(self.first_obs[envs], rows)


def record(env: VecEnv, actions: np.ndarray, out: StepBuffers) -> dict[str, np.ndarray]:
    """Play the actions (T, N); keeps every row that is valid by the contract."""
    rows: dict[str, list[np.ndarray]] = {}
    for row in actions:
        env.step_into(row, out)
        ended = out.terminated | out.truncated
        for field in fields(out):
            array = getattr(out, field.name)
            if array is None:
                continue
            kept = array.copy()
            if field.name.startswith("final_"):
                kept[~ended] = 0
            rows.setdefault(field.name, []).append(kept)
    return {name: np.stack(arrays) for name, arrays in rows.items()}


def play(env: VecEnv, actions: np.ndarray, *, seed: int = SEED, byte: int = 0) -> Trace:
    out = poisoned(env.env_spec, env.num_envs, byte)
    env.start(seed, out)
    return Trace(out.obs.copy(), record(env, actions, out))


def assert_same_rows(left: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> None:
    assert left.keys() == right.keys()
    for name, array in left.items():
        assert array.dtype == right[name].dtype
        np.testing.assert_array_equal(array, right[name], err_msg=name)


def assert_same(left: Trace, right: Trace) -> None:
    np.testing.assert_array_equal(left.first_obs, right.first_obs)
    assert_same_rows(left.rows, right.rows)


def assert_same_stats(left: EpisodeStats, right: EpisodeStats) -> None:
    for field in fields(left):
        np.testing.assert_array_equal(
            getattr(left, field.name), getattr(right, field.name), err_msg=field.name
        )


def assert_within(spec: ArraySpec, array: np.ndarray) -> None:
    assert array.dtype == spec.dtype
    assert array.shape[-len(spec.shape) :] == spec.shape
    assert np.isfinite(array).all()
    assert array.min() >= spec.low
    assert array.max() <= spec.high
