from __future__ import annotations

from dataclasses import replace

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from briskrl.core.types import Batch, Decision, StepBuffers
from briskrl.memory.replay import ReplayBuffer
from tests.memory.reference import (
    Feed,
    ReferenceReplay,
    chi_square_excess,
    make_box_spec,
    make_spec,
)

SPECS = st.sampled_from(
    [
        make_spec((3,), np.float32, mask=True),
        make_spec((2, 2, 2), np.uint8, mask=False),
        make_spec((2, 2, 2), np.uint8, mask=True),
    ]
)


def make_pair(spec, **shape):
    return ReplayBuffer(spec=spec, **shape), ReferenceReplay(**shape)


def write_both(memory, reference, feed, ids=None):
    step = feed.step(ids)
    memory.write(*step, ids)
    reference.write(*step, ids)


@settings(max_examples=80, deadline=None)
@given(
    spec=SPECS,
    num_envs=st.integers(1, 5),
    capacity=st.integers(1, 30),
    n_step=st.integers(1, 4),
    gamma=st.sampled_from([0.0, 0.9, 0.97, 1.0]),
    ends=st.sampled_from([0.0, 0.1, 0.5]),
    partial=st.booleans(),
    steps=st.integers(1, 60),
    seed=st.integers(0, 2**32),
)
def test_samples_equal_those_of_the_plain_python_reference(
    spec, num_envs, capacity, n_step, gamma, ends, partial, steps, seed
):
    shape = {"num_envs": num_envs, "capacity": capacity, "n_step": n_step, "gamma": gamma}
    memory, reference = make_pair(spec, **shape)
    feed = Feed(spec, num_envs, seed, ends=ends)
    out = Batch.allocate(spec, 3, 7)
    rng, rng_of_twin = (np.random.default_rng(seed) for _ in range(2))
    for _ in range(steps):
        write_both(memory, reference, feed, feed.some_ids() if partial else None)
        assert memory.size == len(reference.sampleable())
        if memory.size:
            updates = int(feed.rng.integers(1, 4))
            memory.sample(rng, updates, out)
            draws = rng_of_twin.random((updates, 7))
            assert out.index[:updates].ravel().tolist() == reference.choose(draws.ravel())
            assert np.all(out.weight[:updates] == 1)
            reference.check(out, updates)


@pytest.mark.parametrize("partial", [False, True])
def test_every_sampleable_transition_is_equally_likely(partial):
    shape = {"num_envs": 6, "capacity": 60, "n_step": 2, "gamma": 0.9}
    memory, reference = make_pair(make_spec(), **shape)
    feed = Feed(make_spec(), 6, seed=4)
    for _ in range(13):
        write_both(memory, reference, feed, np.array([0, 4, 2]) if partial else None)
        if partial:
            write_both(memory, reference, feed, np.array([4, 1]))
    slots = [reference.slot(*found) for found in reference.sampleable()]
    counts_differ = len({len(history) for history in reference.history}) > 1
    assert counts_differ == partial
    out = Batch.allocate(make_spec(), 100, 512)
    memory.sample(np.random.default_rng(8), 100, out)
    counts = np.bincount(out.index.ravel(), minlength=memory.capacity)
    assert counts[slots].sum() == out.index.size
    expected = np.full(len(slots), out.index.size / len(slots))
    assert chi_square_excess(counts[slots], expected) < 4


def test_envs_with_equal_and_unequal_counts_number_transitions_alike():
    spec = make_spec()
    shape = {"num_envs": 3, "capacity": 24, "n_step": 1, "gamma": 0.9}
    memory, reference = make_pair(spec, **shape)
    feed = Feed(spec, 3, seed=0)
    for _ in range(20):
        write_both(memory, reference, feed)
    write_both(memory, reference, feed, np.array([1]))
    out = Batch.allocate(spec, 1, 500)
    memory.sample(np.random.default_rng(0), 1, out)
    assert out.index[0].tolist() == reference.choose(np.random.default_rng(0).random(500))


def test_truncation_bootstraps_from_final_obs_and_termination_does_not():
    spec = make_spec((1,), np.float32, mask=True)
    memory = ReplayBuffer(spec=spec, num_envs=4, capacity=40, n_step=1, gamma=0.5)
    before, after = StepBuffers.allocate(spec, 4), StepBuffers.allocate(spec, 4)
    before.obs[:, 0] = 1
    after.obs[:, 0] = 2
    after.final_obs[:, 0] = 3
    after.reward[:] = [10, 20, 30, 40]
    after.terminated[:] = [False, True, False, True]
    after.truncated[:] = [False, False, True, True]
    after.mask[:] = [True, False, False]
    after.final_mask[:] = [False, True, True]
    memory.write(before, Decision(np.array([0, 1, 2, 0])), after)
    memory.write(after, Decision(np.zeros(4, np.int64)), StepBuffers.allocate(spec, 4))
    out = Batch.allocate(spec, 1, 4)
    out.index[0] = np.arange(4)
    memory.gather(1, out)
    assert out.obs[0, :, 0].tolist() == [1, 1, 1, 1]
    assert out.action[0].tolist() == [0, 1, 2, 0]
    assert out.reward[0].tolist() == [10, 20, 30, 40]
    assert out.discount[0].tolist() == [0.5, 0, 0.5, 0]
    assert out.next_obs[0, [0, 2], 0].tolist() == [2, 3]
    assert out.next_mask[0, 0].tolist() == [True, False, False]
    assert out.next_mask[0, 2].tolist() == [False, True, True]


def test_n_step_returns_stop_at_the_end_of_an_episode():
    spec = make_spec((1,), np.float32, mask=False)
    memory = ReplayBuffer(spec=spec, num_envs=1, capacity=16, n_step=3, gamma=0.5)
    for k in range(8):
        before, after = StepBuffers.allocate(spec, 1), StepBuffers.allocate(spec, 1)
        before.obs[0] = k
        after.obs[0] = k + 1
        after.final_obs[0] = 100 + k
        after.reward[0] = 2**k
        after.terminated[0] = k == 1
        after.truncated[0] = k == 3
        memory.write(before, Decision(np.array([k % 3])), after)
    out = Batch.allocate(spec, 1, 5)
    assert memory.size == 5
    out.index[0] = np.arange(5)
    memory.gather(1, out)
    # Rewards double and discounts halve, so every step of a window adds the same.
    assert out.reward[0].tolist() == [1 + 1, 2, 4 + 4, 8, 16 + 16 + 16]
    assert out.discount[0].tolist() == [0, 0, 0.25, 0.5, 0.125]
    assert out.next_obs[0, 2:, 0].tolist() == [103, 103, 7]


def test_continuous_actions_come_back_as_written():
    spec = make_box_spec()
    shape = {"num_envs": 2, "capacity": 12, "n_step": 2, "gamma": 0.9}
    memory, reference = make_pair(spec, **shape)
    feed = Feed(spec, 2, seed=1)
    for _ in range(20):
        write_both(memory, reference, feed)
    out = replace(Batch.allocate(spec, 1, 9), action=np.zeros((1, 9, 2), np.float32))
    memory.sample(np.random.default_rng(0), 1, out)
    reference.check(out, 1)


def test_capacity_is_rounded_up_to_whole_rows_that_hold_a_window():
    spec = make_spec()
    rounded = ReplayBuffer(spec=spec, num_envs=8, capacity=65, n_step=1, gamma=0.9)
    assert rounded.capacity == 72
    tiny = ReplayBuffer(spec=spec, num_envs=8, capacity=1, n_step=5, gamma=0.9)
    assert tiny.capacity == 7 * 8


def test_a_batch_as_large_as_the_memory_can_be_sampled_once_it_is_full():
    spec = make_spec()
    memory = ReplayBuffer(spec=spec, num_envs=4, capacity=32, n_step=3, gamma=0.9)
    feed = Feed(spec, 4, seed=0)
    answers = []
    for _ in range(8):
        memory.write(*feed.step())
        answers.append((memory.size, memory.can_sample(8), memory.can_sample(32)))
    assert answers[2] == (0, False, False)
    assert answers[4] == (8, True, False)
    assert answers[7] == (20, True, True)


def test_a_million_small_planes_take_half_a_gigabyte():
    spec = make_spec((5, 10, 10), np.uint8, mask=False)
    memory = ReplayBuffer(spec=spec, num_envs=10, capacity=10_000, n_step=1, gamma=0.9)
    assert memory.ring.obs.dtype == np.uint8
    # 500 bytes of planes, 4 of action, 4 of reward, 1 of flags.
    assert memory.nbytes == 10_000 * 509
    assert memory.nbytes * 100 < 0.52e9


def test_resident_memory_is_flat_once_the_memory_is_built():
    spec = make_spec((5, 10, 10), np.uint8, mask=False)
    memory = ReplayBuffer(spec=spec, num_envs=1000, capacity=100_000, n_step=1, gamma=0.9)
    feed = Feed(spec, 1000, seed=0, ends=0.0)
    steps = [feed.step() for _ in range(2)]
    out = Batch.allocate(spec, 4, 64)
    rng = np.random.default_rng(0)
    for step in steps:
        memory.write(*step)
        memory.sample(rng, 4, out) if memory.size else None
    process = psutil.Process()
    begin = process.memory_info().rss
    for i in range(150):
        memory.write(*steps[i % 2])
        memory.sample(rng, 4, out)
    assert memory.nbytes > 50e6
    assert process.memory_info().rss - begin < 5e6


def test_a_cleared_memory_continues_like_a_new_one():
    spec = make_spec()
    shape = {"num_envs": 3, "capacity": 15, "n_step": 2, "gamma": 0.9}
    used, fresh = ReplayBuffer(spec=spec, **shape), ReplayBuffer(spec=spec, **shape)
    warm_up = Feed(spec, 3, seed=1)
    out = Batch.allocate(spec, 2, 8)
    for _ in range(12):
        used.write(*warm_up.step())
    used.sample(np.random.default_rng(0), 2, out)
    used.clear()
    assert used.size == 0
    assert not used.can_sample(1)
    reference = ReferenceReplay(**shape)
    feed = Feed(spec, 3, seed=2)
    for _ in range(11):
        ids = feed.some_ids()
        step = feed.step(ids)
        for memory in (used, fresh, reference):
            memory.write(*step, ids)
        if used.size:
            used.sample(np.random.default_rng(3), 2, out)
            reference.check(out, 2)
    left, right = used.state(), fresh.state()
    assert left.scalars == right.scalars
    assert all(np.array_equal(left.arrays[k], right.arrays[k]) for k in right.arrays)


def test_wrong_input_is_refused_and_changes_nothing():
    spec = make_spec()
    memory = ReplayBuffer(spec=spec, num_envs=3, capacity=15, n_step=1, gamma=0.9)
    feed = Feed(spec, 3, seed=0)
    out = Batch.allocate(spec, 1, 4)
    with pytest.raises(ValueError, match="can_sample"):
        memory.sample(np.random.default_rng(0), 1, out)
    memory.write(*feed.step())
    memory.write(*feed.step())
    state = memory.state()
    before, decision, after = feed.step()
    for ids in ([0, 3], [-1], [1, 1]):
        with pytest.raises(ValueError, match="distinct"):
            memory.write(before, decision, after, np.array(ids))
    with pytest.raises(ValueError, match="rows"):
        memory.write(StepBuffers.allocate(spec, 2), decision, after)
    with pytest.raises(ValueError, match="masks"):
        memory.write(replace(before, mask=None), decision, after)
    with pytest.raises(ValueError, match="reshape"):
        memory.write(replace(before, obs=np.zeros((3, 4), np.float32)), decision, after)
    with pytest.raises(ValueError, match="2"):
        memory.sample(np.random.default_rng(0), 2, out)
    striped = np.zeros((1, 4, 6), np.float32)[:, :, ::2]
    with pytest.raises(ValueError, match="contiguous"):
        memory.sample(np.random.default_rng(0), 1, replace(out, obs=striped))
    for name, array in memory.state().arrays.items():
        assert np.array_equal(array, state.arrays[name])
