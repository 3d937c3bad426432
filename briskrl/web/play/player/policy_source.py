"""The policy that plays: read from a run folder without changing it, and again when it is newer."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from briskrl.core.errors import RunFolderError
from briskrl.core.types import JSON
from briskrl.training.evaluate import TrainedAgent, build_trained
from briskrl.training.storage.stored_policies import read_stored_policy


@dataclass(frozen=True, slots=True)
class LoadedPolicy:
    """A policy with the facts that the page shows."""

    trained: TrainedAgent
    name: str
    """`newest`, `best`, or the name of a checkpoint."""
    step: int
    """Transitions collected when it was written; -1 if unknown."""
    digest: str

    def as_json(self) -> dict[str, JSON]:
        """The facts as a JSON object."""
        return {"name": self.name, "step": self.step, "algo": self.trained.about.get("algo")}


class PolicySource:
    """Reads policies of one run.

    Args:
        folder: The run folder.
        trust: Import the modules that the run names even if other users can change its folder.
    """

    def __init__(self, folder: Path, *, trust: bool) -> None:
        self._folder = folder
        self._trust = trust

    def load(self, name: str) -> LoadedPolicy:
        """The policy of this name.

        Raises:
            RunFolderError: There is none, or it is damaged.
            UntrustedError: Others can change the run, and it names modules to import.
        """
        files = read_stored_policy(self._folder, name)
        trained = build_trained(self._folder, files.state, files.description, trust=self._trust)
        return LoadedPolicy(trained, name, files.step, files.digest)

    def newer(self, than: LoadedPolicy) -> LoadedPolicy:
        """The policy of the same name if it has changed, else the given one."""
        # A run that has just been removed or damaged must not end the game.
        with suppress(RunFolderError, OSError):
            files = read_stored_policy(self._folder, than.name)
            if files.digest != than.digest:
                return self.load(than.name)
        return than
