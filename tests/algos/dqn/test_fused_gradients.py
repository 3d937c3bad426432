"""Gradients of DQN on the fused engine equal those of autograd, for any shape."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from briskrl.core.counters import Counters
from briskrl.core.spec import ArraySpec, DiscreteSpec, EnvSpec
from tests.algos.transitions import make, move_target, random_batch, small, spec
from tests.fused.precision import ROUNDING, distance, in_precision, precision, value_gradient


def env_of(inputs: int, actions: int, *, mask: bool) -> EnvSpec:
    obs = ArraySpec.of((inputs,), np.float32, 0, 1)
    return EnvSpec(obs, DiscreteSpec(actions), max_steps=None, has_mask=mask, exact_state=True)


OPTIONS = {
    "plain": {},
    "double": {"double": True},
    "dueling": {"dueling": True},
    "distributional": {"atoms": 7},
    "quantiles": {"atoms": 6, "distribution": "quantile"},
    "noisy": {"noisy": True},
    "quiet-target": {"noisy": True, "target_noise": False},
    "layer-norm": {"layer_norm": True},
    "layer-norm-quantiles": {
        "layer_norm": True,
        "atoms": 5,
        "distribution": "quantile",
        "dueling": True,
        "double": True,
    },
    "rainbow": {"double": True, "dueling": True, "noisy": True, "atoms": 11},
}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@settings(max_examples=20)
@given(
    widths=st.lists(st.integers(1, 80), min_size=1, max_size=4),
    inputs=st.integers(1, 40),
    actions=st.integers(1, 20),
    batch_size=st.integers(1, 150),
    mask=st.booleans(),
    seed=st.integers(0, 100),
)
@example(widths=[128, 128], inputs=11, actions=3, batch_size=64, mask=False, seed=0)
@example(widths=[1], inputs=1, actions=1, batch_size=1, mask=False, seed=0)
def test_gradients_and_errors_equal_those_of_autograd(
    options, dtype, widths, inputs, actions, batch_size, mask, seed
):
    env = env_of(inputs, actions, mask=mask)
    config = small(**OPTIONS[options], net=tuple(widths), prioritized=True, max_grad_norm=0.0)
    with precision(dtype):
        algo = make(config, env, seed=seed, engine="fused")
        assert algo.model.online_flat.values.dtype == getattr(torch, dtype)
        move_target(algo)
        batch = in_precision(random_batch(env, 1, batch_size, seed=seed), dtype)
        expected, expected_errors = value_gradient(algo, batch)
        errors = algo.update(batch, 1, Counters())
    assert distance(algo.model.online_flat.gradients, expected) < ROUNDING[dtype]
    assert errors[0] == pytest.approx(expected_errors.numpy(), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("options", ["plain", "rainbow"])
def test_the_gradient_of_every_update_of_one_call_equals_that_of_autograd(options):
    """Each gradient is computed with the network after the updates before."""
    env = spec()
    config = small(**OPTIONS[options], max_grad_norm=0.0, lr=1e-2, target_every=2)
    algo = make(config, env, engine="fused")
    batch = random_batch(env, 6, 70)
    for k in range(6):
        only = random_batch(env, 1, 70)
        for name in ("obs", "action", "reward", "next_obs", "discount", "weight"):
            getattr(only, name)[0] = getattr(batch, name)[k]
        expected, _ = value_gradient(algo, only)
        algo.update(only, 1, Counters())
        assert distance(algo.model.online_flat.gradients, expected) < 1e-5
    together = make(config, env, engine="fused")
    together.update(batch, 6, Counters())
    assert torch.equal(together.model.online_flat.values, algo.model.online_flat.values)


@pytest.mark.parametrize("options", ["plain", "rainbow"])
def test_byte_observations_are_scaled_as_in_torch(options):
    env = spec(shape=(2, 3, 3), dtype=np.uint8)
    config = small(**OPTIONS[options], body="mlp", prioritized=True, max_grad_norm=0.0)
    algo = make(config, env, engine="fused")
    batch = random_batch(env, 1, 33)
    expected, _ = value_gradient(algo, batch)
    algo.update(batch, 1, Counters())
    assert distance(algo.model.online_flat.gradients, expected) < 1e-5


def test_the_gradient_norm_is_clipped():
    free, limited = (make(small(max_grad_norm=norm), engine="fused") for norm in (0.0, 1e-3))
    for algo in (free, limited):
        algo.update(random_batch(spec(), 1), 1, Counters())
    whole, scaled = (algo.model.online_flat.gradients for algo in (free, limited))
    assert float(scaled.norm()) == pytest.approx(1e-3, rel=1e-5)
    assert distance(scaled * (whole.norm() / 1e-3), whole) < 1e-5
    norms = [algo.progress(Counters())["grad_norm"] for algo in (free, limited)]
    assert norms == pytest.approx([float(whole.norm())] * 2, rel=1e-5)
