"""How networks are computed: on which device, in which precision, compiled or not."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Compute:
    """Decided once per run, the same for every network of it."""

    device: torch.device
    amp: bool = False
    """Forward passes of updates in half precision: float16 on CUDA, bfloat16 elsewhere."""
    compile: bool = False
    """Networks go through torch.compile."""
