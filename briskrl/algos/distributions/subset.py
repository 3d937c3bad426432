"""The policy's distribution over k different actions out of n, in the order they are chosen."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from briskrl.algos.distributions.kernels.subset import NONE, room_for, sample_subsets
from briskrl.algos.losses import legal_values
from briskrl.core.types import Bools, Decision, Floats

ILLEGAL = -1e9
"""As in `distributions`: chance 0, and finite."""

_NO_MASK = np.zeros((0, 0), np.bool_)


class Subset:
    """Actions drawn one after another without repeating any (Plackett-Luce); masks are heeded.

    One logit per action decides them all: each draw is a softmax over what is left.
    """

    continuous = False

    def __init__(self, size: int, taken: int) -> None:
        """Set up the distribution.

        Args:
            size: n.
            taken: k.
        """
        self.outputs = size
        self.taken = taken
        self._draws = np.zeros((0, taken))
        self._open = room_for(size)

    def sample(
        self, out: Floats, mask: Bools | None, rng: np.random.Generator, decision: Decision
    ) -> None:
        """See Distribution."""
        if len(self._draws) < len(out):
            self._draws = np.zeros((len(out), self.taken))
        draws = self._draws[: len(out)]
        rng.random(out=draws)
        legal = _NO_MASK if mask is None else mask
        sample_subsets(out, legal, draws, self._open, decision.action, decision.log_prob)

    def evaluate(self, out: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """See Distribution.

        The entropy of all orders together has no closed form. What is given is the sum of each
        draw's own entropy after the draws before it, whose mean over choices is that entropy.
        """
        logits = legal_values(out.float(), mask, ILLEGAL)
        log_prob = torch.zeros_like(logits[:, 0])
        entropy = torch.zeros_like(log_prob)
        for chosen in action.unbind(1):
            log_probs = logits.log_softmax(1)
            real, at = chosen != NONE, chosen.clamp(min=0).unsqueeze(1)
            log_prob = log_prob + log_probs.gather(1, at).squeeze(1) * real
            entropy = entropy - (log_probs.exp() * log_probs).sum(1) * real
            logits = logits.scatter(1, at, ILLEGAL)
        return log_prob, entropy

    def mode(self, out: Tensor, mask: Tensor | None) -> Tensor:
        """The k likeliest actions (N, k), likeliest first."""
        return best_actions(out, mask, self.taken)


def best_actions(values: Tensor, mask: Tensor | None, taken: int) -> Tensor:
    """The `taken` best legal actions of each row (B, n), best first; -1 where fewer are legal."""
    best = legal_values(values, mask).topk(min(taken, values.shape[1]), 1)
    chosen = best.indices.masked_fill(best.values == -torch.inf, NONE)
    return torch.nn.functional.pad(chosen, (0, taken - chosen.shape[1]), value=NONE)
