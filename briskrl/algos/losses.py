"""Losses and targets as pure functions: tensors in, tensor out.

Shapes: B transitions, A actions, Z atoms of a return distribution.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


def legal_values(values: Tensor, mask: Tensor | None, illegal: float = -torch.inf) -> Tensor:
    """Action values (B, A), illegal ones replaced; a row without legal actions is left alone."""
    if mask is None:
        return values
    usable = mask | ~mask.any(1, keepdim=True)
    return values.masked_fill(~usable, illegal)


def td_target(reward: Tensor, discount: Tensor, next_value: Tensor) -> Tensor:
    """The bootstrapped return (B,); a discount of 0 marks a terminal end."""
    return reward + discount * next_value


def huber(prediction: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
    """Weighted mean of the Huber loss with threshold 1: quadratic inside, linear outside."""
    if weight is None:
        return functional.smooth_l1_loss(prediction, target)
    return (functional.smooth_l1_loss(prediction, target, reduction="none") * weight).mean()


def large_margin(values: Tensor, taught: Tensor, margin: float) -> Tensor:
    """How much less than `margin` the teacher's actions lead (B,), at least 0 (Hester 2018, eq. 2).

    All actions are compared with, illegal ones too: nobody knows any more what was legal then, and
    it does no harm to think little of what cannot be done. Of several actions taken at once each
    should lead those that were not; the mean of what they lack is given.

    Args:
        values: (B, A) of all actions.
        taught: (B, 1) or (B, k) actions of the teacher, -1 for none.
        margin: The lead that is asked for.
    """
    at = taught.clamp(min=0)
    chosen = torch.zeros_like(values).scatter_add(1, at, (taught >= 0).to(values.dtype)) > 0
    rival = (values + margin).masked_fill(chosen, -torch.inf).amax(1, keepdim=True)
    return mean_of_taken((rival - values.gather(1, at)).clamp(min=0), taught).squeeze(1)


def mean_of_taken(values: Tensor, action: Tensor) -> Tensor:
    """Mean values (B, 1) of the actions (B, k) that were taken, with their values (B, k).

    Places where `action` is -1 do not count; a row without actions has the mean 0.
    """
    real = action >= 0
    total = torch.where(real, values, 0).sum(1, keepdim=True)
    return total / real.sum(1, keepdim=True).clamp(min=1)


def huber_of_taken(
    values: Tensor, action: Tensor, target: Tensor, weight: Tensor | None = None
) -> Tensor:
    """Weighted mean over B of the mean Huber loss of each taken action's value (B, k)."""
    losses = functional.smooth_l1_loss(values, target.expand_as(values), reduction="none")
    each = mean_of_taken(losses, action)
    return each.mean() if weight is None else (each * weight).mean()


def project_distribution(
    probabilities: Tensor, reward: Tensor, discount: Tensor, support: Tensor
) -> Tensor:
    """The distribution of reward + discount * z put back onto the support (Bellemare 2017, eq. 7).

    Args:
        probabilities: (B, Z) of the next state's return.
        reward: (B,).
        discount: (B,).
        support: (Z,) evenly spaced returns.
    """
    atoms = len(support)
    low, high = support[0], support[-1]
    spacing = (high - low) / (atoms - 1)
    moved = torch.clamp(reward[:, None] + discount[:, None] * support, low, high)
    position = torch.clamp((moved - low) / spacing, 0, atoms - 1)
    below = position.floor()
    share_above = position - below
    # A position that is not a number must not become an index; what it moves stays NaN.
    below_index = below.nan_to_num().long()
    above_index = torch.clamp(below_index + 1, max=atoms - 1)
    projected = torch.zeros_like(probabilities)
    projected.scatter_add_(1, below_index, probabilities * (1 - share_above))
    projected.scatter_add_(1, above_index, probabilities * share_above)
    return projected


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Cross entropy (B,) of predicted logits (B, Z) against a target distribution (B, Z)."""
    return functional.cross_entropy(logits, target, reduction="none")


@dataclass(frozen=True, slots=True)
class PolicyTerms:
    """The parts of the on-policy loss, one figure per step (B,)."""

    policy: Tensor
    value: Tensor
    """Squared errors."""
    entropy: Tensor
    log_ratio: Tensor
    """How the log probability of the action has moved."""

    def loss(self, *, value_coef: float, entropy_coef: float) -> Tensor:
        """What is minimized, (B,)."""
        loss = torch.add(self.policy, self.value, alpha=value_coef)
        return torch.sub(loss, self.entropy, alpha=entropy_coef)

    def divergence(self) -> Tensor:
        """Unbiased estimates of the KL divergence from the anchor, none below 0 (Schulman 2020)."""
        return torch.expm1(self.log_ratio) - self.log_ratio

    def clipped(self, clip: float) -> Tensor:
        """Where the clip of the policy's step holds."""
        return (self.log_ratio.exp() - 1).abs() > clip if clip else torch.zeros_like(self.policy)


def surrogate(log_prob: Tensor, old_log_prob: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """The clipped policy loss (B,) (Schulman 2017, equation 7); clip 0: the policy gradient's."""
    cost = -advantage
    if clip == 0:
        return cost * log_prob
    ratio = (log_prob - old_log_prob).exp()
    moved = ratio * cost
    # Where the clip holds the loss is constant, so its gradient need not pass the clip.
    held = ratio.detach().clamp(1 - clip, 1 + clip) * cost
    return torch.where(held > moved, held, moved)


def value_error(value: Tensor, before: Tensor, returns: Tensor, clip: float) -> Tensor:
    """Squared errors (B,); a clip takes the worse of value and value moved by the clip at most."""
    error = (value - returns).square()
    if clip == 0:
        return error
    limited = before + (value - before).clamp(-clip, clip)
    return torch.max(error, (limited - returns).square())
