"""The device of the networks, and the process-wide settings of torch and the allocator."""

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
"""M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of mallopt(3) in the GNU C library."""
KEPT_BYTES, LARGEST_KEPT = 64 << 20, 16 << 20
"""Freed memory that the process keeps, and the largest block that it keeps."""


def keep_freed_memory() -> None:
    """Keep the memory that an update frees for the next one, which allocates the same again.

    Autograd allocates its results anew in every update. By default, large blocks go back to the
    system and return as empty pages: 113 page faults per DQN update at batch 512, a seventh of its
    time. Allocators other than glibc's are left alone. The setting remains after the run, because
    glibc stops adapting its limits once they have been set.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return
    mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
    mallopt(_MMAP_THRESHOLD, LARGEST_KEPT)


class TorchSettings:
    """Torch's number of threads and the flushing of denormals, for the duration of a run.

    Adam's moments of inactive units decay into denormals, which are many times slower than normal
    numbers; flushing them keeps the cost of an update constant over a run. Both settings belong to
    the process or thread, so they are restored at the end of `train`.
    """

    def __init__(self, threads: int) -> None:
        self._threads_before = torch.get_num_threads()
        torch.set_num_threads(threads)
        torch.set_flush_denormal(True)
        keep_freed_memory()

    def restore(self) -> None:
        """Restore the previous settings; may be called twice."""
        torch.set_num_threads(self._threads_before)
        torch.set_flush_denormal(False)
