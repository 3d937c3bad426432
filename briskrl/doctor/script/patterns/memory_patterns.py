"""Slow replay memories and copies: transitions one by one, samples from lists, items of tensors."""

from __future__ import annotations

from collections.abc import Iterator

from briskrl.doctor.reference_costs import batched_write_s, gathered_sample_s
from briskrl.doctor.report.records import Finding
from briskrl.doctor.script.costs import Costs, Lines, without
from briskrl.doctor.script.patterns import fixes
from briskrl.doctor.script.phases import Classified, is_own
from briskrl.doctor.script.source import called_name
from briskrl.doctor.script.tags import COPIES

SHARE = 0.08
"""Share of the time below which nothing is reported."""
EXPENSIVE = 4.0
"""Cost over that of an efficient implementation from which it is reported."""
OBS_SIZE = 16
"""Numbers per observation of the implementations that are measured for comparison."""


def memory_findings(costs: Costs) -> Iterator[Finding]:
    """Findings about storing, sampling and copying."""
    pushes = costs.loop_around(lambda item: item.phase == "store")
    if costs.seen.num_envs > 1 and pushes is not None:
        yield from _pushes(costs, pushes)
    yield from _samples(costs)
    copies = costs.loop_around(lambda item: _is_copy(item, costs))
    if copies is not None and (pushes is None or copies.location != pushes.location):
        yield from _copies(costs, copies)


def _pushes(costs: Costs, lines: Lines) -> Iterator[Finding]:
    share, num_envs = costs.share_of(lines), costs.seen.num_envs
    taken = costs.seconds_per_call(share)
    if share < SHARE:
        return
    reference = batched_write_s(num_envs, OBS_SIZE)
    if taken < EXPENSIVE * reference:
        return
    yield Finding(
        cause="store",
        title=f"storing transitions one by one takes {100 * share:.0f} % of the time",
        evidence=(
            f"{num_envs} transitions take {1e6 * taken:,.0f} us to store; one batched write of as "
            f"many takes {1e6 * reference:,.0f} us here",
        ),
        advice="store each vector step in one batched write, and copy tensors once, not per item",
        gain=without(share * (1 - reference / taken), costs.seen.total),
        basis="predicted",
        location=lines.location,
        source=costs.text(lines),
        fix=fixes.PUSH_BATCH,
    )


def _samples(costs: Costs) -> Iterator[Finding]:
    share = costs.share(_is_own_sample)
    if share < SHARE or not costs.seen.updates:
        return
    taken = share * costs.seen.own_s / costs.seen.updates
    reference = gathered_sample_s(OBS_SIZE, costs.seen.batch_size or 256)
    lines = costs.hottest(_is_own_sample)
    if taken < EXPENSIVE * reference or lines is None:
        return
    yield Finding(
        cause="sample",
        title=f"drawing minibatches takes {100 * share:.0f} % of the time",
        evidence=(
            f"a minibatch takes {1e6 * taken:,.0f} us; from arrays it takes "
            f"{1e6 * reference:,.0f} us here",
        ),
        advice="keep transitions in arrays and draw rows of them by one index array",
        gain=without(share * (1 - reference / taken), costs.seen.total),
        basis="predicted",
        location=lines.location,
        source=costs.text(lines),
        fix=fixes.SAMPLE_ARRAYS,
    )


def _is_own_sample(item: Classified) -> bool:
    """Whether a buffer of the script draws a minibatch; that of a package is not its to change."""
    frames = item.stack.loop_frames
    return item.phase == "sample" and bool(frames) and is_own(frames[0])


def _is_copy(item: Classified, costs: Costs) -> bool:
    """Whether a stack is in a call that takes numbers out of a tensor, in the user's code."""
    frame = item.site
    if frame is None or frame.place is None:
        return False
    call = costs.sources.of(frame.code.file).call_at(frame.place)
    return call is not None and COPIES.search(f".{called_name(call)}") is not None


def _copies(costs: Costs, lines: Lines) -> Iterator[Finding]:
    share = costs.share_of(lines)
    copying = costs.share(
        lambda item: _is_copy(item, costs) and any(map(lines.holds, item.stack.loop_frames))
    )
    updating = costs.share(
        lambda item: "update" in item.tags and any(map(lines.holds, item.stack.loop_frames))
    )
    if share < SHARE or copying < 0.15 * share or updating > 0.2 * share:
        return
    yield Finding(
        cause="device-copies",
        title=f"copying items of tensors one by one takes {100 * share:.0f} % of the time",
        evidence=(f"{1e6 * costs.seconds_per_call(share):,.0f} us per environment step",),
        advice="copy the whole tensor once, then work on the array",
        gain=without(share * 0.97, costs.seen.total),
        basis="predicted",
        location=lines.location,
        source=costs.text(lines),
        fix=fixes.ONE_COPY,
    )
