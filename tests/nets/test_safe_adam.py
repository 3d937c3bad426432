"""Steps are clipped, counted and skipped in the same way on the CPU and on a device."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from briskrl.core.errors import DivergedError, InvalidStateError
from briskrl.nets.compute import Compute
from briskrl.nets.flat_parameters import FlatParameters
from briskrl.nets.safe_adam import SafeAdam


class Elsewhere(Compute):
    """The CPU, treated as an accelerator."""

    on_cpu = False


class InFloat16(Elsewhere):
    """The CPU, treated as a device whose gradients underflow without a scaled loss."""

    scales_loss = True


def guarded(kind, max_norm=0.5):
    flat = FlatParameters(nn.Linear(3, 2))
    flat.values.copy_(torch.arange(8.0))
    compute = kind(torch.device("cpu"))
    return flat, SafeAdam(flat, compute, lr=0.1, eps=1e-8, max_norm=max_norm)


def gradients(count, bad=()):
    rng = np.random.default_rng(0)
    for i in range(count):
        gradient = torch.from_numpy(rng.standard_normal(8).astype(np.float32))
        if i in bad:
            gradient[3] = torch.inf
        yield gradient


def run(kind, bad=(), count=12, max_norm=0.5):
    flat, guard = guarded(kind, max_norm)
    for gradient in gradients(count, bad):
        flat.gradients.copy_(gradient)
        if guard.seed is not None:
            flat.gradients.mul_(guard.seed)
        guard.step()
    return flat, guard


@pytest.mark.parametrize("kind", [Elsewhere, InFloat16])
@pytest.mark.parametrize("bad", [(), (0,), (3, 4, 7)])
@pytest.mark.parametrize("max_norm", [0.0, 0.5])
def test_the_device_takes_the_steps_that_the_cpu_would(kind, bad, max_norm):
    expected, reference = run(Compute, bad, max_norm=max_norm)
    flat, guard = run(kind, bad, max_norm=max_norm)
    assert torch.allclose(flat.values, expected.values, atol=1e-5)
    assert guard.adam.count == reference.adam.count == 12 - len(bad)
    assert guard.state().scalars == reference.state().scalars
    assert guard.drain() == pytest.approx(reference.drain(), rel=1e-5)
    assert guard.drain() == {}


@pytest.mark.parametrize("kind", [Compute, Elsewhere])
def test_a_step_that_is_not_finite_changes_nothing(kind):
    flat, guard = run(kind, count=2)
    before = [flat.values.clone(), guard.adam.mean.clone(), guard.adam.variance.clone()]
    flat.gradients.fill_(torch.nan)
    guard.step()
    after = [flat.values, guard.adam.mean, guard.adam.variance]
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    assert guard.drain()["skipped_updates"] == 1


def test_three_non_finite_steps_in_a_row_stop_the_run_on_a_device_at_the_next_read():
    with pytest.raises(DivergedError, match="3 updates in a row"):
        run(Compute, bad=(4, 5, 6))
    _, guard = run(Elsewhere, bad=(4, 5, 6))
    with pytest.raises(DivergedError, match="3 updates in a row"):
        guard.drain()
    with pytest.raises(DivergedError):
        run(Elsewhere, bad=(4, 5, 6), count=64)
    run(Elsewhere, bad=(4, 5, 7, 8), count=64)


def test_an_overflow_halves_the_scale_of_the_loss():
    _, guard = run(InFloat16, bad=(1, 2, 3, 4, 5))
    assert float(guard.seed) == 2.0**11
    guard.drain()


@pytest.mark.parametrize("kind", [Compute, Elsewhere, InFloat16])
def test_a_restored_optimizer_continues_to_the_same_bits(kind):
    flat, guard = run(kind, bad=(10, 11))
    restored_flat, restored = guarded(kind)
    restored_flat.values.copy_(flat.values)
    restored.load_state(guard.state())
    assert restored.state().scalars == guard.state().scalars == {"non_finite_run": 2}
    for one_flat, one in ((flat, guard), (restored_flat, restored)):
        one_flat.gradients.fill_(0.01)
        one.step()
    assert torch.equal(flat.values, restored_flat.values)
    assert torch.equal(guard.adam.variance, restored.adam.variance)


@pytest.mark.parametrize("kind", [Compute, Elsewhere])
def test_a_run_of_non_finite_updates_goes_on_after_a_restore(kind):
    flat, guard = run(kind, bad=(10, 11))
    state = guard.state()
    assert state.scalars["non_finite_run"] == 2
    flat, restored = guarded(kind)
    restored.load_state(state)
    flat.gradients.fill_(torch.nan)
    with pytest.raises(DivergedError, match="3 updates in a row"):
        step_and_read(restored)


@pytest.mark.parametrize("kind", [Compute, Elsewhere])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mean", np.nan),
        ("mean", -np.inf),
        ("variance", np.nan),
        # Steps would vanish for good, and nothing else would notice it.
        ("variance", np.inf),
        ("variance", -1.0),
    ],
)
def test_a_state_that_no_training_reaches_is_refused_and_changes_nothing(kind, name, value):
    state = run(kind)[1].state()
    state.arrays[f"adam.{name}"].flat[3] = value
    _, other = run(kind, count=2)
    before = other.state()
    with pytest.raises(InvalidStateError, match=f"adam.{name} holds .* at"):
        other.load_state(state)
    for key, array in other.state().arrays.items():
        np.testing.assert_array_equal(array, before.arrays[key])


def step_and_read(guard):
    guard.step()
    guard.drain()
