"""All parameters of a network in one contiguous buffer, and Adam over it.

The named parameters are views of the buffer. An optimizer step, a norm or a copy of the network is
one call instead of one per layer, which is most of the cost of an update of a small network.
"""

from __future__ import annotations

import zlib

import numpy as np
import torch
from torch import Tensor, nn

from briskrl.core.errors import InvalidStateError
from briskrl.core.state_checks import check_finite
from briskrl.core.types import Array

SPARE = 8
"""Elements behind the last parameter: compiled products read whole vectors."""


class FlatParameters:
    """A network's parameters and gradients in two flat buffers; its tensors become views."""

    def __init__(self, network: nn.Module) -> None:
        parameters = list(network.parameters())
        size = sum(parameter.numel() for parameter in parameters)
        first = parameters[0]
        buffer = torch.zeros(size + SPARE, dtype=first.dtype, device=first.device)
        self.values = buffer[:size]
        self.shared = torch.zeros(size + 1, dtype=first.dtype, device=first.device)
        """The gradients and one more number, which replicas average together."""
        self.gradients = self.shared[:size]
        begin = 0
        for parameter in parameters:
            part = slice(begin, begin + parameter.numel())
            self.values[part] = parameter.data.flatten()
            parameter.data = self.values[part].view_as(parameter)
            parameter.grad = self.gradients[part].view_as(parameter)
            begin = part.stop

    def clip_gradients(self, max_norm: float) -> float:
        """Scale the gradient down to `max_norm` (0: never); returns its norm before."""
        norm = float(torch.linalg.vector_norm(self.gradients))
        if 0 < max_norm < norm:
            self.gradients.mul_(max_norm / norm)
        return norm


def digest(parameters: FlatParameters) -> int:
    """A number that differs if the parameters do."""
    return zlib.crc32(parameters.values.detach().cpu().numpy().tobytes())


class FlatAdam:
    """Torch's fused Adam over one flat buffer, without the optimizer's per-call bookkeeping.

    Calls the same kernel as `torch.optim.Adam(fused=True)`. Measured for 18 k parameters:
    10 us a step against 42 us through the optimizer and 30 us through its functional form.
    """

    def __init__(
        self, parameters: FlatParameters, *, lr: float, eps: float, beta2: float = 0.999
    ) -> None:
        self._parameters = parameters
        self.beta2 = beta2
        self.lr = lr
        self.eps = eps
        self.mean = torch.zeros_like(parameters.values)
        self.variance = torch.zeros_like(parameters.values)
        self.count = torch.zeros((), dtype=torch.float32, device=parameters.values.device)

    def step(self, skip: Tensor | None = None) -> None:
        """Apply the gradients, unless `skip`, a number on the device, is 1."""
        self.count += 1
        torch._fused_adam_(
            [self._parameters.values],
            [self._parameters.gradients],
            [self.mean],
            [self.variance],
            [],
            [self.count],
            lr=self.lr,
            beta1=0.9,
            beta2=self.beta2,
            weight_decay=0.0,
            eps=self.eps,
            amsgrad=False,
            maximize=False,
            found_inf=skip,
        )
        if skip is not None:
            self.count -= skip

    def tensors(self) -> dict[str, Tensor]:
        """The optimizer's state by name, for saving and loading in place."""
        return {"mean": self.mean, "variance": self.variance, "count": self.count}


def copy_out(tensor: Tensor) -> Array:
    """A copy on the CPU."""
    array: Array = tensor.detach().cpu().numpy().copy()
    return array


def parameters_of(network: nn.Module, prefix: str = "") -> dict[str, Array]:
    """Copies of all named parameters, each name with the prefix."""
    return {prefix + name: copy_out(value) for name, value in network.named_parameters()}


@torch.no_grad()
def load_parameters(network: nn.Module, arrays: dict[str, Array], prefix: str = "") -> None:
    """Overwrite all parameters in place with the result of `parameters_of`.

    Raises:
        InvalidStateError: They belong to another network, or are not finite; nothing has been
            overwritten.
    """
    for name, parameter in network.named_parameters():
        found = arrays.get(prefix + name)
        if found is None or found.shape != tuple(parameter.shape):
            what = "is missing" if found is None else f"has shape {found.shape}"
            raise InvalidStateError(f"the parameter {name} {tuple(parameter.shape)} {what}")
        if not np.issubdtype(found.dtype, np.floating):
            raise InvalidStateError(f"the parameter {name} holds {found.dtype}, not real numbers")
        check_finite(f"the parameter {name}", found)
    for name, parameter in network.named_parameters():
        parameter.copy_(torch.from_numpy(np.ascontiguousarray(arrays[prefix + name])))
