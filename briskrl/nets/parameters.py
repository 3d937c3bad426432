"""Parameters of a network by name, as arrays to be saved and loaded."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from briskrl.core.types import Array


def copy_out(tensor: Tensor) -> Array:
    """A copy on the CPU."""
    array: Array = tensor.detach().cpu().numpy().copy()
    return array


def parameters_of(network: nn.Module, prefix: str = "") -> dict[str, Array]:
    """Copies of all named parameters, each name with the prefix."""
    return {prefix + name: copy_out(value) for name, value in network.named_parameters()}


@torch.no_grad()
def load_parameters(network: nn.Module, arrays: dict[str, Array], prefix: str = "") -> None:
    """Overwrite all parameters in place with what `parameters_of` gave.

    Raises:
        ValueError: They are those of another network; nothing has been overwritten.
    """
    for name, parameter in network.named_parameters():
        found = arrays.get(prefix + name)
        if found is None or found.shape != tuple(parameter.shape):
            what = "is missing" if found is None else f"has shape {found.shape}"
            raise ValueError(f"the parameter {name} {tuple(parameter.shape)} {what}")
    for name, parameter in network.named_parameters():
        parameter.copy_(torch.from_numpy(np.ascontiguousarray(arrays[prefix + name])))
