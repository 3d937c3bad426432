"""A temporary folder that does not outlive the program."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from briskrl.core.exit_watch import scratch_folders


def is_scratch(path: Path) -> bool:
    """Whether a path is in a folder that is removed when the program ends."""
    return any(path.is_relative_to(folder) for folder in scratch_folders)


class ScratchFolder(TemporaryDirectory[str]):
    """A temporary folder that is removed even if a signal ends the program at once."""

    def __init__(self, prefix: str) -> None:
        super().__init__(prefix=prefix)
        scratch_folders.add(self.name)

    def cleanup(self) -> None:
        """Remove the folder."""
        super().cleanup()
        scratch_folders.discard(self.name)
