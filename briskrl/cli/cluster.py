"""`brisk cluster`: a Ray cluster on this machine, and the status of any cluster."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING

from briskrl.cli.flags import Parser
from briskrl.cli.output import print_json
from briskrl.core.errors import ConfigError
from briskrl.core.format import format_columns

if TYPE_CHECKING:
    from briskrl.cluster.ray.rehearsal import Rehearsal
    from briskrl.cluster.ray.status import ClusterStatus

USAGE = """\
brisk cluster up [--nodes N] [--cpus N] [--port PORT] [--json]
       brisk cluster status [--address ADDRESS] [--json]
       brisk cluster down"""

EXAMPLES = """\
examples:
  brisk cluster up --nodes 2
  brisk cluster status
  brisk cluster down

A rehearsal: all nodes are processes of this machine and listen on the loopback interface only. Jobs
run, are lost and continue as on several machines, but not faster. Programs need the cluster's
token, which is in a file that only this user can read; brisk finds it. The cluster runs until
`brisk cluster down`. docs/how-to/clusters.md explains clusters of several machines."""

MOST_NODES = 32


def run(argv: list[str]) -> int:
    """Start, stop or show a cluster."""
    args = _parse(argv)
    if args.action == "up":
        return _up(args)
    if args.action == "down":
        return _down()
    return _status(args)


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = Parser("brisk cluster", "Start, stop or show a Ray cluster on this machine.", EXAMPLES)
    parser.usage = USAGE
    parser.add_argument("action", choices=("up", "down", "status"), help="what to do")
    parser.add_argument(
        "--nodes", type=int, default=2, metavar="N", help="up: how many nodes to start [2]"
    )
    parser.add_argument(
        "--cpus",
        type=int,
        metavar="N",
        help="up: cores of each node for jobs; by default those of the machine are divided",
    )
    parser.add_argument(
        "--port", type=int, default=0, metavar="PORT", help="up: where it listens [a free one]"
    )
    parser.add_argument(
        "--address",
        default="auto",
        metavar="ADDRESS",
        help="status: of which cluster, HOST:PORT or ray://HOST:PORT [the one on this machine]",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse(argv)


def _up(args: argparse.Namespace) -> int:
    from briskrl.cluster.ray.connect import import_ray
    from briskrl.cluster.ray.rehearsal import start_rehearsal
    from briskrl.core.cpu import usable_cores

    for name, value, most in (("nodes", args.nodes, MOST_NODES), ("cpus", args.cpus, 1024)):
        if value is not None and not 1 <= value <= most:
            raise ConfigError(f"--{name} must be between 1 and {most}, not {value}.")
    if not 0 <= args.port <= 65535:
        raise ConfigError(f"--port must be between 0 and 65535, not {args.port}.")
    import_ray()
    cpus = args.cpus or max(1, usable_cores() // args.nodes)
    found = start_rehearsal(nodes=args.nodes, cpus=cpus, port=args.port)
    if args.json:
        print_json({**asdict(found), "token_path": str(found.token_path)})
    else:
        print(_instructions(found))
    return 0


def _instructions(found: Rehearsal) -> str:
    nodes = "1 node" if found.nodes == 1 else f"{found.nodes} nodes"
    cores = "1 core each" if found.cpus == 1 else f"{found.cpus} cores each"
    rows = [
        ("use", f"--executor ray --address {found.address}"),
        ("token", f"RAY_AUTH_TOKEN_PATH={shlex.quote(str(found.token_path))} for other programs"),
        ("stop", "brisk cluster down"),
    ]
    return f"A Ray cluster with {nodes}, {cores}, runs on this machine.\n{format_columns(rows)}"


def _down() -> int:
    from briskrl.cluster.ray.rehearsal import stop_rehearsal

    stop_rehearsal()
    print("The cluster has stopped.")
    return 0


def _status(args: argparse.Namespace) -> int:
    from briskrl.cluster.ray.status import read_status

    status = read_status(args.address)
    if args.json:
        print_json(asdict(status))
    else:
        print(_report(status))
    return 0


def _report(status: ClusterStatus) -> str:
    rows = [("node", "host", "cores", "free", "GPUs", "free", "workers")]
    rows += [
        (
            node.node,
            node.name,
            f"{node.cpus:g}",
            f"{node.free_cpus:g}",
            f"{node.gpus:g}",
            f"{node.free_gpus:g}",
            str(node.workers),
        )
        for node in status.nodes
    ]
    lines = [f"cluster {status.address}", format_columns(rows)]
    if not status.programs:
        return "\n".join([*lines, "No program uses it."])
    rows_of_programs = [("program", "process", "host")]
    rows_of_programs += [(each.command, str(each.pid), each.node) for each in status.programs]
    return "\n".join([*lines, format_columns(rows_of_programs)])
