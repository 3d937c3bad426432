"""The distribution that suits an action space."""

from __future__ import annotations

import numpy as np

from briskrl.algos.distributions.categorical import Categorical
from briskrl.algos.distributions.gaussian import Gaussian
from briskrl.algos.distributions.subset import Subset
from briskrl.core.spec import ActionSpec, BoxSpec, DiscreteSpec, SubsetSpec


def distribution_of(action: ActionSpec) -> Categorical | Subset | Gaussian:
    """The distribution that fits an action space."""
    if isinstance(action, BoxSpec):
        return Gaussian(int(np.prod(action.shape)))
    if isinstance(action, SubsetSpec):
        return Subset(action.n, action.k)
    if isinstance(action, DiscreteSpec):
        return Categorical([action.n], single=True)
    return Categorical(action.nvec, single=False)
