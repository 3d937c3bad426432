"""The engines that compute an algorithm: torch, for any network and device, or the fused one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Literal, Protocol, TypeVar

from briskrl.core.errors import ConfigError
from briskrl.nets.compute import Compute

EngineName = Literal["torch", "fused"]


class Engine(Protocol):
    """What all engines have in common."""

    def refresh(self) -> None:
        """Update derived data after the networks were changed from outside."""
        ...

    def drain(self) -> dict[str, float]:
        """Mean metrics since the last call."""
        ...


Kind = TypeVar("Kind", bound=Engine)


class Engines(Generic[Kind]):
    """The engines that can compute an algorithm's networks, and the one in use.

    They share parameters and optimizer, so a run may switch from one to the other at any time.

    Args:
        compute: Device, precision and the engine asked for.
        torch: Builds the reference engine.
        fused: Builds the fused engine; None if the algorithm has none.
        refusal: Why the fused engine cannot compute these networks; None if it can.

    Raises:
        ConfigError: The fused engine is asked for and cannot be used.
    """

    def __init__(
        self,
        compute: Compute,
        *,
        torch: Callable[[], Kind],
        fused: Callable[[], Kind] | None = None,
        refusal: str | None = None,
    ) -> None:
        self._builders: dict[EngineName, Callable[[], Kind]] = {"torch": torch}
        if fused is None:
            refusal = refusal or "the algorithm has no fused engine"
        else:
            self._builders["fused"] = fused
        self._built: dict[EngineName, Kind] = {}
        self.refusal = compute.fused_refusal or refusal
        """Why the fused engine cannot be used; None if it can."""
        if compute.engine == "fused" and self.refusal:
            raise ConfigError(f"--engine fused cannot be used: {self.refusal}. Use --engine auto.")
        fits = compute.engine != "torch" and self.refusal is None
        self.candidates: tuple[EngineName, ...] = ("torch",)
        """The engines that may be chosen from."""
        if fits:
            self.candidates = ("fused", "torch") if compute.engine == "auto" else ("fused",)
        self.use(self.candidates[0])

    @property
    def name(self) -> EngineName:
        """Name of the engine in use."""
        return self._name

    @property
    def now(self) -> Kind:
        """The engine in use."""
        return self._now

    def use(self, name: EngineName) -> None:
        """Switch to an engine, building it on first use."""
        if name not in self._built:
            self._built[name] = self._builders[name]()
        self._name = name
        self._now = self._built[name]
        self._now.refresh()
