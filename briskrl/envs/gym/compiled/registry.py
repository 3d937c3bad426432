"""Compiled versions of Gymnasium environments: the table of them, and which of them may be used.

Nothing is compiled or compared unless `COMPILED_VERSIONS` lists the entry point of the environment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from briskrl.core.errors import ConfigError
from briskrl.core.registry import load_object
from briskrl.core.spec import EnvSpec
from briskrl.envs.gym.env_factory import EnvFactory, GymEnv

if TYPE_CHECKING:
    from briskrl.envs.kernels.step_loop import StepKernels

_HERE = "briskrl.envs.gym.compiled"
COMPILED_VERSIONS = {
    "gymnasium.envs.classic_control.acrobot:AcrobotEnv": f"{_HERE}.acrobot:ACROBOT",
    "gymnasium.envs.classic_control.cartpole:CartPoleEnv": f"{_HERE}.cartpole:CARTPOLE",
}
"""Addresses of compiled versions, by the entry point that Gymnasium has registered.

Entry points and not ids: several ids, with different time limits, share one entry point.
"""


@dataclass(frozen=True, slots=True)
class CompiledVersion:
    """A compiled version of one environment class."""

    env_class: type[GymEnv]
    """The class that it reproduces; subclasses do not count."""
    kernels: StepKernels
    """The compiled step loop."""
    state_bounds: tuple[float, ...]
    """Largest absolute value of each state variable in the states that are compared."""
    settings: Callable[[Any], tuple[int, ...]]
    """settings(env): constructor arguments of an instance, as the kernel reads them."""
    read: Callable[[Any], NDArray[np.float64]]
    """read(env): the state variables of an instance."""
    write: Callable[[Any, NDArray[np.float64]], None]
    """write(env, state): set the state variables of an instance, in the middle of an episode."""

    @property
    def num_state(self) -> int:
        """Number of state variables."""
        return len(self.state_bounds)


@dataclass(frozen=True, slots=True)
class CompiledLookup:
    """The compiled version of an environment, or why there is none."""

    version: CompiledVersion | None = None
    """None if there is none, or it may not be used."""
    reason: str = ""
    """Why the version that exists may not be used, as a clause; empty if none exists."""
    steps_compared: int = 0
    """Steps in which the version was equal to the original."""


def find_compiled(factory: EnvFactory) -> CompiledLookup:
    """The compiled version of an environment, if it is bit-identical to the original."""
    version = _registered_version(factory)
    if version is None:
        return CompiledLookup()
    equivalence: Any = import_module(f"{_HERE}.equivalence")
    reason = equivalence.difference(factory, _with_exact_state(factory.spec()), version)
    if reason:
        return CompiledLookup(reason=reason)
    return CompiledLookup(version, steps_compared=equivalence.STEPS_COMPARED)


def make_compiled(factory: EnvFactory, num_envs: int, spec: EnvSpec, *, threads: int = 1) -> Any:
    """A `GymCompiledEnv` of `num_envs` environments.

    Raises:
        ConfigError: There is no bit-identical compiled version; the message says why.
    """
    found = find_compiled(factory)
    if found.version is None:
        reason = found.reason or "none exists"
        raise ConfigError(
            f"{factory.name} has no compiled version that may be used: {reason}. "
            "Use --backend sync, process or async, or leave the choice to auto."
        )
    env: Any = import_module(f"{_HERE}.env")
    spec = _with_exact_state(spec)
    return env.GymCompiledEnv(factory, num_envs, spec, found.version, threads=threads)


def _registered_version(factory: EnvFactory) -> CompiledVersion | None:
    config = factory.config.expanded()
    if config.preprocesses or config.clip_reward:
        return None
    entry = factory.entry_point
    name = entry if isinstance(entry, str) else _address(entry)
    if name not in COMPILED_VERSIONS:
        return None
    version: CompiledVersion = load_object(COMPILED_VERSIONS[name])
    return version


def _address(entry: Any) -> str:
    return f"{getattr(entry, '__module__', '')}:{getattr(entry, '__qualname__', '')}"


def _with_exact_state(spec: EnvSpec) -> EnvSpec:
    """The spec with `exact_state` set.

    The factory's own check skips slow steps and may say False on a busy machine; the comparison
    checks saved states as well.
    """
    return replace(spec, exact_state=True)
