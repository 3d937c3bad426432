"""The order that a strategy chose, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from briskrl.orders.workflow import Workflow

Phase = Literal["design", "model", "random", "sequence"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One order as the model sees it."""

    id: int
    mean: float
    """Expected score."""
    std: float
    """Its standard deviation, pending evaluations taken into account."""
    acquisition: float
    """What was maximized: mean + beta * std, or the posterior draw."""
    admissible: bool
    """Whether it may be feasible."""


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The model behind a choice."""

    kernel: str
    length_scale: float
    noise: float
    observations: int
    pending: int
    beta: float
    chosen: Candidate
    top: tuple[Candidate, ...]
    """The best three by acquisition, among the admissible ones if there are any."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An order to evaluate next."""

    workflow: Workflow
    phase: Phase
    """design (before there is a model), model, random (no surrogate fits), or sequence (a strategy
    without a model)."""
    model: ModelChoice | None = None
