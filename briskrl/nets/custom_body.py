"""A body that the user has written: any torch module from observations to features."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from briskrl.core.errors import ConfigError
from briskrl.core.registry import load_object
from briskrl.core.spec import ArraySpec


class CustomBody(nn.Module):
    """A module of the user, made with the shape of an observation.

    Dense and convolutional layers get weights from the seed of the run, like those of other bodies;
    other layers keep what PyTorch draws for them from seed 0.

    Args:
        address: Where its class is, as in "my_networks:Body". An object is made with the shape as
            the only argument, and maps (B, *shape) float32 to (B, features).
        obs: The observations.

    Raises:
        ConfigError: It cannot be imported or made, or gives something else.
    """

    def __init__(self, address: str, obs: ArraySpec) -> None:
        super().__init__()
        self.module = _make(address, obs.shape)
        if any(True for _ in self.module.buffers()):
            raise ConfigError(
                f"{address} has buffers, as batch normalization does, which are not saved with a "
                "run. Use layer normalization, or parameters that are not trained."
            )
        with torch.no_grad():
            shown = self.module(torch.zeros(2, *obs.shape))
        if not isinstance(shown, Tensor) or shown.dim() != 2 or len(shown) != 2:
            raise ConfigError(f"{address} must map (B, {obs.shape}) to a tensor (B, features).")
        self.features = int(shown.shape[1])

    def forward(self, obs: Tensor) -> Tensor:
        """(B, *obs) -> (B, features)."""
        features: Tensor = self.module(obs)
        return features


def _make(address: str, shape: tuple[int, ...]) -> nn.Module:
    try:
        kind = load_object(address)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            module = kind(shape)
    except Exception as error:
        raise ConfigError(
            f"The body {address} cannot be made for observations {shape}: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not isinstance(module, nn.Module):
        raise ConfigError(f"{address} makes a {type(module).__name__}, not a torch module.")
    return module
