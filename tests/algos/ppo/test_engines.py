"""Updates of PPO, with both engines."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from briskrl.algos.ppo.engine import METRICS
from briskrl.core.counters import Counters
from tests.algos.rollouts import config, move, parameters, spec, with_advantages
from tests.fused.precision import distance

ENGINES_AND_ENVS = [
    pytest.param("torch", {}, spec(), id="torch"),
    pytest.param("fused", {}, spec(), id="fused"),
    pytest.param("torch", {}, spec("continuous"), id="continuous"),
    pytest.param(
        "torch", {"shared": True}, spec(shape=(2, 4, 4), dtype=np.uint8, mask=True), id="planes"
    ),
]


@pytest.mark.parametrize(("engine", "options", "env"), ENGINES_AND_ENVS)
def test_accumulated_pieces_make_the_same_update(engine, options, env):
    results = []
    for count in (1, 3):
        settings = config(**options, grad_accumulation=count)
        agent, batch = with_advantages(settings, env, engine=engine)
        for _ in range(5):
            agent.update(batch, Counters())
        results.append((parameters(agent), agent.progress(Counters())))
    assert results[0][0] == pytest.approx(results[1][0], abs=1e-5)
    assert results[0][1] == pytest.approx(results[1][1], rel=1e-3, abs=1e-5)


@pytest.mark.parametrize(("engine", "options", "env"), ENGINES_AND_ENVS)
def test_importance_weights_of_reused_steps_scale_their_policy_loss(engine, options, env):
    settings = config(**options, max_grad_norm=0.0, clip_value=0.0)
    agent, batch = with_advantages(settings, env, engine=engine)
    move(agent)
    batch.weight[...] = np.random.default_rng(2).choice([0.0, 0.3, 1.0], len(batch.weight))
    agent.engines.now.compute(batch, batch.advantage)
    agent.engines.now.step(0.0)
    got = agent.model.flat.gradients.clone()
    assert distance(got, gradient_by_hand(agent, batch, batch.weight)) < 1e-5
    assert distance(got, gradient_by_hand(agent, batch, np.ones_like(batch.weight))) > 1e-3


def gradient_by_hand(agent, batch, weight):
    """The flat gradient of the PPO loss, written out with autograd."""
    obs, action, old_log_prob, advantage, returns, weight = (
        torch.from_numpy(array)
        for array in (
            *(batch.obs, batch.action, batch.old_log_prob),
            *(batch.advantage, batch.returns, weight),
        )
    )
    mask = None if batch.mask is None else torch.from_numpy(batch.mask)
    out, value = agent.model.network(obs)
    log_prob, entropy = agent.model.distribution.evaluate(out, action, mask)
    ratio, clip = (log_prob - old_log_prob).exp(), agent.config.clip
    policy = -torch.min(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
    error = (value.squeeze(1) - returns).square()
    config = agent.config
    loss = weight * policy + config.value_coef * error - config.entropy_coef * entropy
    parts = torch.autograd.grad(loss.mean(), list(agent.model.network.parameters()))
    return torch.cat([part.flatten() for part in parts])


def test_illegal_actions_receive_no_gradient(engine):
    env = spec(mask=True)
    agent, batch = with_advantages(config(entropy_coef=0.3), env, engine=engine)
    batch.mask[...] = [True, True, False]
    batch.action[...] = np.arange(48) % 2
    agent.update(batch, Counters())
    bias = agent.model.network.policy_head.bias
    assert not bias.grad[2].any()
    assert bias.grad[:2].all()


@pytest.mark.parametrize(("engine", "options", "env"), ENGINES_AND_ENVS)
def test_all_metrics_are_reported(engine, options, env):
    agent, batch = with_advantages(config(**options), env, engine=engine)
    agent.update(batch, Counters())
    figures = agent.progress(Counters())
    assert {*METRICS, "lr", "grad_norm", "explained_variance"} == set(figures)
    assert figures["approx_kl"] == pytest.approx(0, abs=1e-6)


def test_a_minibatch_may_have_one_step(engine):
    agent, batch = with_advantages(size=1, engine=engine)
    before = parameters(agent)
    agent.update(batch, Counters())
    assert np.isfinite(parameters(agent)).all()
    assert not np.array_equal(parameters(agent), before)
