"""What the driver learns about a run from the messages of its replicas."""

from __future__ import annotations

from briskrl.algos.engines import EngineName
from briskrl.cluster.replicas.messages import (
    Begun,
    Built,
    Ended,
    Failed,
    Left,
    Lost,
    Note,
    ReplicaMessage,
    WarmedUp,
)
from briskrl.core.errors import BriskError
from briskrl.training.reporter import Progress, Reporter, RunInfo, RunResult


class RunWatch:
    """Passes reports on, and keeps how the run stands.

    Args:
        reporter: Receives the reports of the first replica.
        replicas: Number of replicas.
    """

    def __init__(self, reporter: Reporter, replicas: int) -> None:
        self._reporter = reporter
        self._replicas = replicas
        self._announced = False
        self._errors: dict[int, BriskError] = {}
        self.engine: EngineName | None = None
        """The engine in use, once training has begun."""
        self.result: RunResult | None = None
        """Once the run has ended."""
        self.restart()

    def restart(self, replicas: int | None = None) -> None:
        """Another attempt begins, with another number of replicas if one is given."""
        self._replicas = self._replicas if replicas is None else replicas
        self._built: set[int] = set()
        self.ended: set[int] = set()
        """Replicas that have sent their last message."""
        self.losses: dict[int, str] = {}
        """Why replicas could not go on, as clauses."""
        self.begun = False
        """Whether training has begun."""

    @property
    def all_built(self) -> bool:
        """Whether all replicas can use the settings."""
        return len(self._built) == self._replicas

    @property
    def error(self) -> BriskError | None:
        """The error that ends the run; that of the first replica if there are several."""
        return self._errors[min(self._errors)] if self._errors else None

    def take(self, rank: int, message: ReplicaMessage) -> None:
        """Handle a message of a replica."""
        match message:
            case Built():
                self._built.add(rank)
            case Begun(engine):
                self.engine, self.begun = engine, True
            case Ended(result):
                self.result = result
            case Left():
                self.ended.add(rank)
            case Failed(error):
                self.ended.add(rank)
                self._errors[rank] = error
            case Lost(cause):
                self.lose(rank, cause)
            case _:
                self._report(message)

    def lose(self, rank: int, cause: str) -> None:
        """A replica has gone, or has missed another one."""
        if rank not in self.ended:
            self.ended.add(rank)
            self.losses[rank] = cause

    def _report(self, message: RunInfo | WarmedUp | Progress | Note) -> None:
        reporter = self._reporter
        match message:
            case RunInfo() if not self._announced:
                self._announced = True
                reporter.on_start(message)
            case WarmedUp(seconds):
                reporter.on_warmup(seconds)
            case Progress():
                reporter.on_progress(message)
            case Note(text):
                reporter.on_note(text)
