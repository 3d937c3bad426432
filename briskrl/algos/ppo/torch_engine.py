"""PPO in torch: the reference, for any network, action space and device.

The loss is `briskrl.algos.losses`; its compiled counterpart is `kernels/loss.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from briskrl.algos.losses import PolicyTerms, surrogate, value_error
from briskrl.algos.ppo.engine import METRICS, PPOModel
from briskrl.core.types import Array, Bools, Decision, Floats, Minibatch
from briskrl.nets.actor_critic import ActorCritic
from briskrl.nets.bodies import MLPBody
from briskrl.nets.compute import Compute, pieces
from briskrl.nets.dense_autograd import DenseActorCritic

MAX_ROWS, MAX_ELEMENTS = 4096, 1 << 21
"""Observations per forward pass, and numbers in them: enough to use all cores, and few enough that
the activations of large images fit into memory."""

_SAMPLE_EVERY = 8
"""Metrics are computed for one update in this many, which is enough for a mean."""


@dataclass(frozen=True, slots=True)
class _TensorBatch:
    """A Minibatch on the device, without the advantages."""

    obs: Tensor
    action: Tensor
    old_log_prob: Tensor
    weight: Tensor
    value: Tensor
    returns: Tensor
    mask: Tensor | None

    def rows(self, rows: slice) -> _TensorBatch:
        """Some rows, as views."""
        if rows == slice(0, len(self.obs)):
            return self
        views: dict[str, Any] = {}
        for name in self.__dataclass_fields__:
            tensor = getattr(self, name)
            views[name] = None if tensor is None else tensor[rows]
        return _TensorBatch(**views)


class TorchPPOEngine:
    """A PPOEngine in torch."""

    def __init__(self, model: PPOModel, compute: Compute) -> None:
        self._model = model
        self._compute = compute
        network = _fastest(model.network, compute)
        self._policy = compute.compiled(network.policy)
        self._values = compute.compiled(network.values)
        self._forward = compute.compiled(network.__call__)
        self._calls = 0
        self._last = torch.zeros(len(METRICS))
        self._seen: list[Tensor] = []
        self._gathered: Minibatch | None = None
        self._cached: tuple[Minibatch, _TensorBatch] | None = None

    def refresh(self) -> None:
        """Nothing to do: torch computes with the network itself."""

    @torch.inference_mode()
    def act(self, obs: Array, mask: Bools | None, rng: np.random.Generator, out: Decision) -> None:
        """See PPOEngine."""
        outputs = self._policy(self._compute.tensor(obs))
        self._model.distribution.sample(outputs.cpu().numpy(), mask, rng, out)

    @torch.inference_mode()
    def values(self, obs: Array, out: Floats) -> None:
        """See PPOEngine."""
        for rows in chunks(obs):
            values = self._values(self._compute.tensor(obs[rows]))
            out[rows] = values.squeeze(1).cpu().numpy()

    @torch.inference_mode()
    def log_probs(self, obs: Array, action: Array, mask: Bools | None, out: Floats) -> None:
        """See PPOEngine."""
        tensor = self._compute.tensor
        for rows in chunks(obs):
            outputs = self._policy(tensor(obs[rows]))
            legal = None if mask is None else tensor(mask[rows])
            log_prob, _ = self._model.distribution.evaluate(outputs, tensor(action[rows]), legal)
            out[rows] = log_prob.cpu().numpy()

    def compute(self, batch: Minibatch, advantage: Floats) -> None:
        """See PPOEngine."""
        config, seed = self._model.config, self._model.optimizer.seed
        wants_metrics = config.target_kl > 0 or self._calls % _SAMPLE_EVERY == 0
        self._calls += 1
        self._model.flat.gradients.zero_()
        metrics = []
        steps, advantages = self._on_device(self._gather(batch)), self._compute.tensor(advantage)
        for rows in pieces(len(advantage), config.grad_accumulation):
            terms = self._terms(steps.rows(rows), advantages[rows])
            losses = terms.loss(value_coef=config.value_coef, entropy_coef=config.entropy_coef)
            loss = losses.sum() / len(advantage)
            # Passing a gradient to `backward` would make torch import sympy: 0.4 s of CPU.
            (loss if seed is None else loss * seed).backward()  # type: ignore[no-untyped-call]
            if wants_metrics:
                metrics.append(_metrics(terms, config.clip))
        if wants_metrics:
            self._last = torch.stack(metrics).sum(0) / len(advantage)
            self._seen.append(self._last)

    def _terms(self, batch: _TensorBatch, advantage: Tensor) -> PolicyTerms:
        """The terms of the PPO loss of B steps."""
        config = self._model.config
        with self._compute.precision():
            out, value = self._forward(batch.obs)
        log_prob, entropy = self._model.distribution.evaluate(out, batch.action, batch.mask)
        # Weights are not negative, so they do not change where the loss is clipped.
        policy = surrogate(log_prob, batch.old_log_prob, advantage * batch.weight, config.clip)
        error = value_error(value.squeeze(1).float(), batch.value, batch.returns, config.clip_value)
        return PolicyTerms(policy, error, entropy, log_prob - batch.old_log_prob)

    def _gather(self, batch: Minibatch) -> Minibatch:
        """The steps at the batch's indices, copied into buffers that are reused."""
        if batch.indices is None:
            return batch
        if self._gathered is None or self._gathered.size < batch.size:
            self._gathered = batch.gathered()
            return self._gathered
        return batch.gathered(self._gathered)

    def _on_device(self, batch: Minibatch) -> _TensorBatch:
        """The batch as tensors; on the CPU they are views, which are cached."""
        if self._cached is not None and self._cached[0] is batch:
            return self._cached[1]
        views: dict[str, Any] = {}
        for name in _TensorBatch.__dataclass_fields__:
            array = getattr(batch, name)
            views[name] = None if array is None else self._compute.tensor(array)
        tensors = _TensorBatch(**views)
        if self._compute.on_cpu:
            self._cached = batch, tensors
        return tensors

    def collect_gradient(self) -> None:
        """Nothing to do: it is there already."""

    def divergence(self) -> float:
        """See PPOEngine; waits for the device."""
        return float(self._last[METRICS.index("approx_kl")])

    def step(self, lr: float) -> None:
        """See PPOEngine."""
        self._model.optimizer.adam.lr = lr
        self._model.optimizer.step()

    def drain(self) -> dict[str, float]:
        """See PPOEngine."""
        if not self._seen:
            return {}
        means = torch.stack(self._seen).mean(0).tolist()
        self._seen.clear()
        self._calls = 0
        return dict(zip(METRICS, means, strict=True))


def _fastest(network: ActorCritic, compute: Compute) -> ActorCritic | DenseActorCritic:
    """The network itself, or an equivalent with fewer autograd operations."""
    if compute.amp or compute.compile or not isinstance(network.policy_body, MLPBody):
        return network
    return DenseActorCritic(network)


def chunks(obs: Array) -> Iterator[slice]:
    """Slices of observations (M, *obs), one per forward pass."""
    size = max(1, min(MAX_ROWS, MAX_ELEMENTS // int(np.prod(obs.shape[1:]))))
    for begin in range(0, len(obs), size):
        yield slice(begin, min(len(obs), begin + size))


@torch.no_grad()
def _metrics(terms: PolicyTerms, clip: float) -> Tensor:
    each = (terms.policy, terms.value, terms.entropy, terms.divergence(), terms.clipped(clip))
    return torch.stack([term.sum() for term in each])
