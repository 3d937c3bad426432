"""What every replica does, wherever it runs: build, warm up, train."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import closing
from typing import Protocol

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
from briskrl.cluster.replicas.torch_group import ReplicaLostError
from briskrl.core.errors import BriskError
from briskrl.nets.replica_group import ReplicaGroup
from briskrl.training.replicas.loop import Setup, Stop, follow, lead
from briskrl.training.replicas.rounds import check_replicable
from briskrl.training.reporter import Progress, RunInfo, RunResult
from briskrl.training.storage.run_dir import RunDir
from briskrl.training.trainer import Trainer

Send = Callable[[ReplicaMessage], None]


class ReplicaError(BriskError):
    """A replica has raised an error that briskrl does not know."""

    exit_code = 1


class MessageReporter:
    """Sends the reports of a run to the driver."""

    def __init__(self, send: Send) -> None:
        self._send = send

    def on_start(self, info: RunInfo) -> None:
        """Send it."""
        self._send(info)

    def on_warmup(self, seconds: float) -> None:
        """Send it."""
        self._send(WarmedUp(seconds))

    def on_progress(self, progress: Progress) -> None:
        """Send it."""
        self._send(progress)

    def on_note(self, text: str) -> None:
        """Send it."""
        self._send(Note(text))

    def on_end(self, result: RunResult) -> None:
        """Send it."""
        self._send(Ended(result))


class Place(Protocol):
    """Where a replica runs."""

    def connect(self) -> ReplicaGroup:
        """Connect to the other replicas."""
        ...

    def wait_for_folder(self) -> RunDir:
        """The run folder, when all replicas are built."""
        ...

    @property
    def stop(self) -> Stop:
        """Whether to stop."""
        ...


def run_replica(
    setup: Setup, place: Place, send: Send, *, saved: Callable[[], None] = lambda: None
) -> None:
    """Be one replica of a run; errors become messages.

    Args:
        setup: How replicas begin.
        place: Where this one runs.
        send: Sends a message to the driver.
        saved: Called after every save of the first replica.
    """
    try:
        group = place.connect()
        note = MessageReporter(send).on_note if group.rank == 0 else lambda text: None
        with closing(Trainer(setup.config, note=note, group=group)) as trainer:
            check_replicable(trainer)
            send(Built())
            folder = place.wait_for_folder()
            if group.rank:
                follow(trainer, group, setup)
            else:
                lead(
                    trainer,
                    group,
                    folder,
                    MessageReporter(send),
                    place.stop,
                    setup,
                    begun=lambda: send(Begun(trainer.algo.engines.name)),
                    saved=saved,
                )
            send(Left())
    except ReplicaLostError as loss:
        send(Lost(str(loss)))
    except BriskError as error:
        send(Failed(error))
    except Exception as error:
        traceback.print_exc()
        what = f"{type(error).__name__}: {error}"
        send(Failed(ReplicaError(f"A replica has failed: {what}")))
