"""The noise of Q-networks with noisy layers."""

from __future__ import annotations

import numpy as np
import torch

from briskrl.core.spec import ArraySpec
from briskrl.nets.bodies import BodyOptions
from briskrl.nets.q_network import QOptions, build_q_network


def noisy_network():
    options = QOptions(BodyOptions("mlp", (6,), ()), True, 0.5, 1)
    spec = ArraySpec.of((4,), np.float32, 0, 1)
    return build_q_network(spec, 3, options, torch.Generator().manual_seed(0))


def test_noise_is_the_signed_root_of_normal_numbers():
    """Fortunato 2018, section 3b: f(x) = sgn(x) sqrt(|x|)."""
    network = noisy_network()
    noise = network.draw_noise(torch.Generator().manual_seed(1))
    # Advantages (6 -> 3) and the value (6 -> 1) have one number per input and per output.
    normal = torch.randn((6 + 3) + (6 + 1), generator=torch.Generator().manual_seed(1))
    assert torch.allclose(noise * noise.abs(), normal)
    assert not torch.allclose(noise, normal)


def test_a_weight_moves_by_sigma_times_the_noise_of_its_input_and_output():
    network = noisy_network()
    noise = torch.arange(1.0, 17.0)
    network.set_noise(noise)
    hidden = torch.eye(6)
    layer = network.head.advantage
    moved = layer(hidden) - torch.nn.functional.linear(hidden, layer.weight, layer.bias)
    sigma = 0.5 / 6**0.5
    into, out_of = noise[:6], noise[6:9]
    expected = sigma * (torch.outer(into, out_of) + out_of)
    assert torch.allclose(moved, expected, atol=1e-5)
