"""Gradients of PPO on the fused engine equal those of autograd, for any shape."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from briskrl.algos.ppo.engine import METRICS
from briskrl.core.spec import ArraySpec, DiscreteSpec, EnvSpec, MultiDiscreteSpec
from briskrl.core.types import Minibatch
from tests.algos.rollouts import config, make, move, spec
from tests.fused.precision import (
    ROUNDING,
    distance,
    in_precision,
    log_prob_and_entropy,
    policy_gradient,
    precision,
)

OPTIONS = {
    "plain": {"clip": 0.0, "entropy_coef": 0.0},
    "clipped": {"clip": 0.05, "clip_value": 0.05},
    "entropy": {"entropy_coef": 0.5, "value_coef": 2.0},
    "shared": {"shared": True},
    "relu": {"activation": "relu", "shared": True},
    "standardized": {"normalize_obs": True},
}


def env_of(inputs: int, sizes: list[int], *, mask: bool) -> EnvSpec:
    single = len(sizes) == 1
    return EnvSpec(
        ArraySpec.of((inputs,), np.float32, 0, 1),
        DiscreteSpec(sizes[0]) if single else MultiDiscreteSpec(tuple(sizes)),
        max_steps=None,
        has_mask=mask and single,
        exact_state=True,
    )


def random_minibatch(agent, env: EnvSpec, size: int, seed: int) -> Minibatch:
    """Random steps whose probability ratios are spread around 1."""
    rng = np.random.default_rng(seed)
    sizes = agent.model.distribution.sizes
    batch = Minibatch.allocate(env, size)
    batch.obs[...] = rng.standard_normal(batch.obs.shape)
    actions = np.stack([rng.integers(0, n, size) for n in sizes], 1)
    if batch.mask is not None:
        batch.mask[...] = rng.random(batch.mask.shape) < 0.6
        batch.mask[np.arange(size), actions[:, 0]] |= batch.mask.any(1)
    batch.action[...] = actions.reshape(batch.action.shape)
    for name in ("weight", "value", "advantage", "returns"):
        getattr(batch, name)[...] = rng.standard_normal(size)
    batch.weight[...] = rng.random(size)
    with torch.no_grad():
        out, value = agent.model.network(torch.from_numpy(batch.obs).to(torch.get_default_dtype()))
        mask = None if batch.mask is None else torch.from_numpy(batch.mask)
        log_prob, _ = log_prob_and_entropy(agent.model, out, torch.from_numpy(batch.action), mask)
    batch.old_log_prob[...] = log_prob.numpy() + 0.2 * rng.standard_normal(size)
    batch.value[...] = value.squeeze(1).numpy() + 0.2 * rng.standard_normal(size)
    return batch


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@settings(max_examples=20)
@given(
    widths=st.lists(st.integers(1, 70), min_size=1, max_size=3),
    inputs=st.integers(1, 30),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    batch_size=st.integers(1, 150),
    mask=st.booleans(),
    seed=st.integers(0, 100),
)
@example(widths=[64, 64], inputs=4, sizes=[2], batch_size=256, mask=False, seed=0)
@example(widths=[1], inputs=1, sizes=[1], batch_size=1, mask=False, seed=0)
def test_gradients_and_metrics_equal_those_of_autograd(
    options, dtype, widths, inputs, sizes, batch_size, mask, seed
):
    env = env_of(inputs, sizes, mask=mask)
    settings = config(**OPTIONS[options], net=tuple(widths), max_grad_norm=0.0)
    with precision(dtype):
        agent = make(settings, env, seed=seed, engine="fused")
        assert agent.model.flat.values.dtype == getattr(torch, dtype)
        if settings.normalize_obs:
            rng = np.random.default_rng(seed)
            agent.model.network.inputs.set_moments(rng.random(inputs), 0.5 + rng.random(inputs))
            if dtype == "float64":
                # Torch's network would round standardized observations to float32.
                pretend_plain(agent.model.network)
        # With biases of 0, units could be exactly at the kink of their activation.
        move(agent, 0.2, seed=seed)
        batch = in_precision(random_minibatch(agent, env, batch_size, seed), dtype)
        expected, terms = policy_gradient(agent, batch, batch.advantage)
        engine = agent.engines.now
        engine.compute(batch, batch.advantage)
        engine.step(0.0)
    assert distance(agent.model.flat.gradients, expected) < ROUNDING[dtype]
    parts = (terms.policy, terms.value, terms.entropy, terms.divergence())
    means = [float(part.mean()) for part in parts]
    assert engine.divergence() == pytest.approx(means[3], rel=1e-4, abs=1e-6)
    figures = engine.drain()
    assert [figures[name] for name in METRICS[:4]] == pytest.approx(means, rel=1e-4, abs=1e-5)
    clipped = float(terms.clipped(settings.clip).float().mean())
    assert figures["clip_fraction"] == pytest.approx(clipped, abs=1e-6)


def pretend_plain(network) -> None:
    """Standardize in the type of the network instead of float32."""
    inputs = network.inputs

    def forward(obs):
        return ((obs - inputs.mean) * inputs.scale).clamp(-10, 10)

    inputs.forward = forward


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [1, 255, 256, 511, 512, 1000, 4096])
def test_minibatches_of_any_size_have_the_gradient_of_autograd_on_several_threads(threads, size):
    env = spec(mask=True)
    agent = make(config(), env, engine="fused", threads=threads)
    batch = random_minibatch(agent, env, size, seed=1)
    expected, _ = policy_gradient(agent, batch, batch.advantage)
    agent.engines.now.compute(batch, batch.advantage)
    agent.engines.now.step(0.0)
    norm = min(1.0, agent.config.max_grad_norm / float(expected.norm()))
    assert distance(agent.model.flat.gradients, expected * norm) < 1e-5
