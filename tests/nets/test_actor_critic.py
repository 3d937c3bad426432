"""Initial weights and structure of actor-critic networks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from briskrl.core.spec import ArraySpec
from briskrl.nets.actor_critic import ActorCriticOptions, build_actor_critic
from briskrl.nets.bodies import BodyOptions
from briskrl.nets.flat_parameters import FlatParameters


def build(
    widths=(16, 8),
    *,
    shape=(5,),
    dtype=np.float32,
    outputs=3,
    activation="tanh",
    shared=False,
    standardize=False,
    continuous=False,
    seed=0,
):
    options = ActorCriticOptions(
        body=BodyOptions("auto", widths, (4,), activation),
        shared=shared,
        standardize=standardize,
        continuous=continuous,
    )
    generator = torch.Generator().manual_seed(seed)
    return build_actor_critic(ArraySpec.of(shape, dtype, 0, 1), outputs, options, generator)


def test_weights_are_orthogonal_with_the_gains_of_their_layers():
    net = build((64, 32), shape=(8,), outputs=4)
    first, second = (layer.weight.detach() for layer in net.policy_body.layers)
    assert torch.allclose(first.T @ first, 2 * torch.eye(8), atol=1e-5)
    assert torch.allclose(second @ second.T, 2 * torch.eye(32), atol=1e-5)
    head = net.policy_head.weight.detach()
    assert torch.allclose(head @ head.T, 1e-4 * torch.eye(4), atol=1e-8)
    assert float(net.value_head.weight.detach().norm()) == pytest.approx(1, abs=1e-5)
    assert not any(layer.bias.any() for layer in (*net.policy_body.layers, net.value_head))


@pytest.mark.parametrize("options", [{}, {"shape": (2, 4, 4), "dtype": np.uint8}])
def test_weights_depend_on_the_generator_only(options):
    torch.manual_seed(1)
    first = FlatParameters(build(seed=5, **options)).values
    torch.manual_seed(2)
    assert torch.equal(first, FlatParameters(build(seed=5, **options)).values)
    assert not torch.equal(first, FlatParameters(build(seed=6, **options)).values)


def test_weights_do_not_depend_on_the_number_of_threads():
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(FlatParameters(build((64, 64), seed=5)).values)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)


def test_a_shared_body_is_counted_and_named_once():
    shared, apart = build(shared=True), build(shared=False)
    names = [name for name, _ in shared.named_parameters()]
    assert not any(name.startswith("value_body") for name in names)
    body = sum(p.numel() for p in shared.policy_body.parameters())
    assert len(FlatParameters(apart).values) - len(FlatParameters(shared).values) == body


def test_standard_deviations_of_continuous_policies_do_not_depend_on_observations():
    net = build(continuous=True, outputs=2)
    with torch.no_grad():
        net.log_std.copy_(torch.tensor([-1.0, 0.5]))
        out = net.policy(torch.randn(6, 5))
    assert out.shape == (6, 4)
    assert torch.equal(out[:, 2:], torch.tensor([-1.0, 0.5]).expand(6, 2))


def test_standardized_observations_are_centered_scaled_and_clipped():
    net = build(standardize=True, shape=(2,))
    obs = torch.tensor([[3.0, 500.0], [1.0, -500.0]])
    assert torch.equal(net.inputs(obs), obs.clamp(-10, 10))
    net.inputs.set_moments(np.array([1.0, 0.0]), np.array([4.0, 2.0]))
    assert net.inputs(obs).tolist() == [[0.5, 10.0], [0.0, -10.0]]
