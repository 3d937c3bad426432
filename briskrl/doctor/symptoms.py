"""What can be told from watching alone: slow starts, growing costs, leaks, dear phases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import erfc, sqrt

import numpy as np
from numpy.typing import NDArray

from briskrl.doctor.observation import Observation, Stretch
from briskrl.doctor.report.records import Finding, Gain

SLOW_START, LOST_S = 1.5, 0.5
"""How many times the settled cost a slow start is, and how much it must have cost in all."""
LEAK_MB = 16.0
SURE = 1e-3
"""Chance of a trend that is none."""
DEAR_STORE = 5.0
"""How many times a batched write storing must cost to be worth a word."""
SHARE = 0.1
"""Of the time, below which a phase is not worth a word."""
MOSTLY_ENV, LARGELY_ENV = 0.6, 1 / 3
"""Of the time, from which an environment is worth a word in any case, and if its steps are slow."""
SLOW_STEP_S = 10e-6
"""What a step takes in plain Python; compiled or vectorized ones take a tenth."""
MANY_UPDATES = 1.0
"""Updates per transition; more are unusual whatever the algorithm, where SAC does one."""

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
        seen: What was watched, from the loop's birth.
        num_envs: Transitions per iteration.
        write_s: Seconds that one batched write of as many transitions takes here; asked only if
            storing takes long.
        sample_s: Seconds that a sample from arrays takes here; asked likewise.
    """
    found = [
        cold_start(seen),
        leak(seen),
        dear_store(seen, num_envs, write_s, sample_s),
        dear_records(seen),
        mostly_env(seen),
    ]
    return [finding for finding in found if finding is not None]


def cold_start(seen: Observation) -> Finding | None:
    """Whether the first stretches were much slower than the rest."""
    usual = seen.s_per_step
    slow = _leading(
        seen.learning, lambda stretch: stretch.turn.own_s > SLOW_START * usual * stretch.turn.steps
    )
    lost_s = sum(stretch.turn.own_s - usual * stretch.turn.steps for stretch in slow)
    if lost_s < LOST_S or len(slow) == len(seen.learning):
        return None
    times = slow[0].turn.own_s / (usual * slow[0].turn.steps)
    lasted = sum(stretch.turn.own_s for stretch in slow)
    return Finding(
        cause="cold-start",
        title=f"the first {lasted:.1f} s are up to {times:.1f} times slower than the rest",
        evidence=(f"{lost_s:.1f} s lost before a step costs its usual {1e6 * usual:.2f} us",),
        advice="compile, allocate and touch everything before the clock starts; "
        "`brisk train` does with --warmup",
        # What a run gains depends on its length; this is what its first minute does.
        gain=_exactly(60 / max(1.0, 60 - lost_s)),
        basis="predicted",
        changes={"warmup": True},
    )


def leak(seen: Observation) -> Finding | None:
    """Whether the process grows all the time."""
    stretches = seen.learning
    if len(stretches) < 8:
        return None
    at = np.array([stretch.at_s for stretch in stretches])
    size = np.array([stretch.rss_mb for stretch in stretches])
    late = len(size) // 3
    slope, chance = trend(at[late:], size[late:])
    grown = slope * float(at[-1] - at[late])
    steady = slope > 0.25 * (size[-1] - size[0]) / max(1e-9, at[-1] - at[0])
    if chance > SURE or grown < LEAK_MB / 2 or size[-1] - size[0] < LEAK_MB or not steady:
        return None
    return Finding(
        cause="leak",
        title=f"memory grows by {60 * slope:,.0f} MB a minute",
        evidence=(
            f"{size[0]:,.0f} MB at first, {size[-1]:,.0f} MB after {at[-1] - at[0]:.0f} s, "
            "rising all the time",
        ),
        advice="find out what keeps every step or episode; memories should be allocated once",
        gain=_exactly(1.0),
        basis="predicted",
    )


def dear_store(
    seen: Observation,
    num_envs: int,
    write_s: Callable[[], float],
    sample_s: Callable[[], float],
) -> Finding | None:
    """Whether storing costs much more than one batched write.

    A memory of single transitions must also be sampled one by one. Where that is dear too, the same
    cure may save it, and the gain is that of both; its interval begins without.
    """
    share = seen.own_share("store")
    if share < SHARE:
        return None
    ours = write_s()
    taken = share * seen.s_per_step * num_envs
    if taken < DEAR_STORE * ours:
        return None
    also, told = _dear_sample(seen, sample_s)
    kept = ours / taken * share
    low, high = seen.share_range("store")
    gain = _without(share - kept + also, (low - kept, high - kept + also))
    return Finding(
        cause="store",
        title=f"storing transitions takes {100 * share:.0f} % of the time",
        evidence=(
            f"{num_envs} transitions take {1e6 * taken:,.0f} us to store; one batched write of as "
            f"many takes {1e6 * ours:,.0f} us here",
            *told,
        ),
        advice="write a vector step as one batch instead of pushing transitions one by one",
        gain=gain,
        basis="predicted",
    )


def _dear_sample(seen: Observation, sample_s: Callable[[], float]) -> tuple[float, tuple[str, ...]]:
    """Share of the time that sampling from arrays would save, and the sentence that says so."""
    calls = next((row.calls for row in seen.phases if row.name == "sample"), 0)
    share = seen.own_share("sample")
    if not calls:
        return 0.0, ()
    ours, taken = sample_s(), share * seen.s_per_step * 1e6 / calls
    if taken < DEAR_STORE * ours:
        return 0.0, ()
    told = f"a sample takes {1e6 * taken:,.0f} us, and from arrays {1e6 * ours:,.0f} us here"
    return share * (1 - ours / taken), (told,)


def dear_records(seen: Observation) -> Finding | None:
    """Whether logging or saving takes long, and whether that is by step or by episode."""
    shares = {phase: seen.own_share(phase) for phase in ("log", "save")}
    share, phase = sum(shares.values()), max(shares, key=lambda name: shares[name])
    if share < SHARE:
        return None
    cause, told = record_cause(seen)
    return Finding(
        cause=cause if told else phase,
        title=f"{'logging' if phase == 'log' else 'saving'} takes {100 * share:.0f} % of the time",
        evidence=(told,) if told else (),
        advice="collect rows and write them together every few seconds; print as seldom",
        gain=_without(share, seen.share_range("log", "save")),
        basis="predicted",
    )


def record_cause(seen: Observation) -> tuple[str, str]:
    """What the log writes after, and the sentence that says so.

    Writes are as many as iterations, or as episodes, if their ratio is the steadier of both.
    """
    pairs = list(pairwise(seen.learning))
    writes = np.array([(b.writes or 0) - (a.writes or 0) for a, b in pairs], float)
    iterations = np.array([b.turn.iterations for _, b in pairs], float)
    episodes = np.array([(b.episodes or 0) - (a.episodes or 0) for a, b in pairs], float)
    if len(pairs) < 3 or writes.sum() < 0.1 * iterations.sum():
        return "log", ""
    per_iteration = writes.sum() / iterations.sum()
    if episodes.sum() and _unrest(writes, episodes) < _unrest(writes, iterations):
        told = f"{writes.sum() / episodes.sum():.1f} writes to the system per episode"
        return "write-per-episode", told
    return "write-per-step", f"{per_iteration:.1f} writes to the system per iteration"


def _unrest(above: Floats, below: Floats) -> float:
    """How far one count is from being a fixed multiple of another, as a share."""
    left = above - below * (above.sum() / below.sum())
    return float(np.abs(left).sum() / above.sum())


def mostly_env(seen: Observation) -> Finding | None:
    """Whether the environment is what the time goes to."""
    share = seen.own_share("env")
    is_slow = share * seen.s_per_step >= SLOW_STEP_S
    if share < (LARGELY_ENV if is_slow else MOSTLY_ENV):
        return None
    return Finding(
        cause="env",
        title=f"the environment takes {100 * share:.0f} % of the time",
        evidence=(f"{1e6 * share * seen.s_per_step:,.2f} us a step",),
        advice="make the environment itself faster: profile it (--profile cprofile), step many in "
        "one call, compile its inner loop",
        gain=_exactly(1 / max(1e-3, 1 - share)),
        basis="ceiling",
    )


def many_updates(seen: Observation) -> Finding | None:
    """Whether a loop learns more often than once per transition, and what that costs.

    For loops that nobody here can change: an experiment would tell more.
    """
    turns = [stretch.turn for stretch in seen.settled]
    ratio = sum(turn.updates for turn in turns) / max(1, sum(turn.steps for turn in turns))
    share = seen.own_share("update") + seen.own_share("sample")
    if ratio <= MANY_UPDATES or share < SHARE:
        return None

    def gain(fewer: float) -> Gain:
        low, high = (end * (1 - fewer / ratio) for end in seen.share_range("update", "sample"))
        return _without(share * (1 - fewer / ratio), (low, high))

    return Finding(
        cause="updates",
        title=f"learning takes {100 * share:.0f} % of the time",
        evidence=(
            f"{ratio:.2f} updates per transition; with one in 4 transitions it would be "
            f"{gain(1 / 4).factor:.1f} times as fast, with one in 32 "
            f"{gain(1 / 32).factor:.1f} times",
        ),
        advice="one update per transition, or fewer: see the table of ratios in the README",
        gain=gain(MANY_UPDATES),
        basis="predicted",
        alters_learning="fewer updates per transition: steps are cheaper, and each teaches less",
    )


def trend(at: Floats, value: Floats) -> tuple[float, float]:
    """The median slope of all pairs (Theil and Sen), and the chance of such an order by accident.

    The chance is that of Kendall's count of rising over falling pairs, two-sided, by its normal
    approximation.
    """
    rows, columns = np.triu_indices(len(at), 1)
    run, rise = at[columns] - at[rows], value[columns] - value[rows]
    apart = run > 0
    slope = float(np.median(rise[apart] / run[apart])) if apart.any() else 0.0
    count = len(at)
    score = float(np.sign(rise).sum())
    deviation = sqrt(count * (count - 1) * (2 * count + 5) / 18)
    return slope, erfc(abs(score) / deviation / sqrt(2))


def _leading(stretches: Sequence[Stretch], is_slow: Callable[[Stretch], bool]) -> Sequence[Stretch]:
    for position, stretch in enumerate(stretches):
        if not is_slow(stretch):
            return stretches[:position]
    return stretches


def after_start(seen: Observation) -> Sequence[Stretch]:
    """Stretches after a slow start, whose end would look like a falling trend."""
    usual = seen.s_per_step
    stretches = seen.learning
    slow = _leading(stretches, lambda s: s.turn.own_s > SLOW_START * usual * s.turn.steps)
    return stretches[len(slow) :]


def _without(share: float, ends: tuple[float, float]) -> Gain:
    """The gain of a loop that loses a share of its time, which is between two ends."""
    return Gain(*(1 / (1 - min(0.999, max(0.0, part))) for part in (share, *ends)))


def _exactly(factor: float) -> Gain:
    """A gain that follows from figures and has no interval of its own."""
    return Gain(factor, factor, factor)
