"""The distribution over ordered subsets against values computed by hand."""

from __future__ import annotations

from itertools import permutations
from math import log

import numpy as np
import pytest
import torch

from briskrl.algos.distributions import Subset, best_actions, distribution_of
from briskrl.core.spec import SubsetSpec
from briskrl.core.types import Decision

LOGITS = torch.log(torch.tensor([[1.0, 2.0, 3.0]]))


def evaluate(action, mask=None, logits=LOGITS):
    action = torch.tensor(action)
    mask = None if mask is None else torch.tensor(mask)
    rows = logits.expand(len(action), -1)
    return Subset(logits.shape[1], action.shape[1]).evaluate(rows, action, mask)


def entropy(*probs):
    return -sum(p * log(p) for p in probs if p)


def test_log_prob_and_entropy_of_an_ordered_subset_by_hand():
    log_prob, spread = evaluate([[2, 0], [0, 1]])
    assert log_prob.tolist() == pytest.approx([log(3 / 6 * 1 / 3), log(1 / 6 * 2 / 5)])
    first = entropy(1 / 6, 2 / 6, 3 / 6)
    after = [entropy(1 / 3, 2 / 3), entropy(2 / 5, 3 / 5)]
    assert spread.tolist() == pytest.approx([first + after[0], first + after[1]])


def test_illegal_actions_have_no_probability_and_missing_ones_change_nothing():
    log_prob, spread = evaluate([[2, 0, -1]], mask=[[True, False, True]])
    assert log_prob.item() == pytest.approx(log(3 / 4))
    assert spread.item() == pytest.approx(entropy(1 / 4, 3 / 4), abs=1e-6)


def test_a_row_without_legal_actions_counts_as_if_all_were_legal():
    log_prob, _ = evaluate([[1, 2]], mask=[[False, False, False]])
    assert log_prob.item() == pytest.approx(log(2 / 6 * 3 / 4))


def test_the_mean_entropy_of_the_draws_is_the_entropy_of_ordered_subsets():
    logits = torch.tensor([[0.2, -0.7, 1.3, 0.4]])
    orders = list(permutations(range(4), 3))
    log_prob, spread = evaluate([list(order) for order in orders], logits=logits)
    probs = log_prob.double().exp()
    assert probs.sum().item() == pytest.approx(1, abs=1e-6)
    whole = -(probs * probs.log()).sum().item()
    assert (probs * spread.double()).sum().item() == pytest.approx(whole, abs=1e-6)


def test_sampled_log_probs_equal_the_evaluated_ones():
    rng = np.random.default_rng(0)
    logits = (3 * rng.standard_normal((64, 10))).astype(np.float32)
    mask = rng.random((64, 10)) < 0.4
    decision = Decision(np.zeros((64, 4), np.int64), np.zeros(64, np.float32))
    chosen = distribution_of(SubsetSpec(10, 4))
    chosen.sample(logits, mask, rng, decision)
    log_prob, _ = chosen.evaluate(
        torch.from_numpy(logits), torch.from_numpy(decision.action), torch.from_numpy(mask)
    )
    assert (decision.action == -1).any()
    np.testing.assert_allclose(log_prob.numpy(), decision.log_prob, rtol=1e-4, atol=1e-5)


def test_gradients_are_finite_where_actions_are_illegal_or_missing():
    logits = torch.randn(3, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
    mask = torch.tensor([[True, True, False, False, False]] * 3)
    action = torch.tensor([[0, 1, -1], [1, 0, -1], [1, 0, -1]])
    log_prob, spread = Subset(5, 3).evaluate(logits, action, mask)
    (log_prob + spread).sum().backward()
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[:, 2:] == 0).all()
    # With one draw, what one action gains in probability the other loses.
    assert torch.allclose(logits.grad[:, 0], -logits.grad[:, 1], atol=1e-6)


def test_the_best_actions_come_best_first_and_are_padded():
    values = torch.tensor([[1.0, 5.0, 3.0, 4.0], [1.0, 5.0, 3.0, 4.0], [9.0, 8.0, 7.0, 6.0]])
    mask = torch.tensor([[True] * 4, [True, False, True, False], [False] * 4])
    assert best_actions(values, mask, 3).tolist() == [[1, 3, 2], [2, 0, -1], [0, 1, 2]]
    assert best_actions(values[:1], None, 5).tolist() == [[1, 3, 2, 0, -1]]
    assert Subset(4, 2).mode(values, mask).tolist() == [[1, 3], [2, 0], [0, 1]]
