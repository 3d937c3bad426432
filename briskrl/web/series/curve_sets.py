"""Charts of several runs: a line per run, or the mean and interval per group."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from briskrl.cluster.group_names import describe_group
from briskrl.cluster.groups import RunGroup
from briskrl.cluster.run_settings import describe_settings, differing, identity
from briskrl.plots.run_metrics import LABELS, mean_line
from briskrl.training.storage.episode_log import Clock
from briskrl.web.responses import encode
from briskrl.web.run_index import Entry
from briskrl.web.series.bins import Table
from briskrl.web.series.run_series import Curve, RunSeries, SeriesCache

USUAL = (
    *("score", "return", "eval", "loss", "entropy", "epsilon", "updates_per_transition"),
    *("steps_per_s", "memory_mb", "machine_fraction"),
)
"""Metrics that are drawn unless others are asked for, in this order."""
MOST_POINTS, FEWEST_POINTS, ALL_POINTS = 800, 120, 6000
"""Places of a line, and of all lines of a chart together."""
GROUP_POINTS = 200
READ_S = 0.4
"""Seconds that one request reads on in logs that have not been read to their end."""
MOST_ANSWERS = 40
"""Answers that are kept."""
SEEDS = "seeds"
"""Grouping of runs that differ in their seeds only."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a chart shall show."""

    metrics: tuple[str, ...]
    clock: Clock
    group: str
    """Empty for a line per run, `SEEDS`, or the name of a setting."""
    window: tuple[float, float] | None = None


class CurveAnswers:
    """Answers about curves as JSON: made once, however many pages ask while nothing has changed."""

    def __init__(self, cache: SeriesCache) -> None:
        self._cache = cache
        self._kept: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()
        self._lock = threading.Lock()

    def answer(self, entries: Sequence[Entry], wanted: Wanted) -> bytes:
        """Read on in the logs, and return the charts; see `curve_set`."""
        series = _read_on(entries, self._cache)
        state = tuple(one.state for one in series)
        # Runs are named after their folders, so their ids say all about them.
        key = (tuple(entry.id for entry in entries), wanted, state)
        with self._lock:
            found = self._kept.pop(key, None)
            if found is None:
                found = encode(_charts(entries, series, wanted))
            self._kept[key] = found
            while len(self._kept) > MOST_ANSWERS:
                self._kept.popitem(last=False)
            return found


def curve_set(entries: Sequence[Entry], cache: SeriesCache, wanted: Wanted) -> dict[str, Any]:
    """Charts as plain data; `progress` below 1 means that some lines come from samples so far."""
    return _charts(entries, _read_on(entries, cache), wanted)


def _read_on(entries: Sequence[Entry], cache: SeriesCache) -> list[RunSeries]:
    series = [cache.of(entry.folder) for entry in entries]
    deadline = time.monotonic() + READ_S
    for one in series:
        one.advance(deadline)
    return series


def _charts(
    entries: Sequence[Entry], series: Sequence[RunSeries], wanted: Wanted
) -> dict[str, Any]:
    available = _available(series)
    names = [name for name in wanted.metrics or USUAL if name in available]
    groups = _groups(entries, wanted.group)
    points = max(FEWEST_POINTS, min(MOST_POINTS, ALL_POINTS // max(1, len(series))))
    charts = []
    for name in names:
        curves = [one.curve(name, wanted.clock, points, wanted.window) for one in series]
        lines = _group_lines(groups, curves) if wanted.group else _run_lines(entries, curves)
        if lines:
            charts.append({"metric": name, "label": label_of(name), "lines": lines})
    return {
        "x": wanted.clock,
        "available": [{"metric": name, "label": label_of(name)} for name in available],
        "charts": charts,
        "progress": min([1.0, *(one.progress for one in series)]),
    }


def label_of(metric: str) -> str:
    """The name of a metric for people."""
    return LABELS.get(metric, metric.replace("_", " "))


def differences(entries: Sequence[Entry]) -> dict[str, Any]:
    """The settings that differ between runs: names, and a row of texts per run."""
    settings = [entry.settings for entry in entries]
    names = differing(settings) if settings else []
    seeds = {entry.settings.get("seed") for entry in entries}
    names += ["seed"] if len(seeds) > 1 else []
    rows = [
        {"id": entry.id, "name": entry.name, "values": [_text(entry, name) for name in names]}
        for entry in entries
    ]
    return {"names": names, "rows": rows}


def _text(entry: Entry, name: str) -> str:
    if name not in entry.settings:
        return ""
    return describe_settings(entry.settings, [name]).partition("=")[2]


def _available(series: Sequence[RunSeries]) -> list[str]:
    found = list(dict.fromkeys(name for one in series for name in one.names()))
    return sorted(found, key=lambda name: (USUAL.index(name) if name in USUAL else 99, name))


def _groups(entries: Sequence[Entry], group: str) -> Mapping[str, list[int]]:
    """Numbers of the runs by the name of their group."""
    if group == SEEDS:
        return _seed_groups(entries)
    found: dict[str, list[int]] = {}
    for number, entry in enumerate(entries):
        found.setdefault(describe_settings(entry.settings, [group]), []).append(number)
    return found


def _seed_groups(entries: Sequence[Entry]) -> Mapping[str, list[int]]:
    kinds: dict[str, list[int]] = {}
    for number, entry in enumerate(entries):
        kinds.setdefault(identity(entry.settings), []).append(number)
    # Damaged runs may lack both.
    nameless = {"env": None, "algo": None}
    groups = [RunGroup({**nameless, **entries[first].settings}) for first, *_ in kinds.values()]
    named: dict[str, list[int]] = {}
    for group, numbers in zip(groups, kinds.values(), strict=True):
        alone = f"{group.algo} on {group.env}"
        text = describe_group(group, groups) if len(groups) > 1 else alone
        named.setdefault(text, []).extend(numbers)
    return named


def _run_lines(entries: Sequence[Entry], curves: Sequence[Curve]) -> list[dict[str, Any]]:
    return [
        {
            "id": entry.id,
            "name": entry.name,
            "runs": 1,
            "exact": curve.exact,
            **_rounded(x=curve.x, mean=curve.mean, low=curve.low, high=curve.high),
        }
        for entry, curve in zip(entries, curves, strict=True)
        if len(curve.x)
    ]


def _group_lines(groups: Mapping[str, list[int]], curves: Sequence[Curve]) -> list[dict[str, Any]]:
    lines = []
    for name, numbers in groups.items():
        found = [curves[number] for number in numbers if len(curves[number].x)]
        if found:
            line = mean_line(name, [(one.x, one.mean) for one in found], GROUP_POINTS)
            tables = _rounded(
                x=np.array(line.x), mean=np.array(line.y), low=np.array(line.low),
                high=np.array(line.high),
            )  # fmt: skip
            exact = all(one.exact for one in found)
            lines.append({"id": name, "name": name, "runs": len(found), "exact": exact, **tables})
    return lines


def _rounded(**tables: Table) -> dict[str, list[float]]:
    """Seven digits: more than a screen has, in fewer bytes."""
    return {name: [float(f"{value:.7g}") for value in table] for name, table in tables.items()}
