"""The gradient of the on-policy loss, by hand for small networks on the CPU, else by autograd.

Both leave the gradient of the mean loss over a minibatch in the network's flat buffer, and both can
take the minibatch in pieces; their results agree up to rounding.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from briskrl.algos.config import OnPolicyConfig
from briskrl.algos.distributions import NO_MASK, Choices, Distribution
from briskrl.algos.kernels import policy_slopes
from briskrl.algos.losses import PolicyTerms, surrogate, value_error
from briskrl.core.types import Floats, Minibatch
from briskrl.nets.actor_critic import ActorCritic
from briskrl.nets.by_hand import ActorCriticByHand
from briskrl.nets.compute import Compute
from briskrl.nets.flat import FlatParameters
from briskrl.nets.pieces import pieces

METRICS = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction")

_SAMPLE_EVERY = 8
"""Updates per look at the loss's parts where they cost extra; one says as much as all of them."""


class PolicyGradient(Protocol):
    """Computes gradients and remembers what they were made of."""

    def compute(self, batch: Minibatch, advantage: Floats, seed: Tensor | None) -> None:
        """Overwrite the gradients.

        Args:
            batch: What to learn from.
            advantage: (B,) to be taken instead of the batch's own.
            seed: What the backward pass starts from, if not from 1.
        """
        ...

    def divergence(self) -> float:
        """How far the policy is from the anchors in the last minibatch."""
        ...

    def drain(self) -> dict[str, float]:
        """Means of METRICS since the last call."""
        ...


class GradientByHand:
    """Two products a layer and one kernel for the loss."""

    def __init__(
        self,
        network: ActorCriticByHand,
        flat: FlatParameters,
        choices: Choices,
        config: OnPolicyConfig,
    ) -> None:
        self._network = network
        self._flat = flat
        self._choices = choices
        self._pieces = config.grad_accumulation
        self._settings = np.array(
            [config.clip, config.clip_value, config.entropy_coef, config.value_coef, 1.0]
        )
        self._scratch = np.zeros((2, len(choices.sizes)))
        self._slopes = (torch.zeros(0, choices.outputs), torch.zeros(0, 1))
        self._gradients = torch.zeros_like(flat.gradients) if self._pieces > 1 else None
        self._sums = np.zeros(len(METRICS))
        self._totals = np.zeros(len(METRICS))
        self._count = 0
        self._total_count = 0

    @torch.no_grad()
    def compute(self, batch: Minibatch, advantage: Floats, seed: Tensor | None) -> None:
        """See PolicyGradient; there is no seed."""
        size = len(advantage)
        self._settings[-1] = size
        self._sums.fill(0)
        if self._gradients is None:
            self._compute_piece(batch, advantage)
        else:
            self._gradients.zero_()
            for rows in pieces(size, self._pieces):
                self._compute_piece(cut(batch, rows), advantage[rows])
                self._gradients.add_(self._flat.gradients)
            self._flat.gradients.copy_(self._gradients)
        self._totals += self._sums
        self._count = size
        self._total_count += size

    def _compute_piece(self, batch: Minibatch, advantage: Floats) -> None:
        out, value = self._network.forward(torch.from_numpy(batch.obs))
        if len(self._slopes[0]) < len(out):
            self._slopes = (torch.zeros_like(out), torch.zeros_like(value))
        policy_slope, value_slope = (slope[: len(out)] for slope in self._slopes)
        policy_slopes(
            out.numpy(),
            value.numpy(),
            NO_MASK if batch.mask is None else batch.mask,
            self._choices.ends,
            self._choices.columns(batch.action),
            batch.anchor,
            batch.weight,
            batch.value,
            advantage,
            batch.ret,
            self._settings,
            self._scratch,
            policy_slope.numpy(),
            value_slope.numpy(),
            self._sums,
        )
        self._network.backward(policy_slope, value_slope)

    def divergence(self) -> float:
        """See PolicyGradient."""
        return float(self._sums[3]) / self._count

    def drain(self) -> dict[str, float]:
        """See PolicyGradient."""
        if self._total_count == 0:
            return {}
        means = dict(zip(METRICS, (self._totals / self._total_count).tolist(), strict=True))
        self._totals.fill(0)
        self._total_count = 0
        return means


class GradientByAutograd:
    """The loss as it is written, for any network, action and device."""

    def __init__(
        self,
        network: ActorCritic,
        flat: FlatParameters,
        distribution: Distribution,
        config: OnPolicyConfig,
        compute: Compute,
    ) -> None:
        self._forward = compute.compiled(network.forward)
        self._flat = flat
        self._distribution = distribution
        self._config = config
        self._compute = compute
        self._calls = 0
        self._last = torch.zeros(len(METRICS))
        self._seen: list[Tensor] = []
        self._one = torch.ones((), device=compute.device)

    def compute(self, batch: Minibatch, advantage: Floats, seed: Tensor | None) -> None:
        """See PolicyGradient."""
        config = self._config
        wanted = config.target_kl > 0 or self._calls % _SAMPLE_EVERY == 0
        self._calls += 1
        self._flat.gradients.zero_()
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
        tensor, config = self._compute.tensor, self._config
        obs, action, anchor = tensor(batch.obs), tensor(batch.action), tensor(batch.anchor)
        mask = None if batch.mask is None else tensor(batch.mask)
        with self._compute.precision():
            out, value = self._forward(obs)
        log_prob, entropy = self._distribution.evaluate(out, action, mask)
        policy = surrogate(log_prob, anchor, tensor(advantage), config.clip)
        error = value_error(
            value.squeeze(1).float(), tensor(batch.value), tensor(batch.ret), config.clip_value
        )
        return PolicyTerms(policy * tensor(batch.weight), error, entropy, log_prob - anchor)

    def divergence(self) -> float:
        """See PolicyGradient; waits for the device."""
        return float(self._last[3])

    def drain(self) -> dict[str, float]:
        """See PolicyGradient."""
        if not self._seen:
            return {}
        means = torch.stack(self._seen).mean(0).tolist()
        self._seen.clear()
        self._calls = 0
        return dict(zip(METRICS, means, strict=True))


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
