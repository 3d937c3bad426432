"""Adam with gradient clipping that never applies a non-finite gradient."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from briskrl.core.errors import DivergedError
from briskrl.core.state_checks import check_range, loaded, whole
from briskrl.core.types import State
from briskrl.nets.compute import Compute
from briskrl.nets.flat_parameters import FlatAdam, FlatParameters, copy_out
from briskrl.nets.update_counters import COUNTERS, DONE, LONGEST, NORMS, RUN, SKIPPED

MAX_NON_FINITE = 3
"""Non-finite updates in a row after which training stops."""

_MAX_OVERFLOWS = 20
"""The same while the loss scale is being found: overflows are part of the search."""

_READ_EVERY = 64
"""Updates between two reads of an accelerator's counters; a read waits for the device."""

_LARGEST = float(np.finfo(np.float32).max)

_FIRST_SCALE, _GROWTH, _BACKOFF, _GROWTH_INTERVAL = 2.0**16, 2.0, 0.5, 2000


class SafeAdam:
    """Adam over a network's flat parameters that clips gradients and skips non-finite ones.

    On the CPU the norm is checked before every step. On an accelerator nothing waits for it: the
    device itself skips non-finite steps, and its counters are read now and then.
    """

    def __init__(
        self,
        parameters: FlatParameters,
        compute: Compute,
        *,
        lr: float,
        eps: float,
        max_norm: float,
        beta2: float = 0.999,
    ) -> None:
        """Set up the optimizer.

        Args:
            parameters: The parameters and gradients.
            compute: Device and precision.
            lr: Learning rate.
            eps: Adam's epsilon.
            max_norm: Gradients are scaled down to this norm; 0 for no clipping.
            beta2: Decay of Adam's mean of squared gradients.
        """
        self.adam = FlatAdam(parameters, lr=lr, eps=eps, beta2=beta2)
        self._flat = parameters
        self.max_norm = max_norm
        self._counters = _Counters()
        self._on_device = None if compute.on_cpu else _OnDevice(compute)

    @property
    def seed(self) -> Tensor | None:
        """The initial gradient of backward passes: the loss scale, or None for 1."""
        return None if self._on_device is None else self._on_device.scale

    def step(self) -> None:
        """Clip the gradients and apply them if they are finite.

        Raises:
            DivergedError: Several updates in a row were not finite.
        """
        if self._on_device is not None:
            self._on_device.step(self._flat.gradients, self.adam, self.max_norm)
            return
        norm = self._flat.clip_gradients(self.max_norm)
        if self._counters.add(norm):
            self.adam.step()

    @property
    def counters(self) -> NDArray[np.float64]:
        """(COUNTERS,) the counters, for kernels that take steps; see `nets.update_counters`."""
        return self._counters.array

    def check(self) -> None:
        """Check the counters that kernels have updated.

        Raises:
            DivergedError: Several updates in a row were not finite.
        """
        self._counters.check()

    def drain(self) -> dict[str, float]:
        """Mean gradient norm and number of skipped updates since the last call."""
        if self._on_device is not None:
            return self._on_device.drain()
        return self._counters.drain()

    def state(self) -> State:
        """A copy of everything that future steps depend on."""
        tensors = self.adam.tensors()
        run = self._counters.run
        if self._on_device is not None:
            tensors |= self._on_device.tensors()
            run = int(self._on_device.run)
        return State(
            {f"adam.{n}": copy_out(t) for n, t in tensors.items()}, {"non_finite_run": run}
        )

    def load_state(self, state: State) -> None:
        """Continue from the result of `state`.

        Raises:
            InvalidStateError: It is of another network, or impossible; nothing has changed.
        """
        tensors = self.adam.tensors()
        run = whole(state.scalars, "non_finite_run", MAX_NON_FINITE + _MAX_OVERFLOWS)
        if self._on_device is not None:
            tensors |= self._on_device.tensors()
        found = {}
        for name, tensor in tensors.items():
            key = f"adam.{name}"
            # A run that continues on another device searches its loss scale again.
            if key in state.arrays or name in self.adam.tensors():
                found[name] = loaded(state.arrays, key, copy_out(tensor))
                # Only the mean of the gradients may be negative.
                low, high = (-_LARGEST, _LARGEST) if name == "mean" else (0, _LARGEST)
                check_range(key, found[name], low, high)
        self._counters.reset(run)
        if self._on_device is not None:
            self._on_device.reset(run)
        for name, array in found.items():
            tensors[name].copy_(torch.from_numpy(array))


class _Counters:
    """Counters of updates done and skipped on the CPU, by this class or by kernels."""

    def __init__(self) -> None:
        self.array = np.zeros(COUNTERS)

    @property
    def run(self) -> int:
        return int(self.array[RUN])

    def add(self, norm: float) -> bool:
        """Count one update; returns whether to apply it."""
        counts = self.array
        if math.isfinite(norm):
            counts[RUN] = 0
            counts[NORMS] += norm
            counts[DONE] += 1
            return True
        counts[RUN] += 1
        counts[SKIPPED] += 1
        counts[LONGEST] = max(counts[LONGEST], counts[RUN])
        self.check()
        return False

    def check(self) -> None:
        _check_divergence(int(self.array[LONGEST]), MAX_NON_FINITE)

    def drain(self) -> dict[str, float]:
        counts = self.array
        means = _means(float(counts[NORMS]), int(counts[DONE]), int(counts[SKIPPED]))
        self.reset(self.run)
        return means

    def reset(self, run: int) -> None:
        self.array.fill(0)
        self.array[RUN] = run


class _OnDevice:
    """The same on an accelerator, which counts and skips steps by itself.

    With float16 the loss is multiplied by an adaptive scale (Micikevicius 2018).
    """

    def __init__(self, compute: Compute) -> None:
        device = compute.device
        self.scale = torch.tensor(_FIRST_SCALE, device=device) if compute.scales_loss else None
        self._growth = torch.zeros((), dtype=torch.int32, device=device)
        self._limit = _MAX_OVERFLOWS if compute.scales_loss else MAX_NON_FINITE
        self._calls = 0
        self.run = torch.zeros((), device=device)
        self._longest_run = torch.zeros((), device=device)
        self._skipped = torch.zeros((), device=device)
        self._norms = torch.zeros((), device=device)

    def step(self, gradients: Tensor, adam: FlatAdam, max_norm: float) -> None:
        if self.scale is not None:
            gradients.div_(self.scale)
        norm = torch.linalg.vector_norm(gradients)
        skip = (~torch.isfinite(norm)).float()
        if max_norm > 0:
            gradients.mul_((max_norm / norm).clamp_(max=1.0))
        # The fused Adam of CUDA skips the step; others apply a gradient of 0.
        torch.nan_to_num_(gradients, 0.0, 0.0, 0.0)
        adam.step(skip)
        if self.scale is not None:
            torch._amp_update_scale_(
                self.scale, self._growth, skip, _GROWTH, _BACKOFF, _GROWTH_INTERVAL
            )
        self._count(norm, skip)

    def _count(self, norm: Tensor, skip: Tensor) -> None:
        self.run.add_(1).mul_(skip)
        torch.maximum(self._longest_run, self.run, out=self._longest_run)
        self._skipped.add_(skip)
        self._norms.add_(norm.nan_to_num_(0.0, 0.0, 0.0))
        self._calls += 1
        if self._calls % _READ_EVERY == 0:
            _check_divergence(int(self._longest_run), self._limit)

    def drain(self) -> dict[str, float]:
        _check_divergence(int(self._longest_run), self._limit)
        skipped = int(self._skipped)
        means = _means(float(self._norms), self._calls - skipped, skipped)
        self.reset(int(self.run))
        return means

    def reset(self, run: int) -> None:
        self._calls = 0
        self.run.fill_(run)
        for counter in (self._longest_run, self._skipped, self._norms):
            counter.zero_()

    def tensors(self) -> dict[str, Tensor]:
        return {} if self.scale is None else {"loss_scale": self.scale, "growth": self._growth}


def _means(norms: float, done: int, skipped: int) -> dict[str, float]:
    means = {"grad_norm": norms / done} if done else {}
    if skipped:
        means["skipped_updates"] = skipped
    return means


def _check_divergence(run: int, limit: int) -> None:
    if run >= limit:
        raise DivergedError(
            f"Loss or gradient was not finite in {run} updates in a row. Try a "
            "smaller --lr, a smaller --max-grad-norm or smaller rewards."
        )
