"""Algorithms, batches and reference gradients in either precision.

Networks take on torch's default type, so the same kernels are built for float32 and for float64.
The references are written with autograd from the losses that have tests by hand of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from briskrl.algos.dqn.agent import DQN
from briskrl.algos.dqn.policy import action_values, of_actions
from briskrl.algos.losses import (
    PolicyTerms,
    cross_entropy,
    huber,
    legal_values,
    project_distribution,
    quantile_huber,
    surrogate,
    td_target,
    value_error,
)
from briskrl.algos.ppo.agent import PPO
from briskrl.core.types import Batch, Minibatch

CPU = torch.device("cpu")
ROUNDING = {"float32": 1e-5, "float64": 1e-10}
"""How far a gradient may be from its reference, relative to itself and to its largest element."""


@contextmanager
def precision(dtype: str) -> Iterator[None]:
    """A context in which algorithms are built with this dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, dtype))
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def in_precision(batch: Batch | Minibatch, dtype: str) -> Batch | Minibatch:
    """The same batch with all its float32 arrays in this dtype."""
    names = [name for name in batch.__slots__ if isinstance(getattr(batch, name), np.ndarray)]
    arrays = {name: getattr(batch, name) for name in names}
    return replace(
        batch,
        **{name: a.astype(dtype) for name, a in arrays.items() if a.dtype == np.float32},
    )


def distance(got: Tensor, expected: Tensor) -> float:
    """The largest difference, relative to the element itself and to the largest element.

    Where everything cancels, what is left are roundings of terms that are about 1.
    """
    scale = expected.abs() + expected.abs().max() + 1e-3
    return float(((got - expected).abs() / scale).max())


def value_gradient(algo: DQN, batch: Batch, k: int = 0) -> tuple[Tensor, Tensor]:
    """The flat gradient of update k, and the sizes of the errors (B,)."""
    parts, config = algo.model, algo.config
    if config.noisy:
        state = parts.noise.get_state()
        parts.online.set_noise(parts.online.draw_noise(parts.noise))
        noise = parts.target.draw_noise(parts.noise)
        parts.target.set_noise(noise * config.target_noise)
        parts.noise.set_state(state)
    support = parts.support
    mask = None if batch.next_mask is None else torch.from_numpy(batch.next_mask[k])
    obs, action, reward, next_obs, discount, weight = (
        torch.from_numpy(getattr(batch, name)[k])
        for name in ("obs", "action", "reward", "next_obs", "discount", "weight")
    )
    with torch.no_grad():
        out = parts.target(next_obs)
        chooser = parts.online(next_obs) if config.double else out
        best = legal_values(action_values(chooser, support), mask).argmax(1, keepdim=True)
        indices = of_actions(out, best).squeeze(1)
    predicted = of_actions(parts.online(obs), action[:, None]).squeeze(1)
    if config.atoms > 1 and support is None:
        goal = reward[:, None] + discount[:, None] * indices
        errors = quantile_huber(predicted, goal)
        loss = (errors * weight).mean()
    elif support is None:
        goal = td_target(reward, discount, indices)
        loss, errors = huber(predicted, goal, weight), (predicted - goal).abs()
    else:
        goal = project_distribution(indices.softmax(1), reward, discount, support)
        errors = cross_entropy(predicted, goal)
        loss = (errors * weight).mean()
    gradients = torch.autograd.grad(loss, list(parts.online.parameters()))
    return torch.cat([gradient.flatten() for gradient in gradients]), errors.detach()


def policy_gradient(
    agent: PPO, batch: Minibatch, advantage: np.ndarray
) -> tuple[Tensor, PolicyTerms]:
    """The flat gradient of a minibatch's mean loss, and the terms of the loss."""
    parts, config = agent.model, agent.config
    mask = None if batch.mask is None else torch.from_numpy(batch.mask)
    obs, action, old_log_prob, weight, old_value, returns = (
        torch.from_numpy(getattr(batch, name))
        for name in ("obs", "action", "old_log_prob", "weight", "value", "returns")
    )
    out, value = parts.network(obs)
    log_prob, entropy = log_prob_and_entropy(parts, out, action, mask)
    policy = surrogate(log_prob, old_log_prob, torch.from_numpy(advantage), config.clip) * weight
    error = value_error(value.squeeze(1), old_value, returns, config.clip_value)
    each = (policy, error, entropy, log_prob - old_log_prob)
    coefficients = {"value_coef": config.value_coef, "entropy_coef": config.entropy_coef}
    loss = PolicyTerms(*each).loss(**coefficients).mean()
    gradients = torch.autograd.grad(loss, list(parts.network.parameters()))
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    return flat, PolicyTerms(*(part.detach() for part in each))


def log_prob_and_entropy(
    parts, out: Tensor, action: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Log probabilities and entropies in the dtype of the outputs, written out."""
    log_prob, entropy = torch.zeros(len(out)), torch.zeros(len(out))
    begin = 0
    for d, size in enumerate(parts.distribution.sizes):
        legal = None if mask is None else mask[:, begin : begin + size]
        logits = legal_values(out[:, begin : begin + size], legal, illegal=-1e9).log_softmax(1)
        taken = action if action.dim() == 1 else action[:, d]
        log_prob = log_prob + logits.gather(1, taken[:, None]).squeeze(1)
        entropy = entropy - (logits.exp() * logits).sum(1)
        begin += size
    return log_prob, entropy
