"""DQN and everything Rainbow adds to it, as options of one algorithm.

Shapes: K updates of B transitions each, A actions, Z atoms of a return distribution. Where the
target network alone decides the targets, those of many updates are computed in one forward pass: it
does not change between two refreshes.
"""

from __future__ import annotations

from collections.abc import Callable

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
from briskrl.core.rng import Streams, derive_seed
from briskrl.core.spec import EnvSpec
from briskrl.core.types import Array, Batch, Bools, Decision, Floats, State
from briskrl.nets.by_hand import HandGradient
from briskrl.nets.compute import Compute
from briskrl.nets.flat import FlatParameters
from briskrl.nets.guard import GuardedAdam
from briskrl.nets.parameters import load_parameters, parameters_of
from briskrl.nets.pieces import pieces


class DQN:
    """Value learning from replayed transitions; see DQNConfig for the options."""

    def __init__(
        self, config: DQNConfig, spec: EnvSpec, streams: Streams, compute: Compute
    ) -> None:
        device = compute.device
        self.config = config
        self._compute = compute
        self._num_actions = num_actions(spec.action)
        self._noise = torch.Generator(device).manual_seed(derive_seed(streams.seed, "noise"))
        init = torch.Generator().manual_seed(derive_seed(streams.seed, "init"))
        self.online = value_network(config, spec.obs, self._num_actions, init).to(device)
        self.target = value_network(config, spec.obs, self._num_actions, init).to(device)
        self.online_flat = FlatParameters(self.online)
        self.target_flat = FlatParameters(self.target)
        self.target.requires_grad_(False)
        self.target_flat.values.copy_(self.online_flat.values)
        self._evaluate_online: Callable[[Tensor], Tensor] = compute.compiled(self.online)
        self._evaluate_target: Callable[[Tensor], Tensor] = compute.compiled(self.target)
        by_hand = not (compute.amp or compute.compile)
        self._by_hand = HandGradient.of(self.online) if by_hand else None
        self.guard = GuardedAdam(
            self.online_flat,
            compute,
            lr=config.lr,
            eps=config.adam_eps,
            max_norm=config.max_grad_norm,
        )
        self._support = support_of(config, device)
        self._explore = EpsilonGreedy(self._num_actions, streams["explore"])
        self._views = _BatchViews(compute)
        self._errors = np.zeros((0, 0), np.float32)
        self._updates = 0
        self._last_sync_step = 0
        self._losses = _Losses()
        self._one = torch.ones((), device=device)
        self._accumulated = torch.zeros_like(self.online_flat.gradients)

    def act(self, obs: Array, mask: Bools | None, clock: Clock, out: Decision) -> None:
        """Epsilon-greedy (or noisy greedy) actions for N environments."""
        if self.config.noisy:
            self.online.resample(self._noise)
        evaluate = self._evaluate_online
        greedy = greedy_actions(evaluate, obs, mask, self._support, self._compute)
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
        return {"epsilon": self.epsilon(clock), **self._losses.drain(), **self.guard.drain()}

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
        with self._compute.precision():
            out = self._evaluate_target(next_obs).float()
            chooser = self._evaluate_online(next_obs).float() if self.config.double else out
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
        if self.config.grad_accumulation == 1:
            errors = self._gradient(obs, action, target, weight)
        else:
            errors = self._gradient_in_pieces(obs, action, target, weight)
        if weight is not None:
            self._errors[k] = errors.flatten().abs().cpu().numpy()
        self.guard.step()
        self._losses.count += 1
        self._updates += 1
        if self.config.target_unit == "updates" and self._updates % self.config.target_every == 0:
            self._sync()

    def _gradient_in_pieces(
        self, obs: Tensor, action: Tensor, target: Tensor, weight: Tensor | None
    ) -> Tensor:
        """The same gradient as the mean over pieces, each weighted by its size."""
        errors = []
        self._accumulated.zero_()
        for rows in pieces(len(obs), self.config.grad_accumulation):
            part = None if weight is None else weight[rows]
            errors.append(self._gradient(obs[rows], action[rows], target[rows], part))
            share = len(errors[-1]) / len(obs)
            self._accumulated.add_(self.online_flat.gradients, alpha=share)
        self.online_flat.gradients.copy_(self._accumulated)
        return torch.cat(errors)

    def _gradient(
        self, obs: Tensor, action: Tensor, target: Tensor, weight: Tensor | None
    ) -> Tensor:
        """Overwrite the gradients with those of the mean loss; returns the errors (B, ...)."""
        if self._by_hand is not None:
            return self._gradient_by_hand(self._by_hand, obs, action, target, weight)
        if self._support is None:
            return self._gradient_of_values(obs, action, target, weight)
        return self._gradient_of_distributions(obs, action, target, weight)

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
        if self._losses.wanted:
            self._losses.add(huber(prediction, target, weight))
        error = prediction - target
        slope = huber_slope(error, weight)
        by_hand.backward(torch.zeros_like(out).scatter_(1, action, slope))
        return error

    def _gradient_of_values(
        self, obs: Tensor, action: Tensor, target: Tensor, weight: Tensor | None
    ) -> Tensor:
        prediction = of_actions(self._predict(obs), action)  # (B, 1)
        self._backward(huber(prediction, target, weight))
        return prediction.detach() - target

    def _gradient_of_distributions(
        self, obs: Tensor, action: Tensor, target: Tensor, weight: Tensor | None
    ) -> Tensor:
        logits = of_actions(self._predict(obs), action)  # (B, 1, Z)
        losses = cross_entropy(logits.squeeze(1), target.squeeze(1))
        self._backward(losses.mean() if weight is None else (losses * weight.squeeze(1)).mean())
        return losses.detach()

    def _predict(self, obs: Tensor) -> Tensor:
        with self._compute.precision():
            return self._evaluate_online(obs).float()

    def _backward(self, loss: Tensor) -> None:
        seed = self.guard.seed
        self.online_flat.gradients.zero_()
        loss.backward(self._one if seed is None else seed)  # type: ignore[no-untyped-call]
        if self._losses.wanted:
            self._losses.add(loss.detach())

    def _sync_by_steps(self, env_steps: int) -> None:
        period = self.config.target_every
        if env_steps // period > self._last_sync_step // period:
            self._sync()
        self._last_sync_step = env_steps

    def _sync(self) -> None:
        self.target_flat.values.copy_(self.online_flat.values)

    def state(self) -> dict[str, State]:
        """Networks, optimiser, noise and counters."""
        optim = self.guard.state()
        optim.arrays |= parameters_of(self.target, prefix="target.")
        optim.arrays["noise"] = self._noise.get_state().numpy().copy()
        optim.scalars |= {"updates": self._updates, "last_sync_step": self._last_sync_step}
        return {"model": State(parameters_of(self.online)), "optim": optim}

    def load_state(self, state: dict[str, State]) -> None:
        """Continue from saved networks, optimiser, noise and counters."""
        optim = state["optim"]
        load_parameters(self.online, state["model"].arrays)
        load_parameters(self.target, optim.arrays, prefix="target.")
        self.guard.load_state(optim)
        self._noise.set_state(torch.from_numpy(optim.arrays["noise"].copy()))
        self._updates = optim.scalars["updates"]
        self._last_sync_step = optim.scalars["last_sync_step"]
        self._losses.drain()


class _Losses:
    """A sample of losses for the log: one in 64 says as much as all of them and costs nothing."""

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

    def __init__(self, compute: Compute) -> None:
        self._compute = compute
        self._seen: Batch | None = None

    def of(self, batch: Batch) -> _BatchViews:
        if batch is self._seen and self._compute.on_cpu:
            return self
        self._seen = batch
        tensor = self._compute.tensor
        self.obs = tensor(batch.obs).unbind(0)
        self.action = tensor(batch.action).unsqueeze(2).unbind(0)
        self.weight = tensor(batch.weight).unsqueeze(2).unbind(0)
        self.reward = tensor(batch.reward)
        self.next_obs = tensor(batch.next_obs)
        self.discount = tensor(batch.discount)
        self.next_mask = None if batch.next_mask is None else tensor(batch.next_mask)
        return self
