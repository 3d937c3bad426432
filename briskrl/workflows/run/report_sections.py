"""The sections of a report about one run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from briskrl.cluster.statistics import Aggregate
from briskrl.core.format import format_duration, format_figures
from briskrl.plots.workflows import (
    Expected,
    PairCell,
    ScoredPoint,
    exposure_bars,
    pair_heat_map,
    posterior_curve,
    score_against_compliance,
    search_paths,
)
from briskrl.workflows.run.evaluation_plan import Evaluated
from briskrl.workflows.run.landscape import Landscape, landscape_of
from briskrl.workflows.run.outcome import Outcome
from briskrl.workflows.run.report_document import Block, Picture, Section, Table
from briskrl.workflows.run.results import latest_per_workflow
from briskrl.workflows.run.stop_rules import obeys

MOST_ROWS = 60
"""Workflows in a table; workflows.csv and sweep.csv have the rest."""
_INTERVAL_95 = 1.96
_MODES = {
    "search": "Search for the best workflow",
    "joint": "Joint training under all workflows",
    "train": "Training under one workflow",
    "ppo": "Plain PPO",
}


def sections_of(outcome: Outcome) -> Iterator[Section]:
    """All sections about a run, as far as there is something to show."""
    yield _overview(outcome)
    yield _answers(outcome)
    if outcome.ranking:
        landscape = landscape_of(outcome)
        yield _workflows(outcome)
        if landscape is not None:
            yield _model(outcome, landscape)
        yield _competition(outcome, landscape)
        yield _exposure(outcome)
    yield _files(outcome)


def _overview(outcome: Outcome) -> Section:
    info, config = outcome.info, outcome.info.config
    setup = info.setup
    task = ", ".join(f"{k} {v}" for k, v in config.env_config.task_config.items())
    rows = [
        ("", ""),
        ("task", f"{config.task}{f' ({task})' if task else ''}"),
        ("categories", ", ".join(setup.space.categories)),
        ("workflows", f"{setup.space.size:,}, {len(outcome.ranking)} of them evaluated"),
        ("constraints", ", ".join(setup.space.require) or "none"),
        (
            "episodes",
            f"{outcome.episodes:,} of {config.total_episodes:,}, and {outcome.outside_episodes:,} "
            "outside for the closing evaluation and plain PPO",
        ),
        ("strategy", _strategy(outcome)),
        ("seed", str(config.seed)),
        ("state", outcome.stopped),
        ("CPU time", format_duration(outcome.cpu_s)),
    ]
    return Section(f"{_MODES[info.mode]}", [Table(rows)])


def _strategy(outcome: Outcome) -> str:
    config = outcome.info.config
    if outcome.info.mode == "joint":
        return "one policy for all workflows"
    return f"{config.searcher.strategy}, warm start {config.warm_start}, {config.stop.stop_rule}"


def _answers(outcome: Outcome) -> Section:
    """The three questions, in plain words."""
    blocks: list[Block] = [_best_words(outcome)]
    if outcome.ranking:
        blocks.append(f"Does the order matter? {outcome.order_effect.reason}")
        blocks.append(_second_words(outcome))
    blocks.append(_plain_words(outcome))
    return Section("Answers", blocks)


def _best_words(outcome: Outcome) -> str:
    best = outcome.best
    if best is None:
        return "No workflow has been evaluated."
    counts = best.evaluated.counts
    kind = "closing episodes" if best.is_closing else "evaluation episodes (no closing one yet)"
    score = (
        f"score {interval(best.interval)} over {counts.episodes:,} {kind}, compliance "
        f"{share(counts.compliance)}, contested compliance {share(counts.contested_compliance)}"
    )
    if best.ranked.feasible:
        return f"Best workflow: {best.workflow} (id {best.workflow.id}), {score}."
    return (
        f"No workflow was obeyed well enough. The most compliant one is {best.workflow} (id "
        f"{best.workflow.id}), {score}. It is not a recommendation."
    )


def _second_words(outcome: Outcome) -> str:
    found, differs = outcome.difference, outcome.runner_up_differs
    if found is None or differs is None:
        return "There is no second workflow to compare the best one with."
    words = "differs from" if differs else "cannot be told from"
    return (
        f"Is the best better than the second best? The best workflow {words} the second best, "
        f"{outcome.finalists[1].workflow}: the difference is {interval(found)} over the same "
        "episodes."
    )


def _plain_words(outcome: Outcome) -> str:
    plain, difference = outcome.plain_ppo, outcome.plain_difference
    if plain is None:
        return (
            "Plain PPO was not trained in this run. To compare with it: brisk workflow baseline "
            "--kind ppo with the same settings, or --plain-ppo yes."
        )
    text = (
        f"Plain PPO, without workflows, scores {interval(plain[1])} after the same number of "
        "episodes."
    )
    if difference is None:
        return text
    better = "no difference can be told"
    if difference.low is not None and difference.low > 0:
        better = "the workflow scores higher"
    elif difference.high is not None and difference.high < 0:
        better = "plain PPO scores higher"
    return f"{text} Best workflow minus plain PPO: {interval(difference)}, so {better}."


def _workflows(outcome: Outcome) -> Section:
    setup = outcome.info.setup
    names = {flow.id: name for name, flow in setup.space.named.items()}
    rows: list[tuple[str, ...]] = [
        ("", "id", "workflow", "score", "compliance", "contested", "contested share", "obeyed")
    ]
    latest = latest_per_workflow(outcome.scored)
    points = []
    for place, ranked in enumerate(outcome.ranking, 1):
        one = latest[ranked.workflow.id].evaluated
        assert one is not None
        counts, half = one.counts, _INTERVAL_95 * one.score_se
        obeyed = obeys(counts, setup.config.stop, setup.threshold)
        label = names.get(ranked.workflow.id, f"{ranked.workflow.id}")
        points.append(
            ScoredPoint(
                label, counts.compliance, one.score, one.score - half, one.score + half, obeyed
            )
        )
        rows.append(
            (
                str(place),
                str(ranked.workflow.id),
                str(ranked.workflow),
                f"{format_figures(one.score)} +- {format_figures(half)}",
                share(counts.compliance),
                share(counts.contested_compliance),
                share(counts.contested_share),
                "yes" if obeyed else "no",
            )
        )
    shown = [point for point in points if point.compliance == point.compliance]
    blocks: list[Block] = [
        "Scores are mean returns of the environment, without the bonus, over the evaluation "
        "episodes of the search, with 95 % intervals. All workflows played the same episodes. "
        "Workflows are ranked by the score that the model of the search expects."
    ]
    if shown:
        blocks.append(
            Picture(
                "score_compliance",
                score_against_compliance(shown, threshold=setup.threshold),
                "Score against compliance; green: obeyed. The dashed line is the threshold.",
            )
        )
    blocks.append(Table(rows[: MOST_ROWS + 1]))
    if len(rows) > MOST_ROWS + 1:
        blocks.append(f"{len(rows) - MOST_ROWS - 1} more are in the tables of the run.")
    return Section("Evaluated workflows", blocks)


def _model(outcome: Outcome, landscape: Landscape) -> Section:
    known = {ranked.workflow.id: ranked.score for ranked in outcome.ranking}
    order = np.argsort(-landscape.mean, kind="stable")
    expected = [
        Expected(
            float(landscape.mean[k]), float(landscape.std[k]), known.get(int(landscape.ids[k]))
        )
        for k in order
    ]
    picture = Picture(
        "posterior",
        posterior_curve(expected),
        f"What a Gaussian process ({landscape.kernel} kernel) expects of all "
        f"{len(landscape.ids)} workflows.",
    )
    blocks: list[Block] = [picture]
    if outcome.info.mode == "search":
        paths = landscape.paths([one.workflow_id for one in outcome.scored])
        blocks.append(
            Picture(
                "search_path",
                search_paths(paths),
                "Best expected score so far. Random and exhaustive search are computed on the "
                "expected scores of all workflows; they were not run.",
            )
        )
    return Section("All workflows by the model", blocks)


def _competition(outcome: Outcome, landscape: Landscape | None) -> Section:
    setup, counts = outcome.info.setup, outcome.pair_counts
    latest = latest_per_workflow(outcome.scored).values()
    judged = sum(one.evaluated.counts.judged for one in latest if one.evaluated is not None)
    cells = [
        PairCell(
            i,
            j,
            int(counts[i, j]) / judged if judged else 0.0,
            None if landscape is None else landscape.pair_value(i, j),
        )
        for i in range(setup.space.m)
        for j in range(i + 1, setup.space.m)
    ]
    names = setup.space.categories
    rows: list[tuple[str, ...]] = [("first", "second", "share of fixes", "value of this order")]
    for cell in sorted(cells, key=lambda cell: -cell.share):
        value = "-" if cell.value is None else f"{cell.value:+.3g}"
        rows.append((names[cell.first], names[cell.second], f"{cell.share:.1%}", value))
    words = (
        "An order matters only where two categories are open at a fix. The value is the mean "
        "expected score of all workflows with the first category before the second, minus that of "
        "the others."
    )
    picture = Picture(
        "pairs",
        pair_heat_map(names, cells),
        "Share of judged fixes at which both categories were open; the number is the value of "
        "putting the row before the column.",
    )
    return Section("Which categories compete", [words, picture, Table(rows)])


def _exposure(outcome: Outcome) -> Section:
    names = outcome.info.setup.space.categories
    shares = {
        str(one.workflow): [share for share, _, _ in one.evaluated.exposure]
        for one in outcome.finalists
    }
    rows: list[tuple[str, ...]] = [("workflow", *names)]
    for one in outcome.finalists:
        rows.append((str(one.workflow), *_exposure_cells(one.evaluated)))
    picture = Picture("exposure", exposure_bars(names, shares), "How long categories stay open.")
    return Section(
        "Exposure per category",
        [
            "Mean share of steps that a category is open and, in parentheses, the mean number of "
            "steps until it is closed again.",
            picture,
            Table(rows),
        ],
    )


def _exposure_cells(one: Evaluated) -> Iterator[str]:
    for portion, length, spells in one.exposure:
        yield f"{portion:.1%} ({length:.1f})" if spells else "never"


def _files(outcome: Outcome) -> Section:
    return Section(
        "Reproduce",
        [
            f"Settings: workflow.toml in {outcome.info.folder.name}. Events and results: "
            "ledger.jsonl. Tables: updates.csv, workflows.csv, search.csv, pairs.csv, "
            "exposure.csv. Policies: the run folders in jobs/, for brisk play and brisk eval."
        ],
    )


def interval(found: Aggregate) -> str:
    """A mean with its 95 % interval."""
    if found.low is None or found.high is None:
        return format_figures(found.value)
    return (
        f"{format_figures(found.value)} [{format_figures(found.low)}, {format_figures(found.high)}]"
    )


def share(value: float) -> str:
    """A compliance, which may be unknown."""
    return "-" if value != value else f"{value:.3f}"
