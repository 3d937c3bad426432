"""Actor-critic networks: how they are made, and by hand as by autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from briskrl.core.spec import ArraySpec
from briskrl.nets.actor_critic import ActorCriticOptions, build_actor_critic
from briskrl.nets.bodies import BodyOptions
from briskrl.nets.by_hand import ActorCriticByHand
from briskrl.nets.flat import FlatParameters


def build(
    widths=(16, 8),
    *,
    shape=(5,),
    dtype=np.float32,
    outputs=3,
    activation="tanh",
    shared=False,
    standardise=False,
    continuous=False,
    seed=0,
):
    options = ActorCriticOptions(
        body=BodyOptions("auto", widths, (4,), activation),
        shared=shared,
        standardise=standardise,
        continuous=continuous,
    )
    generator = torch.Generator().manual_seed(seed)
    return build_actor_critic(ArraySpec.of(shape, dtype, 0, 1), outputs, options, generator)


@settings(max_examples=30)
@given(
    widths=st.lists(st.integers(1, 30), min_size=1, max_size=3),
    batches=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    activation=st.sampled_from(["tanh", "relu"]),
    shared=st.booleans(),
    standardise=st.booleans(),
)
def test_outputs_and_gradients_by_hand_equal_autograd(
    widths, batches, activation, shared, standardise
):
    net = build(tuple(widths), activation=activation, shared=shared, standardise=standardise)
    if standardise:
        net.inputs.set_moments(np.arange(5.0), np.arange(1.0, 6.0))
    flat = FlatParameters(net)
    # Biases of 0 let ReLU units sit exactly on their kink.
    flat.values += 0.1 * torch.randn(len(flat.values), generator=torch.Generator().manual_seed(2))
    by_hand = ActorCriticByHand.of(net)
    generator = torch.Generator().manual_seed(1)
    for rows in batches:
        obs = torch.randn(rows, 5, generator=generator)
        policy_slope = torch.randn(rows, 3, generator=generator)
        value_slope = torch.randn(rows, 1, generator=generator)
        flat.gradients.zero_()
        out, values = net(obs)
        torch.autograd.backward([out, values], [policy_slope, value_slope])
        expected = flat.gradients.clone()
        flat.gradients.fill_(torch.nan)
        assert torch.allclose(by_hand.policy(obs), out, atol=1e-6)
        assert torch.allclose(by_hand.values(obs), values, atol=1e-5)
        both = by_hand.forward(obs)
        assert torch.allclose(both[0], out, atol=1e-6)
        assert torch.allclose(both[1], values, atol=1e-5)
        by_hand.backward(policy_slope, value_slope)
        scale = float(expected.abs().max())
        assert torch.allclose(flat.gradients, expected, rtol=1e-5, atol=1e-5 * scale)


def test_weights_are_orthogonal_with_the_gains_of_their_places():
    net = build((64, 32), shape=(8,), outputs=4)
    first, second = (layer.weight.detach() for layer in net.policy_body.layers)
    assert torch.allclose(first.T @ first, 2 * torch.eye(8), atol=1e-5)
    assert torch.allclose(second @ second.T, 2 * torch.eye(32), atol=1e-5)
    head = net.policy_head.weight.detach()
    assert torch.allclose(head @ head.T, 1e-4 * torch.eye(4), atol=1e-8)
    assert float(net.value_head.weight.detach().norm()) == pytest.approx(1, abs=1e-5)
    assert not any(layer.bias.any() for layer in (*net.policy_body.layers, net.value_head))


@pytest.mark.parametrize("options", [{}, {"shape": (2, 4, 4), "dtype": np.uint8}])
def test_weights_depend_on_the_generator_alone(options):
    torch.manual_seed(1)
    first = FlatParameters(build(seed=5, **options)).values
    torch.manual_seed(2)
    assert torch.equal(first, FlatParameters(build(seed=5, **options)).values)
    assert not torch.equal(first, FlatParameters(build(seed=6, **options)).values)


def test_a_shared_body_is_counted_and_named_once():
    shared, apart = build(shared=True), build(shared=False)
    names = [name for name, _ in shared.named_parameters()]
    assert not any(name.startswith("value_body") for name in names)
    body = sum(p.numel() for p in shared.policy_body.parameters())
    assert len(FlatParameters(apart).values) - len(FlatParameters(shared).values) == body


def test_continuous_policies_have_deviations_that_observations_do_not_change():
    net = build(continuous=True, outputs=2)
    with torch.no_grad():
        net.log_std.copy_(torch.tensor([-1.0, 0.5]))
        out = net.policy(torch.randn(6, 5))
    assert out.shape == (6, 4)
    assert torch.equal(out[:, 2:], torch.tensor([-1.0, 0.5]).expand(6, 2))


@pytest.mark.parametrize("options", [{"continuous": True}, {"shape": (2, 4, 4), "dtype": np.uint8}])
def test_other_networks_are_left_to_autograd(options):
    net = build(**options)
    FlatParameters(net)
    assert ActorCriticByHand.of(net) is None


def test_standardised_observations_are_centred_scaled_and_cut_off():
    net = build(standardise=True, shape=(2,))
    obs = torch.tensor([[3.0, 500.0], [1.0, -500.0]])
    assert torch.equal(net.inputs(obs), obs.clamp(-10, 10))
    net.inputs.set_moments(np.array([1.0, 0.0]), np.array([4.0, 2.0]))
    assert net.inputs(obs).tolist() == [[0.5, 10.0], [0.0, -10.0]]
