"""Settings of the stop rules; imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

StopRule = Literal["gate-then-plateau", "gate", "fixed"]
Reason = Literal["error", "budget", "cap", "converged", "compliant", "plateau"]
"""Why training has ended: its episodes are spent (those of the whole search, or its own), the
return does not improve any more, it is compliant, or compliance does not improve any more."""


@dataclass(frozen=True, slots=True)
class StopConfig:
    """When training under one workflow ends."""

    stop_rule: StopRule = "gate-then-plateau"
    """gate-then-plateau: when the workflow is obeyed and returns do not improve any more; gate: as
    soon as it is obeyed, which scores policies before they have converged; fixed: only when the
    episodes are spent. The first two also end when a workflow that is not obeyed is not obeyed
    better for a while."""
    reward_patience: Annotated[int, Meta(ge=1)] = 10
    """Updates without a better mean return after which an obedient policy has converged."""
    compliance_patience: Annotated[int, Meta(ge=1)] = 12
    """Updates without better compliance after which training gives up."""
    gate_min_judged: Annotated[int, Meta(ge=1)] = 200
    """Fixes that compliance is judged by, at least."""
    gate_min_episodes: Annotated[int, Meta(ge=1)] = 100
    """Episodes that compliance is judged by, at least."""
    gate_min_fixes: Annotated[float, Meta(ge=0)] = 1.0
    """Judged fixes per episode of a policy that is not just idle, at least."""
