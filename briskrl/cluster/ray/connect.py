"""Starts Ray for this program, or connects to a cluster that is running.

A cluster of our own listens on the loopback interface only, has a token of its own, and ends with
this process. Ray has no dashboard then, sends no statistics of use, and prints nothing.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from briskrl.cluster.ray.probe import (
    CLIENT_PREFIX,
    Address,
    check_access,
    check_port,
    parse_address,
)
from briskrl.cluster.ray.ray_environment import (
    environment,
    loopback_only,
)
from briskrl.cluster.ray.rehearsal import read_rehearsal
from briskrl.cluster.ray.tokens import (
    MODE,
    TOKEN,
    Token,
    find_token,
    new_token,
    read_token,
    token_variables,
)
from briskrl.core.errors import BriskError, ConfigError

_log = logging.getLogger(__name__)
OBJECT_STORE_BYTES = 150 << 20
"""Memory of Ray for messages on their way; we send pieces of files, not arrays."""
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Jobs without GPUs get no warning about CUDA_VISIBLE_DEVICES.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection to a Ray cluster."""

    address: str
    """HOST:PORT or ray://HOST:PORT."""
    own: bool
    """Whether the cluster is on this machine, for this program only."""


def import_ray() -> Any:
    """The module `ray`.

    Raises:
        ConfigError: The extra is not installed.
    """
    try:
        import grpc  # noqa: F401
        import ray
    except ImportError as error:
        raise ConfigError(
            "Ray is not installed; install it with: pip install 'briskrl[ray]'"
        ) from error
    return ray


@contextmanager
def connect(
    address: str | None, *, num_cpus: int | None = None, num_gpus: int | None = None
) -> Iterator[Connection]:
    """Use a Ray cluster: while entered, `ray.remote` and so on work in this process.

    Args:
        address: None starts one for this program, which ends with the block; auto is the one on
            this machine; otherwise HOST:PORT (a node of the cluster runs on this machine) or
            ray://HOST:PORT (none does).
        num_cpus: Cores of a cluster that is started; all of this machine if absent.
        num_gpus: Its GPUs; all of this machine if absent.

    Raises:
        ConfigError: Ray is missing, or the address cannot be used.
        BriskError: The cluster cannot be reached, refuses the token or has another version.
    """
    with environment(QUIET):
        ray = import_ray()
        if ray.is_initialized():
            raise BriskError(
                "This process is connected to a Ray cluster already. Call ray.shutdown() first."
            )
        if address is None:
            opened = _start(num_cpus, num_gpus)
        else:
            opened = _join(address)
        with _no_printing(), opened as connection:
            try:
                yield connection
            finally:
                ray.shutdown()


@contextmanager
def _start(num_cpus: int | None, num_gpus: int | None) -> Iterator[Connection]:
    """Start a cluster on the loopback interface."""
    with loopback_only(), environment(token_variables(new_token())):
        context = _init(
            "local",
            num_cpus=num_cpus,
            num_gpus=num_gpus,
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
        )
        yield Connection(context.address_info["address"], own=True)


@contextmanager
def _join(text: str) -> Iterator[Connection]:
    """Connect to a cluster after checking what could be wrong with it."""
    address = find_address(text)
    variables = _check(address)
    with environment(variables), ExitStack() as stack:
        if not address.client:
            _check_node(address)
            if address.is_loopback:
                # Ray would look for the cluster at another address of this machine.
                stack.enter_context(loopback_only())
        _init(str(address))
        yield Connection(str(address), own=False)


def find_address(text: str) -> Address:
    """The address of a cluster; `auto` is the one of `RAY_ADDRESS`, or on this machine.

    Raises:
        ConfigError: There is none.
    """
    if text == "auto":
        text = os.environ.get("RAY_ADDRESS") or "auto"
    if text != "auto":
        return parse_address(text)
    rehearsal = read_rehearsal()
    if rehearsal is not None:
        return parse_address(rehearsal.address)
    from ray._private.services import find_gcs_addresses

    found = [parse_address(address) for address in sorted(find_gcs_addresses())]
    # One on the loopback interface belongs to a program, such as another sweep, and ends with it.
    shared = [address for address in found if not address.is_loopback]
    if not shared:
        raise ConfigError(
            "No Ray cluster was found on this machine. Start one with `brisk cluster up`, or use "
            "--address HOST:PORT or ray://HOST:PORT."
        )
    if len(shared) > 1:
        names = ", ".join(map(str, shared))
        raise ConfigError(f"Several Ray clusters run on this machine ({names}); name one.")
    return shared[0]


def _check(address: Address) -> dict[str, str]:
    """Check that the cluster can be used; the environment variables that Ray needs for it."""
    disabled = os.environ.get(MODE, "").lower() == "disabled"
    token = None if disabled else _find_token(address)
    check_port(address)
    if os.environ.get("RAY_USE_TLS", "0").lower() not in ("1", "true"):
        check_access(address, token, token_required=not disabled)
    if token is None:
        return {}
    return {MODE: os.environ.get(MODE, "token"), TOKEN: token.value}


def _find_token(address: Address) -> Token | None:
    """The token of the rehearsal cluster if it is that one, otherwise that of the user."""
    rehearsal = read_rehearsal()
    if rehearsal is not None and rehearsal.address == str(address):
        return read_token(rehearsal.token_path, str(rehearsal.token_path))
    return find_token()


def _check_node(address: Address) -> None:
    """Check that a node of some cluster runs here; Ray waits for one for 30 seconds."""
    from ray._private.services import find_node_ids

    if not find_node_ids():
        raise BriskError(
            f"No node of the Ray cluster at {address} runs on this machine. Start one with `ray "
            f"start --address={address}`, or connect to the head with {CLIENT_PREFIX}HOST:10001."
        )


def _init(address: str, **options: Any) -> Any:
    """Call ray.init without its effects on signals and output.

    Raises:
        BriskError: It failed.
    """
    import ray

    with _kept_handlers():
        try:
            return ray.init(
                address=address, log_to_driver=False, logging_level=logging.CRITICAL, **options
            )
        except Exception as error:
            ray.shutdown()
            raise BriskError(_describe(address, error)) from error


def _describe(address: str, error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    if "ersion mismatch" in text:
        return (
            f"The Ray cluster at {address} has another version of Ray or Python than this machine; "
            f"they must be the same. {text}"
        )
    if address == "local":
        return f"Ray could not be started on this machine: {text}"
    return f"Ray could not connect to the cluster at {address}: {text}"


@contextmanager
def _no_printing() -> Iterator[None]:
    """Log what Ray would print to standard output, such as the loss of a node."""
    from ray._private import worker

    before = worker.print_to_stdstream
    worker.print_to_stdstream = _log_message
    try:
        yield
    finally:
        worker.print_to_stdstream = before


def _log_message(data: Mapping[str, Any], ignore_prefix: bool) -> None:
    for line in data["lines"]:
        _log.info("Ray: %s", line)


@contextmanager
def _kept_handlers() -> Iterator[None]:
    """Restore the handler of SIGTERM, which Ray replaces, as it is after the block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
