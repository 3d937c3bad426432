"""The state of a search as JSON, and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from briskrl.core.errors import BriskError, InvalidStateError
from briskrl.core.state_checks import LARGEST_COUNT, invalid_state
from briskrl.core.types import JSON
from briskrl.orders.space import WorkflowSpace
from briskrl.workflows.config import SearcherConfig
from briskrl.workflows.history import OrderResult

FORMAT = 1
"""Version of the saved form."""

Count = Annotated[int, Meta(ge=0, le=LARGEST_COUNT)]
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class SavedResult:
    """A result; JSON has no NaN, so numbers that are not finite are None."""

    id: Count
    score: float | None
    episodes: Count
    score_se: float | None
    compliance: float | None
    contested_share: float | None
    feasible: bool | None
    replaces_earlier: bool
    failed: bool

    @classmethod
    def of(cls, result: OrderResult) -> SavedResult:
        """The saved form of a result."""
        return cls(
            id=result.workflow.id,
            score=result.score if math.isfinite(result.score) else None,
            episodes=result.episodes,
            score_se=result.score_se,
            compliance=None if math.isnan(result.compliance) else result.compliance,
            contested_share=_without_nan(result.contested_share),
            feasible=result.feasible,
            replaces_earlier=result.replaces_earlier,
            failed=result.failed,
        )

    def restored(self, space: WorkflowSpace) -> OrderResult:
        """The result; scores that were not finite are NaN.

        Raises:
            ConfigError: Its order is not in the space.
        """
        return OrderResult(
            space.from_id(self.id),
            score=math.nan if self.score is None else self.score,
            episodes=self.episodes,
            score_se=self.score_se,
            compliance=math.nan if self.compliance is None else self.compliance,
            contested_share=self.contested_share,
            feasible=self.feasible,
            replaces_earlier=self.replaces_earlier,
            failed=self.failed,
        )


@dataclass(frozen=True, slots=True)
class SavedSearch:
    """Everything that the next proposals depend on."""

    categories: tuple[str, ...]
    require: tuple[str, ...]
    named: dict[str, Count]
    config: SearcherConfig
    seed: Count
    pair_counts: list[list[float]] | None
    asked: Count
    last: Count | None
    pending: tuple[Count, ...]
    results: tuple[SavedResult, ...]
    format: int = FORMAT

    def as_json(self) -> dict[str, JSON]:
        """The saved form."""
        converted: dict[str, JSON] = msgspec.to_builtins(self)
        return converted

    @classmethod
    def from_json(cls, state: JSON) -> SavedSearch:
        """The saved form, with checked types.

        Raises:
            InvalidStateError: It has another form, or is of another version.
        """
        with invalid_state("the search"):
            saved = msgspec.convert(state, cls)
        if saved.format != FORMAT:
            raise InvalidStateError(
                f"the search was saved in format {saved.format}; this version reads {FORMAT}"
            )
        return saved

    def restored(self, restore: Callable[[SavedSearch], S]) -> S:
        """What `restore` makes of it.

        Raises:
            InvalidStateError: Its values do not fit together.
        """
        try:
            return restore(self)
        except BriskError as error:
            raise InvalidStateError(f"the search cannot be restored ({error})") from error


def _without_nan(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value
