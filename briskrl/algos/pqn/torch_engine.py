"""PQN in torch: the reference, for any network and device.

The loss is `squared_td_error` of `briskrl.algos.losses`; its compiled counterpart is
`kernels/update.py`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from briskrl.algos.dqn.exploration import EpsilonGreedy
from briskrl.algos.dqn.policy import greedy_actions, of_actions
from briskrl.algos.dqn.torch_engine import fastest_q
from briskrl.algos.losses import legal_values, squared_td_error
from briskrl.algos.ppo.torch_engine import chunks
from briskrl.algos.pqn.engine import PQNModel
from briskrl.core.types import Array, Bools, Floats, Ints, Minibatch
from briskrl.nets.compute import Compute, pieces

_SAMPLE_EVERY = 8
"""Metrics are computed for one update in this many, which is enough for a mean."""


class TorchPQNEngine:
    """A PQNEngine in torch.

    Args:
        model: Network and optimizer.
        explore: Source of random actions.
        compute: Device and precision.
    """

    def __init__(self, model: PQNModel, explore: EpsilonGreedy, compute: Compute) -> None:
        self._model = model
        self._explore = explore
        self._compute = compute
        self._evaluate = fastest_q(model.network, compute)
        self._calls = 0
        self._seen: list[Tensor] = []

    def refresh(self) -> None:
        """Nothing to do: torch computes with the network itself."""

    def act(self, obs: Array, mask: Bools | None, epsilon: float, out: Ints) -> None:
        """See PQNEngine."""
        greedy = greedy_actions(self._evaluate, obs, mask, None, self._compute)
        self._explore.mix(greedy, mask, epsilon, out)

    @torch.inference_mode()
    def values(self, obs: Array, mask: Bools | None, out: Floats) -> None:
        """See PQNEngine."""
        tensor = self._compute.tensor
        for rows in chunks(obs):
            legal = None if mask is None else tensor(mask[rows])
            best = legal_values(self._evaluate(tensor(obs[rows])), legal).amax(1)
            out[rows] = best.cpu().numpy()

    def compute(self, batch: Minibatch) -> None:
        """See PQNEngine."""
        batch, flat = batch.gathered(), self._model.flat
        wants_metrics = self._calls % _SAMPLE_EVERY == 0
        self._calls += 1
        flat.gradients.zero_()
        metrics = []
        tensor, size = self._compute.tensor, batch.size
        for rows in pieces(size, self._model.config.grad_accumulation):
            action, returns = tensor(batch.action[rows]), tensor(batch.returns[rows])
            with self._compute.precision():
                out = self._evaluate(tensor(batch.obs[rows])).float()
            taken = of_actions(out, action.unsqueeze(1)).squeeze(1)
            losses = squared_td_error(taken, returns)
            self._backward(losses.sum() / size)
            if wants_metrics:
                metrics.append(torch.stack([losses.detach().sum(), taken.detach().sum()]) / size)
        if wants_metrics:
            self._seen.append(torch.stack(metrics).sum(0))

    def _backward(self, loss: Tensor) -> None:
        seed = self._model.optimizer.seed
        # Passing a gradient to `backward` would make torch import sympy: 0.4 s of CPU.
        (loss if seed is None else loss * seed).backward()  # type: ignore[no-untyped-call]

    def step(self, lr: float) -> None:
        """See PQNEngine."""
        self._model.optimizer.adam.lr = lr
        self._model.optimizer.step()

    def drain(self) -> dict[str, float]:
        """See PQNEngine."""
        if not self._seen:
            return {}
        loss, q_value = torch.stack(self._seen).mean(0).tolist()
        self._seen.clear()
        self._calls = 0
        return {"loss": loss, "q_value": q_value}
