"""Too many updates, too small batches, too few environments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from briskrl.doctor.report.records import Finding
from briskrl.doctor.script.costs import Costs, Lines, without
from briskrl.doctor.script.network_costs import layers_of, update_s
from briskrl.doctor.script.observed import Observed
from briskrl.doctor.script.patterns import fixes
from briskrl.doctor.script.recording import Code
from briskrl.doctor.script.tags import EVALUATES

SHARE, ACTING = 0.3, 0.3
"""Shares of learning, and of acting, below which they are not reported."""
MANY, OFTEN = 2.0, 8.0
"""Updates per step from which fewer are advised; steps between updates up to which a method is
off-policy: those that learn from each rollout once need all of their updates."""
SMALL, SERIES = 16, 8.0
"""Rows of a small minibatch, and updates in a row from which larger ones are advised."""
LARGE, GROWN = 256, 8
"""Rows of a usual minibatch of rollouts; elsewhere minibatches of so many times the size are
advised."""
EVALUATING = 0.15
"""Share of the time in evaluations from which fewer are advised."""
FEW, ENOUGH = 4, 16
"""Environments that are few, and those that are advised."""


def learning_findings(costs: Costs) -> Iterator[Finding]:
    """Findings about the amount of work per transition."""
    yield from _many_updates(costs)
    yield from _small_batches(costs)
    yield from _few_envs(costs)
    yield from _evaluation(costs)


def _many_updates(costs: Costs) -> Iterator[Finding]:
    seen = costs.seen
    share = seen.share("update", "sample")
    per_call = seen.updates / seen.optimizers / max(1, seen.calls)
    if share < SHARE or per_call < MANY or seen.calls_per_round > OFTEN:
        return
    lines = costs.loop_around(lambda item: item.phase in ("update", "sample"))
    lines = lines or costs.hottest(lambda item: item.phase == "update")
    yield Finding(
        cause="updates",
        title=f"learning takes {100 * share:.0f} % of the time",
        evidence=(
            f"{per_call:.3g} updates per step of {seen.num_envs} "
            f"environment{'s' * (seen.num_envs > 1)}: {seen.updates_per_step:.3g} per transition",
        ),
        advice=f"one update per step instead of {per_call:.3g}, if as much is still learned",
        gain=without(share * (1 - 1 / per_call), seen.total),
        basis="predicted",
        alters_learning="fewer updates per transition: cheaper steps, less learned from each",
        location="" if lines is None else lines.location,
        source="" if lines is None else costs.text(lines),
        fix=fixes.FEWER_UPDATES,
    )


def _small_batches(costs: Costs) -> Iterator[Finding]:
    seen = costs.seen
    share, rows = seen.share("update", "sample"), seen.batch_size
    if rows is None or rows > SMALL or share < SHARE or seen.updates_per_round < SERIES:
        return
    lines = costs.loop_around(lambda item: item.phase == "update")
    is_rollout = seen.calls_per_round > OFTEN and seen.updates_per_round * rows >= LARGE
    # Items that are fitted one after another are a minibatch already.
    grown = max(GROWN, round(seen.updates_per_round)) if rows == 1 else GROWN
    times = LARGE // rows if is_rollout else grown
    dearer = _cost_of_larger(seen, rows, times * rows)
    yield Finding(
        cause="small-batch",
        title=f"minibatches of {rows} are too small to be efficient",
        evidence=(
            f"{seen.updates_per_round:.3g} updates in a row, {100 * share:.0f} % of the time; one "
            f"with {times * rows} rows costs {dearer:.2f} times as much here",
        ),
        advice=f"minibatches of {times * rows} and {times} times fewer updates",
        gain=without(share * (1 - dearer / times), seen.total),
        basis="predicted",
        alters_learning="fewer, larger updates: the learning rate may need to grow with them",
        location="" if lines is None else lines.location,
        source="" if lines is None else costs.text(lines),
        fix=fixes.LARGER_BATCHES.format(times=times),
    )


def _cost_of_larger(seen: Observed, rows: int, more: int) -> float:
    """Cost of an update with more rows over that of one with few, for networks of this size."""
    layers = layers_of(seen)
    return max(1.0, update_s(layers, more) / update_s(layers, rows)) if layers else 1.0


def _evaluation(costs: Costs) -> Iterator[Finding]:
    share = costs.seen.share("eval")
    if share < EVALUATING:
        return
    found: Counter[Code] = Counter()
    for item, ticks in costs.sampled(lambda item: item.phase == "eval"):
        for frame in item.stack.loop_frames:
            if EVALUATES.match(frame.code.name.rsplit(".", 1)[-1]):
                found[frame.code] += ticks
                break
    code = next((code for code, _ in found.most_common(1)), None)
    body = None if code is None else costs.sources.of(code.file).functions.get(code.line)
    lines = (
        None
        if code is None or body is None
        else Lines(code, body.lineno, body.end_lineno or body.lineno)
    )
    yield Finding(
        cause="eval",
        title=f"evaluation takes {100 * share:.0f} % of the time",
        evidence=("its environment steps are counted in the speed above",),
        advice="evaluate ten times less often, or after training from saved checkpoints",
        gain=without(share * 0.9, costs.seen.total),
        basis="predicted",
        location="" if lines is None else lines.location,
        source="" if lines is None else costs.text(lines),
        fix=fixes.RARE_EVALUATION,
    )


def _few_envs(costs: Costs) -> Iterator[Finding]:
    """Only where the script uses vector environments already: then it is a matter of a number."""
    seen = costs.seen
    counted = seen.windows[-1].end.counts["num_envs"] if seen.windows else 0
    share = seen.share("act")
    if not 0 < counted < FEW or share < ACTING:
        return
    fewer = counted / ENOUGH
    loop = 1 - seen.share("update", "sample", "log", "save")
    saved = loop * (1 - fewer)
    yield Finding(
        cause="few-envs",
        title=f"{counted} environment{'s' * (counted > 1)} at a time: calls cost more than work",
        evidence=(
            f"{100 * share:.0f} % of the time goes into choosing actions for {counted} "
            f"observation{'s' * (counted > 1)} at a time; {ENOUGH} cost about as much",
        ),
        advice=f"step {ENOUGH} environments together",
        gain=without(saved, seen.total),
        basis="predicted",
        alters_learning=f"{ENOUGH} environments: other data between two updates",
        fix=fixes.VECTOR_ENVS,
    )
