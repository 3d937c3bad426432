"""DQN in torch: the reference, for any network and device.

The losses are in `briskrl.algos.losses`; the compiled counterpart is `kernels/td_update.py`. The
target network does not change between two refreshes, so TD targets that depend on nothing else are
computed in one forward pass for many updates.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from briskrl.algos.distributions import best_actions
from briskrl.algos.dqn.engine import DQNModel, NoisePeriod
from briskrl.algos.dqn.exploration import EpsilonGreedy
from briskrl.algos.dqn.policy import action_values, greedy_actions, of_actions
from briskrl.algos.losses import (
    cross_entropy,
    huber,
    huber_of_taken,
    large_margin,
    legal_values,
    mean_of_taken,
    project_distribution,
    quantile_huber,
    td_target,
)
from briskrl.core.types import Array, Batch, Bools, Floats, Ints
from briskrl.nets.compute import Compute, pieces
from briskrl.nets.dense_autograd import DenseQ
from briskrl.nets.q_network import QNetwork


class TorchDQNEngine:
    """A DQNEngine in torch.

    Args:
        model: Networks and optimizer.
        explore: Source of random actions.
        compute: Device and precision.
        imitates: Whether batches hold a teacher's actions; adds the large-margin loss.
    """

    def __init__(
        self,
        model: DQNModel,
        explore: EpsilonGreedy,
        compute: Compute,
        *,
        imitates: bool = False,
    ) -> None:
        self._model = model
        self._imitates = imitates
        self._explore = explore
        self._compute = compute
        self._evaluate_online = fastest_q(model.online, compute)
        self._evaluate_target = fastest_q(model.target, compute)
        self._support = model.support
        self._views = _BatchViews(compute)
        self._errors = np.zeros((0, 0), np.float32)
        self._losses = _Losses()
        self._noise_period = NoisePeriod(model.config.update_every)
        self._accumulated = torch.zeros_like(model.online_flat.gradients)

    def refresh(self) -> None:
        """Begin a round of acting noise; torch computes with the networks themselves."""
        self._noise_period.restart()

    def refresh_target(self) -> None:
        """Nothing to do: torch computes with the networks themselves."""

    def act(self, obs: Array, mask: Bools | None, epsilon: float, out: Ints) -> None:
        """See DQNEngine."""
        model = self._model
        if model.config.noisy and self._noise_period.begins():
            model.online.set_noise(model.online.draw_noise(model.acting_noise))
        evaluate = self._evaluate_online
        greedy = greedy_actions(
            evaluate, obs, mask, self._support, self._compute, taken=model.taken
        )
        self._explore.mix(greedy, mask, epsilon, out)

    def update(self, batch: Batch, updates: int, before: int) -> Floats:
        """See DQNEngine."""
        views = self._views.of(batch)
        if self._errors.shape != batch.reward.shape:
            self._errors = np.zeros(batch.reward.shape, np.float32)
        done = 0
        while done < updates:
            stop = min(updates, done + self._targets_ahead(before + done))
            targets = self._targets(views, done, stop).unbind(0)
            for k, target in zip(range(done, stop), targets, strict=True):
                self._one_update(views, k, target)
                self._model.refresh_target(before + k + 1)
            done = stop
        return self._errors

    def drain(self) -> dict[str, float]:
        """See DQNEngine."""
        return self._losses.drain()

    def _targets_ahead(self, done: int) -> int:
        """For how many updates the targets can be computed at once."""
        config = self._model.config
        if config.double or config.noisy:
            return 1
        if config.target_unit == "steps":
            return 1 << 30
        return config.target_every - done % config.target_every

    @torch.no_grad()
    def _targets(self, views: _BatchViews, begin: int, end: int) -> Tensor:
        """TD targets of updates begin..end-1: (K, B, 1), or (K, B, 1, Z) of distributions."""
        model = self._model
        if model.config.noisy:
            model.online.set_noise(model.online.draw_noise(model.noise))
            noise = model.target.draw_noise(model.noise)
            model.target.set_noise(noise if model.config.target_noise else noise.zero_())
        rows = slice(begin, end)
        next_obs = views.next_obs[rows].flatten(0, 1)  # (K * B, *obs)
        reward = views.reward[rows].flatten()
        discount = views.discount[rows].flatten()
        mask = None if views.next_mask is None else views.next_mask[rows].flatten(0, 1)
        with self._compute.precision():
            out = self._evaluate_target(next_obs).float()
            chooser = self._evaluate_online(next_obs).float() if model.config.double else out
        next_q = self._best_of(out, action_values(chooser, self._support), mask)
        if self._support is not None:
            targets = project_distribution(next_q.softmax(1), reward, discount, self._support)
        elif next_q.dim() == 2:
            targets = td_target(reward[:, None], discount[:, None], next_q)
        else:
            targets = td_target(reward, discount, next_q)
        return targets.view(end - begin, -1, 1, *targets.shape[1:])

    def _best_of(self, out: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """The outputs of the best action by `values`, (B,) or (B, Z); the mean over k actions."""
        taken = self._model.taken
        if taken is None:
            best = legal_values(values, mask).argmax(1, keepdim=True)
            return of_actions(out, best).squeeze(1)
        several = best_actions(values, mask, taken)
        return mean_of_taken(of_actions(out, several.clamp(min=0)), several).squeeze(1)

    def _one_update(self, views: _BatchViews, k: int, target: Tensor) -> None:
        """Do update k with its TD targets (B, 1) or (B, 1, Z)."""
        config = self._model.config
        obs, action = views.obs[k], views.action[k]
        weight = views.weight[k] if config.prioritized else None
        if config.grad_accumulation == 1:
            errors = self._gradient(obs, action, target, weight)
        else:
            errors = self._gradient_in_pieces(obs, action, target, weight)
        if weight is not None:
            self._errors[k] = errors.flatten().abs().cpu().numpy()
        self._model.optimizer.step()
        self._losses.count += 1

    def _gradient_in_pieces(
        self, obs: Tensor, action: Tensor, target: Tensor, weight: Tensor | None
    ) -> Tensor:
        """The gradient of the batch, computed in pieces to save memory; returns the errors."""
        flat = self._model.online_flat
        errors = []
        self._accumulated.zero_()
        for rows in pieces(len(obs), self._model.config.grad_accumulation):
            part = None if weight is None else weight[rows]
            errors.append(self._gradient(obs[rows], action[rows], target[rows], part))
            share = len(errors[-1]) / len(obs)
            self._accumulated.add_(flat.gradients, alpha=share)
        flat.gradients.copy_(self._accumulated)
        return torch.cat(errors)

    def _gradient(
        self, obs: Tensor, action: Tensor, target: Tensor, weight: Tensor | None
    ) -> Tensor:
        """Overwrite the gradients with those of the mean loss; returns the TD errors (B, ...)."""
        if self._model.config.atoms == 1:
            return self._gradient_of_values(obs, action, target, weight)
        return self._gradient_of_distributions(obs, action, target, weight)

    def _gradient_of_values(
        self, obs: Tensor, action: Tensor, target: Tensor, weight: Tensor | None
    ) -> Tensor:
        if self._model.taken is not None:
            return self._gradient_of_subsets(obs, action, target, weight)
        out = self._predict(obs)
        prediction = of_actions(out, action)  # (B, 1)
        self._backward(huber(prediction, target, weight) + self._imitation(out, action))
        return prediction.detach() - target

    def _gradient_of_subsets(
        self, obs: Tensor, action: Tensor, target: Tensor, weight: Tensor | None
    ) -> Tensor:
        out = self._predict(obs)
        values = of_actions(out, action.clamp(min=0))  # (B, k)
        mean = mean_of_taken(values, action)
        if self._model.config.subset_loss == "mean":
            loss = huber(mean, target, weight)
        else:
            loss = huber_of_taken(values, action, target, weight)
        self._backward(loss + self._imitation(out, action))
        return mean.detach() - target

    def _gradient_of_distributions(
        self, obs: Tensor, action: Tensor, target: Tensor, weight: Tensor | None
    ) -> Tensor:
        out = self._predict(obs)
        taken = of_actions(out, action).squeeze(1)  # (B, Z)
        loss_of = quantile_huber if self._support is None else cross_entropy
        losses = loss_of(taken, target.squeeze(1))
        loss = losses.mean() if weight is None else (losses * weight.squeeze(1)).mean()
        self._backward(loss + self._imitation(out, action))
        return losses.detach()

    def _imitation(self, out: Tensor, action: Tensor) -> Tensor | float:
        """The large-margin loss of a teacher's actions; 0 unless imitating."""
        config = self._model.config
        if not self._imitates or config.margin_coef == 0:
            return 0.0
        values = action_values(out, self._support)
        return config.margin_coef * large_margin(values, action, config.margin).mean()

    def _predict(self, obs: Tensor) -> Tensor:
        with self._compute.precision():
            return self._evaluate_online(obs).float()

    def _backward(self, loss: Tensor) -> None:
        seed = self._model.optimizer.seed
        self._model.online_flat.gradients.zero_()
        # Passing a gradient to `backward` would make torch import sympy: 0.4 s of CPU.
        (loss if seed is None else loss * seed).backward()  # type: ignore[no-untyped-call]
        if self._losses.wanted:
            self._losses.add(loss.detach())


def fastest_q(network: QNetwork, compute: Compute) -> Callable[[Tensor], Tensor]:
    """The network itself, or an equivalent with fewer autograd operations."""
    if compute.amp or compute.compile or not DenseQ.can_compute(network):
        return compute.compiled(network)
    return DenseQ(network)


class _Losses:
    """A sample of losses for the log: one in 64 is enough for a mean and costs nothing."""

    def __init__(self) -> None:
        self._seen: list[Tensor] = []
        self.count = 0

    @property
    def wanted(self) -> bool:
        return self.count % 64 == 0

    def add(self, loss: Tensor) -> None:
        self._seen.append(loss)

    def drain(self) -> dict[str, float]:
        if not self._seen:
            return {}
        mean = float(torch.stack(self._seen).mean())
        self._seen.clear()
        self.count = 0
        return {"loss": mean}


class _BatchViews:
    """A Batch as tensors: views of its arrays on the CPU, copies on an accelerator.

    Fields for TD targets are (K, B, ...), because the targets of many updates are computed at once.
    Fields for single updates are split into K tensors beforehand: obs (B, *obs), action (B, 1) or
    (B, k), weight (B, 1).
    """

    obs: tuple[Tensor, ...]
    action: tuple[Tensor, ...]
    weight: tuple[Tensor, ...]
    reward: Tensor
    next_obs: Tensor
    discount: Tensor
    next_mask: Tensor | None

    def __init__(self, compute: Compute) -> None:
        self._compute = compute
        self._seen: Batch | None = None

    def of(self, batch: Batch) -> _BatchViews:
        if batch is self._seen and self._compute.on_cpu:
            return self
        self._seen = batch
        tensor = self._compute.tensor
        self.obs = tensor(batch.obs).unbind(0)
        action = tensor(batch.action)
        self.action = (action if action.dim() == 3 else action.unsqueeze(2)).unbind(0)
        self.weight = tensor(batch.weight).unsqueeze(2).unbind(0)
        self.reward = tensor(batch.reward)
        self.next_obs = tensor(batch.next_obs)
        self.discount = tensor(batch.discount)
        self.next_mask = None if batch.next_mask is None else tensor(batch.next_mask)
        return self
