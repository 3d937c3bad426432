"""The on-policy loss by hand, and its hand-written gradient against autograd's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from briskrl.algos.losses import surrogate, value_error
from briskrl.algos.policy_gradient import METRICS, GradientByAutograd, GradientByHand
from briskrl.core.clock import Clock
from briskrl.nets.by_hand import ActorCriticByHand
from briskrl.nets.compute import Compute
from tests.algos.rollouts import config, digested, move, parameters, spec


def test_the_clipped_surrogate_by_hand():
    ratio = torch.tensor([1.5, 1.5, 0.5, 0.5, 1.1])
    advantage = torch.tensor([2.0, -2.0, 2.0, -2.0, 3.0])
    losses = surrogate(ratio.log(), torch.zeros(5), advantage, 0.2)
    # Gains are cut off at 1.2 and 0.8; losses are taken in full.
    assert losses.tolist() == pytest.approx([-2.4, 3.0, -1.0, 1.6, -3.3])


def test_without_clip_it_is_the_policy_gradient():
    log_prob = torch.tensor([-1.0, -2.0])
    losses = surrogate(log_prob, torch.tensor([5.0, 5.0]), torch.tensor([3.0, -1.0]), 0.0)
    assert losses.tolist() == [3.0, -2.0]


def test_clipped_values_take_the_worse_error():
    value, before, ret = torch.tensor([5.0, 5.0, 1.2]), torch.tensor(1.0), torch.tensor(0.0)
    assert value_error(value, before, ret, 0.0).tolist() == pytest.approx([25, 25, 1.44])
    # Moved by 0.5 at most: 1.5 is nearer to 0 than 5 is, but the worse one counts.
    assert value_error(value, before, ret, 0.5).tolist() == pytest.approx([25, 25, 1.44])
    assert value_error(value, before, torch.tensor(6.0), 0.5)[0].item() == pytest.approx(4.5**2)


VARIANTS = [
    {},
    {"clip": 0.0},
    {"clip": 0.02, "clip_value": 0.01},
    {"entropy_coef": 0.5, "value_coef": 2.0},
    {"shared": True},
    {"shared": True, "activation": "relu", "normalize_obs": True},
    {"activation": "relu", "net": (12,)},
    {"grad_accumulation": 5},
]


@pytest.mark.parametrize("options", VARIANTS, ids=str)
@pytest.mark.parametrize(
    ("action", "mask"), [("discrete", False), ("discrete", True), ("several", False)]
)
def test_the_gradient_by_hand_is_that_of_the_written_loss(options, action, mask):
    env = spec(action, mask=mask)
    agent, batch = digested(config(**options), env)
    move(agent, 0.2)
    batch.weight[...] = np.random.default_rng(3).random(48)
    advantage = np.random.default_rng(4).standard_normal(48).astype(np.float32)
    network = ActorCriticByHand.of(agent.network)
    by_hand = GradientByHand(network, agent.flat, agent.distribution, agent.config)
    reference = GradientByAutograd(
        agent.network, agent.flat, agent.distribution, agent.config, Compute(torch.device("cpu"))
    )
    reference.compute(batch, advantage, None)
    expected = agent.flat.gradients.clone()
    agent.flat.gradients.fill_(torch.nan)
    by_hand.compute(batch, advantage, None)
    scale = float(expected.abs().max())
    assert scale > 1e-3
    assert torch.allclose(agent.flat.gradients, expected, rtol=1e-5, atol=1e-5 * scale)
    assert by_hand.divergence() == pytest.approx(agent_divergence(reference), abs=1e-6)
    assert by_hand.drain() == pytest.approx(reference.drain(), rel=1e-4, abs=1e-5)


def agent_divergence(reference: GradientByAutograd) -> float:
    assert reference.divergence() > 0
    return reference.divergence()


@pytest.mark.parametrize(
    ("options", "env", "compute"),
    [
        ({}, spec(), {}),
        ({}, spec("continuous"), {}),
        ({"shared": True}, spec(shape=(2, 4, 4), dtype=np.uint8, mask=True), {}),
    ],
    ids=["by hand", "continuous", "planes"],
)
def test_accumulated_pieces_make_the_same_update(options, env, compute):
    results = []
    for count in (1, 3):
        agent, batch = digested(config(**options, grad_accumulation=count), env, **compute)
        for _ in range(5):
            agent.update(batch, Clock())
        results.append((parameters(agent), agent.progress(Clock())))
    assert results[0][0] == pytest.approx(results[1][0], abs=1e-5)
    assert results[0][1] == pytest.approx(results[1][1], rel=1e-3, abs=1e-5)


def test_illegal_actions_receive_no_gradient():
    env = spec(mask=True)
    agent, batch = digested(config(entropy_coef=0.3), env)
    batch.mask[...] = [True, True, False]
    batch.action[...] = np.arange(48) % 2
    agent.update(batch, Clock())
    assert not agent.network.policy_head.bias.grad[2].any()
    assert agent.network.policy_head.bias.grad[:2].all()


@pytest.mark.parametrize("action", ["discrete", "continuous"])
def test_all_figures_are_reported(action):
    agent, batch = digested(env=spec(action))
    agent.update(batch, Clock())
    figures = agent.progress(Clock())
    assert {*METRICS, "lr", "grad_norm", "explained_variance"} == set(figures)
    assert figures["approx_kl"] == pytest.approx(0, abs=1e-6)
