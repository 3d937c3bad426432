"""Updates of PPO, with both engines."""

from __future__ import annotations

import numpy as np
import pytest

from briskrl.algos.ppo.engine import METRICS
from briskrl.core.counters import Counters
from tests.algos.rollouts import config, parameters, spec, with_advantages

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
