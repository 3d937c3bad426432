"""Finished episodes with their counters of compliance, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briskrl.core.types import Ints
from briskrl.envs.workflow.kernels import layout as k

EPISODES_KEPT = 64
"""Episodes per environment that the ring of records holds at least."""
SMALLEST_RING = 4096
_Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ComplianceRecords:
    """M finished episodes, in order of finishing; within a step by environment."""

    env: Ints
    """(M,): index of the environment."""
    workflow_id: Ints
    """(M,): the workflow that the episode had to follow."""
    env_return: _Reals
    """(M,): sum of the rewards of the environment, without the bonus."""
    bonus: _Reals
    """(M,): sum of the bonuses."""
    steps: Ints
    """(M,): length."""
    ok: Ints
    """(M,): compliant fixes."""
    judged: Ints
    """(M,): judged fixes."""
    idle: Ints
    """(M,): fixes while nothing was open."""
    contested: Ints
    """(M,): judged fixes while two or more categories were open."""
    contested_ok: Ints
    """(M,): compliant ones of these."""
    open_any: Ints
    """(M,): steps with an open category."""
    pairs: Ints
    """(M, m (m - 1) / 2): judged steps at which both categories were open, pairs i < j in the order
    of `numpy.triu_indices`."""
    open_steps: Ints
    """(M, m): steps at which each category was open."""
    spells: Ints
    """(M, m): how often each category was opened."""

    @property
    def count(self) -> int:
        """M."""
        return len(self.env)

    @property
    def compliance(self) -> float:
        """Pooled compliance: compliant among all judged fixes; NaN without any."""
        return ratio(self.ok.sum(), self.judged.sum())

    @property
    def contested_compliance(self) -> float:
        """Pooled compliance of the contested steps."""
        return ratio(self.contested_ok.sum(), self.contested.sum())

    @property
    def contested_share(self) -> float:
        """Contested share of the judged fixes."""
        return ratio(self.contested.sum(), self.judged.sum())

    @property
    def macro_compliance(self) -> float:
        """Mean compliance of the episodes that have one."""
        some = self.judged > 0
        return float((self.ok[some] / self.judged[some]).mean()) if some.any() else nan

    def of(self, which: Any) -> ComplianceRecords:
        """Some of the episodes, by indices, a slice or a mask."""
        return ComplianceRecords(*(getattr(self, field.name)[which] for field in fields(self)))

    @classmethod
    def concatenate(cls, parts: list[ComplianceRecords]) -> ComplianceRecords:
        """Several lists of episodes as one; there must be at least one list."""
        return cls(
            *(np.concatenate([getattr(p, field.name) for p in parts]) for field in fields(cls))
        )


def ratio(part: float, whole: float) -> float:
    """Part / whole; NaN if whole is 0."""
    return float(part / whole) if whole else nan


def new_ring(num_envs: int, m: int) -> _Reals:
    """Memory for the records of N environments."""
    columns = k.REC_SCALARS + m * (m - 1) // 2 + 2 * m
    return np.zeros((max(SMALLEST_RING, EPISODES_KEPT * num_envs), columns))


def records_of(rows: _Reals, m: int) -> ComplianceRecords:
    """Rows of the ring (M, columns), oldest first, as records."""
    counts = rows.astype(np.int64)
    pairs = k.REC_SCALARS + m * (m - 1) // 2
    return ComplianceRecords(
        env=counts[:, k.REC_ENV],
        workflow_id=counts[:, k.REC_ORDER_ID],
        env_return=rows[:, k.REC_RETURN].copy(),
        bonus=rows[:, k.REC_BONUS].copy(),
        steps=counts[:, k.REC_STEPS],
        ok=counts[:, k.REC_OK],
        judged=counts[:, k.REC_JUDGED],
        idle=counts[:, k.REC_IDLE],
        contested=counts[:, k.REC_CONTESTED],
        contested_ok=counts[:, k.REC_CONTESTED_OK],
        open_any=counts[:, k.REC_OPEN_ANY],
        pairs=counts[:, k.REC_SCALARS : pairs],
        open_steps=counts[:, pairs : pairs + m],
        spells=counts[:, pairs + m :],
    )
