"""Flat parameters and their Adam behave like torch's."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from briskrl.nets.flat_parameters import FlatAdam, FlatParameters


def small_network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def test_named_parameters_are_views_of_the_buffer():
    network = small_network()
    before = [parameter.detach().clone() for parameter in network.parameters()]
    flat = FlatParameters(network)
    for parameter, value in zip(network.parameters(), before, strict=True):
        assert torch.equal(parameter, value)
    flat.values.zero_()
    assert all(not parameter.any() for parameter in network.parameters())


def test_adam_equals_torchs_over_a_thousand_steps():
    ours, theirs = small_network(), small_network()
    flat = FlatParameters(ours)
    adam = FlatAdam(flat, lr=1e-2, eps=1e-8)
    reference = torch.optim.Adam(theirs.parameters(), lr=1e-2, eps=1e-8)
    generator = torch.Generator().manual_seed(5)
    for _ in range(1000):
        obs = torch.randn(16, 4, generator=generator)
        flat.gradients.zero_()
        ours(obs).square().mean().backward()
        reference.zero_grad()
        theirs(obs).square().mean().backward()
        adam.step()
        reference.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("limit", "scale"), [(0.0, 1.0), (100.0, 1.0), (2.5, 0.5)])
def test_gradients_are_scaled_down_to_the_limit_and_never_up(limit, scale):
    flat = FlatParameters(nn.Linear(1, 1))
    flat.gradients.copy_(torch.tensor([3.0, 4.0]))
    assert flat.clip_gradients(limit) == pytest.approx(5.0)
    assert flat.gradients.tolist() == pytest.approx([3.0 * scale, 4.0 * scale])
