"""Hand-written gradients are those of autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from briskrl.algos.losses import huber, huber_slope
from briskrl.core.spec import ArraySpec
from briskrl.nets.bodies import BodyOptions
from briskrl.nets.build import QOptions, build_q_network
from briskrl.nets.by_hand import HandGradient
from briskrl.nets.flat import FlatParameters


def network(widths=(16, 8), *, shape=(5,), dtype=np.float32, **changes):
    values = {"dueling": False, "noisy_sigma": None, "atoms": 1}
    options = QOptions(BodyOptions("auto", widths, (4,)), **{**values, **changes})
    generator = torch.Generator().manual_seed(3)
    return build_q_network(ArraySpec.of(shape, dtype, 0, 1), 4, options, generator)


@settings(max_examples=40, deadline=None)
@given(
    widths=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    inputs=st.integers(1, 20),
    batches=st.lists(st.integers(1, 50), min_size=1, max_size=3),
)
def test_outputs_and_gradients_equal_autograd_for_any_stack(widths, inputs, batches):
    net = network(tuple(widths), shape=(inputs,))
    flat = FlatParameters(net)
    by_hand = HandGradient.of(net)
    generator = torch.Generator().manual_seed(len(widths))
    for rows in batches:
        obs = torch.randn(rows, inputs, generator=generator)
        slope = torch.randn(rows, 4, generator=generator)
        flat.gradients.zero_()
        out = net(obs)
        out.backward(slope)
        expected = flat.gradients.clone()
        flat.gradients.fill_(torch.nan)
        assert torch.allclose(by_hand.forward(obs), out, atol=1e-6)
        by_hand.backward(slope)
        scale = float(expected.abs().max())
        assert torch.allclose(flat.gradients, expected, rtol=1e-5, atol=1e-5 * scale)


def test_it_follows_the_parameters_as_they_change():
    net = network()
    flat = FlatParameters(net)
    by_hand = HandGradient.of(net)
    obs = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    flat.values.mul_(0.5)
    assert torch.allclose(by_hand.forward(obs), net(obs), atol=1e-6)


@pytest.mark.parametrize(
    "changes",
    [
        {"dueling": True},
        {"noisy_sigma": 0.5},
        {"atoms": 5},
        {"shape": (2, 4, 4)},
        {"dtype": np.uint8},
    ],
)
def test_other_networks_are_left_to_autograd(changes):
    net = network(**changes)
    FlatParameters(net)
    assert HandGradient.of(net) is None


@pytest.mark.parametrize("weighted", [False, True])
def test_the_slope_is_the_derivative_of_the_loss(weighted):
    generator = torch.Generator().manual_seed(1)
    prediction = (3 * torch.randn(20, 1, generator=generator)).requires_grad_()
    target = torch.randn(20, 1, generator=generator)
    weight = torch.rand(20, 1, generator=generator) if weighted else None
    huber(prediction, target, weight).backward()
    slope = huber_slope(prediction.detach() - target, weight)
    assert torch.allclose(slope, prediction.grad, atol=1e-7)
