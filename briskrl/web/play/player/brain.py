"""The policy that plays, with the numbers behind its actions."""

from __future__ import annotations

import numpy as np

from briskrl.algos.base import Policy
from briskrl.core.spec import EnvSpec
from briskrl.core.types import JSON, Array, StepBuffers
from briskrl.export.load import decisions_of

MOST_ACTIONS_SHOWN = 16
"""With more actions, only those with the largest numbers are sent."""
TOP = 6
PLACES = 4
"""Decimal places of numbers that are drawn."""


class Brain:
    """A policy fitted to one environment; a newer one can take its place.

    Args:
        policy: The policy as training saved it.
        spec: The environment.
    """

    def __init__(self, policy: Policy, spec: EnvSpec) -> None:
        self._spec = spec
        self.replace(policy)

    def replace(self, policy: Policy) -> None:
        """Play with another policy from the next decision on."""
        self.policy = policy.fitted(self._spec)
        """The policy, fitted."""
        self._decisions = decisions_of(self.policy, self._spec.obs, self._spec.action)

    def begin(self) -> None:
        """A new game begins."""
        if self.policy.restart:
            self.policy.restart(np.ones(1, np.bool_))

    def act(self, now: StepBuffers) -> Array:
        """The greedy action, (1,) or (1, D)."""
        return self.policy.act(now.obs, now.mask)

    def numbers(self, now: StepBuffers) -> dict[str, JSON]:
        """`values`, `probabilities` or `mean`, whichever the network gives; nothing if unknown.

        Few numbers are a list; of many, the largest are pairs of action and number under `top`.
        """
        outputs = self._decisions.outputs(now.obs.astype(np.float32, copy=False), now.mask)
        for name in ("values", "probabilities", "mean"):
            if name in outputs:
                return {name: _shown(outputs[name][0])}
        return {}


def short(number: float) -> float:
    """A number with the places that are drawn."""
    return round(float(number), PLACES)


def _shown(row: Array) -> JSON:
    if len(row) <= MOST_ACTIONS_SHOWN:
        return np.round(row.astype(np.float64), PLACES).tolist()
    top = np.argpartition(-row, TOP)[:TOP]
    top = top[np.argsort(-row[top], kind="stable")]
    return {"top": [[int(at), short(row[at])] for at in top]}
