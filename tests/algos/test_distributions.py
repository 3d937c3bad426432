"""Sampling kernels draw from the distributions that the torch functions describe."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from briskrl.algos.distributions import Categorical, Gaussian, distribution_of
from briskrl.core.spec import BoxSpec, DiscreteSpec, MultiDiscreteSpec
from briskrl.core.types import Decision


def sample(distribution, out, mask=None, seed=0):
    lead = len(out)
    if isinstance(distribution, Gaussian):
        action = np.zeros((lead, distribution.outputs), np.float32)
    elif distribution.columns(np.zeros(1)).ndim == 2:
        action = np.zeros(lead, np.int64)
    else:
        action = np.zeros((lead, len(distribution.sizes)), np.int64)
    decision = Decision(action, np.zeros(lead, np.float32))
    distribution.sample(out, mask, np.random.default_rng(seed), decision)
    return decision


def reference(logits, mask, sizes, draws):
    """sample_actions, one environment and action dimension at a time."""
    actions, log_probs = [], []
    for i, row in enumerate(logits.astype(float)):
        begin, chosen, total = 0, [], 0.0
        for d, size in enumerate(sizes):
            legal = [a for a in range(size) if mask is None or mask[i, begin + a]]
            legal = legal or list(range(size))
            probs = np.exp([row[begin + a] for a in legal])
            probs /= probs.sum()
            rank = min(int(np.searchsorted(probs.cumsum(), draws[i, d], "right")), len(legal) - 1)
            chosen.append(legal[rank])
            total += float(np.log(probs[rank]))
            begin += size
        actions.append(chosen)
        log_probs.append(total)
    return np.array(actions), np.array(log_probs)


@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    masked=st.booleans(),
)
def test_sampled_actions_equal_the_plain_python_reference(seed, sizes, masked):
    rng = np.random.default_rng(seed)
    logits = (2 * rng.standard_normal((40, sum(sizes)))).astype(np.float32)
    mask = rng.random(logits.shape) < 0.4 if masked else None
    decision = sample(Categorical(sizes, single=False), logits, mask, seed)
    draws = np.random.default_rng(seed).random((40, len(sizes)))
    actions, log_probs = reference(logits, mask, sizes, draws)
    assert np.array_equal(decision.action, actions)
    assert decision.log_prob == pytest.approx(log_probs, abs=1e-5)


def test_masked_sampling_follows_the_softmax_of_legal_logits():
    logits = np.tile(np.log([0.1, 0.2, 0.3, 0.4]).astype(np.float32), (60_000, 1))
    mask = np.tile(np.array([True, False, True, True]), (60_000, 1))
    decision = sample(Categorical([4], single=True), logits, mask)
    probs = np.array([0.125, 0.0, 0.375, 0.5])
    counts = np.bincount(decision.action, minlength=4)
    assert counts[1] == 0
    legal = probs > 0
    chi_square = ((counts - 60_000 * probs)[legal] ** 2 / (60_000 * probs[legal])).sum()
    assert chi_square < 13.8  # 2 degrees of freedom, 0.1 %
    assert decision.log_prob == pytest.approx(np.log(probs[decision.action]), abs=1e-6)


def test_a_row_without_legal_actions_may_take_any_action():
    logits = np.zeros((3000, 3), np.float32)
    decision = sample(Categorical([3], single=True), logits, np.zeros((3000, 3), np.bool_))
    assert np.bincount(decision.action).min() > 800
    assert decision.log_prob == pytest.approx(np.full(3000, np.log(1 / 3)), abs=1e-6)


def test_extreme_logits_stay_finite():
    logits = np.array([[1e4, -1e4, 0.0], [-1e4, -1e4, -1e4]], np.float32)
    decision = sample(Categorical([3], single=True), logits)
    assert decision.action[0] == 0
    assert decision.log_prob == pytest.approx([0.0, np.log(1 / 3)], abs=1e-6)


def test_gaussian_actions_are_mean_plus_noise_with_the_log_prob_of_torch():
    rng = np.random.default_rng(0)
    out = rng.standard_normal((500, 6)).astype(np.float32)
    decision = sample(Gaussian(3), out, seed=4)
    noise = np.random.default_rng(4).standard_normal((500, 3))
    mean, std = out[:, :3], np.exp(out[:, 3:])
    assert decision.action == pytest.approx(mean + std * noise, rel=1e-5, abs=1e-5)
    normal = torch.distributions.Normal(torch.tensor(mean), torch.tensor(std))
    expected = normal.log_prob(torch.from_numpy(decision.action)).sum(1)
    assert decision.log_prob == pytest.approx(expected.numpy(), rel=1e-4, abs=1e-4)
    log_prob, entropy = Gaussian(3).evaluate(
        torch.from_numpy(out), torch.from_numpy(decision.action), None
    )
    assert torch.allclose(log_prob, expected, atol=1e-4)
    assert torch.allclose(entropy, normal.entropy().sum(1), atol=1e-5)


@pytest.mark.parametrize("masked", [False, True])
def test_evaluated_log_probs_equal_the_sampled_ones(masked):
    rng = np.random.default_rng(2)
    logits = (3 * rng.standard_normal((200, 5))).astype(np.float32)
    mask = rng.random((200, 5)) < 0.5 if masked else None
    choices = Categorical([5], single=True)
    decision = sample(choices, logits, mask)
    legal = None if mask is None else torch.from_numpy(mask)
    log_prob, entropy = choices.evaluate(
        torch.from_numpy(logits), torch.from_numpy(decision.action), legal
    )
    assert log_prob.numpy() == pytest.approx(decision.log_prob, abs=1e-5)
    for i in range(200):
        usable = mask[i] if masked and mask[i].any() else np.ones(5, np.bool_)
        probs = torch.from_numpy(logits[i][usable]).softmax(0)
        assert float(entropy[i]) == pytest.approx(
            float(torch.distributions.Categorical(probs).entropy()), abs=1e-5
        )


def test_the_mode_is_the_most_likely_legal_action():
    out = torch.tensor([[3.0, 2.0, 1.0, 0.0, 5.0], [3.0, 2.0, 1.0, 0.0, 5.0]])
    mask = torch.tensor([[False, True, True, True, False], [False] * 5])
    assert Categorical([5], single=True).mode(out, mask).tolist() == [1, 4]
    assert Categorical([3, 2], single=False).mode(out, None).tolist() == [[0, 1], [0, 1]]
    assert Gaussian(2).mode(torch.tensor([[0.5, -2.0, 9.0, 9.0]]), None).tolist() == [[0.5, -2.0]]


def test_every_action_space_has_its_distribution():
    assert distribution_of(DiscreteSpec(4)).outputs == 4
    assert distribution_of(MultiDiscreteSpec((2, 3))).outputs == 5
    assert distribution_of(BoxSpec((3,), -1, 1)).outputs == 3
