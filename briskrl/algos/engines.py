"""Which engine computes: torch, the reference for any network and device, or the fused one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Literal, Protocol, TypeVar

from briskrl.core.errors import ConfigError
from briskrl.nets.compute import Compute

EngineName = Literal["torch", "fused"]


class Engine(Protocol):
    """What all engines have in common."""

    def refresh(self) -> None:
        """Take notice that somebody else has changed the networks."""
        ...

    def drain(self) -> dict[str, float]:
        """Means since the last call."""
        ...


Kind = TypeVar("Kind", bound=Engine)


class Engines(Generic[Kind]):
    """The engines that can compute an algorithm's networks, and the one that does.

    They share parameters and optimizer, so a run may change from one to the other at any time.

    Args:
        compute: How to compute; says which engine is wanted.
        torch: Builds torch's engine.
        fused: Builds the fused engine.
        refusal: Why the fused engine cannot compute these networks; None if it can.

    Raises:
        ConfigError: The fused engine is wanted and cannot do it.
    """

    def __init__(
        self,
        compute: Compute,
        *,
        torch: Callable[[], Kind],
        fused: Callable[[], Kind],
        refusal: str | None,
    ) -> None:
        self._builders: dict[EngineName, Callable[[], Kind]] = {"torch": torch, "fused": fused}
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
        """The engine that computes."""
        return self._name

    @property
    def now(self) -> Kind:
        """The engine that computes."""
        return self._now

    def use(self, name: EngineName) -> None:
        """Let an engine compute from now on."""
        if name not in self._built:
            self._built[name] = self._builders[name]()
        self._name = name
        self._now = self._built[name]
        self._now.refresh()
