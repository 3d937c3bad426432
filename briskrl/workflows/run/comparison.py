"""The sections of a report about several runs: groups of runs that differ in their seeds alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from briskrl.cluster.statistics import Aggregate, aggregate, mean
from briskrl.core.config import to_dict
from briskrl.core.types import JSON
from briskrl.plots import ScoreRow, score_intervals
from briskrl.workflows.run.folder import MAY_CHANGE
from briskrl.workflows.run.outcome import Outcome
from briskrl.workflows.run.report_document import Block, Picture, Section, Table
from briskrl.workflows.run.report_sections import interval, share

_OF_ONE_RUN = ("seed", "run_dir", *MAY_CHANGE)
"""Settings in which runs of a group may differ."""


@dataclass(frozen=True, slots=True)
class Group:
    """Runs with the same settings and other seeds."""

    name: str
    outcomes: tuple[Outcome, ...]

    @property
    def best_scores(self) -> list[float]:
        """Closing score of the best workflow of every run that has one."""
        found = [outcome.best for outcome in self.outcomes]
        return [one.interval.value for one in found if one is not None]

    @property
    def plain_scores(self) -> list[float]:
        """Score of plain PPO of every run that has one."""
        found = [outcome.plain_ppo for outcome in self.outcomes]
        return [one[1].value for one in found if one is not None]

    @property
    def differences(self) -> list[float]:
        """Best workflow minus plain PPO, of every run that has both."""
        found = [outcome.plain_difference for outcome in self.outcomes]
        return [one.value for one in found if one is not None]


def group_runs(outcomes: Sequence[Outcome]) -> list[Group]:
    """Groups of runs, named by the settings in which they differ."""
    keyed: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        key = json.dumps(_settings(outcome), sort_keys=True, default=str)
        keyed.setdefault(key, []).append(outcome)
    flat = [_flat(_settings(runs[0])) for runs in keyed.values()]
    names = sorted({name for one in flat for name in one})
    differing = [n for n in names if len({str(one.get(n)) for one in flat}) > 1]
    groups = []
    for one, runs in zip(flat, keyed.values(), strict=True):
        known = [name for name in differing if name in one]
        words = ", ".join(f"{name.rpartition('.')[2]} {one[name]}" for name in known)
        groups.append(Group(words or runs[0].info.config.task, tuple(runs)))
    return groups


def over_seeds(values: Sequence[float]) -> Aggregate | None:
    """The mean over runs with its 95 % bootstrap interval; None without runs."""
    return aggregate(values, mean) if values else None


def comparison_sections(outcomes: Sequence[Outcome]) -> Iterator[Section]:
    """All sections about several runs."""
    groups = group_runs(outcomes)
    yield _scores(groups)
    yield _plain(groups)
    yield _runs(outcomes)


def _scores(groups: Sequence[Group]) -> Section:
    rows: list[tuple[str, ...]] = [("group", "runs", "best workflow", "plain PPO", "difference")]
    marks = []
    for group in groups:
        best, plain = over_seeds(group.best_scores), over_seeds(group.plain_scores)
        rows.append(
            (
                group.name,
                str(len(group.outcomes)),
                _interval(best),
                _interval(plain),
                _interval(over_seeds(group.differences)),
            )
        )
        for label, found, scores in (
            ("best workflow", best, group.best_scores),
            ("plain PPO", plain, group.plain_scores),
        ):
            if found is not None:
                name = f"{label}: {group.name}"
                marks.append(ScoreRow(name, found.value, found.low, found.high, tuple(scores)))
    blocks: list[Block] = [
        "Scores are means of the closing evaluations over runs that differ in their seeds alone, "
        "with 95 % bootstrap intervals over runs.",
        Table(rows),
    ]
    if marks:
        picture = score_intervals(marks, x_label="score, mean over runs and 95 % interval")
        blocks.append(Picture("scores", picture, "Scores of the groups; a mark per run."))
    return Section("Groups of runs", blocks)


def _plain(groups: Sequence[Group]) -> Section:
    blocks: list[Block] = []
    for group in groups:
        found = over_seeds(group.differences)
        if found is None:
            blocks.append(f"{group.name}: no run has plain PPO to compare with.")
            continue
        verdict = "no difference can be told"
        if found.low is not None and found.low > 0:
            verdict = "the best workflow scores higher than plain PPO"
        elif found.high is not None and found.high < 0:
            verdict = "plain PPO scores higher than the best workflow"
        elif found.low is None:
            verdict = "one run says nothing about other seeds"
        blocks.append(f"{group.name}: best workflow minus plain PPO {interval(found)}; {verdict}.")
    return Section("Best workflow against plain PPO", blocks)


def _runs(outcomes: Sequence[Outcome]) -> Section:
    rows: list[tuple[str, ...]] = [
        ("run", "seed", "best workflow", "score", "compliance", "contested", "order matters")
    ]
    for outcome in outcomes:
        best = outcome.best
        matters = {True: "yes", False: "no", None: "-"}[
            outcome.order_effect.matters if outcome.ranking else None
        ]
        cells = ("-", "-", "-", "-")
        if best is not None:
            counts = best.evaluated.counts
            cells = (
                f"{best.workflow}{'' if best.ranked.feasible else ' (not obeyed)'}",
                interval(best.interval),
                share(counts.compliance),
                share(counts.contested_compliance),
            )
        rows.append((outcome.info.folder.name, str(outcome.info.config.seed), *cells, matters))
    return Section("Runs", [Table(rows)])


def _settings(outcome: Outcome) -> dict[str, JSON]:
    config = to_dict(outcome.info.config)
    kept = {name: value for name, value in config.items() if name not in _OF_ONE_RUN}
    return {"mode": outcome.info.mode, **kept}


def _flat(values: dict[str, JSON], prefix: str = "") -> dict[str, JSON]:
    found: dict[str, JSON] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found


def _interval(found: Aggregate | None) -> str:
    return "-" if found is None else interval(found)
