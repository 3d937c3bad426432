"""The program that starts the nodes of a rehearsal cluster, and stops them when it is asked to."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from briskrl.cluster.ray.connect import OBJECT_STORE_BYTES, QUIET
from briskrl.cluster.ray.ray_environment import environment, loopback_only
from briskrl.cluster.ray.rehearsal import Rehearsal, publish, withdraw
from briskrl.cluster.ray.tokens import read_token, token_variables
from briskrl.training.storage.lock import FolderLock

_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(folder: Path, *, nodes: int, cpus: int, port: int) -> None:
    """Run a cluster until a signal arrives.

    Args:
        folder: That of the cluster, with its token.
        nodes: How many to start.
        cpus: Cores that each of them has for jobs.
        port: Where the cluster listens; 0 takes a free one.
    """
    _let_signals(_leave)
    lock = FolderLock(folder / "lock")
    lock.acquire()
    token = read_token(folder / "token", str(folder / "token"))
    with environment(token_variables(token.value) | QUIET), loopback_only():
        from ray.cluster_utils import Cluster

        head = {"gcs_server_port": port} if port else {}
        cluster = Cluster()
        try:
            for number in range(nodes):
                cluster.add_node(
                    num_cpus=cpus,
                    object_store_memory=OBJECT_STORE_BYTES,
                    include_dashboard=False,
                    **({} if number else head),
                )
            # Again, because Ray has a handler of its own for SIGTERM.
            _let_signals(_leave)
            publish(folder, Rehearsal(cluster.address, nodes, cpus, os.getpid()))
            while True:
                signal.pause()
        finally:
            _let_signals(signal.SIG_IGN)
            withdraw(folder)
            cluster.shutdown()


def _let_signals(handler: Any) -> None:
    """Set the handler of the signals that stop the cluster. Nodes would inherit a mask of them."""
    for number in _STOPS:
        signal.signal(number, handler)


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        nodes=int(sys.argv[2]),
        cpus=int(sys.argv[3]),
        port=int(sys.argv[4]),
    )
