"""Statistics that observations are normalized by, of networks that learn from a replay buffer.

The buffer holds observations as they are, and they are normalized whenever a network reads them. So
new statistics apply to old transitions, too. They are used from certain moments on only: acting and
updates may be under way in two threads, and both must normalize alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from briskrl.algos.kernels.moments import merge_moments
from briskrl.algos.normalize import RunningMoments
from briskrl.core.types import Array
from briskrl.nets.bodies import InputScaling
from briskrl.nets.replica_group import ReplicaGroup

GROWTH = 0.05
"""Statistics are renewed when this share of observations has been added: often in the beginning and
rarely later, because every renewal changes what the networks see."""


class InputStatistics:
    """Collects observations and sets the scaling of networks' inputs.

    Args:
        size: Elements of an observation.
        inputs: The input layers of all networks that read observations.
        group: Replicas, whose observations count, too.
    """

    def __init__(
        self, size: int, inputs: Sequence[InputScaling], group: ReplicaGroup | None = None
    ) -> None:
        self._inputs = inputs
        self._group = group
        self._used = RunningMoments(size)
        self._recent = RunningMoments(size)

    @property
    def is_empty(self) -> bool:
        """Whether no observation has been added."""
        return not (self._used.count or self._recent.count)

    def add(self, obs: Array) -> None:
        """Add observations (N, *obs); networks do not use them yet."""
        self._recent.add(obs)

    def renew_if_due(self) -> bool:
        """Use all observations so far if they are some more than before; returns whether.

        Replicas only renew together, by `renew`.
        """
        due = self._recent.count > GROWTH * self._used.count
        if not due or self._group is not None:
            return False
        self.renew()
        return True

    def renew(self) -> None:
        """Use all observations so far, and those of all replicas."""
        moments = _stacked(self._used)
        recent = _stacked(self._recent)
        merge_moments(moments, recent[None] if self._group is None else self._group.gather(recent))
        self._used.count[...] = moments[0, 0]
        self._used.mean[:], self._used.squares[:] = moments[:, 1], moments[:, 2]
        self._recent = RunningMoments(len(moments))
        self._apply()

    def used(self) -> dict[str, Array]:
        """Copies of the statistics in use, which a policy needs."""
        return self._used.arrays()

    def recent(self) -> dict[str, Array]:
        """Copies of those that are not used yet."""
        return {f"recent.{name}": value for name, value in self._recent.arrays().items()}

    def load(self, used: dict[str, Array], recent: dict[str, Array]) -> None:
        """Restore what `used` and `recent` returned.

        Raises:
            InvalidStateError: They are of other observations, or impossible.
        """
        self._used.load(used)
        prefix = "recent."
        named = {n.removeprefix(prefix): a for n, a in recent.items() if n.startswith(prefix)}
        self._recent.load(named)
        self._apply()

    def _apply(self) -> None:
        for inputs in self._inputs:
            inputs.set_moments(self._used.mean, self._used.deviation)


def _stacked(moments: RunningMoments) -> Array:
    """Count, mean and sum of squared deviations (F, 3)."""
    count = np.full_like(moments.mean, moments.count)
    return np.stack([count, moments.mean, moments.squares], axis=1)
