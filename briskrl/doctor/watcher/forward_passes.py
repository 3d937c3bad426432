"""Sizes of the batches that networks compute, looked at now and then.

A hook of all modules would cost some percent if it stayed, so it is removed after a few calls.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

LOOKED_AT, AGAIN_S = 60, 2.0
"""Calls of modules that are looked at, and seconds until the next look."""


class ForwardPasses:
    """Counts rows of inputs by whether gradients were recorded."""

    def __init__(self) -> None:
        self.with_grad: dict[int, int] = {}
        """Times that a batch of so many rows was computed for learning."""
        self.without_grad: dict[int, int] = {}
        self.devices: dict[str, int] = {}
        self.dtypes: dict[str, int] = {}
        """Types of the numbers that networks learn with, by how often they were seen."""
        self.layers: dict[str, int] = {}
        """Sizes of linear layers that learn, as `4x64`, by how often they were seen."""
        self._register: Callable[..., Any] | None = None
        self._enabled: Callable[[], bool] = lambda: True
        self._handle: Any = None
        self._left = 0
        self._next_s = 0.0

    def prepare(self, module: ModuleType) -> None:
        """Remember the function that hooks all modules."""
        self._register = getattr(module, "register_module_forward_pre_hook", None)
        torch: Any = getattr(module, "torch", None)
        if torch is not None:
            self._enabled = torch.is_grad_enabled

    def look(self, now: float) -> None:
        """Begin to look if it is time, end it if enough was seen."""
        if self._handle is not None:
            if self._left <= 0 or now > self._next_s:
                self._handle.remove()
                self._handle = None
                self._next_s = now + AGAIN_S
        elif self._register is not None and now > self._next_s:
            self._left = LOOKED_AT
            self._next_s = now + AGAIN_S
            self._handle = self._register(self._see)

    def _see(self, module: Any, inputs: Any) -> None:
        self._left -= 1
        if self._left < 0 or not inputs:
            return
        shape = getattr(inputs[0], "shape", None)
        if not shape:
            return
        rows = self.with_grad if self._enabled() else self.without_grad
        # Observations without a batch dimension count as a batch of one.
        size = int(shape[0]) if len(shape) > 1 else 1
        rows[size] = rows.get(size, 0) + 1
        device = str(getattr(inputs[0], "device", "?"))
        self.devices[device] = self.devices.get(device, 0) + 1
        if rows is not self.with_grad:
            return
        dtype = str(getattr(inputs[0], "dtype", "?"))
        self.dtypes[dtype] = self.dtypes.get(dtype, 0) + 1
        if type(module).__name__ == "Linear":
            size_text = "%dx%d" % (module.in_features, module.out_features)  # noqa: UP031
            self.layers[size_text] = self.layers.get(size_text, 0) + 1
