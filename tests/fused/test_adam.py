"""The compiled optimizer step equals torch's Adam, with clipping and skipped updates."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from briskrl.compiler.jit import kernel
from briskrl.fused.kernels.adam import apply_gradient
from briskrl.fused.network import build_optimizer
from briskrl.nets.compute import Compute
from briskrl.nets.flat_parameters import FlatParameters
from briskrl.nets.safe_adam import SafeAdam
from tests.fused.precision import precision


@kernel
def step(optimizer):
    apply_gradient(optimizer)


def build(max_norm: float = 0.0, lr: float = 1e-2, beta2: float = 0.999):
    flat = FlatParameters(nn.Linear(30, 7))
    values = torch.randn(len(flat.values), generator=torch.Generator().manual_seed(1))
    flat.values.copy_(values)
    compute = Compute(torch.device("cpu"))
    guard = SafeAdam(flat, compute, lr=lr, eps=1e-8, max_norm=max_norm, beta2=beta2)
    return flat, guard, build_optimizer(guard, flat)


@pytest.mark.parametrize(("dtype", "rounding"), [("float32", 2e-5), ("float64", 1e-12)])
@pytest.mark.parametrize(("max_norm", "beta2"), [(0.0, 0.999), (3.0, 0.999), (0.0, 0.99)])
def test_it_equals_torchs_adam_over_a_thousand_steps(dtype, rounding, max_norm, beta2):
    with precision(dtype):
        flat, _, optimizer = build(max_norm, beta2=beta2)
        theirs = nn.Parameter(flat.values.clone())
        adam = torch.optim.Adam([theirs], lr=1e-2, eps=1e-8, betas=(0.9, beta2))
        generator = torch.Generator().manual_seed(2)
        for k in range(1000):
            # Slowly changing gradients of sizes from 0.01 to 100, some of them exactly 0.
            gradient = torch.randn(len(theirs), generator=generator) + torch.sin(theirs.detach())
            gradient *= 10.0 ** (k % 5 - 2)
            gradient[:5] = 0
            flat.gradients.copy_(gradient)
            theirs.grad = gradient.clone()
            norm = float(gradient.norm())
            if 0 < max_norm < norm:
                theirs.grad *= max_norm / norm
            step(optimizer)
            adam.step()
    way = float((theirs.detach() - build()[0].values).abs().mean())
    assert way > 0.1
    assert float((flat.values - theirs.detach()).abs().max()) < rounding * max(1.0, way)
    state = adam.state[theirs]
    for ours, name in ((optimizer.mean, "exp_avg"), (optimizer.variance, "exp_avg_sq")):
        expected = state[name].numpy()
        assert np.abs(ours - expected).max() <= 10 * rounding * np.abs(expected).max()
    assert optimizer.count[0] == 1000


def test_optimizer_and_parameters_are_shared_with_torch():
    flat, guard, optimizer = build()
    flat.gradients.fill_(0.5)
    step(optimizer)
    assert float(guard.adam.count) == 1
    assert torch.allclose(guard.adam.mean, torch.full_like(flat.values, 0.05))
    assert torch.allclose(guard.adam.variance, torch.full_like(flat.values, 0.00025))
    before = flat.values.clone()
    guard.step()
    step(optimizer)
    assert float(guard.adam.count) == 3
    assert torch.allclose(before - flat.values, torch.full_like(before, 0.02), atol=1e-5)


def test_either_engine_continues_the_steps_of_the_other():
    together, apart = build(), build()
    generator = torch.Generator().manual_seed(4)
    for k in range(60):
        gradient = torch.randn(len(together[0].values), generator=generator)
        for (flat, guard, optimizer), mixed in ((together, True), (apart, False)):
            flat.gradients.copy_(gradient)
            if mixed and k % 20 < 10:
                step(optimizer)
            else:
                guard.step()
    assert torch.allclose(together[0].values, apart[0].values, atol=1e-5)
    assert together[1].drain() == pytest.approx(apart[1].drain(), rel=1e-5)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_gradient_that_is_not_finite_changes_nothing_and_is_counted(bad):
    flat, guard, optimizer = build(max_norm=1.0)
    flat.gradients.fill_(0.1)
    step(optimizer)
    before = [flat.values.clone(), guard.adam.mean.clone(), guard.adam.variance.clone()]
    flat.gradients[100] = bad
    step(optimizer)
    after = [flat.values, guard.adam.mean, guard.adam.variance]
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    assert guard.state().scalars == {"non_finite_run": 1}
    assert guard.drain()["skipped_updates"] == 1
