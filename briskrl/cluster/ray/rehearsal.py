"""A Ray cluster of several nodes on this machine, to rehearse with before there is a real one.

One process, the keeper, starts the nodes and ends with them. A folder of the user's state has its
lock, its token and where to find it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from briskrl.cluster.ray.tokens import new_token
from briskrl.core.errors import BriskError
from briskrl.core.processes import process_exists
from briskrl.core.user_cache import make_folder, user_state
from briskrl.training.storage.atomic_files import json_bytes, storage_errors
from briskrl.training.storage.atomic_files import replace as replace_file
from briskrl.training.storage.lock import FolderLock, FolderLockedError

START_S = 120.0
STOP_S = 30.0
_KEEPER = "briskrl.cluster.ray.rehearsal_keeper"


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A rehearsal cluster that is running."""

    address: str
    nodes: int
    cpus: int
    """Cores that each node has for jobs; may be more than the machine has."""
    keeper: int
    """Process that has started the nodes."""

    @property
    def token_path(self) -> Path:
        """The file with the token."""
        return rehearsal_folder() / "token"


def rehearsal_folder() -> Path:
    """The folder of the rehearsal cluster, of which a user has one at most.

    Raises:
        BriskError: The user has no home folder.
    """
    base = user_state()
    if base is None:
        raise BriskError(
            "There is no folder for the state of the cluster, because this user has no home "
            "folder. Set XDG_STATE_HOME to one."
        )
    return base / "briskrl" / "cluster"


def read_rehearsal() -> Rehearsal | None:
    """The rehearsal cluster of this user; None if none is running."""
    if user_state() is None or not _is_kept(rehearsal_folder()):
        return None
    try:
        return Rehearsal(**json.loads(_state(rehearsal_folder()).read_bytes()))
    except (OSError, ValueError, TypeError):
        # It is being started, or stopped.
        return None


def start_rehearsal(*, nodes: int, cpus: int, port: int) -> Rehearsal:
    """Start a rehearsal cluster.

    Args:
        nodes: How many nodes it has.
        cpus: Cores that each of them has for jobs.
        port: Where it listens, on the loopback interface; 0 takes a free one.

    Raises:
        BriskError: One is running already, or it could not be started.
    """
    folder = rehearsal_folder()
    with storage_errors(f"write {folder}"):
        make_folder(folder)
        if _is_kept(folder):
            raise BriskError(
                "A rehearsal cluster is running already. `brisk cluster status` shows it, and "
                "`brisk cluster down` stops it."
            )
        _check_port(port)
        token = folder / "token"
        token.unlink(missing_ok=True)
        with open(os.open(token, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(new_token())
        _state(folder).unlink(missing_ok=True)
        log = (folder / "log").open("wb")
    numbers = map(str, (nodes, cpus, port))
    with log:
        keeper = subprocess.Popen(
            [sys.executable, "-P", "-m", _KEEPER, str(folder), *numbers],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        _wait_until(lambda: read_rehearsal() is not None or keeper.poll() is not None, START_S)
    except BaseException:
        keeper.terminate()
        raise
    found = read_rehearsal()
    if found is None:
        keeper.terminate()
        raise BriskError(f"The cluster could not be started: {_cause(folder / 'log')}")
    return found


def stop_rehearsal() -> None:
    """Stop the rehearsal cluster, and nothing else.

    Raises:
        BriskError: None is running, or it does not end.
    """
    found = read_rehearsal()
    if found is None:
        raise BriskError("No rehearsal cluster is running. `brisk cluster up` starts one.")
    os.kill(found.keeper, signal.SIGTERM)
    if not _wait_until(lambda: not process_exists(found.keeper), STOP_S):
        raise BriskError(
            f"The cluster has not stopped after {STOP_S:.0f} s; process {found.keeper} started it."
        )


def publish(folder: Path, found: Rehearsal) -> None:
    """Write where to find the cluster."""
    replace_file(_state(folder), json_bytes(asdict(found)))


def withdraw(folder: Path) -> None:
    """Remove what is of no use without the cluster."""
    for path in (_state(folder), folder / "token"):
        path.unlink(missing_ok=True)


def _state(folder: Path) -> Path:
    return folder / "cluster.json"


def _is_kept(folder: Path) -> bool:
    """Whether a keeper holds the lock of the folder."""
    if not folder.is_dir():
        return False
    lock = FolderLock(folder / "lock")
    try:
        lock.acquire()
    except FolderLockedError:
        return True
    lock.release()
    return False


def _check_port(port: int) -> None:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        raise BriskError(
            f"The port {port} is taken or may not be used ({error.strerror}). Use --port with "
            "another one, or without it."
        ) from error


def _wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= end:
            return False
        time.sleep(0.05)
    return True


def _cause(log: Path) -> str:
    """Why a keeper has not started its nodes: the last line of its log, and where the rest is."""
    text = log.read_text(errors="replace").strip()
    if not text:
        return f"it did not answer within {START_S:.0f} s."
    return f"{text.splitlines()[-1].strip()} (its whole log: {log})"
