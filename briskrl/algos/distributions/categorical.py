"""One of n actions, or several independent ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from briskrl.algos.distributions.base import NO_MASK
from briskrl.algos.losses import legal_values
from briskrl.algos.ppo.kernels.categorical import ILLEGAL, ROWS, SoftmaxBuffers, sample_actions
from briskrl.core.types import Array, Bools, Decision, Floats


class Categorical:
    """One or several independent choices, each among a fixed set of actions; masks are heeded."""

    continuous = False

    def __init__(self, sizes: Sequence[int], *, single: bool) -> None:
        """Set up the choices.

        Args:
            sizes: (D,) how many actions each choice is among.
            single: Actions are (N,) instead of (N, 1); there is one choice.
        """
        self.sizes = list(sizes)
        self.ends = np.cumsum(self.sizes, dtype=np.int64)
        self.outputs = int(self.ends[-1])
        self._single = single
        self._draws = np.zeros((0, len(self.sizes)))
        self._buffers = self.new_buffers()

    def new_buffers(self) -> SoftmaxBuffers:
        """New scratch arrays for kernels; every thread needs its own."""
        actions, choices = (self.outputs, ROWS), (len(self.sizes), ROWS)
        return SoftmaxBuffers(
            shifted=np.zeros(actions),
            exp_shifted=np.zeros(actions),
            total=np.zeros(choices),
            log_total=np.zeros(choices),
            entropy=np.zeros(choices),
            log_prob=np.zeros(ROWS),
            log_ratio=np.zeros(ROWS),
            ratio=np.zeros(ROWS),
            log_prob_grad=np.zeros(ROWS),
        )

    def columns(self, action: Array) -> Array:
        """Actions as (N, D), a view."""
        return action[:, None] if self._single else action

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """New numbers (N, D) for `sample_actions`, valid until the next call."""
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
        for logits, chosen in zip(self._legal(out.float(), mask), columns, strict=True):
            log_probs = logits.log_softmax(1)
            log_prob.append(log_probs.gather(1, chosen).squeeze(1))
            entropy.append(-(log_probs.exp() * log_probs).sum(1))
        return sum(log_prob[1:], log_prob[0]), sum(entropy[1:], entropy[0])

    def mode(self, out: Tensor, mask: Tensor | None) -> Tensor:
        """See Distribution."""
        best = [logits.argmax(1) for logits in self._legal(out, mask)]
        return best[0] if self._single else torch.stack(best, 1)

    def _legal(self, out: Tensor, mask: Tensor | None) -> list[Tensor]:
        """Logits of every choice, illegal ones out of reach."""
        parts = torch.split(out, self.sizes, 1)
        masks = [None] * len(parts) if mask is None else torch.split(mask, self.sizes, 1)
        return [legal_values(part, m, ILLEGAL) for part, m in zip(parts, masks, strict=True)]
