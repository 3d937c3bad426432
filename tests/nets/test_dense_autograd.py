"""DenseNet computes the outputs and gradients of the networks it is built from."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from briskrl.core.spec import ArraySpec
from briskrl.nets.actor_critic import ActorCriticOptions, build_actor_critic
from briskrl.nets.bodies import BodyOptions
from briskrl.nets.dense_autograd import MAX_CACHED_SIZES, DenseActorCritic, DenseQ
from briskrl.nets.flat_parameters import FlatParameters
from briskrl.nets.q_network import QOptions, build_q_network

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}


def pair(*, inputs=5, widths=(7, 9), activation="tanh", shared=False, continuous=False, dtype=None):
    """A network, its flat parameters, and its DenseActorCritic."""
    options = ActorCriticOptions(
        body=BodyOptions("mlp", widths, (), activation),
        shared=shared,
        standardize=False,
        continuous=continuous,
    )
    spec = ArraySpec((inputs,), np.dtype(np.float32), -1.0, 1.0)
    network = build_actor_critic(spec, 3, options, torch.Generator().manual_seed(1))
    network = network.to(dtype or torch.float32)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.3 * torch.randn(parameter.shape).to(parameter.dtype)
    flat = FlatParameters(network)
    return network, flat, DenseActorCritic(network)


def gradient(forward, flat, obs, passes=1):
    """The flat gradient of a smooth function of both outputs, summed over passes."""
    flat.gradients.zero_()
    for _ in range(passes):
        out, value = forward(obs)
        (out.sin().sum() + (value.squeeze(1) * out[:, 0]).sum()).backward()
    return flat.gradients.clone()


def check(network, flat, dense, obs, passes=1):
    tolerance = TOLERANCE[obs.dtype]
    expected = gradient(network, flat, obs, passes)
    found = gradient(dense, flat, obs, passes)
    assert expected.abs().max() > 0
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance * 10)
    for mine, theirs in zip(dense(obs), network(obs), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)


@given(
    inputs=st.integers(1, 40),
    widths=st.lists(st.integers(1, 40), max_size=3),
    rows=st.integers(1, 60),
    activation=st.sampled_from(["tanh", "relu"]),
    shared=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_outputs_and_gradients_equal_those_of_autograd(
    inputs, widths, rows, activation, shared, dtype
):
    torch.manual_seed(3)
    network, flat, dense = pair(
        inputs=inputs, widths=widths, activation=activation, shared=shared, dtype=dtype
    )
    check(network, flat, dense, torch.randn(rows, inputs).to(dtype))


def test_deviations_of_continuous_actions_are_learned():
    network, flat, dense = pair(continuous=True)
    check(network, flat, dense, torch.randn(20, 5))
    assert network.log_std.grad.abs().sum() > 0


def test_gradients_of_several_passes_add_up():
    check(*pair(), torch.randn(20, 5), passes=3)


@pytest.mark.parametrize("shared", [False, True])
def test_policy_and_values_alone_are_the_same_outputs(shared):
    _, _, dense = pair(shared=shared)
    obs = torch.randn(33, 5)
    out, value = (output.detach() for output in dense(obs))
    with torch.inference_mode():
        assert torch.equal(dense.policy(obs), out)
        assert torch.equal(dense.values(obs), value)


def test_buffers_made_while_acting_can_be_used_for_updates():
    network, flat, dense = pair()
    obs = torch.randn(6, 5)
    with torch.inference_mode():
        dense.policy(obs)
        dense.values(obs)
    check(network, flat, dense, obs)


def test_any_number_of_different_sizes_is_computed_correctly():
    network, _, dense = pair()
    with torch.inference_mode():
        for rows in [*range(1, 2 * MAX_CACHED_SIZES), 3]:
            obs = torch.randn(rows, 5)
            torch.testing.assert_close(dense.policy(obs), network.policy(obs))


def test_parameters_are_read_in_place():
    network, flat, dense = pair()
    flat.values.mul_(0.5)
    check(network, flat, dense, torch.randn(8, 5))


def test_a_backward_pass_whose_activations_are_gone_is_refused():
    _, _, dense = pair()
    out, _ = dense(torch.randn(8, 5))
    dense.policy(torch.randn(8, 5))
    with pytest.raises(RuntimeError, match="Another pass"):
        out.sum().backward()


def q_network(*, widths=(7, 9), activation="relu", dueling=False, atoms=1, noisy=None, kind="mlp"):
    options = QOptions(
        body=BodyOptions(kind, widths, (4,), activation),
        dueling=dueling,
        noisy_sigma=noisy,
        atoms=atoms,
    )
    shape = (5,) if kind == "mlp" else (2, 4, 4)
    spec = ArraySpec(shape, np.dtype(np.float32), -1.0, 1.0)
    return build_q_network(spec, 3, options, torch.Generator().manual_seed(1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("atoms", [1, 4])
@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize(("widths", "activation"), [((7, 9), "relu"), ((6,), "tanh"), ((), "relu")])
def test_a_q_network_has_the_same_outputs_and_gradients(widths, activation, dueling, atoms, dtype):
    network = q_network(widths=widths, activation=activation, dueling=dueling, atoms=atoms)
    network = network.to(dtype)
    flat = FlatParameters(network)
    assert DenseQ.can_compute(network)
    obs, tolerance = torch.randn(11, 5, dtype=dtype), TOLERANCE[dtype]
    found = []
    for forward in (network, DenseQ(network)):
        flat.gradients.zero_()
        out = forward(obs)
        out.sin().sum().backward()
        found.append((out.detach(), flat.gradients.clone()))
    assert found[0][1].abs().max() > 0
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance * 10)


def test_noisy_and_convolutional_q_networks_are_left_to_autograd():
    assert not DenseQ.can_compute(q_network(noisy=0.5))
    assert not DenseQ.can_compute(q_network(kind="cnn"))


def test_passes_of_different_sizes_share_buffers():
    """Otherwise every new number of rows would cost memory for good."""
    network = q_network()
    FlatParameters(network)
    dense = DenseQ(network)
    for rows in (5, 9, 2, 9, 7):
        dense(torch.randn(rows, 5)).sum().backward()
    buffers = dense._net._buffers
    assert sorted(buffers) == [2, 7, 9]
    assert len({room.hidden[0].data_ptr() for room in buffers.values()}) == 1
    assert len({room.gradients[1].data_ptr() for room in buffers.values()}) == 1
