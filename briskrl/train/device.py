"""Where the arithmetic runs: device and threads, decided once, before anything is built."""

from __future__ import annotations

import torch

from briskrl.core.errors import ConfigError


def choose_device(name: str) -> torch.device:
    """The device of that name; `auto` takes an accelerator if there is one."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    missing = (name == "cuda" and not torch.cuda.is_available()) or (
        name == "mps" and not torch.backends.mps.is_available()
    )
    if missing:
        raise ConfigError(f"This machine has no {name} device. Use --device auto or cpu.")
    return torch.device(name)


class Arithmetic:
    """Torch's share of the cores, and cheap tiny numbers, for as long as a run lasts.

    Adam's moments of units that no longer fire decay into denormals, which cost many times more
    than normal numbers; flushing them keeps the cost of an update flat over a run. Both settings
    belong to the process or thread, so whoever calls `train` gets them back as they were.
    """

    def __init__(self, threads: int) -> None:
        self._threads_before = torch.get_num_threads()
        torch.set_num_threads(threads)
        torch.set_flush_denormal(True)

    def restore(self) -> None:
        """Put the settings back; may be called twice."""
        torch.set_num_threads(self._threads_before)
        torch.set_flush_denormal(False)
