"""What Ray reads from the environment, of this process and for those that it starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

# On macOS and Windows Ray listens on the loopback interface only; this asks for the same here.
_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables while entered, and let Ray read its mode and token again."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    _read_again()
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        _read_again()


@contextmanager
def loopback_only() -> Iterator[None]:
    """While entered, clusters that are started here can be reached from this machine only."""
    from ray._private import ray_constants

    before = ray_constants.ENABLE_RAY_CLUSTER
    with environment({_LOOPBACK: "0"}):
        # Ray has read the variable of this process already; those that it starts read it again.
        ray_constants.ENABLE_RAY_CLUSTER = False
        try:
            yield
        finally:
            ray_constants.ENABLE_RAY_CLUSTER = before


def _read_again() -> None:
    """Ray keeps what it has read the first time."""
    if "ray._raylet" in sys.modules:
        compiled: Any = sys.modules["ray._raylet"]
        compiled.Config.initialize("")
        compiled.AuthenticationTokenLoader.instance().reset_cache()
