"""Compiled sampling of ordered subsets: the right distribution, legal actions, none twice."""

from __future__ import annotations

from itertools import permutations
from math import exp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from briskrl.algos.kernels.sampling import mix_random_subsets, sample_subsets
from tests.memory.reference import chi_square_excess

NO_MASK = np.zeros((0, 0), np.bool_)


def sample(logits, mask, taken, seed):
    rows, size = logits.shape
    action, log_prob = np.full((rows, taken), 99), np.zeros(rows, np.float32)
    draws = np.random.default_rng(seed).random((rows, taken))
    sample_subsets(logits, mask, draws, np.zeros(size, np.bool_), action, log_prob)
    return action, log_prob


def mix(greedy, mask, epsilon, size, seed):
    out = np.full_like(greedy, 99)
    draws = np.random.default_rng(seed).random((2, *greedy.shape))
    mix_random_subsets(greedy, draws, epsilon, mask, np.zeros(size, np.bool_), out)
    return out


def subset_probability(logits, order) -> float:
    """The probability of drawing these actions in this order."""
    left, total = dict(enumerate(logits)), 1.0
    for chosen in order:
        total *= exp(left[chosen]) / sum(map(exp, left.values()))
        del left[chosen]
    return total


def test_ordered_subsets_have_the_probabilities_of_draws_without_replacement():
    logits, count = [0.3, -1.2, 1.1, 0.0], 60_000
    action, log_prob = sample(np.tile(np.float32(logits), (count, 1)), NO_MASK, 2, seed=3)
    orders = list(permutations(range(4), 2))
    expected = [subset_probability(logits, order) for order in orders]
    assert sum(expected) == pytest.approx(1)
    counts = [int((action == order).all(1).sum()) for order in orders]
    assert chi_square_excess(counts, np.array(expected) * count) < 4
    for order, probability in zip(orders, expected, strict=True):
        found = log_prob[(action == order).all(1)]
        np.testing.assert_allclose(found, np.log(probability), rtol=1e-5)


def check_rows(action, mask):
    """Every row holds different legal actions, as many as possible, padded with -1."""
    for row, legal in zip(action, mask, strict=True):
        usable = np.flatnonzero(legal if legal.any() else ~legal)
        number = min(len(usable), len(row))
        real = row[row >= 0]
        assert len(real) == len(set(real.tolist())) == number
        assert set(real.tolist()) <= set(usable.tolist())


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 12),
    taken=st.integers(1, 14),
    share=st.sampled_from([0.0, 0.2, 0.7, 1.0]),
    epsilon=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 2**31),
)
def test_only_legal_actions_are_taken_and_none_twice(size, taken, share, epsilon, seed):
    rng = np.random.default_rng(seed)
    mask = rng.random((5, size)) < share
    logits = (8 * rng.standard_normal((5, size))).astype(np.float32)
    action, _ = sample(logits, mask, taken, seed)
    check_rows(action, mask)
    greedy, _ = sample(logits, mask, taken, seed + 1)
    check_rows(mix(greedy, mask, epsilon, size, seed), mask)


def test_without_exploration_the_greedy_actions_stay():
    mask = np.ones((4, 9), np.bool_)
    greedy, _ = sample(np.zeros((4, 9), np.float32), mask, 3, seed=0)
    assert (mix(greedy, mask, 0.0, 9, seed=1) == greedy).all()
    assert (mix(greedy, NO_MASK, 0.0, 9, seed=1) == greedy).all()


def test_explored_actions_are_uniform_over_legal_ones():
    count, mask = 30_000, np.array([True, False, True, True, True])
    greedy = np.tile([2, 0], (count, 1))
    out = mix(greedy, np.tile(mask, (count, 1)), 1.0, 5, seed=2)
    pairs = list(permutations([0, 2, 3, 4], 2))
    counts = [int((out == pair).all(1).sum()) for pair in pairs]
    assert sum(counts) == count
    assert chi_square_excess(counts, np.full(12, count / 12)) < 4


def test_actions_are_random_with_probability_epsilon_and_the_best_are_kept():
    count, size = 20_000, 1000
    greedy = np.tile([7, 8, 9], (count, 1))
    out = mix(greedy, np.ones((count, size), np.bool_), 0.25, size, seed=4)
    kept = np.isin(out, [7, 8, 9])
    assert kept.mean() == pytest.approx(0.75, abs=0.01)
    alone = out[kept.sum(1) == 1]
    assert (alone[np.isin(alone, [7, 8, 9])] == 7).mean() > 0.99
