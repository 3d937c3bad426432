"""Clusters of several nodes inside this process, whose nodes can be lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from briskrl.cluster.ray.connect import OBJECT_STORE_BYTES, QUIET
from briskrl.cluster.ray.ray_environment import environment, loopback_only
from briskrl.cluster.ray.tokens import new_token, token_variables

ATTEMPTS = 3


@contextmanager
def simulated_cluster() -> Iterator[Any]:
    """A `ray.cluster_utils.Cluster` whose head runs no jobs; use `add_node` for others."""
    with environment(token_variables(new_token()) | QUIET), loopback_only():
        from ray.cluster_utils import Cluster

        cluster = Cluster()
        try:
            add_node(cluster, cpus=0)
            yield cluster
        finally:
            cluster.shutdown()


def add_node(cluster: Any, *, cpus: int, **variables: str) -> Any:
    """Start a node, with these environment variables for its workers."""
    for attempt in range(ATTEMPTS):
        try:
            return cluster.add_node(
                num_cpus=cpus,
                object_store_memory=OBJECT_STORE_BYTES,
                include_dashboard=False,
                env_vars=variables or None,
            )
        except Exception:
            # Ray gives a node 30 seconds, which is short if other tests run.
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError


def node_of_worker(cluster: Any) -> Any:
    """The node with the only worker process for jobs; the program is connected."""
    from ray._private import state

    (worker,) = [actor for actor in state.actors().values() if actor["State"] == "ALIVE"]
    (found,) = [
        node for node in cluster.worker_nodes if node.node_id == worker["Address"]["NodeID"]
    ]
    return found


def pid_of_actor() -> int:
    """The process of the only actor; the program is connected."""
    from ray._private import state

    (worker,) = [actor for actor in state.actors().values() if actor["State"] == "ALIVE"]
    return int(worker["Pid"])
