from __future__ import annotations

import numpy as np
import pytest

from briskrl.algos.dqn.exploration import EpsilonGreedy, linear


def reference(greedy, draws, epsilon, num_actions, mask):
    """mix_random_actions, one environment at a time."""
    actions = []
    for i, choice in enumerate(greedy):
        if draws[0][i] >= epsilon:
            actions.append(choice)
            continue
        legal = [a for a in range(num_actions) if mask is None or mask[i][a]]
        legal = legal or list(range(num_actions))
        actions.append(legal[int(draws[1][i] * len(legal))])
    return actions


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_epsilon_greedy_actions_equal_the_plain_python_reference(masked, epsilon):
    rng = np.random.default_rng(3)
    for _ in range(50):
        greedy = rng.integers(0, 4, 64)
        mask = rng.random((64, 4)) < 0.4 if masked else None
        explore = EpsilonGreedy(4, np.random.default_rng(9))
        out = np.zeros(64, np.int64)
        explore.mix(greedy, mask, epsilon, out)
        draws = np.random.default_rng(9).random((2, 64))
        assert out.tolist() == reference(greedy, draws, epsilon, 4, mask)


def test_random_actions_are_uniform_over_legal_ones():
    explore = EpsilonGreedy(5, np.random.default_rng(0))
    mask = np.tile(np.array([True, False, True, True, False]), (30_000, 1))
    out = np.zeros(30_000, np.int64)
    explore.mix(np.zeros(30_000, np.int64), mask, 1.0, out)
    counts = np.bincount(out, minlength=5)
    assert counts[1] == counts[4] == 0
    assert np.all(np.abs(counts[[0, 2, 3]] - 10_000) < 400)


def test_the_linear_schedule_stays_at_its_end():
    values = [linear(1.0, 0.1, 100, now) for now in (0, 50, 100, 1000)]
    assert values == pytest.approx([1.0, 0.55, 0.1, 0.1])
