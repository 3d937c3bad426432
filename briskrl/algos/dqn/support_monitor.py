"""Notices returns that a categorical distribution cannot represent, because they are clipped."""

from __future__ import annotations

import torch

from briskrl.algos.dqn.engine import DQNModel
from briskrl.algos.dqn.policy import action_values, of_actions
from briskrl.algos.losses import legal_values
from briskrl.core.types import Batch
from briskrl.nets.compute import Compute


class SupportMonitor:
    """Computes how much of the TD targets lies outside the support, for one batch per report.

    Args:
        model: The networks.
        compute: Their device.
    """

    def __init__(self, model: DQNModel, compute: Compute) -> None:
        self._model = model
        self._compute = compute
        self._support = model.support
        self._batch: Batch | None = None

    def see(self, batch: Batch) -> None:
        """Remember the batch of the newest updates, whose first row is looked at."""
        if self._support is not None:
            self._batch = batch

    @torch.inference_mode()
    def drain(self) -> dict[str, float]:
        """The share of target probability below or above the support, if there was an update.

        Only once per batch: it is not saved, so that later rows would differ after a resume.
        """
        batch, self._batch = self._batch, None
        if batch is None or self._support is None:
            return {}
        tensor = self._compute.tensor
        out = self._model.target(tensor(batch.next_obs[0])).float()
        mask = None if batch.next_mask is None else tensor(batch.next_mask[0])
        best = legal_values(action_values(out, self._support), mask).argmax(1, keepdim=True)
        probabilities = of_actions(out, best).squeeze(1).softmax(1)
        reward, discount = tensor(batch.reward[0]), tensor(batch.discount[0])
        moved = reward[:, None] + discount[:, None] * self._support
        spacing = self._support[1] - self._support[0]
        outside = (moved < self._support[0] - spacing) | (moved > self._support[-1] + spacing)
        return {"outside_support": float((probabilities * outside).sum(1).mean())}
