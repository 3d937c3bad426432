"""A temporary folder that does not outlive the program."""

from __future__ import annotations

from tempfile import TemporaryDirectory

from briskrl.core.exit_watch import scratch_folders


class ScratchFolder(TemporaryDirectory[str]):
    """A temporary folder that is removed even if a signal ends the program at once."""

    def __init__(self, prefix: str) -> None:
        super().__init__(prefix=prefix)
        scratch_folders.add(self.name)

    def cleanup(self) -> None:
        """Remove the folder."""
        super().cleanup()
        scratch_folders.discard(self.name)
