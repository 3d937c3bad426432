"""Choose actions from the outputs of a policy network, with NumPy alone.

The counterparts for training are `algos/distributions.py` and `algos/dqn/policy.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from briskrl.core.spec import ActionSpec, BoxSpec, DiscreteSpec, MultiDiscreteSpec, SubsetSpec
from briskrl.core.types import Array, Bools, Floats
from briskrl.export.numpy_engine import softmax

Kind = Literal["logits", "values", "gaussian"]
"""What a network gives: logits of a distribution, action values, or means and log standard
deviations."""
Outputs = dict[str, Array]
"""Arrays with one row per observation, by the name of the output."""

ILLEGAL = np.float32(-1e9)
"""Replaces the logits of illegal actions; its exponential is 0."""
NO_ACTION = -1
"""Fills subsets that have fewer legal actions than places."""


def num_choices(action: ActionSpec) -> int:
    """Number of actions that a mask covers; 0 for continuous actions."""
    if isinstance(action, BoxSpec):
        return 0
    return action.n if isinstance(action, DiscreteSpec | SubsetSpec) else sum(action.nvec)


def groups_of(action: ActionSpec) -> list[slice]:
    """The choices of each dimension, of which exactly one (of a subset: k) is taken."""
    sizes = list(action.nvec) if isinstance(action, MultiDiscreteSpec) else [num_choices(action)]
    ends = np.cumsum(sizes)
    return [slice(int(end) - size, int(end)) for end, size in zip(ends, sizes, strict=True)]


class ActionSelector:
    """Turns network outputs into actions and what is known about them.

    Args:
        action: The actions.
        kind: What the network gives.
    """

    def __init__(self, action: ActionSpec, kind: Kind) -> None:
        self.action = action
        self.kind: Kind = kind
        self._groups = groups_of(action) if kind != "gaussian" else []
        self._single = isinstance(action, DiscreteSpec)

    def outputs(self, scores: Floats, mask: Bools | None) -> Outputs:
        """The greedy actions and the numbers behind them, as the ONNX file gives them.

        Returns:
            `action` (N,) or (N, D); `probabilities` (N, A) and for action values `values` (N, A);
            for continuous actions `mean` and `log_std` (N, D).
        """
        if self.kind == "gaussian":
            mean, log_std = np.split(scores, 2, axis=1)
            return {"action": self._clipped(mean), "mean": mean, "log_std": log_std}
        legal = self._legal(scores, mask)
        action = self._best(legal, mask)
        if self.kind == "values":
            return {"action": action, "probabilities": self._taken(action), "values": scores}
        return {"action": action, "probabilities": self._probabilities(legal)}

    def greedy(self, scores: Floats, mask: Bools | None) -> Array:
        """The most likely, or most valuable, legal actions."""
        if self.kind == "gaussian":
            return self._clipped(scores[:, : scores.shape[1] // 2])
        return self._best(self._legal(scores, mask), mask)

    def sample(self, scores: Floats, mask: Bools | None, rng: np.random.Generator) -> Array:
        """Actions drawn from the distribution; greedy ones if the network gives action values."""
        if self.kind == "values":
            return self.greedy(scores, mask)
        if self.kind == "gaussian":
            mean, log_std = np.split(scores, 2, axis=1)
            noise = rng.standard_normal(mean.shape, np.float32)
            actions = (mean + np.exp(log_std) * noise).astype(np.float32)
            return self._clipped(actions)
        # The largest of logits with Gumbel noise are draws without replacement.
        legal = self._legal(scores, mask)
        noise = -np.log(rng.exponential(size=legal.shape)).astype(np.float32)
        return self._best(legal + noise, mask)

    def _clipped(self, actions: Floats) -> Array:
        assert isinstance(self.action, BoxSpec)
        shape = (len(actions), *self.action.shape)
        clipped: Floats = actions.clip(self.action.low, self.action.high).reshape(shape)
        return clipped

    def _legal(self, scores: Floats, mask: Bools | None) -> Floats:
        """Scores with those of illegal actions replaced; groups without legal ones unchanged."""
        if mask is None:
            return scores
        legal = np.empty_like(scores)
        # An illegal value must lose against every legal one, whatever the scale of rewards.
        illegal = -np.inf if self.kind == "values" else ILLEGAL
        for group in self._groups:
            part = mask[:, group]
            usable = part | ~part.any(axis=1, keepdims=True)
            legal[:, group] = np.where(usable, scores[:, group], illegal)
        return legal

    def _best(self, legal: Floats, mask: Bools | None) -> Array:
        if self._single:
            single: Array = legal.argmax(axis=1)
            return single
        if isinstance(self.action, SubsetSpec):
            return self._best_subset(legal, mask, self.action.k)
        best: Array = np.stack([legal[:, group].argmax(axis=1) for group in self._groups], axis=1)
        return best

    @staticmethod
    def _best_subset(legal: Floats, mask: Bools | None, taken: int) -> Array:
        order = np.argsort(-legal, axis=1, kind="stable")[:, :taken]
        if mask is not None:
            # Where nothing is legal, every action may be taken.
            usable = mask | ~mask.any(axis=1, keepdims=True)
            order = np.where(np.take_along_axis(usable, order, axis=1), order, NO_ACTION)
        missing = taken - order.shape[1]
        return np.pad(order, ((0, 0), (0, missing)), constant_values=NO_ACTION)

    def _probabilities(self, legal: Floats) -> Floats:
        parts = [softmax(legal[:, group]) for group in self._groups]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def _taken(self, action: Array) -> Floats:
        """1 for every action that is taken, else 0: (N, A)."""
        columns = action.reshape(len(action), -1)
        choices = np.arange(num_choices(self.action))
        taken: Floats = (columns[:, :, None] == choices).any(axis=1).astype(np.float32)
        return taken


Scorer = Callable[[Floats], Floats]
"""Observations (N, *obs) float32 -> network outputs (N, outputs)."""
