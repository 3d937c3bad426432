"""What PPO does so that several replicas learn as one process would.

Every minibatch is that of all replicas together: its advantages are normalized by their common mean
and deviation, its gradient and its KL divergence are the means over the replicas. Minibatches of
all replicas have the same size, so that plain means are right.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from briskrl.algos.kernels.moments import merge_moments, moments_at, standardize_by
from briskrl.algos.ppo.engine import PPOEngine
from briskrl.core.types import Floats, Minibatch
from briskrl.nets.flat_parameters import FlatParameters, digest
from briskrl.nets.replica_group import ReplicaGroup


class PPOReplicas:
    """Exchanges with the other replicas what updates need.

    Args:
        flat: Parameters and gradients.
        group: The replicas.
    """

    def __init__(self, flat: FlatParameters, group: ReplicaGroup) -> None:
        self._flat = flat
        self._group = group
        self._moments = np.zeros((0, 3))
        self._next = 0

    def plan(self, minibatches: Sequence[Minibatch]) -> None:
        """Find the moments of the advantages of all updates that follow, in one exchange."""
        own = np.zeros((len(minibatches), 3))
        for moments, batch in zip(own, minibatches, strict=True):
            assert batch.indices is not None
            moments_at(batch.advantage, batch.indices, moments)
        self._moments, self._next = np.zeros_like(own), 0
        merge_moments(self._moments, self._group.gather(own))

    def standardize(self, advantage: Floats, out: Floats) -> None:
        """Normalize the advantages (B,) of the next planned minibatch into `out`."""
        standardize_by(advantage, self._moments[self._next], out)
        self._next += 1

    def average_gradient(self, engine: PPOEngine, divergence: float) -> float:
        """Average the gradient that an engine has computed; returns the mean KL divergence."""
        engine.collect_gradient()
        shared = self._flat.shared
        shared[-1] = divergence
        self._group.average(shared)
        # Reading a number waits for an accelerator.
        return float(shared[-1]) if divergence else 0.0

    def mean_over_envs(self, values: Floats) -> Floats:
        """The mean (T,) of values (T, N) over the environments of all replicas."""
        means: Floats = self._group.gather(values.mean(axis=1)).mean(axis=0, dtype=values.dtype)
        return means

    def digest(self) -> int:
        """A number that differs if the parameters do."""
        return digest(self._flat)
