"""Buffers that store codes return exactly what buffers of whole observations return."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from briskrl.core.types import Batch, Decision, StepBuffers
from briskrl.envs.wildfire.env import WildfireVecEnv, topk_masked
from briskrl.memory.prioritized import PrioritizedReplay
from briskrl.memory.replay import ReplayBuffer
from tests.memory.reference import make_spec, same_batch

KINDS = {"replay": (ReplayBuffer, {}), "prioritized": (PrioritizedReplay, {"alpha": 0.6})}


@cache
def world(num_envs):
    """Short episodes on a few landscapes with some cells that cannot be treated."""
    return WildfireVecEnv(
        num_envs,
        height=5,
        width=6,
        landscapes=3,
        budget_frac=0.15,
        n_settlements=1,
        protect_above=4.0,
        n_weather=1,
        n_fires=2,
        obs_fires=4,
    )


class Play:
    """Random legal play, step by step."""

    def __init__(self, num_envs, seed):
        self.env, self.rng = world(num_envs), np.random.default_rng(seed)
        self.now, self.other = (StepBuffers.allocate(self.env.env_spec, num_envs) for _ in "ab")
        self.decision = Decision.allocate(self.env.env_spec, num_envs)
        self.env.start(seed, self.now)

    def step(self):
        before, after = self.now, self.other
        draws = self.rng.random(before.mask.shape)
        self.decision.action[:] = topk_masked(draws, before.mask, 1)[:, 0]
        self.env.step_into(self.decision.action, after)
        self.now, self.other = after, before
        return before, self.decision, after


def make_pair(kind, env, **shape):
    cls, extra = KINDS[kind]
    shape = {"spec": env.env_spec, "num_envs": env.num_envs, "gamma": 0.9, **shape, **extra}
    return cls(**shape), cls(**shape, codec=env.codec)


def sampled(memory, out, seed, updates=2):
    memory.sample(np.random.default_rng(seed), updates, out)
    return out


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    num_envs=st.integers(1, 4),
    capacity=st.integers(1, 40),
    n_step=st.integers(1, 4),
    steps=st.integers(1, 40),
    cut_at=st.integers(0, 40),
    seed=st.integers(0, 2**31),
)
def test_decoded_batches_equal_those_of_a_buffer_without_codec(
    kind, num_envs, capacity, n_step, steps, cut_at, seed
):
    play = Play(num_envs, seed)
    plain, coded = make_pair(kind, play.env, capacity=capacity, n_step=n_step)
    outs = [Batch.allocate(play.env.env_spec, 3, 6) for _ in range(2)]
    for t in range(steps):
        step = play.step()
        for memory in (plain, coded):
            memory.write(*step)
            if t == cut_at:
                memory.truncate_episodes(play.now)
        if t == cut_at:
            play.env.start(seed + 1, play.now)
        assert plain.size == coded.size
        if plain.size:
            first, second = (
                sampled(memory, out, t) for memory, out in zip((plain, coded), outs, strict=True)
            )
            assert same_batch(first, second)
            errors = play.rng.random((3, 6), np.float32)
            plain.feedback(first, 2, errors)
            coded.feedback(second, 2, errors)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_restored_buffer_with_codec_continues_bit_for_bit(kind):
    play = Play(3, seed=5)
    shape = {"capacity": 30, "n_step": 2}
    _, memory = make_pair(kind, play.env, **shape)
    for _ in range(17):
        memory.write(*play.step())
    memory.truncate_episodes(play.now)
    _, again = make_pair(kind, play.env, **shape)
    again.load_state(memory.state())
    for name in memory.chunk_versions():
        again.load_chunk(name, {k: v.copy() for k, v in memory.read_chunk(name).items()})
    for _ in range(4):
        step = play.step()
        memory.write(*step)
        again.write(*step)
        outs = [Batch.allocate(play.env.env_spec, 2, 8) for _ in range(2)]
        assert same_batch(*(sampled(m, o, 1) for m, o in zip((memory, again), outs, strict=True)))


def test_200_000_transitions_of_40_by_40_cells_are_far_below_a_gigabyte():
    env = WildfireVecEnv(1, height=40, width=40, landscapes=1, n_weather=1, obs_fires=4, n_fires=2)
    memory = ReplayBuffer(
        spec=env.env_spec, num_envs=1, capacity=200_000, n_step=1, gamma=0.9, codec=env.codec
    )
    assert memory.nbytes == 200_000 * (208 + 4 + 4 + 1)


def test_truncated_episodes_and_buffers_without_codes_are_refused():
    play = Play(2, seed=0)
    _, memory = make_pair("replay", play.env, capacity=8, n_step=1)
    before, decision, after = play.step()
    after.truncated[1] = True
    with pytest.raises(ValueError, match="cannot be stored as codes"):
        memory.write(before, decision, after)
    bare = StepBuffers.allocate(make_spec(play.env.env_spec.obs.shape), 2)
    with pytest.raises(ValueError, match="have none"):
        memory.write(bare, decision, bare)
