"""Where the arithmetic runs: device and threads, decided once, before anything is built."""

from __future__ import annotations

import ctypes

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


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""What mallopt(3) of the GNU C library calls by these names."""
KEPT_BYTES, LARGEST_KEPT = 64 << 20, 16 << 20
"""How much freed memory stays with the process, and in blocks of what size."""


def keep_freed_memory() -> None:
    """Keep what an update frees for the next one, which asks for the same again.

    Autograd allocates its results anew every time. Large ones would go back to the system each time
    and come again as empty pages: 113 page faults per DQN update at batch 512, a seventh of its
    time. Nothing is done where the allocator is another one. This stays when a run is over: the
    allocator adapts its own limits only until somebody sets them.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return
    mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
    mallopt(_MMAP_THRESHOLD, LARGEST_KEPT)


class TorchSettings:
    """Torch's share of the cores, and cheap tiny numbers, for as long as a run lasts.

    Adam's moments of units that no longer fire decay into denormals, which cost many times more
    than normal numbers; flushing them keeps the cost of an update flat over a run. Both settings
    belong to the process or thread, so whoever calls `train` gets them back as they were.
    """

    def __init__(self, threads: int) -> None:
        self._threads_before = torch.get_num_threads()
        torch.set_num_threads(threads)
        torch.set_flush_denormal(True)
        keep_freed_memory()

    def restore(self) -> None:
        """Put the settings back; may be called twice."""
        torch.set_num_threads(self._threads_before)
        torch.set_flush_denormal(False)
