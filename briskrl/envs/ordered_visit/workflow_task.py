"""Ordered visit as a task with workflows: the regions are categories, open until visited."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from briskrl.core.errors import ConfigError
from briskrl.core.types import Array, Bools, Ints
from briskrl.envs.ordered_visit.config import OrderedVisitConfig
from briskrl.envs.ordered_visit.env import OrderedVisitVecEnv
from briskrl.envs.ordered_visit.layout import hidden_order


class OrderedVisitTask:
    """Open: a region that is not visited yet. Addressed: the region that a step enters first.

    Args:
        config: Settings of the environments.
    """

    def __init__(self, config: OrderedVisitConfig) -> None:
        self.categories = config.names
        self.named = {"hidden": hidden_order(config).order}

    def bind(self, venv: Any) -> None:
        """See WorkflowTask.

        Raises:
            ConfigError: They are other environments.
        """
        if not isinstance(venv, OrderedVisitVecEnv):
            raise ConfigError(
                f"The task ordered-visit is for ordered visit, not for {type(venv).__name__}."
            )
        self._venv = venv
        noted = venv.incidents
        self._open = noted[:, : len(self.categories)].view(np.bool_)
        self._entered = noted[:, 7].view(np.int8)

    def open_mask(self) -> Bools:
        """See WorkflowTask."""
        return self._open

    def addressed(self, actions: Array) -> NDArray[np.int8]:
        """See WorkflowTask."""
        return self._entered

    def fix(self, required: Ints, rng: np.random.Generator) -> Ints:
        """See Oracle: the next move of a shortest way."""
        return self._venv.moves_towards(required)
