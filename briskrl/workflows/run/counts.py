"""What a number of finished episodes add up to: returns and compliance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields

from briskrl.core.types import JSON


@dataclass(frozen=True, slots=True)
class Counts:
    """Sums over finished episodes."""

    episodes: int = 0
    steps: int = 0
    returns: float = 0.0
    """Of the environment, without the bonus."""
    bonus: float = 0.0
    """Of the alignment bonus."""
    ok: int = 0
    """Compliant fixes."""
    judged: int = 0
    """Fixes while a category was open."""
    idle: int = 0
    """Fixes while nothing was open."""
    contested: int = 0
    """Judged fixes while several categories were open."""
    contested_ok: int = 0

    @property
    def mean_return(self) -> float:
        """Mean return of the environment; NaN without episodes."""
        return _ratio(self.returns, self.episodes)

    @property
    def mean_bonus(self) -> float:
        """Mean bonus of an episode; NaN without episodes."""
        return _ratio(self.bonus, self.episodes)

    @property
    def compliance(self) -> float:
        """Pooled compliance: compliant fixes of all judged ones; NaN if there are none."""
        return _ratio(self.ok, self.judged)

    @property
    def contested_compliance(self) -> float:
        """The same over fixes at which the order made a difference."""
        return _ratio(self.contested_ok, self.contested)

    @property
    def contested_share(self) -> float:
        """Share of judged fixes at which the order made a difference."""
        return _ratio(self.contested, self.judged)

    @property
    def judged_per_episode(self) -> float:
        """Judged fixes of an episode."""
        return _ratio(self.judged, self.episodes)

    @property
    def idle_per_episode(self) -> float:
        """Fixes of an episode while nothing was open."""
        return _ratio(self.idle, self.episodes)

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def as_json(self) -> dict[str, JSON]:
        """The sums as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, JSON]) -> Counts:
        """The counts that `as_json` wrote."""
        return cls(**{f.name: values[f.name] for f in fields(cls)})


def pooled(counts: Iterable[Counts]) -> Counts:
    """All episodes together."""
    return sum(counts, Counts())


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.nan
