"""Distributions over actions: categorical, Gaussian, ordered subsets.

Sampling while collecting is compiled; `evaluate` and `mode` are torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from briskrl.algos.kernels.sampling import (
    HALF_LOG_TWO_PI,
    NO_ACTION,
    sample_gaussian,
    sample_subsets,
)
from briskrl.algos.losses import legal_values
from briskrl.algos.ppo.kernels.categorical import ILLEGAL, ROWS, SoftmaxBuffers, sample_actions
from briskrl.core.spec import ActionSpec, BoxSpec, DiscreteSpec, SubsetSpec
from briskrl.core.types import Array, Bools, Decision, Floats

NO_MASK = np.zeros((0, 0), np.bool_)
"""Kernels take it for a mask that allows every action."""


class Distribution(Protocol):
    """A family of distributions, parametrized by the outputs of a policy network."""

    outputs: int
    """Width of the policy head."""
    continuous: bool

    def sample(
        self, out: Floats, mask: Bools | None, rng: np.random.Generator, decision: Decision
    ) -> None:
        """Sample actions for N environments; writes them and their log probabilities.

        Args:
            out: (N, outputs) of the policy network.
            mask: (N, A) legal actions; None if every action is legal.
            rng: Source of randomness.
            decision: Written.
        """
        ...

    def evaluate(self, out: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Log probabilities of given actions, and entropies; both (B,) float32."""
        ...

    def mode(self, out: Tensor, mask: Tensor | None) -> Tensor:
        """The most likely actions, (B,) or (B, D)."""
        ...


class Categorical:
    """One action dimension, or several independent ones (MultiDiscrete), with masks.

    The compiled counterpart is `ppo/kernels/categorical.py`.
    """

    continuous = False

    def __init__(self, sizes: Sequence[int], *, single: bool) -> None:
        """Build the distribution.

        Args:
            sizes: (D,) number of actions of each dimension.
            single: Actions are (N,) instead of (N, 1); there is one dimension.
        """
        self.sizes = list(sizes)
        self.ends = np.cumsum(self.sizes, dtype=np.int64)
        """(D,) where the logits of each dimension end."""
        self.outputs = int(self.ends[-1])
        self._single = single
        self._draws = np.zeros((0, len(self.sizes)))
        self._buffers = self.new_buffers()

    def new_buffers(self) -> SoftmaxBuffers:
        """New scratch arrays for kernels; every thread needs its own."""
        logits, dimensions = (self.outputs, ROWS), (len(self.sizes), ROWS)
        return SoftmaxBuffers(
            shifted=np.zeros(logits),
            exp_shifted=np.zeros(logits),
            total=np.zeros(dimensions),
            log_total=np.zeros(dimensions),
            entropy=np.zeros(dimensions),
            log_prob=np.zeros(ROWS),
            log_ratio=np.zeros(ROWS),
            ratio=np.zeros(ROWS),
            log_prob_grad=np.zeros(ROWS),
        )

    def columns(self, action: Array) -> Array:
        """Actions as (N, D), a view."""
        return action[:, None] if self._single else action

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Uniform numbers (N, D) for `sample_actions`, valid until the next call."""
        if len(self._draws) < count:
            self._draws = np.zeros((count, len(self.sizes)))
        draws = self._draws[:count]
        rng.random(out=draws)
        return draws

    def sample(
        self, out: Floats, mask: Bools | None, rng: np.random.Generator, decision: Decision
    ) -> None:
        """See Distribution."""
        draws = self.draw(len(out), rng)
        legal = NO_MASK if mask is None else mask
        action = self.columns(decision.action)
        sample_actions(out, legal, self.ends, draws, action, decision.log_prob, self._buffers)

    def evaluate(self, out: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """See Distribution."""
        columns = torch.split(action.unsqueeze(1) if self._single else action, 1, 1)
        log_prob, entropy = [], []
        for logits, taken in zip(self._legal(out.float(), mask), columns, strict=True):
            log_probs = logits.log_softmax(1)
            log_prob.append(log_probs.gather(1, taken).squeeze(1))
            entropy.append(-(log_probs.exp() * log_probs).sum(1))
        return sum(log_prob[1:], log_prob[0]), sum(entropy[1:], entropy[0])

    def mode(self, out: Tensor, mask: Tensor | None) -> Tensor:
        """See Distribution."""
        best = [logits.argmax(1) for logits in self._legal(out, mask)]
        return best[0] if self._single else torch.stack(best, 1)

    def _legal(self, out: Tensor, mask: Tensor | None) -> list[Tensor]:
        """The logits of every dimension, with those of illegal actions replaced by ILLEGAL."""
        parts = torch.split(out, self.sizes, 1)
        masks = [None] * len(parts) if mask is None else torch.split(mask, self.sizes, 1)
        return [legal_values(part, m, ILLEGAL) for part, m in zip(parts, masks, strict=True)]


class Gaussian:
    """D independent normal distributions; the outputs are means and log standard deviations."""

    continuous = True

    def __init__(self, size: int) -> None:
        self.outputs = size
        self._noise = np.zeros((0, size))

    def sample(
        self, out: Floats, mask: Bools | None, rng: np.random.Generator, decision: Decision
    ) -> None:
        """See Distribution; there are no masks."""
        if len(self._noise) < len(out):
            self._noise = np.zeros((len(out), self.outputs))
        noise = self._noise[: len(out)]
        rng.standard_normal(out=noise)
        sample_gaussian(out, noise, decision.action, decision.log_prob)

    def evaluate(self, out: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """See Distribution; there are no masks."""
        mean, log_std = torch.split(out.float(), self.outputs, 1)
        z = (action - mean) * torch.exp(-log_std)
        log_prob = -(0.5 * z.square() + log_std + HALF_LOG_TWO_PI).sum(1)
        entropy = (log_std + 0.5 + HALF_LOG_TWO_PI).sum(1)
        return log_prob, entropy

    def mode(self, out: Tensor, mask: Tensor | None) -> Tensor:
        """See Distribution."""
        return out[:, : self.outputs]


class Subset:
    """k different actions out of n, sampled one after another (Plackett-Luce), with masks.

    There is one logit per action; each draw is a softmax over the actions that are left.
    """

    continuous = False

    def __init__(self, size: int, taken: int) -> None:
        """Build the distribution.

        Args:
            size: n.
            taken: k.
        """
        self.outputs = size
        self.taken = taken
        self._draws = np.zeros((0, taken))
        self._available = np.zeros(size, np.bool_)

    def sample(
        self, out: Floats, mask: Bools | None, rng: np.random.Generator, decision: Decision
    ) -> None:
        """See Distribution."""
        if len(self._draws) < len(out):
            self._draws = np.zeros((len(out), self.taken))
        draws = self._draws[: len(out)]
        rng.random(out=draws)
        legal = NO_MASK if mask is None else mask
        sample_subsets(out, legal, draws, self._available, decision.action, decision.log_prob)

    def evaluate(self, out: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """See Distribution.

        The entropy of ordered subsets has no closed form. The sum of each draw's entropy given the
        draws before it is returned; its expectation over subsets is the entropy.
        """
        logits = legal_values(out.float(), mask, ILLEGAL)
        log_prob = torch.zeros_like(logits[:, 0])
        entropy = torch.zeros_like(log_prob)
        for taken in action.unbind(1):
            log_probs = logits.log_softmax(1)
            real, at = taken != NO_ACTION, taken.clamp(min=0).unsqueeze(1)
            log_prob = log_prob + log_probs.gather(1, at).squeeze(1) * real
            entropy = entropy - (log_probs.exp() * log_probs).sum(1) * real
            logits = logits.scatter(1, at, ILLEGAL)
        return log_prob, entropy

    def mode(self, out: Tensor, mask: Tensor | None) -> Tensor:
        """The k most likely actions (B, k), most likely first."""
        return best_actions(out, mask, self.taken)


def best_actions(values: Tensor, mask: Tensor | None, taken: int) -> Tensor:
    """The `taken` best legal actions of each row (B, n), best first; -1 where fewer are legal."""
    best = legal_values(values, mask).topk(min(taken, values.shape[1]), 1)
    actions = best.indices.masked_fill(best.values == -torch.inf, NO_ACTION)
    return torch.nn.functional.pad(actions, (0, taken - actions.shape[1]), value=NO_ACTION)


def distribution_of(action: ActionSpec) -> Categorical | Subset | Gaussian:
    """The distribution for an action space."""
    if isinstance(action, BoxSpec):
        return Gaussian(int(np.prod(action.shape)))
    if isinstance(action, SubsetSpec):
        return Subset(action.n, action.k)
    if isinstance(action, DiscreteSpec):
        return Categorical([action.n], single=True)
    return Categorical(action.nvec, single=False)
