"""Findings from observation alone: slow starts, memory leaks, expensive phases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import erfc, sqrt

import numpy as np
from numpy.typing import NDArray

from briskrl.doctor.observation import Observation, Window
from briskrl.doctor.report.records import Finding, Gain

SLOW_START, LOST_S = 1.5, 0.5
"""A slow start: cost of a step over its steady cost, and the total time lost."""
LEAK_MB = 16.0
P_VALUE = 1e-3
"""Significance level of trends."""
EXPENSIVE_STORE = 5.0
"""Cost of storing over that of one batched write from which it is reported."""
SHARE = 0.1
"""Share of the time below which a phase is not reported."""
MOSTLY_ENV, LARGELY_ENV = 0.6, 1 / 3
"""Share of the time from which an environment is reported: always, and if its steps are slow."""
SLOW_STEP_S = 10e-6
"""Cost of a step in plain Python; compiled or vectorized steps take a tenth."""
MANY_UPDATES, MANY_IN_A_ROW = 1.0, 2.0
"""Updates per transition above the usual maximum: SAC does one; and updates per iteration from
which fewer are advised, because more environments do not make them cheaper."""
BUFFERED_BYTES = 1_000
"""Growth of memory per transition that a replay buffer which is still filling explains."""

Floats = NDArray[np.float64]


def symptoms(
    seen: Observation,
    *,
    num_envs: int,
    write_s: Callable[[], float],
    sample_s: Callable[[], float],
) -> list[Finding]:
    """Findings that need no experiment.

    Args:
        seen: Observation from the loop's first iteration.
        num_envs: Transitions per iteration.
        write_s: Measures the seconds of one batched write of `num_envs` transitions; called only
            if storing takes long.
        sample_s: Measures the seconds of drawing a batch from arrays; called only if needed.
    """
    found = [
        cold_start(seen),
        leak(seen),
        expensive_store(seen, num_envs, write_s, sample_s),
        expensive_logging(seen),
        mostly_env(seen),
    ]
    return [finding for finding in found if finding is not None]


def cold_start(seen: Observation) -> Finding | None:
    """A finding if the first windows were much slower than the rest."""
    usual = seen.s_per_step
    slow = _leading(
        seen.learning, lambda window: window.turn.own_s > SLOW_START * usual * window.turn.steps
    )
    lost_s = sum(window.turn.own_s - usual * window.turn.steps for window in slow)
    if lost_s < LOST_S or len(slow) == len(seen.learning):
        return None
    times = slow[0].turn.own_s / (usual * slow[0].turn.steps)
    lasted = sum(window.turn.own_s for window in slow)
    return Finding(
        cause="cold-start",
        title=f"the first {lasted:.1f} s are up to {times:.1f} times slower than the rest",
        evidence=(
            f"{lost_s:.1f} s lost before a step reaches its steady cost of {1e6 * usual:.2f} us",
        ),
        advice="compile, allocate and touch everything before training starts; "
        "`brisk train` does this with --warmup",
        # The gain depends on the length of the run; this is the gain of the first minute.
        gain=_exactly(60 / max(1.0, 60 - lost_s)),
        basis="predicted",
        changes={"warmup": True},
    )


def leak(seen: Observation) -> Finding | None:
    """A finding if memory grows steadily."""
    windows = seen.learning
    if len(windows) < 8:
        return None
    at = np.array([window.at_s for window in windows])
    size = np.array([window.rss_mb for window in windows])
    late = len(size) // 3
    rate, p_value = trend(at[late:], size[late:])
    grown = rate * float(at[-1] - at[late])
    steady = rate > 0.25 * (size[-1] - size[0]) / max(1e-9, at[-1] - at[0])
    if p_value > P_VALUE or grown < LEAK_MB / 2 or size[-1] - size[0] < LEAK_MB or not steady:
        return None
    per_step = grown * 2**20 / max(1, windows[-1].steps - windows[late].steps)
    if seen.own_share("store") and per_step < BUFFERED_BYTES:
        return None
    return Finding(
        cause="leak",
        title=f"memory grows by {60 * rate:,.0f} MB per minute",
        evidence=(
            f"{size[0]:,.0f} MB at first, {size[-1]:,.0f} MB after {at[-1] - at[0]:.0f} s, "
            "rising steadily",
        ),
        advice="find out what is kept per step or episode; allocate buffers once",
        gain=_exactly(1.0),
        basis="predicted",
    )


def expensive_store(
    seen: Observation,
    num_envs: int,
    write_s: Callable[[], float],
    sample_s: Callable[[], float],
) -> Finding | None:
    """A finding if storing costs much more than one batched write.

    A memory of single transitions is usually sampled one by one as well. If sampling is expensive
    too, the same change may save both: the gain is that of both, its interval starts at storing.
    """
    share = seen.own_share("store")
    if share < SHARE:
        return None
    reference = write_s()
    taken = share * seen.s_per_step * num_envs
    if taken < EXPENSIVE_STORE * reference:
        return None
    also, sample_evidence = _expensive_sample(seen, sample_s)
    kept = reference / taken * share
    low, high = seen.share_range("store")
    gain = _without(share - kept + also, (low - kept, high - kept + also))
    return Finding(
        cause="store",
        title=f"storing transitions takes {100 * share:.0f} % of the time",
        evidence=(
            f"{num_envs} transitions take {1e6 * taken:,.0f} us to store; one batched write of as "
            f"many takes {1e6 * reference:,.0f} us here",
            *sample_evidence,
        ),
        advice="store each vector step in one batched write instead of one transition at a time",
        gain=gain,
        basis="predicted",
    )


def _expensive_sample(
    seen: Observation, sample_s: Callable[[], float]
) -> tuple[float, tuple[str, ...]]:
    """Share of the time that sampling from arrays would save, and the evidence for it."""
    calls = next((row.calls for row in seen.phases if row.name == "sample"), 0)
    share = seen.own_share("sample")
    if not calls:
        return 0.0, ()
    reference, taken = sample_s(), share * seen.s_per_step * 1e6 / calls
    if taken < EXPENSIVE_STORE * reference:
        return 0.0, ()
    evidence = f"a sample takes {1e6 * taken:,.0f} us, from arrays {1e6 * reference:,.0f} us here"
    return share * (1 - reference / taken), (evidence,)


def expensive_logging(seen: Observation) -> Finding | None:
    """A finding if logging or saving takes long, with its cause: per step or per episode."""
    shares = {phase: seen.own_share(phase) for phase in ("log", "save")}
    share, phase = sum(shares.values()), max(shares, key=lambda name: shares[name])
    if share < SHARE:
        return None
    cause, evidence = record_cause(seen)
    return Finding(
        cause=cause if evidence else phase,
        title=f"{'logging' if phase == 'log' else 'saving'} takes {100 * share:.0f} % of the time",
        evidence=(evidence,) if evidence else (),
        advice="buffer rows and write them every few seconds; print just as rarely",
        gain=_without(share, seen.share_range("log", "save")),
        basis="predicted",
    )


def record_cause(seen: Observation) -> tuple[str, str]:
    """Whether writes go with iterations or with episodes, and the evidence for it.

    The one with the more constant ratio to the number of writes wins.
    """
    pairs = list(pairwise(seen.learning))
    writes = np.array([(b.writes or 0) - (a.writes or 0) for a, b in pairs], float)
    iterations = np.array([b.turn.iterations for _, b in pairs], float)
    episodes = np.array([(b.episodes or 0) - (a.episodes or 0) for a, b in pairs], float)
    if len(pairs) < 3 or writes.sum() < 0.1 * iterations.sum():
        return "log", ""
    per_iteration = writes.sum() / iterations.sum()
    if episodes.sum() and _ratio_error(writes, episodes) < _ratio_error(writes, iterations):
        evidence = f"{writes.sum() / episodes.sum():.1f} system writes per episode"
        return "write-per-episode", evidence
    return "write-per-step", f"{per_iteration:.1f} system writes per iteration"


def _ratio_error(above: Floats, below: Floats) -> float:
    """Relative deviation of one count from a fixed multiple of another."""
    left = above - below * (above.sum() / below.sum())
    return float(np.abs(left).sum() / above.sum())


def mostly_env(seen: Observation) -> Finding | None:
    """A finding if the environment takes most of the time."""
    share = seen.own_share("env")
    is_slow = share * seen.s_per_step >= SLOW_STEP_S
    if share < (LARGELY_ENV if is_slow else MOSTLY_ENV):
        return None
    return Finding(
        cause="env",
        title=f"the environment takes {100 * share:.0f} % of the time",
        evidence=(f"{1e6 * share * seen.s_per_step:,.2f} us per step",),
        advice="make the environment itself faster: profile it (--profile cprofile), step many in "
        "one call, compile its inner loop",
        gain=_exactly(1 / max(1e-3, 1 - share)),
        basis="ceiling",
    )


def many_updates(seen: Observation) -> Finding | None:
    """A finding if a loop does more than one update per transition, or several per iteration.

    For loops whose update ratio cannot be changed in an experiment.
    """
    turns = [window.turn for window in seen.steady]
    updates, steps = sum(turn.updates for turn in turns), sum(turn.steps for turn in turns)
    ratio = updates / max(1, steps)
    per_iteration = updates / max(1, sum(turn.iterations for turn in turns))
    share = seen.own_share("update") + seen.own_share("sample")
    if (ratio <= MANY_UPDATES and per_iteration < MANY_IN_A_ROW) or share < SHARE:
        return None
    usual = MANY_UPDATES if ratio > MANY_UPDATES else ratio / per_iteration

    def gain(fewer: float) -> Gain:
        low, high = (end * (1 - fewer / ratio) for end in seen.share_range("update", "sample"))
        return _without(share * (1 - fewer / ratio), (low, high))

    return Finding(
        cause="updates",
        title=f"learning takes {100 * share:.0f} % of the time",
        evidence=(_ratios(ratio, per_iteration, gain),),
        advice="one update per transition or fewer"
        if ratio > MANY_UPDATES
        else "one update per iteration, if as much is still learned",
        gain=gain(usual),
        basis="predicted",
        alters_learning="fewer updates per transition: cheaper steps, less learned from each",
    )


def _ratios(ratio: float, per_iteration: float, gain: Callable[[float], Gain]) -> str:
    """The ratio of updates, and the gains of smaller ones."""
    if ratio <= MANY_UPDATES:
        return f"{per_iteration:.3g} updates per iteration, {ratio:.2g} per transition"
    return (
        f"{ratio:.2f} updates per transition; with one in 4 transitions it would be "
        f"{gain(1 / 4).factor:.1f} times as fast, with one in 32 "
        f"{gain(1 / 32).factor:.1f} times"
    )


def trend(at: Floats, value: Floats) -> tuple[float, float]:
    """The median rate of change over all pairs (Theil-Sen estimator), and its p-value.

    The p-value is that of Kendall's rank correlation test, two-sided, by its normal approximation.
    """
    rows, columns = np.triu_indices(len(at), 1)
    run, rise = at[columns] - at[rows], value[columns] - value[rows]
    apart = run > 0
    rate = float(np.median(rise[apart] / run[apart])) if apart.any() else 0.0
    count = len(at)
    score = float(np.sign(rise).sum())
    deviation = sqrt(count * (count - 1) * (2 * count + 5) / 18)
    return rate, erfc(abs(score) / deviation / sqrt(2))


def _leading(windows: Sequence[Window], is_slow: Callable[[Window], bool]) -> Sequence[Window]:
    for position, window in enumerate(windows):
        if not is_slow(window):
            return windows[:position]
    return windows


def windows_after_start(seen: Observation) -> Sequence[Window]:
    """Windows after a slow start, which would look like a falling trend."""
    usual = seen.s_per_step
    windows = seen.learning
    slow = _leading(windows, lambda s: s.turn.own_s > SLOW_START * usual * s.turn.steps)
    return windows[len(slow) :]


def _without(share: float, ends: tuple[float, float]) -> Gain:
    """The gain of removing a share of the time, with the gains at the ends of its range."""
    return Gain(*(1 / (1 - min(0.999, max(0.0, part))) for part in (share, *ends)))


def _exactly(factor: float) -> Gain:
    """A gain without an interval."""
    return Gain(factor, factor, factor)
