"""What a Ray cluster has, and what it does at the moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from briskrl.cluster.ray.connect import connect


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node."""

    name: str
    """Host name or address, which nodes of a rehearsal cluster share."""
    node: str
    """Ray's number of it, shortened."""
    cpus: float
    free_cpus: float
    gpus: float
    free_gpus: float
    workers: int
    """Processes for jobs of briskrl, at work or waiting for the next one."""


@dataclass(frozen=True, slots=True)
class ProgramStatus:
    """One program that uses the cluster."""

    command: str
    pid: int
    node: str
    """Address of the machine it runs on."""


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """A cluster."""

    address: str
    nodes: tuple[NodeStatus, ...]
    programs: tuple[ProgramStatus, ...]


def read_status(address: str) -> ClusterStatus:
    """The status of the cluster at an address, which may be `auto`.

    Raises:
        BriskError: It cannot be reached.
    """
    with connect(address) as connection:
        import ray

        ask = ray.remote(_ask).options(num_cpus=0)
        nodes, programs = ray.get(ask.remote())
    return ClusterStatus(connection.address, nodes, programs)


def _ask() -> tuple[tuple[NodeStatus, ...], tuple[ProgramStatus, ...]]:
    """Ask from inside the cluster: clients of ray:// cannot."""
    import ray
    from ray._private import state

    free = state.available_resources_per_node()
    own = ray.get_runtime_context().get_job_id()
    workers = [
        actor["Address"]["NodeID"]
        for actor in state.actors().values()
        if actor["State"] == "ALIVE" and actor["ActorClassName"] == "JobHost"
    ]
    programs = tuple(
        ProgramStatus(job["Entrypoint"], job["DriverPid"], job["DriverIPAddress"])
        for job in state.jobs()
        if not job["IsDead"] and job["JobID"] != own
    )
    nodes = tuple(
        _node(node, free.get(node["NodeID"], {}), workers.count(node["NodeID"]))
        for node in ray.nodes()
        if node["Alive"]
    )
    return nodes, programs


def _node(node: dict[str, Any], free: dict[str, float], workers: int) -> NodeStatus:
    total = node["Resources"]
    return NodeStatus(
        name=node["NodeManagerHostname"],
        node=node["NodeID"][:8],
        cpus=total.get("CPU", 0.0),
        free_cpus=free.get("CPU", 0.0),
        gpus=total.get("GPU", 0.0),
        free_gpus=free.get("GPU", 0.0),
        workers=workers,
    )
