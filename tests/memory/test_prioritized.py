from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from briskrl.core.types import Batch
from briskrl.memory.kernels import sum_tree
from briskrl.memory.prioritized import PrioritizedReplay
from tests.memory.reference import (
    Feed,
    ReferencePrioritizedReplay,
    chi_square_excess,
    descend,
    flat_tree,
    make_spec,
    same_batch,
)

SPEC = make_spec()
SHAPE = {"num_envs": 4, "capacity": 40, "n_step": 2, "gamma": 0.9, "alpha": 0.6}


def filled(priorities=None, *, steps=25, **changes) -> PrioritizedReplay:
    """A memory of random transitions, with given priorities on its first sampleable slots."""
    memory = PrioritizedReplay(spec=SPEC, **{**SHAPE, **changes})
    feed = Feed(SPEC, memory._replay.num_envs, seed=0)
    for _ in range(steps):
        memory.write(*feed.step())
    if priorities is not None:
        state = memory.state()
        leaves = state.arrays["priorities"]
        slots = np.flatnonzero(leaves)
        leaves[:] = 0
        leaves[slots[: len(priorities)]] = priorities
        memory.load_state(state)
    return memory


def tree_is_consistent(memory) -> bool:
    return np.array_equal(memory._tree, flat_tree(memory.priorities))


@settings(max_examples=60, deadline=None)
@given(
    num_envs=st.integers(1, 5),
    capacity=st.integers(1, 30),
    n_step=st.integers(1, 4),
    alpha=st.sampled_from([0.0, 0.6, 1.0]),
    beta=st.sampled_from([0.0, 0.4, 1.0]),
    partial=st.booleans(),
    steps=st.integers(1, 40),
    seed=st.integers(0, 2**32),
)
def test_samples_and_priorities_equal_those_of_the_plain_python_reference(
    num_envs, capacity, n_step, alpha, beta, partial, steps, seed
):
    shape = {"num_envs": num_envs, "capacity": capacity, "n_step": n_step, "gamma": 0.97}
    memory = PrioritizedReplay(spec=SPEC, alpha=alpha, **shape)
    reference = ReferencePrioritizedReplay(alpha=alpha, **shape)
    memory.beta = beta
    feed = Feed(SPEC, num_envs, seed)
    out = Batch.allocate(SPEC, 2, 5)
    rng, rng_of_twin = (np.random.default_rng(seed) for _ in range(2))
    for _ in range(steps):
        ids = feed.some_ids() if partial else None
        step = feed.step(ids)
        memory.write(*step, ids)
        reference.write(*step, ids)
        assert np.allclose(memory.priorities, reference.leaves(), rtol=1e-12, atol=0)
        assert memory.size == np.count_nonzero(memory.priorities)
        if not memory.size:
            continue
        memory.sample(rng, 2, out)
        leaves = memory.priorities.copy()
        total = memory._tree[1]
        draws = rng_of_twin.random((2, 5))
        for k in range(2):
            targets = (np.arange(5) + draws[k]) / 5 * total
            assert out.index[k].tolist() == [descend(leaves, target) for target in targets]
            share = leaves[out.index[k]] / leaves.sum()
            weight = (memory.size * share) ** -beta
            assert np.allclose(out.weight[k], weight / weight.max(), rtol=1e-6)
        reference.check(out, 2)
        errors = feed.rng.normal(size=(2, 5)).astype(np.float32)
        errors[feed.rng.random((2, 5)) < 0.1] = np.nan
        memory.feedback(out, 2, errors)
        reference.feedback(out.index, errors)
        assert np.allclose(memory.priorities, reference.leaves(), rtol=1e-12, atol=0)
        assert tree_is_consistent(memory)


def test_transitions_are_sampled_in_proportion_to_their_priority():
    rng = np.random.default_rng(3)
    memory = filled()
    out = Batch.allocate(SPEC, 1, 64)
    for _ in range(40):
        memory.sample(rng, 1, out)
        memory.feedback(out, 1, (10 * rng.random((1, 64))).astype(np.float32))
    many = Batch.allocate(SPEC, 100, 512)
    memory.sample(rng, 100, many)
    slots = np.flatnonzero(memory.priorities)
    counts = np.bincount(many.index.ravel(), minlength=memory.capacity)
    share = memory.priorities[slots] / memory.priorities.sum()
    assert counts[slots].sum() == many.index.size
    assert share.max() > 2 * share.min()
    # Stratified sampling has less variance, so the bound for independent draws holds.
    assert chi_square_excess(counts[slots], share * many.index.size) < 4


def test_each_stratum_gives_one_draw():
    memory = filled(np.ones(32))
    assert memory.size == 32
    out = Batch.allocate(SPEC, 5, 32)
    memory.sample(np.random.default_rng(0), 5, out)
    for index in out.index:
        assert index.tolist() == np.flatnonzero(memory.priorities).tolist()


def test_samples_equal_a_search_in_the_cumulative_sum_of_priorities():
    rng = np.random.default_rng(5)
    priorities = rng.integers(1, 9, 32)
    memory = filled(priorities)
    slots = np.flatnonzero(memory.priorities)
    out = Batch.allocate(SPEC, 20, 16)
    memory.sample(np.random.default_rng(1), 20, out)
    targets = (np.arange(16) + np.random.default_rng(1).random((20, 16))) / 16 * priorities.sum()
    place = np.searchsorted(np.cumsum(priorities), targets, side="right")
    assert np.array_equal(out.index, slots[place])


def test_weights_are_those_computed_by_hand():
    memory = filled([1.0, 4.0, 16.0], steps=3, num_envs=3)
    assert memory.size == 3
    memory.beta = 0.5
    out = Batch.allocate(SPEC, 1, 42)
    memory.sample(np.random.default_rng(0), 1, out)
    # P = 1/21, 4/21, 16/21; (3 P)**-0.5 = 2.6458, 1.3229, 0.6614; over the largest: 1, 1/2, 1/4.
    by_slot = dict(zip(out.index[0].tolist(), out.weight[0].tolist(), strict=True))
    assert by_slot == {0: 1.0, 1: 0.5, 2: 0.25}
    memory.beta = 0.0
    memory.sample(np.random.default_rng(0), 1, out)
    assert np.all(out.weight == 1)


def test_leaves_of_priority_zero_are_never_sampled():
    rng = np.random.default_rng(11)
    index, weight = np.zeros((1, 3), np.int64), np.zeros((1, 3), np.float32)
    last = np.nextafter(1.0, 0.0)
    for _ in range(300):
        leaves = rng.random(64) * 10.0 ** rng.integers(-9, 9, 64)
        leaves[rng.random(64) < 0.6] = 0
        leaves[rng.integers(0, 64)] = 0.1
        # The last draw lies past the total, as rounding may cause.
        draws = np.array([[0.0, last, 1.5]])
        sum_tree.choose_prioritized(flat_tree(leaves), draws, 1, 0.5, index, weight)
        assert np.all(leaves[index[0]] > 0)
        assert np.all(np.isfinite(weight))
        assert index[0, 2] == np.flatnonzero(leaves)[-1]


def test_tree_equals_a_rebuilt_one_after_random_updates():
    rng = np.random.default_rng(2)
    memory = filled(num_envs=7, capacity=500, steps=90)
    feed = Feed(SPEC, 7, seed=9)
    out = Batch.allocate(SPEC, 2, 32)
    for _ in range(100):
        ids = feed.some_ids() if rng.random() < 0.5 else None
        memory.write(*feed.step(ids), ids)
        memory.sample(rng, 2, out)
        memory.feedback(out, 2, (rng.random((2, 32)) * 1e6).astype(np.float32))
        assert tree_is_consistent(memory)
        rebuilt = memory._tree.copy()
        rebuilt[: len(rebuilt) // 2] = 0
        sum_tree.rebuild(rebuilt)
        assert np.array_equal(rebuilt, memory._tree)


def test_new_transitions_get_the_largest_priority_so_far():
    memory = filled(alpha=1.0)
    out = Batch.allocate(SPEC, 1, 4)
    memory.sample(np.random.default_rng(0), 1, out)
    memory.feedback(out, 1, np.array([[0.5, -7.0, 0.1, 2.0]], np.float32))
    memory.feedback(out, 1, np.full((1, 4), 0.25, np.float32))
    leaves = memory.priorities.copy()
    memory.write(*Feed(SPEC, 4, seed=1).step())
    entered = memory.priorities[(leaves == 0) & (memory.priorities > 0)]
    assert entered.tolist() == [7.0 + 1e-6] * 4


def test_non_finite_errors_leave_the_tree_alone():
    memory = filled()
    out = Batch.allocate(SPEC, 1, 4)
    memory.sample(np.random.default_rng(0), 1, out)
    before = memory.state()
    memory.feedback(out, 1, np.array([[np.nan, np.inf, -np.inf, np.nan]], np.float32))
    after = memory.state()
    assert np.array_equal(before.arrays["priorities"], after.arrays["priorities"])
    assert before.scalars == after.scalars
    memory.feedback(out, 1, np.full((1, 4), np.finfo(np.float32).max))
    assert np.isfinite(memory._tree).all()


def test_feedback_on_overwritten_transitions_is_ignored():
    memory = filled(capacity=16)
    out = Batch.allocate(SPEC, 1, 8)
    memory.sample(np.random.default_rng(0), 1, out)
    feed = Feed(SPEC, 4, seed=1)
    memory.write(*feed.step())
    gone = memory.priorities[out.index[0]] == 0
    assert gone.any()
    memory.feedback(out, 1, np.full((1, 8), 50.0, np.float32))
    assert memory.size == np.count_nonzero(memory.priorities)


def test_errors_of_another_shape_are_refused():
    memory = filled()
    out = Batch.allocate(SPEC, 2, 8)
    memory.sample(np.random.default_rng(0), 2, out)
    for shape in ((1, 8), (2, 7), (3, 8)):
        with pytest.raises(ValueError, match="fit"):
            memory.feedback(out, 2, np.zeros(shape, np.float32))


def test_a_refused_write_leaves_the_tree_alone():
    memory = filled()
    leaves = memory.priorities.copy()
    before, decision, after = Feed(SPEC, 4, seed=1).step()
    before.mask = None
    with pytest.raises(ValueError, match="masks"):
        memory.write(before, decision, after)
    assert np.array_equal(leaves, memory.priorities)


def test_beta_rises_to_one_over_the_transitions_written():
    memory = PrioritizedReplay(spec=SPEC, **SHAPE, beta=0.4, beta_steps=32)
    feed = Feed(SPEC, 4, seed=0)
    seen = [memory.beta]
    for _ in range(9):
        memory.write(*feed.step())
        seen.append(memory.beta)
    assert np.allclose(seen, np.minimum(1.0, 0.4 + 0.6 * np.arange(10) * 4 / 32))
    assert seen[-1] == 1.0
    memory.write(*feed.step(np.array([2])), np.array([2]))
    memory.clear()
    assert memory.beta == 0.4


def test_a_cleared_memory_continues_like_a_new_one():
    used, fresh = filled(), PrioritizedReplay(spec=SPEC, **SHAPE)
    out, other = Batch.allocate(SPEC, 1, 8), Batch.allocate(SPEC, 1, 8)
    used.sample(np.random.default_rng(0), 1, out)
    used.feedback(out, 1, np.full((1, 8), 9.0, np.float32))
    used.clear()
    feed = Feed(SPEC, 4, seed=5)
    for turn in range(30):
        step = feed.step()
        used.write(*step)
        fresh.write(*step)
        assert used.size == fresh.size
        if used.can_sample(8):
            used.sample(np.random.default_rng(turn), 1, out)
            fresh.sample(np.random.default_rng(turn), 1, other)
            assert same_batch(out, other)
            errors = feed.rng.random((1, 8)).astype(np.float32)
            used.feedback(out, 1, errors)
            fresh.feedback(other, 1, errors)
    left, right = used.state(), fresh.state()
    assert left.scalars == right.scalars
    assert all(np.array_equal(left.arrays[k], right.arrays[k]) for k in right.arrays)
