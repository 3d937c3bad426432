"""Settings of ordered visit; imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

REGION_NAMES = ("north-west", "north-east", "south-west", "south-east")


@dataclass(frozen=True, slots=True)
class OrderedVisitConfig:
    """Size of the grid, its regions and walls, and the order that is rewarded."""

    side: Annotated[int, Meta(ge=6, le=62)] = 30
    """Cells along each side of the grid."""
    regions: Annotated[int, Meta(ge=2, le=4)] = 4
    """Corners to visit: the first ones of north-west, north-east, south-west and south-east."""
    region_size: Annotated[int, Meta(ge=1, le=20)] = 4
    """Cells along each side of a region."""
    walls: Annotated[float, Meta(ge=0, le=0.4)] = 0.15
    """Share of the other cells that are walls; drawn for every episode, with all regions within
    reach."""
    max_steps: Annotated[int, Meta(ge=1, le=100_000)] = 500
    """Steps after which an episode is truncated."""
    hidden_order: str | None = None
    """Rewarded order of the regions, names joined by >; by default a fixed one that is neither
    the order of the names nor its reverse."""

    def check(self) -> list[str]:
        """Problems with combinations of settings, one sentence each."""
        wrong = []
        if 2 * self.region_size + 2 > self.side:
            wrong.append(
                f"Regions of {self.region_size} cells do not fit into a grid of {self.side}: two "
                "of them must leave two cells free."
            )
        if self.hidden_order is not None:
            # Not at the top, because help must not wait for NumPy.
            from briskrl.core.errors import ConfigError
            from briskrl.orders.workflow import parse_workflow

            try:
                parse_workflow(self.hidden_order, self.names)
            except ConfigError as error:
                wrong.append(f"hidden_order: {error}")
        return wrong

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the regions."""
        return REGION_NAMES[: self.regions]
