"""Policy learning by torch: the reference, for any network, action and device."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from briskrl.algos.losses import PolicyTerms, surrogate, value_error
from briskrl.algos.policy_engine import METRICS, PolicyParts
from briskrl.core.types import Array, Bools, Decision, Floats, Minibatch
from briskrl.nets.compute import Compute
from briskrl.nets.pieces import pieces

MAX_ROWS, MAX_ELEMENTS = 4096, 1 << 21
"""Observations per forward pass and numbers in them: enough to fill the cores, and few enough that
the activations of large images fit into memory."""

_SAMPLE_EVERY = 8
"""Updates per look at the loss's parts; one says as much as all of them."""


class TorchPolicies:
    """See PolicyEngine."""

    def __init__(self, parts: PolicyParts, compute: Compute) -> None:
        self._parts = parts
        self._compute = compute
        network = parts.network
        self._policy = compute.compiled(network.policy)
        self._values = compute.compiled(network.values)
        self._forward = compute.compiled(network.forward)
        self._calls = 0
        self._last = torch.zeros(len(METRICS))
        self._seen: list[Tensor] = []
        self._one = torch.ones((), device=compute.device)

    def refresh(self) -> None:
        """The network is read where it is."""

    @torch.inference_mode()
    def act(self, obs: Array, mask: Bools | None, rng: np.random.Generator, out: Decision) -> None:
        """See PolicyEngine."""
        outputs = self._policy(self._compute.tensor(obs))
        self._parts.distribution.sample(outputs.cpu().numpy(), mask, rng, out)

    @torch.inference_mode()
    def values(self, obs: Array, out: Floats) -> None:
        """See PolicyEngine."""
        for rows in _chunks(obs):
            values = self._values(self._compute.tensor(obs[rows]))
            out[rows] = values.squeeze(1).cpu().numpy()

    @torch.inference_mode()
    def log_probs(self, obs: Array, action: Array, mask: Bools | None, out: Floats) -> None:
        """See PolicyEngine."""
        tensor = self._compute.tensor
        for rows in _chunks(obs):
            outputs = self._policy(tensor(obs[rows]))
            legal = None if mask is None else tensor(mask[rows])
            log_prob, _ = self._parts.distribution.evaluate(outputs, tensor(action[rows]), legal)
            out[rows] = log_prob.cpu().numpy()

    def compute(self, batch: Minibatch, advantage: Floats) -> None:
        """See PolicyEngine."""
        config, seed = self._parts.config, self._parts.guard.seed
        wanted = config.target_kl > 0 or self._calls % _SAMPLE_EVERY == 0
        self._calls += 1
        self._parts.flat.gradients.zero_()
        parts = []
        for rows in pieces(len(advantage), config.grad_accumulation):
            terms = self._terms(cut(batch, rows), advantage[rows])
            losses = terms.loss(value_coef=config.value_coef, entropy_coef=config.entropy_coef)
            loss = losses.sum() / len(advantage)
            loss.backward(self._one if seed is None else seed)  # type: ignore[no-untyped-call]
            if wanted:
                parts.append(_metrics(terms, config.clip))
        if wanted:
            self._last = torch.stack(parts).sum(0) / len(advantage)
            self._seen.append(self._last)

    def _terms(self, batch: Minibatch, advantage: Floats) -> PolicyTerms:
        tensor, config = self._compute.tensor, self._parts.config
        obs, action, anchor = tensor(batch.obs), tensor(batch.action), tensor(batch.anchor)
        mask = None if batch.mask is None else tensor(batch.mask)
        with self._compute.precision():
            out, value = self._forward(obs)
        log_prob, entropy = self._parts.distribution.evaluate(out, action, mask)
        policy = surrogate(log_prob, anchor, tensor(advantage), config.clip)
        error = value_error(
            value.squeeze(1).float(), tensor(batch.value), tensor(batch.ret), config.clip_value
        )
        return PolicyTerms(policy * tensor(batch.weight), error, entropy, log_prob - anchor)

    def divergence(self) -> float:
        """See PolicyEngine; waits for the device."""
        return float(self._last[3])

    def step(self, lr: float) -> None:
        """See PolicyEngine."""
        self._parts.guard.adam.lr = lr
        self._parts.guard.step()

    def drain(self) -> dict[str, float]:
        """See PolicyEngine."""
        if not self._seen:
            return {}
        means = torch.stack(self._seen).mean(0).tolist()
        self._seen.clear()
        self._calls = 0
        return dict(zip(METRICS, means, strict=True))


def _chunks(obs: Array) -> Iterator[slice]:
    """Rows of observations (M, *obs) that go through a network at once."""
    size = max(1, min(MAX_ROWS, MAX_ELEMENTS // int(np.prod(obs.shape[1:]))))
    for begin in range(0, len(obs), size):
        yield slice(begin, min(len(obs), begin + size))


@torch.no_grad()
def _metrics(terms: PolicyTerms, clip: float) -> Tensor:
    parts = (terms.policy, terms.value, terms.entropy, terms.divergence(), terms.clipped(clip))
    return torch.stack([part.sum() for part in parts])


def cut(batch: Minibatch, rows: slice) -> Minibatch:
    """Some rows of a minibatch, as views."""
    return Minibatch(
        obs=batch.obs[rows],
        action=batch.action[rows],
        anchor=batch.anchor[rows],
        weight=batch.weight[rows],
        value=batch.value[rows],
        advantage=batch.advantage[rows],
        ret=batch.ret[rows],
        mask=None if batch.mask is None else batch.mask[rows],
    )
