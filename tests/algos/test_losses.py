"""The losses against values computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from briskrl.algos.losses import (
    cross_entropy,
    huber,
    large_margin,
    legal_values,
    project_distribution,
    quantile_huber,
    surrogate,
    td_target,
    value_error,
)


def test_td_target_bootstraps_by_its_discount():
    target = td_target(
        torch.tensor([1.0, 2.0, -10.0]),
        torch.tensor([0.9, 0.81, 0.0]),
        torch.tensor([10.0, 5.0, 99.0]),
    )
    assert target.tolist() == pytest.approx([10.0, 6.05, -10.0])


def test_huber_is_quadratic_inside_one_and_linear_outside():
    predictions = torch.tensor([2.0, 2.5, 1.5, 3.0, 5.0, -2.0])
    values = [huber(value, torch.tensor(2.0)).item() for value in predictions]
    assert values == pytest.approx([0.0, 0.125, 0.125, 0.5, 2.5, 3.5])


def test_huber_takes_the_weighted_mean():
    predictions, target = torch.tensor([0.0, 3.0]), torch.zeros(2)
    assert huber(predictions, target).item() == pytest.approx(1.25)
    assert huber(predictions, target, torch.tensor([1.0, 0.5])).item() == pytest.approx(0.625)


def test_huber_gradient_is_the_clipped_error():
    error = torch.tensor([0.3, -0.7, 2.0, -9.0], requires_grad=True)
    huber(error, torch.zeros(4)).backward()
    assert (4 * error.grad).tolist() == pytest.approx([0.3, -0.7, 1.0, -1.0])


def test_illegal_actions_are_never_the_best():
    values = torch.tensor([[1.0, 5.0, 2.0], [1.0, 5.0, 2.0]])
    mask = torch.tensor([[True, False, True], [False, False, False]])
    masked = legal_values(values, mask)
    assert masked.argmax(1).tolist() == [2, 1]
    assert masked[0, 1] == -torch.inf
    assert torch.equal(masked[1], values[1])


def test_quantile_huber_by_hand():
    quantiles = torch.tensor([[0.0, 3.0]], requires_grad=True)
    target = torch.tensor([[0.5, 4.0]])
    # Errors 0.5 and 4 of the first quantile (probability 0.25), -2.5 and 1 of the second (0.75).
    expected = 0.25 * (0.125 + 3.5) / 2 + (0.25 * 2.0 + 0.75 * 0.5) / 2
    loss = quantile_huber(quantiles, target)
    assert loss.tolist() == pytest.approx([expected])
    loss.sum().backward()
    by_hand = [-0.25 * (0.5 + 1) / 2, -(0.25 * -1 + 0.75 * 1) / 2]
    assert quantiles.grad[0].tolist() == pytest.approx(by_hand)


def test_the_quantile_huber_loss_is_lowest_at_the_quantiles():
    samples = torch.arange(1000.0)[None] * 10
    quantiles = torch.zeros(1, 4, requires_grad=True)
    for _ in range(3000):
        (gradient,) = torch.autograd.grad(quantile_huber(quantiles, samples).sum(), quantiles)
        with torch.no_grad():
            quantiles -= 30 * gradient
    assert quantiles[0].tolist() == pytest.approx([1250, 3750, 6250, 8750], abs=40)


SUPPORT = torch.tensor([0.0, 1.0, 2.0, 3.0])


def test_projection_by_hand():
    # Return 1 with certainty; reward 0.5, discount 0.5 moves it to 1.0; a shift by 0.25 splits 3:1.
    probabilities = torch.tensor([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.5, 0.0, 0.0, 0.5]])
    reward = torch.tensor([0.5, 0.25, 1.0])
    discount = torch.tensor([0.5, 0.5, 0.0])
    projected = project_distribution(probabilities, reward, discount, SUPPORT)
    expected = [[0, 1, 0, 0], [0, 0.75, 0.25, 0], [0, 1, 0, 0]]
    assert projected.tolist() == [pytest.approx(row) for row in expected]


def test_projection_clamps_to_the_ends_of_the_support():
    probabilities = torch.tensor([[0.25, 0.25, 0.25, 0.25]] * 2)
    projected = project_distribution(
        probabilities, torch.tensor([100.0, -100.0]), torch.tensor([1.0, 1.0]), SUPPORT
    )
    assert projected.tolist() == [[0, 0, 0, 1], [1, 0, 0, 0]]


def projection_reference(probabilities, reward, discount, support):
    """One atom at a time, in plain Python."""
    low, high, count = support[0], support[-1], len(support)
    spacing = (high - low) / (count - 1)
    out = [0.0] * count
    for value, probability in zip(support, probabilities, strict=True):
        moved = min(high, max(low, reward + discount * value))
        position = (moved - low) / spacing
        below = min(int(position), count - 1)
        above = min(below + 1, count - 1)
        out[below] += probability * (1 - (position - below))
        out[above] += probability * (position - below)
    return out


@given(
    seed=st.integers(0, 2**32 - 1),
    atoms=st.integers(2, 60),
    reward=st.floats(-30, 30),
    discount=st.sampled_from([0.0, 0.5, 0.97, 0.99**3, 1.0]),
)
def test_projection_equals_the_slow_one_and_keeps_all_probability(seed, atoms, reward, discount):
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.ones(atoms))
    support = np.linspace(-20.0, 60.0, atoms)
    projected = project_distribution(
        torch.tensor(probabilities)[None],
        torch.tensor([reward], dtype=torch.float64),
        torch.tensor([discount], dtype=torch.float64),
        torch.tensor(support),
    )[0]
    assert projected.sum().item() == pytest.approx(1.0)
    expected = projection_reference(probabilities, reward, discount, support)
    assert projected.numpy() == pytest.approx(np.array(expected), abs=1e-9)


def test_projection_keeps_nan():
    probs = torch.full((2, 4), 0.25)
    reward, discount = torch.tensor([torch.nan, 1.0]), torch.tensor([0.9, 0.9])
    projected = project_distribution(probs, reward, discount, SUPPORT)
    assert projected[0].isnan().any()
    assert projected[1].isfinite().all()


def test_cross_entropy_by_hand():
    logits = torch.log(torch.tensor([[0.5, 0.25, 0.25]]))
    target = torch.tensor([[1.0, 0.0, 0.0]])
    assert cross_entropy(logits, target).item() == pytest.approx(0.6931472)


def test_cross_entropy_gradient_is_the_difference_of_distributions():
    logits = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    target = torch.rand(5, 7, dtype=torch.float64).softmax(1)
    cross_entropy(logits, target).sum().backward()
    assert torch.allclose(logits.grad, logits.detach().softmax(1) - target)


def test_the_clipped_surrogate_by_hand():
    ratio = torch.tensor([1.5, 1.5, 0.5, 0.5, 1.1])
    advantage = torch.tensor([2.0, -2.0, 2.0, -2.0, 3.0])
    losses = surrogate(ratio.log(), torch.zeros(5), advantage, 0.2)
    # Gains are clipped at ratios 1.2 and 0.8; losses are not.
    assert losses.tolist() == pytest.approx([-2.4, 3.0, -1.0, 1.6, -3.3])


def test_the_surrogate_without_clip_is_the_policy_gradient():
    log_prob = torch.tensor([-1.0, -2.0])
    losses = surrogate(log_prob, torch.tensor([5.0, 5.0]), torch.tensor([3.0, -1.0]), 0.0)
    assert losses.tolist() == [3.0, -2.0]


def test_the_clipped_value_loss_takes_the_larger_error():
    value, before, returns = torch.tensor([5.0, 5.0, 1.2]), torch.tensor(1.0), torch.tensor(0.0)
    assert value_error(value, before, returns, 0.0).tolist() == pytest.approx([25, 25, 1.44])
    # Clipped to 1.5, which is nearer to 0 than 5 is, but the larger error counts.
    assert value_error(value, before, returns, 0.5).tolist() == pytest.approx([25, 25, 1.44])
    assert value_error(value, before, torch.tensor(6.0), 0.5)[0].item() == pytest.approx(4.5**2)


def test_large_margin_by_hand():
    values = torch.tensor([[1.0, 3.0, 2.5], [1.0, 3.0, 2.5], [0.0, 5.0, 1.0]])
    losses = large_margin(values, torch.tensor([[1], [0], [1]]), 0.8)
    # Ahead by 0.5 instead of 0.8; behind by 2; ahead by 4, which is enough.
    assert losses.tolist() == pytest.approx([0.3, 2.8, 0.0])


def test_large_margin_raises_the_teachers_action_and_lowers_the_best_other():
    values = torch.tensor([[1.0, 3.0, 2.5]], requires_grad=True)
    large_margin(values, torch.tensor([[0]]), 0.8).sum().backward()
    assert values.grad.tolist() == [[-1.0, 1.0, 0.0]]


@given(seed=st.integers(0, 1000), margin=st.floats(0, 3))
def test_large_margin_equals_the_formula_of_the_paper(seed, margin):
    rng = np.random.default_rng(seed)
    values, taught = rng.standard_normal((6, 5)), rng.integers(5, size=(6, 1))
    losses = large_margin(torch.from_numpy(values), torch.from_numpy(taught), margin)
    for row, own, loss in zip(values, taught[:, 0], losses.tolist(), strict=True):
        lead = [value + margin * (action != own) for action, value in enumerate(row)]
        assert loss == pytest.approx(max(lead) - row[own])
