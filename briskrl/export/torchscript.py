"""Policies as TorchScript modules: observation scaling, network and action selection together.

A module is called as `module(obs)` or `module(obs, mask)` and returns a dictionary with the outputs
of `ActionSelector.outputs`.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from briskrl.algos.distributions import best_actions
from briskrl.algos.losses import legal_values
from briskrl.core.spec import ActionSpec, ArraySpec, BoxSpec, DiscreteSpec, SubsetSpec
from briskrl.export.selection import ILLEGAL, groups_of, num_choices
from briskrl.export.trained_network import TrainedNetwork
from briskrl.training.storage.atomic_files import TEMPORARY


class SelectingPolicy(nn.Module):
    """A network with action selection.

    Args:
        network: The network.
        action: The actions.
    """

    def __init__(self, network: TrainedNetwork, action: ActionSpec) -> None:
        super().__init__()
        self.scores = network.scores
        self._kind = network.kind
        self._action = action

    def forward(self, obs: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        """Outputs by name for observations (N, *obs) and masks (N, A)."""
        scores = self.scores(obs)
        if self._kind == "gaussian":
            mean, log_std = scores.chunk(2, 1)
            assert isinstance(self._action, BoxSpec)
            clipped = mean.clamp(self._action.low, self._action.high)
            return {"action": clipped, "mean": mean, "log_std": log_std}
        illegal = -torch.inf if self._kind == "values" else float(ILLEGAL)
        legal = [
            legal_values(scores[:, group], None if mask is None else mask[:, group], illegal)
            for group in groups_of(self._action)
        ]
        action = self._best(legal, mask)
        if self._kind == "values":
            columns = action.unsqueeze(-1) if action.dim() == 2 else action[:, None, None]
            choices = torch.arange(num_choices(self._action))
            taken = (columns == choices).any(1).to(torch.float32)
            return {"action": action, "probabilities": taken, "values": scores}
        return {"action": action, "probabilities": torch.cat([x.softmax(1) for x in legal], 1)}

    def _best(self, legal: list[Tensor], mask: Tensor | None) -> Tensor:
        if isinstance(self._action, SubsetSpec):
            return best_actions(legal[0], mask, self._action.k)
        best = [part.argmax(1) for part in legal]
        return best[0] if isinstance(self._action, DiscreteSpec) else torch.stack(best, 1)


def write_torchscript(
    path: Path, network: TrainedNetwork, obs: ArraySpec, action: ActionSpec, *, has_mask: bool
) -> None:
    """Write the module of a policy, replacing the file as a whole."""
    example = torch.zeros((2, *obs.shape), dtype=_torch_dtype(obs))
    inputs = (example, torch.ones((2, num_choices(action)), dtype=torch.bool))[: 1 + has_mask]
    temporary = path.with_name(TEMPORARY + path.name)
    with _no_warnings(), torch.no_grad():
        # Dictionaries are returned by modules that are traced with strict=False only.
        module = SelectingPolicy(network, action).eval()
        options = {"strict": False, "check_trace": False}
        traced = torch.jit.trace(module, inputs, **options)  # type: ignore[no-untyped-call]
        torch.jit.save(traced, str(temporary))
    temporary.replace(path)


def read_torchscript(path: Path) -> nn.Module:
    """The module in a file; only for files that are trusted."""
    with _no_warnings():
        module: nn.Module = torch.jit.load(str(path))  # type: ignore[no-untyped-call]
    return module


class _no_warnings(warnings.catch_warnings):  # noqa: N801
    """Silences notes of torch: that tracing is an old way, and that sizes become constants."""

    def __enter__(self) -> None:
        super().__enter__()
        warnings.simplefilter("ignore")


def _torch_dtype(obs: ArraySpec) -> torch.dtype:
    found: torch.dtype = getattr(torch, obs.dtype.name)
    return found
