"""Losses and targets in torch, as pure functions: tensors in, tensor out.

The torch engines use these. The fused engine computes the same losses, with their gradients written
out, in compiled code; change both together:

| here | compiled counterpart |
| --- | --- |
| `surrogate`, `value_error`, `PolicyTerms` | `ppo/kernels/loss.py`: `ppo_loss_grad` |
| `td_target` | `dqn/kernels/td_update.py`: `compute_targets` |
| `huber`, `cross_entropy` | `dqn/kernels/td_update.py`: `dqn_loss_grad` |
| `squared_td_error` | `pqn/kernels/update.py`: `squared_error_grad` |
| `quantile_huber` | `dqn/kernels/heads.py`: `quantile_loss_grad` |
| `project_distribution` | `dqn/kernels/heads.py`: `project` |

Shapes: B transitions, A actions, Z atoms of a return distribution.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


def legal_values(values: Tensor, mask: Tensor | None, illegal: float = -torch.inf) -> Tensor:
    """Action values (B, A) with illegal ones replaced; rows without any are unchanged."""
    if mask is None:
        return values
    usable = mask | ~mask.any(1, keepdim=True)
    return values.masked_fill(~usable, illegal)


def td_target(reward: Tensor, discount: Tensor, next_value: Tensor) -> Tensor:
    """The TD target (B,): reward + discount * next_value; the discount is 0 after termination."""
    return reward + discount * next_value


def huber(prediction: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
    """Weighted mean of the Huber loss with threshold 1, see `dqn_loss_grad`."""
    if weight is None:
        return functional.smooth_l1_loss(prediction, target)
    return (functional.smooth_l1_loss(prediction, target, reduction="none") * weight).mean()


def squared_td_error(prediction: Tensor, target: Tensor) -> Tensor:
    """Half the squared TD error (B,), the loss of PQN, see `squared_error_grad`."""
    return 0.5 * (prediction - target).square()


def large_margin(values: Tensor, taught: Tensor, margin: float) -> Tensor:
    """The large-margin loss (B,) of learning from demonstrations (DQfD, Hester 2018, equation 2).

    It is 0 where the value of the teacher's action exceeds all others by `margin`, otherwise the
    difference that is missing. All other actions are compared, illegal ones too: the replay buffer
    does not hold the masks of obs, and low values of illegal actions do no harm. If the teacher
    takes several actions at once, each has to exceed those not taken, and the mean is returned.

    Args:
        values: (B, A) of all actions.
        taught: (B, 1) or (B, k) actions of the teacher, -1 for none.
        margin: By how much the teacher's action should exceed the others.
    """
    at = taught.clamp(min=0)
    taken = torch.zeros_like(values).scatter_add(1, at, (taught >= 0).to(values.dtype)) > 0
    rival = (values + margin).masked_fill(taken, -torch.inf).amax(1, keepdim=True)
    return mean_of_taken((rival - values.gather(1, at)).clamp(min=0), taught).squeeze(1)


def mean_of_taken(values: Tensor, action: Tensor) -> Tensor:
    """Mean (B, 1) of the values (B, k) of k actions (B, k) taken at once.

    Elements where `action` is -1 do not count; a row without actions has the mean 0.
    """
    real = action >= 0
    total = torch.where(real, values, 0).sum(1, keepdim=True)
    return total / real.sum(1, keepdim=True).clamp(min=1)


def huber_of_taken(
    values: Tensor, action: Tensor, target: Tensor, weight: Tensor | None = None
) -> Tensor:
    """Weighted mean over B of the mean Huber loss over k actions taken at once."""
    losses = functional.smooth_l1_loss(values, target.expand_as(values), reduction="none")
    each = mean_of_taken(losses, action)
    return each.mean() if weight is None else (each * weight).mean()


def project_distribution(
    probabilities: Tensor, reward: Tensor, discount: Tensor, support: Tensor
) -> Tensor:
    """Project the distribution of reward + discount * z onto the support (Bellemare 2017, eq. 7).

    Args:
        probabilities: (B, Z) distribution of the next state's return.
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
    # NaN must not become an index; the probabilities that it moves stay NaN.
    below_index = below.nan_to_num().long()
    above_index = torch.clamp(below_index + 1, max=atoms - 1)
    projected = torch.zeros_like(probabilities)
    projected.scatter_add_(1, below_index, probabilities * (1 - share_above))
    projected.scatter_add_(1, above_index, probabilities * share_above)
    return projected


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Cross entropy (B,) of predicted logits (B, Z) against a target distribution (B, Z)."""
    return functional.cross_entropy(logits, target, reduction="none")


def quantile_huber(quantiles: Tensor, target: Tensor) -> Tensor:
    """The quantile Huber loss (B,) with threshold 1 (QR-DQN, Dabney 2018, equation 10).

    Args:
        quantiles: (B, Z) predicted quantiles, of the probabilities (i + 0.5) / Z.
        target: (B, Z) samples of the target distribution.
    """
    count = quantiles.shape[1]
    probability = (torch.arange(count, device=quantiles.device) + 0.5) / count
    error = target.unsqueeze(1) - quantiles.unsqueeze(2)  # (B, quantile, target)
    size = functional.huber_loss(error, torch.zeros_like(error), reduction="none")
    overestimated = (error.detach() < 0).to(error.dtype)
    share = (probability[None, :, None].to(error.dtype) - overestimated).abs()
    return (share * size).mean(2).sum(1)


@dataclass(frozen=True, slots=True)
class PolicyTerms:
    """The terms of the PPO loss, one number per step (B,)."""

    policy: Tensor
    """`surrogate`."""
    value: Tensor
    """`value_error`."""
    entropy: Tensor
    log_ratio: Tensor
    """New minus old log probability of the action."""

    def loss(self, *, value_coef: float, entropy_coef: float) -> Tensor:
        """The PPO loss (B,) (Schulman 2017, equation 9)."""
        loss = torch.add(self.policy, self.value, alpha=value_coef)
        return torch.sub(loss, self.entropy, alpha=entropy_coef)

    def divergence(self) -> Tensor:
        """Unbiased, non-negative estimates (B,) of KL(old || new), "k3" of Schulman (2020)."""
        return torch.expm1(self.log_ratio) - self.log_ratio

    def clipped(self, clip: float) -> Tensor:
        """Where the probability ratio is outside the clip range (B,)."""
        return (self.log_ratio.exp() - 1).abs() > clip if clip else torch.zeros_like(self.policy)


def surrogate(log_prob: Tensor, old_log_prob: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """The clipped surrogate loss (B,) (Schulman 2017, equation 7), or with clip 0 -A * log_prob."""
    cost = -advantage
    if clip == 0:
        return cost * log_prob
    ratio = (log_prob - old_log_prob).exp()
    unclipped = ratio * cost
    # The clipped loss is constant where it is the larger one, so it needs no gradient.
    clipped = ratio.detach().clamp(1 - clip, 1 + clip) * cost
    return torch.where(clipped > unclipped, clipped, unclipped)


def value_error(value: Tensor, old_value: Tensor, returns: Tensor, clip: float) -> Tensor:
    """The squared value error (B,); with a clip range, the larger of it and the clipped one."""
    error = (value - returns).square()
    if clip == 0:
        return error
    clipped = old_value + (value - old_value).clamp(-clip, clip)
    return torch.max(error, (clipped - returns).square())
