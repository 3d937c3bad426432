"""Fully convolutional networks: one output per cell, the same weights for boards of any size."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from briskrl.core.errors import ConfigError
from briskrl.core.spec import ArraySpec
from briskrl.nets.actor_critic import ActorCriticOptions, build_actor_critic
from briskrl.nets.bodies import BodyOptions, FCNBody, MLPBody
from briskrl.nets.body_choice import build_body
from briskrl.nets.flat_parameters import FlatParameters
from briskrl.nets.image_bodies import CNNBody
from briskrl.nets.q_network import QOptions, build_q_network

PLANES = 3


def obs_spec(height, width, planes=PLANES):
    return ArraySpec.of((planes, height, width), np.float32, 0, 1)


def value_network(height, width, *, dueling=False, atoms=1, noisy=None, channels=(4, 4, 6), seed=0):
    options = QOptions(BodyOptions("fcn", (8,), channels), dueling, noisy, atoms)
    generator = torch.Generator().manual_seed(seed)
    return build_q_network(obs_spec(height, width), height * width, options, generator)


def actor_critic(height, width, *, shared=False, seed=0):
    options = ActorCriticOptions(
        body=BodyOptions("fcn", (8,), (4, 4, 6), "tanh"),
        shared=shared,
        standardize=False,
        continuous=False,
    )
    generator = torch.Generator().manual_seed(seed)
    return build_actor_critic(obs_spec(height, width), height * width, options, generator)


def boards(count, height, width, seed=0):
    return torch.from_numpy(
        np.random.default_rng(seed).random((count, PLANES, height, width), np.float32)
    )


@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("atoms", [1, 5])
@pytest.mark.parametrize("noisy", [None, 0.5])
def test_one_set_of_weights_serves_boards_of_any_size(dueling, atoms, noisy):
    small, large = (
        value_network(*size, dueling=dueling, atoms=atoms, noisy=noisy) for size in ((5, 7), (9, 4))
    )
    assert torch.equal(FlatParameters(small).values, FlatParameters(large).values)
    seen = boards(2, 9, 4)
    out = small(seen)
    assert out.shape == ((2, 36) if atoms == 1 else (2, 36, 5))
    assert torch.equal(out, large(seen))


@pytest.mark.parametrize("shared", [False, True])
def test_policies_and_values_serve_boards_of_any_size(shared):
    small, large = actor_critic(5, 7, shared=shared), actor_critic(9, 4, shared=shared)
    seen = boards(2, 9, 4)
    (policy, value), (same_policy, same_value) = small(seen), large(seen)
    assert (policy.shape, value.shape) == ((2, 36), (2, 1))
    assert torch.equal(policy, same_policy)
    assert torch.equal(value, same_value)
    assert torch.equal(small.policy(seen), policy)
    assert torch.equal(small.values(seen), value)


def test_outputs_belong_to_their_own_cells():
    network = value_network(12, 12, channels=(4, 4))
    head = network.head.advantage
    with torch.no_grad():
        # Without the context of the whole board, a change affects only neighbors.
        head.context.weight.zero_()
        seen = boards(1, 12, 12)
        changed = seen.clone()
        changed[0, :, 5, 8] += 1
        moved = (network(seen) != network(changed)).view(12, 12)
    rows, columns = np.nonzero(moved.numpy())
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (3, 7, 6, 10)
    assert len(rows) > 15


def test_the_output_of_every_cell_depends_on_the_whole_board():
    network = value_network(12, 12, channels=(4, 4))
    with torch.no_grad():
        seen = boards(1, 12, 12)
        changed = seen.clone()
        changed[0, :, 0, 0] += 3
        assert network(seen)[0, -1] != network(changed)[0, -1]


def test_the_usual_six_layers_cover_a_board_of_20_by_20():
    body = FCNBody((PLANES, 20, 20), (16,) * 6)
    reach = 1 + sum(block.convolution.dilation[0] for block in body.blocks)
    assert 2 * reach + 1 >= 20
    assert body(boards(1, 20, 20)).shape == (1, 16, 20, 20)


def test_dueling_values_differ_from_their_advantages_by_one_number_per_board():
    network = value_network(5, 7, dueling=True)
    with torch.no_grad():
        features = network.body(boards(3, 5, 7))
        q = network.head(features)
        advantage = network.head.advantage(features).squeeze(2)
        value = network.head.value(features)
    centered = advantage - advantage.mean(1, keepdim=True)
    assert torch.allclose(q - q.mean(1, keepdim=True), centered, atol=1e-6)
    assert torch.allclose(q.mean(1, keepdim=True), value, atol=1e-6)


def test_noise_moves_all_cells_and_is_off_in_evaluation_mode():
    network = value_network(5, 7, dueling=True, noisy=0.5)
    seen = boards(1, 5, 7)
    with torch.no_grad():
        network.set_noise(network.draw_noise(torch.Generator().manual_seed(1)))
        noisy = network(seen)
        plain = network.eval()(seen)
    assert (noisy != plain).all()


def test_gradients_reach_every_parameter_of_flat_networks():
    network = actor_critic(6, 6)
    flat = FlatParameters(network)
    policy, value = network(boards(8, 6, 6))
    (policy[:, 3].square().sum() + value.sum()).backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad.abs().sum() > 0, name
    assert flat.gradients.abs().sum() > 0


def test_auto_takes_one_output_per_cell_where_there_is_an_action_for_each():
    options = BodyOptions("auto", (8,), None)
    assert isinstance(build_body(obs_spec(4, 6), options, 24), FCNBody)
    assert isinstance(build_body(obs_spec(4, 6), options, 4), CNNBody)
    assert isinstance(build_body(ArraySpec.of((24,), np.float32, 0, 1), options, 24), MLPBody)


@pytest.mark.parametrize(
    ("shape", "outputs", "said"),
    [((3, 4, 6), 4, "4 for planes of 4x6"), ((24,), 24, "needs planes")],
)
def test_spaces_without_an_output_per_cell_are_rejected(shape, outputs, said):
    with pytest.raises(ConfigError, match=said):
        build_body(ArraySpec.of(shape, np.float32, 0, 1), BodyOptions("fcn", (8,), (4,)), outputs)
