"""When training under one workflow ends: the gate of compliance and the stop rules.

Everything here is a function of the counts of the updates so far, one `Counts` per update.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from briskrl.workflows.run.counts import Counts, pooled
from briskrl.workflows.run.stop_config import Reason, StopConfig

RETURN_SHARE, LEAST_RETURN_GAIN = 0.01, 0.1
"""An improvement of the mean return exceeds this share of it, and this number."""
COMPLIANCE_GAIN = 0.01
"""An improvement of compliance exceeds this."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Whether a policy obeys, by its most recent episodes."""

    passed: bool
    counts: Counts
    """Of the window: the last updates that hold enough episodes and fixes, or all there are."""
    enough: bool
    """Whether there are enough episodes and fixes."""


def judge_gate(course: Sequence[Counts], config: StopConfig, threshold: float) -> Gate:
    """Whether the most recent episodes comply; not enough of them means not.

    Args:
        course: Counts of every update so far.
        config: Size of the window.
        threshold: Pooled compliance to reach.
    """
    if not course:
        return Gate(passed=False, counts=Counts(), enough=False)
    first, enough = _windows(course, config)
    counts = pooled(course[first[-1] :])
    return Gate(bool(enough[-1]) and obeys(counts, config, threshold), counts, bool(enough[-1]))


def obeys(counts: Counts, config: StopConfig, threshold: float) -> bool:
    """Whether these episodes comply and hold enough fixes each."""
    return counts.compliance >= threshold and counts.judged_per_episode >= config.gate_min_fixes


def stop_reason(
    course: Sequence[Counts],
    config: StopConfig,
    *,
    threshold: float,
    cap: int,
    cap_is_budget: bool = False,
) -> Reason | None:
    """Why training ends after the last update; None if it goes on.

    Args:
        course: Counts of every update so far.
        config: The rule.
        threshold: Pooled compliance to reach.
        cap: Episodes to train at most.
        cap_is_budget: Whether the cap is what was left of the whole search.
    """
    if sum(counts.episodes for counts in course) >= cap:
        return "budget" if cap_is_budget else "cap"
    if config.stop_rule == "fixed" or not course:
        return None
    passed = judge_gate(course, config, threshold).passed
    if passed and config.stop_rule == "gate":
        return "compliant"
    returns, compliance = _window_means(course, config)
    if passed:
        return "converged" if _stalled_return(returns) >= config.reward_patience else None
    return "plateau" if _stalled_compliance(compliance) >= config.compliance_patience else None


def _windows(
    course: Sequence[Counts], config: StopConfig
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """First update of the window after each update (n,), and whether it holds enough."""
    starts, enough = np.zeros(len(course), np.int64), np.ones(len(course), np.bool_)
    starts[:] = np.arange(len(course))
    for column, least in (
        ([c.judged for c in course], config.gate_min_judged),
        ([c.episodes for c in course], config.gate_min_episodes),
    ):
        totals = np.concatenate(([0], np.cumsum(column)))
        # The last update before which so little had happened that the rest is enough.
        first = np.searchsorted(totals, totals[1:] - least, side="right") - 1
        enough &= first >= 0
        starts = np.minimum(starts, np.maximum(first, 0))
    return starts, enough


def _window_means(
    course: Sequence[Counts], config: StopConfig
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean return and pooled compliance of the window after each update (n,); NaN if unknown."""
    first, _ = _windows(course, config)
    last = np.arange(1, len(course) + 1)

    def window_sums(values: list[float]) -> NDArray[np.float64]:
        totals = np.concatenate(([0.0], np.cumsum(values)))
        found: NDArray[np.float64] = totals[last] - totals[first]
        return found

    with np.errstate(divide="ignore", invalid="ignore"):
        returns = window_sums([c.returns for c in course]) / window_sums(
            [c.episodes for c in course]
        )
        compliance = window_sums([c.ok for c in course]) / window_sums([c.judged for c in course])
    return returns, compliance


def _stalled_return(values: NDArray[np.float64]) -> int:
    """Updates since the mean return has improved by more than a hundredth."""
    return _stalled(values, lambda best: max(LEAST_RETURN_GAIN, RETURN_SHARE * abs(best)))


def _stalled_compliance(values: NDArray[np.float64]) -> int:
    """Updates since compliance has improved; without judged fixes, all of them."""
    return _stalled(values, lambda best: COMPLIANCE_GAIN)


def _stalled(values: NDArray[np.float64], gain: Callable[[float], float]) -> int:
    """Updates since the best value was exceeded by more than `gain` of it."""
    best, since = -math.inf, 0
    for value in values.tolist():
        if value > best and (math.isinf(best) or value > best + gain(best)):
            best, since = value, 0
        else:
            since += 1
    return since
