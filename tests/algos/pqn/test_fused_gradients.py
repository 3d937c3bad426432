"""Gradients of PQN on the fused engine equal those of autograd, for any shape."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from briskrl.algos.losses import squared_td_error
from briskrl.core.spec import ArraySpec, DiscreteSpec, EnvSpec
from tests.algos.pqn.agents import config, make, random_minibatch, update
from tests.fused.precision import ROUNDING, distance, in_precision, precision

OPTIONS = {
    "normalized": {},
    "plain": {"layer_norm": False},
    "dueling": {"dueling": True},
    "standardized": {"normalize_obs": True},
}


def expected_gradient(agent, batch):
    out = agent.model.network(torch.from_numpy(batch.obs))
    taken = out.gather(1, torch.from_numpy(batch.action)[:, None]).squeeze(1)
    loss = squared_td_error(taken, torch.from_numpy(batch.returns)).mean()
    gradients = torch.autograd.grad(loss, list(agent.model.network.parameters()))
    return torch.cat([gradient.flatten() for gradient in gradients])


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@settings(max_examples=15)
@given(
    widths=st.lists(st.integers(2, 80), min_size=1, max_size=3),
    inputs=st.integers(1, 40),
    actions=st.integers(1, 20),
    size=st.integers(1, 150),
    threads=st.sampled_from([1, 2]),
)
@example(widths=[128, 128], inputs=11, actions=3, size=128, threads=1)
@example(widths=[128, 128], inputs=11, actions=3, size=600, threads=2)
def test_gradients_equal_those_of_autograd(options, dtype, widths, inputs, actions, size, threads):
    obs = ArraySpec.of((inputs,), np.float32, 0, 1)
    env = EnvSpec(obs, DiscreteSpec(actions), max_steps=None, has_mask=False, exact_state=True)
    chosen = config(**OPTIONS[options], net=tuple(widths), max_grad_norm=0.0)
    with precision(dtype):
        agent = make(chosen, env, engine="fused", threads=threads)
        batch = in_precision(random_minibatch(env, size), dtype)
        expected = expected_gradient(agent, batch)
        update(agent, batch)
    # Normalization of two nearly equal outputs amplifies the rounding of their difference.
    assert distance(agent.model.flat.gradients, expected) < 30 * ROUNDING[dtype]
