"""A replay buffer that stores every frame once gives the batches of one that stores stacks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from briskrl.core.errors import ConfigError
from briskrl.core.spec import ArraySpec, DiscreteSpec, EnvSpec
from briskrl.core.types import Batch, Decision, StepBuffers
from briskrl.memory import available
from briskrl.memory.prioritized import PrioritizedReplay
from briskrl.memory.replay import ReplayBuffer

N, STACK, ROWS = 3, 4, 24
SPEC = EnvSpec(
    obs=ArraySpec.of((2 * STACK, 3, 2), np.uint8, 0, 255),
    action=DiscreteSpec(3),
    max_steps=None,
    has_mask=False,
    exact_state=True,
    frame_stack=STACK,
)


class Frames:
    """Games of random frames, stacked as the environments do it."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.stacks = [self.first() for _ in range(N)]

    def first(self) -> np.ndarray:
        return np.tile(self.frame(), (STACK, 1, 1))

    def frame(self) -> np.ndarray:
        return self.rng.integers(0, 256, (2, 3, 2), np.uint8)

    def step(self) -> tuple[StepBuffers, Decision, StepBuffers]:
        before, after = (StepBuffers.allocate(SPEC, N) for _ in range(2))
        decision = Decision.allocate(SPEC, N)
        decision.action[:] = self.rng.integers(0, 3, N)
        for k in range(N):
            before.obs[k] = self.stacks[k]
            after.reward[k] = self.rng.normal()
            moved = np.concatenate([self.stacks[k][2:], self.frame()])
            kind = self.rng.random()
            after.terminated[k], after.truncated[k] = kind < 0.08, 0.08 <= kind < 0.2
            if kind < 0.2:
                after.final_obs[k] = moved
                moved = self.first()
            self.stacks[k] = after.obs[k] = moved
        return before, decision, after


def filled(n_step: int, steps: int, seed: int = 0) -> tuple[ReplayBuffer, ReplayBuffer]:
    shape = {"num_envs": N, "capacity": N * ROWS, "n_step": n_step, "gamma": 0.9}
    whole = ReplayBuffer(spec=replace(SPEC, frame_stack=1), **shape)
    frames = ReplayBuffer(spec=SPEC, **shape)
    games = Frames(seed)
    for _ in range(steps):
        step = games.step()
        whole.write(*step)
        frames.write(*step)
    return whole, frames


def batch_of(memory: ReplayBuffer, seed: int = 1) -> Batch:
    batch = Batch.allocate(SPEC, 4, 64)
    memory.sample(np.random.default_rng(seed), 4, batch)
    return batch


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("steps", [10, ROWS, ROWS + 1, 3 * ROWS + 5])
def test_batches_are_those_of_whole_stacks(n_step: int, steps: int) -> None:
    whole, frames = filled(n_step, steps)
    expected, found = batch_of(whole), batch_of(frames)
    for name in ("index", "action", "reward", "discount", "next_obs"):
        same = getattr(found, name) == getattr(expected, name)
        if name == "next_obs":
            # What follows a terminal state is never used.
            same |= (expected.discount == 0)[..., None, None, None]
            same |= oldest(whole, expected)[..., None, None, None]
        assert same.all(), name
    known = ~oldest(whole, expected)
    np.testing.assert_array_equal(found.obs[known], expected.obs[known])
    assert known.mean() > 0.7
    # The newest frame is always exact.
    np.testing.assert_array_equal(found.obs[..., -2:, :, :], expected.obs[..., -2:, :, :])


def oldest(memory: ReplayBuffer, batch: Batch) -> np.ndarray:
    """Whether frames of a transition may have been overwritten."""
    head, count = memory.cursor
    env = batch.index % N
    age = (batch.index // N - head[env]) % memory.num_rows
    return (count[env] >= memory.num_rows) & (age < STACK - 1)


def test_frames_take_the_memory_of_frames() -> None:
    whole, frames = filled(1, 0)
    assert whole.ring.obs.nbytes == STACK * frames.ring.obs.nbytes
    assert whole.ring.final_obs.nbytes == STACK * frames.ring.final_obs.nbytes


def test_a_saved_memory_continues_with_the_same_batches() -> None:
    _, frames = filled(3, 40)
    other = ReplayBuffer(spec=SPEC, num_envs=N, capacity=N * ROWS, n_step=3, gamma=0.9)
    other.load_state(frames.state())
    for name in frames.chunk_versions():
        other.load_chunk(name, {key: a.copy() for key, a in frames.read_chunk(name).items()})
    for name in ("obs", "next_obs", "reward"):
        np.testing.assert_array_equal(
            getattr(batch_of(frames), name), getattr(batch_of(other), name)
        )


def test_prioritized_replay_stores_frames_too() -> None:
    shape = {"num_envs": N, "capacity": N * ROWS, "n_step": 1, "gamma": 0.9, "alpha": 0.6}
    whole = PrioritizedReplay(spec=replace(SPEC, frame_stack=1), **shape)
    frames = PrioritizedReplay(spec=SPEC, **shape)
    games = Frames(5)
    for _ in range(20):
        step = games.step()
        whole.write(*step)
        frames.write(*step)
    np.testing.assert_array_equal(batch_of(frames).obs, batch_of(whole).obs)


def test_a_curriculum_truncates_with_the_newest_frame() -> None:
    whole, frames = filled(1, 10)
    now = StepBuffers.allocate(SPEC, N)
    now.obs[:] = np.random.default_rng(7).integers(0, 256, now.obs.shape)
    for memory in (whole, frames):
        memory.truncate_episodes(now)
    newest = whole.ring.final_obs.reshape(-1, 8, 6)[:, -2:]
    np.testing.assert_array_equal(frames.ring.final_obs.reshape(-1, 2, 6), newest)


def test_a_million_frames_of_atari_take_less_than_8_gb() -> None:
    atari = replace(SPEC, obs=ArraySpec.of((4, 84, 84), np.uint8, 0, 255))
    notes: list[str] = []
    available.announce_memory(atari, 100_000, "--buffer-size", notes.append, coded=False)
    assert notes == []
    assert 1_000_000 * available.stored_bytes(atari) < 8e9


def test_a_memory_that_does_not_fit_is_refused_before_it_is_allocated(monkeypatch) -> None:
    monkeypatch.setattr(available, "available_bytes", lambda: 5_000_000_000)
    atari = replace(SPEC, obs=ArraySpec.of((4, 84, 84), np.uint8, 0, 255))
    notes: list[str] = []
    with pytest.raises(ConfigError, match=r"7\.1 GB of memory; 5\.0 GB are free.*--buffer-size"):
        available.announce_memory(atari, 1_000_000, "--buffer-size", notes.append, coded=False)
    available.announce_memory(atari, 500_000, "--buffer-size", notes.append, coded=False)
    assert notes == [
        "memory: 500,000 transitions of 7,056 bytes an observation take 3.5 GB of memory; "
        "5.0 GB are free"
    ]
