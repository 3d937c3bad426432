"""DQN and everything Rainbow adds to it, as options of one algorithm.

Shapes: K updates of B transitions each, A actions, Z atoms of a return distribution. Where the
target network alone decides the targets, those of many updates are computed in one forward pass: it
does not change between two refreshes.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from briskrl.algos.config import DQNConfig
from briskrl.algos.explore import EpsilonGreedy, linear
from briskrl.algos.losses import (
    cross_entropy,
    huber,
    huber_slope,
    legal_values,
    project_distribution,
    td_target,
)
from briskrl.algos.q_policy import (
    action_values,
    greedy_actions,
    num_actions,
    of_actions,
    support_of,
    value_network,
)
from briskrl.core.clock import Clock
from briskrl.core.errors import DivergedError
from briskrl.core.rng import Streams, derive_seed
from briskrl.core.spec import EnvSpec
from briskrl.core.types import Array, Batch, Bools, Decision, Floats, State
from briskrl.nets.by_hand import HandGradient
from briskrl.nets.compute import Compute
from briskrl.nets.flat import FlatAdam, FlatParameters
from briskrl.nets.parameters import copy_out, load_parameters, parameters_of

MAX_NON_FINITE = 3
"""Non-finite updates in a row after which training stops."""


class DQN:
    """Value learning from replayed transitions; see DQNConfig for the options."""

    def __init__(
        self, config: DQNConfig, spec: EnvSpec, streams: Streams, compute: Compute
    ) -> None:
        device = compute.device
        self.config = config
        self.device = device
        self._num_actions = num_actions(spec.action)
        self._noise = torch.Generator(device).manual_seed(derive_seed(streams.seed, "noise"))
        init = torch.Generator().manual_seed(derive_seed(streams.seed, "init"))
        self.online = value_network(config, spec.obs, self._num_actions, init).to(device)
        self.target = value_network(config, spec.obs, self._num_actions, init).to(device)
        self.online_flat = FlatParameters(self.online)
        self.target_flat = FlatParameters(self.target)
        self.target.requires_grad_(False)
        self.target_flat.values.copy_(self.online_flat.values)
        self._by_hand = HandGradient.of(self.online)
        self.adam = FlatAdam(self.online_flat, lr=config.lr, eps=config.adam_eps)
        self._support = support_of(config, device)
        self._explore = EpsilonGreedy(self._num_actions, streams["explore"])
        self._views = _BatchViews(device)
        self._errors = np.zeros((0, 0), np.float32)
        self._updates = 0
        self._last_sync_step = 0
        self._non_finite_run = 0
        self._sums = _Sums()
        self._one = torch.ones((), device=device)

    def act(self, obs: Array, mask: Bools | None, clock: Clock, out: Decision) -> None:
        """Epsilon-greedy (or noisy greedy) actions for N environments."""
        if self.config.noisy:
            self.online.resample(self._noise)
        greedy = greedy_actions(self.online, obs, mask, self._support, self.device)
        self._explore.mix(greedy, mask, self.epsilon(clock), out.action)

    def epsilon(self, clock: Clock) -> float:
        """Share of random actions now."""
        config = self.config
        return linear(
            config.epsilon_start, config.epsilon_end, config.epsilon_steps, clock.env_steps
        )

    def update(self, batch: Batch, updates: int, clock: Clock) -> Floats:
        """See Algorithm.update."""
        views = self._views.of(batch)
        if self._errors.shape != batch.reward.shape:
            self._errors = np.zeros(batch.reward.shape, np.float32)
        if self.config.target_unit == "steps":
            self._sync_by_steps(clock.env_steps)
        done = 0
        while done < updates:
            stop = min(updates, done + self._targets_ahead())
            targets = self._targets(views, done, stop).unbind(0)
            for k, target in zip(range(done, stop), targets, strict=True):
                self._one_update(views, k, target)
            done = stop
        return self._errors

    def progress(self, clock: Clock) -> dict[str, float]:
        """Mean loss and gradient norm since the last call, and the current epsilon."""
        return {"epsilon": self.epsilon(clock), **self._sums.drain()}

    def _targets_ahead(self) -> int:
        """For how many updates targets can be computed at once without changing any of them."""
        config = self.config
        if config.double or config.noisy:
            return 1
        if config.target_unit == "steps":
            return 1 << 30
        return config.target_every - self._updates % config.target_every

    @torch.no_grad()
    def _targets(self, views: _BatchViews, begin: int, end: int) -> Tensor:
        """What the updates begin..end should learn: (K, B, 1) returns or (K, B, 1, Z) chances."""
        if self.config.noisy:
            self.online.resample(self._noise)
            self.target.resample(self._noise)
        rows = slice(begin, end)
        next_obs = views.next_obs[rows].flatten(0, 1)  # (K * B, *obs)
        reward = views.reward[rows].flatten()
        discount = views.discount[rows].flatten()
        mask = None if views.next_mask is None else views.next_mask[rows].flatten(0, 1)
        out = self.target(next_obs)
        chooser = self.online(next_obs) if self.config.double else out
        best = legal_values(action_values(chooser, self._support), mask).argmax(1, keepdim=True)
        chosen = of_actions(out, best).squeeze(1)
        if self._support is None:
            targets = td_target(reward, discount, chosen)
        else:
            targets = project_distribution(chosen.softmax(1), reward, discount, self._support)
        return targets.view(end - begin, -1, 1, *targets.shape[1:])

    def _one_update(self, views: _BatchViews, k: int, target: Tensor) -> None:
        obs, action = views.obs[k], views.action[k]
        weight = views.weight[k] if self.config.prioritized else None
        if self._by_hand is not None:
            errors = self._gradient_by_hand(self._by_hand, obs, action, target, weight)
        elif self._support is None:
            errors = self._gradient_of_values(obs, action, target, weight)
        else:
            errors = self._gradient_of_distributions(obs, action, target, weight)
        if weight is not None:
            self._errors[k] = errors.flatten().abs().cpu().numpy()
        self._apply()
        self._updates += 1
        if self.config.target_unit == "updates" and self._updates % self.config.target_every == 0:
            self._sync()

    @torch.no_grad()
    def _gradient_by_hand(
        self,
        by_hand: HandGradient,
        obs: Tensor,
        action: Tensor,
        target: Tensor,
        weight: Tensor | None,
    ) -> Tensor:
        out = by_hand.forward(obs)
        prediction = of_actions(out, action)  # (B, 1)
        if self._sums.wants_loss:
            self._sums.add_loss(huber(prediction, target, weight))
        error = prediction - target
        slope = huber_slope(error, weight)
        by_hand.backward(torch.zeros_like(out).scatter_(1, action, slope))
        return error

    def _gradient_of_values(
        self, obs: Tensor, action: Tensor, target: Tensor, weight: Tensor | None
    ) -> Tensor:
        prediction = of_actions(self.online(obs), action)  # (B, 1)
        self._backward(huber(prediction, target, weight))
        return prediction.detach() - target

    def _gradient_of_distributions(
        self, obs: Tensor, action: Tensor, target: Tensor, weight: Tensor | None
    ) -> Tensor:
        logits = of_actions(self.online(obs), action)  # (B, 1, Z)
        losses = cross_entropy(logits.squeeze(1), target.squeeze(1))
        self._backward(losses.mean() if weight is None else (losses * weight.squeeze(1)).mean())
        return losses.detach()

    def _backward(self, loss: Tensor) -> None:
        self.online_flat.gradients.zero_()
        loss.backward(self._one)  # type: ignore[no-untyped-call]
        if self._sums.wants_loss:
            self._sums.add_loss(loss.detach())

    def _apply(self) -> None:
        norm = self.online_flat.clip_gradients(self.config.max_grad_norm)
        if math.isfinite(norm):
            self._non_finite_run = 0
            self.adam.step()
            self._sums.add_norm(norm)
        else:
            self._skip()

    def _skip(self) -> None:
        self._non_finite_run += 1
        self._sums.skipped += 1
        if self._non_finite_run >= MAX_NON_FINITE:
            raise DivergedError(
                f"Loss or gradient was not finite in {MAX_NON_FINITE} updates in a row. The usual "
                "cures are a smaller --lr, a smaller --max-grad-norm or smaller rewards."
            )

    def _sync_by_steps(self, env_steps: int) -> None:
        period = self.config.target_every
        if env_steps // period > self._last_sync_step // period:
            self._sync()
        self._last_sync_step = env_steps

    def _sync(self) -> None:
        self.target_flat.values.copy_(self.online_flat.values)

    def state(self) -> dict[str, State]:
        """Networks, optimiser, noise and counters."""
        optim = {f"adam.{name}": copy_out(value) for name, value in self.adam.tensors().items()}
        optim |= parameters_of(self.target, prefix="target.")
        optim["noise"] = self._noise.get_state().numpy().copy()
        counters = {
            "updates": self._updates,
            "last_sync_step": self._last_sync_step,
            "non_finite_run": self._non_finite_run,
        }
        return {"model": State(parameters_of(self.online)), "optim": State(optim, counters)}

    def load_state(self, state: dict[str, State]) -> None:
        """Continue from saved networks, optimiser, noise and counters."""
        optim = state["optim"]
        load_parameters(self.online, state["model"].arrays)
        load_parameters(self.target, optim.arrays, prefix="target.")
        for name, tensor in self.adam.tensors().items():
            tensor.copy_(torch.from_numpy(optim.arrays[f"adam.{name}"]))
        self._noise.set_state(torch.from_numpy(optim.arrays["noise"].copy()))
        self._updates = optim.scalars["updates"]
        self._last_sync_step = optim.scalars["last_sync_step"]
        self._non_finite_run = optim.scalars["non_finite_run"]
        self._sums.drain()


class _Sums:
    """Running sums for the log."""

    def __init__(self) -> None:
        self._losses: list[Tensor] = []
        self._norm = 0.0
        self._count = 0
        self.skipped = 0

    @property
    def wants_loss(self) -> bool:
        """One loss in 64 says as much as all of them and costs nothing."""
        return self._count % 64 == 0

    def add_loss(self, loss: Tensor) -> None:
        self._losses.append(loss)

    def add_norm(self, norm: float) -> None:
        self._norm += norm
        self._count += 1

    def drain(self) -> dict[str, float]:
        means: dict[str, float] = {}
        if self._losses:
            means["loss"] = float(torch.stack(self._losses).mean())
            means["grad_norm"] = self._norm / max(1, self._count)
        if self.skipped:
            means["skipped_updates"] = self.skipped
        self._losses.clear()
        self._norm, self._count, self.skipped = 0.0, 0, 0
        return means


class _BatchViews:
    """A Batch as tensors: views of its arrays on the CPU, copies on an accelerator.

    What targets need is whole, (K, B, ...), because the targets of many updates are computed at
    once. What one update needs is cut into K tensors beforehand; actions and weights are (B, 1)
    there, so that they fit columns of a network's output.
    """

    obs: tuple[Tensor, ...]
    action: tuple[Tensor, ...]
    weight: tuple[Tensor, ...]
    reward: Tensor
    next_obs: Tensor
    discount: Tensor
    next_mask: Tensor | None

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._seen: Batch | None = None

    def of(self, batch: Batch) -> _BatchViews:
        if batch is self._seen and self._device.type == "cpu":
            return self
        self._seen = batch
        self.obs = self._tensor(batch.obs).unbind(0)
        self.action = self._tensor(batch.action).unsqueeze(2).unbind(0)
        self.weight = self._tensor(batch.weight).unsqueeze(2).unbind(0)
        self.reward = self._tensor(batch.reward)
        self.next_obs = self._tensor(batch.next_obs)
        self.discount = self._tensor(batch.discount)
        self.next_mask = None if batch.next_mask is None else self._tensor(batch.next_mask)
        return self

    def _tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(array).to(self._device)
