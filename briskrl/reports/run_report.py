"""The report of one run: settings, curves, evaluation, phases, games, and how to repeat it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from briskrl.core.errors import BriskError, RunFolderError
from briskrl.core.format import format_count, format_duration, format_percent, format_score
from briskrl.core.state_checks import MALFORMED
from briskrl.core.types import JSON
from briskrl.envs.evaluation_suites import Games
from briskrl.export.card import train_command
from briskrl.plots.groups import importance_bars
from briskrl.plots.histogram import score_histogram
from briskrl.plots.html_page import (
    element,
    escape_text,
    figure,
    list_of,
    page_of,
    section,
    table_of,
)
from briskrl.plots.report import history_curve
from briskrl.plots.run_metrics import LABELS, USUAL, metrics_of, read_curve
from briskrl.training.changed_settings import changed_settings, read_config
from briskrl.training.evaluate import Agent, load_policy, play_games
from briskrl.training.game_video import data_url, game_gif
from briskrl.training.storage.line_files import read_jsonl
from briskrl.training.storage.run_dir import RunDir

EPISODES = 100
"""Fresh episodes of the evaluation in a report."""
STYLE = """
.games { display: flex; flex-wrap: wrap; gap: 1rem; }
.games img { max-width: 100%; image-rendering: pixelated; }
pre { background: var(--card); padding: 0.75rem; border-radius: 0.5rem; white-space: pre-wrap; }
td { white-space: normal; }
@media print {
  :root { color-scheme: light; --paper: #ffffff; --card: #f6f7f9; --ink: #1c2430; --soft: #5c6675;
    --line: #d9dde3; --wall: #2060b0; --cpu: #e07b00; }
  section, figure { break-inside: avoid; }
  main { max-width: none; }
}
"""
_Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class Played:
    """The evaluation of a report."""

    agent: Agent
    games: Games
    seed: int


def run_report(
    folder: Path,
    *,
    episodes: int = EPISODES,
    seed: int = 0,
    best: bool = False,
    trust: bool = False,
) -> str:
    """The report of a run as a page.

    Args:
        folder: The run folder, also of a run in training.
        episodes: Fresh episodes to evaluate; 0 leaves out the evaluation and the games.
        seed: Of the episodes.
        best: Evaluate the best policy of the evaluations during training.
        trust: See `load_policy`.

    Raises:
        RunFolderError: There is no run, or a file cannot be read.
    """
    config = read_config(folder)
    run = RunDir.open(folder)
    played = _play(folder, config, episodes, seed, best=best, trust=trust)
    status, meta = run.read_status(), run.read_meta()
    title = f"{config['algo']} on {config['env']}: {folder.resolve().name}"
    parts = [
        _head(config, status, meta, played),
        _settings(config),
        *_curves(folder),
        *_evaluation(played),
        *_games(played),
        *_phases(folder, status),
        *_doctor(folder),
        _reproduction(config, status, meta),
    ]
    return page_of(title, parts, style=STYLE)


def _play(
    folder: Path, config: Mapping[str, JSON], episodes: int, seed: int, *, best: bool, trust: bool
) -> Played | None:
    if not episodes or config["env"] == "given":
        return None
    try:
        agent = load_policy(folder, best=best, trust=trust)
    except RunFolderError:
        # The run has saved no policy yet.
        if best:
            raise
        return None
    return Played(agent, play_games(agent, episodes=episodes, seed=seed), seed)


def _head(
    config: Mapping[str, JSON],
    status: Mapping[str, JSON],
    meta: Mapping[str, JSON],
    played: Played | None,
) -> str:
    facts = [
        ("state", str(meta.get("exit_reason") or status.get("state") or "not started")),
        ("steps", f"{int(status.get('env_steps') or 0):,}"),
        ("episodes", f"{int(status.get('episodes') or 0):,}"),
        ("time", f"{_seconds(status, 'wall_s')}, {_seconds(status, 'cpu_s')} of CPU"),
        ("seed", str(config.get("seed", 0))),
    ]
    if played is not None:
        scores = played.games.score
        margin = _Z * scores.std() / len(scores) ** 0.5
        text = f"{scores.mean():.2f} ± {margin:.2f}, over {len(scores):,} fresh episodes"
        facts.insert(0, ("score", text))
    elif status.get("mean_score") is not None:
        text = f"{format_score(status['mean_score'])}, mean of the last training episodes"
        facts.insert(0, ("score", text))
    return element("section", _pairs(facts))


def _seconds(status: Mapping[str, JSON], name: str) -> str:
    return format_duration(float(status.get(name) or 0.0))


def _pairs(facts: list[tuple[str, str]]) -> str:
    rows = [
        element("div", element("dt", escape_text(name)), element("dd", escape_text(text)))
        for name, text in facts
    ]
    return element("dl", *rows)


def _settings(config: Mapping[str, JSON]) -> str:
    """Differences from the defaults first, then everything."""
    changed = [(name, _show(value)) for name, value in changed_settings(config).items()]
    flat: dict[str, JSON] = {}
    for name, value in config.items():
        flat |= (
            {f"{name}.{k}": v for k, v in value.items()}
            if isinstance(value, dict)
            else {name: value}
        )
    every = table_of(("setting", "value"), [(name, _show(value)) for name, value in flat.items()])
    summary = element("summary", f"All {len(flat)} settings")
    return section(
        "Settings",
        element("p", "Those that differ from the defaults:"),
        table_of(("setting", "value"), changed or [("(none)", "")]),
        element("details", summary, every),
    )


def _show(value: JSON) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _curves(folder: Path) -> Iterator[str]:
    charts = []
    for name in [name for name in USUAL if name in metrics_of(folder)]:
        places, values = read_curve(folder, name, "env_steps")
        if len(places) > 1:
            points = list(zip(places.tolist(), values.tolist(), strict=True))
            from_zero = name in ("steps_per_s", "epsilon")
            label = LABELS.get(name, name).capitalize()
            chart = history_curve("environment steps", points, from_zero=from_zero)
            charts.append(figure(label, chart, escape_text(label)))
    if charts:
        yield section("Curves", element("div", *charts, class_="plots"))


def _evaluation(played: Played | None) -> Iterator[str]:
    if played is None:
        return
    games = played.games
    rows = [_statistics("score", games.score), _statistics("return", games.returns)]
    rows.append(_statistics("steps", games.steps))
    rows.append(_statistics("won", games.won))
    chart = score_histogram(games.score.tolist(), x_label="score", mark=float(games.score.mean()))
    caption = escape_text(
        f"Scores of {len(games.score):,} fresh episodes, played greedily; the dashed line is "
        "the mean"
    )
    heads = ("", "mean", "95 % interval", "spread", "lowest", "median", "highest")
    yield section("Evaluation", table_of(heads, rows), figure("Scores", chart, caption))


def _statistics(name: str, values: Any) -> tuple[str, ...]:
    margin = _Z * values.std() / len(values) ** 0.5
    mean = float(values.mean())
    interval = f"{mean - margin:.2f} to {mean + margin:.2f}"
    three = (float(values.min()), float(np.median(values)), float(values.max()))
    return (name, f"{mean:.2f}", interval, f"{values.std():.2f}", *(f"{one:g}" for one in three))


def _games(played: Played | None) -> Iterator[str]:
    """A median game and the best one."""
    if played is None:
        return
    scores = played.games.score
    order = np.argsort(scores, kind="stable")
    chosen = [("A median game", int(order[len(order) // 2])), ("The best game", int(order[-1]))]
    figures = []
    for name, episode in chosen:
        gif = game_gif(played.agent, seed=played.seed, episode=episode)
        if gif is None:
            return
        text = f"{name}: score {scores[episode]:g} in {played.games.steps[episode]:g} steps"
        image = element("img", src=data_url(gif), alt=text)
        figures.append(element("figure", image, element("figcaption", escape_text(text))))
    yield section("Games", element("div", *figures, class_="games"))


def _phases(folder: Path, status: Mapping[str, JSON]) -> Iterator[str]:
    phases: dict[str, float] = {}
    try:
        for row in read_jsonl(folder / "phases.jsonl"):
            phases = {name: float(value) for name, value in row.items() if name != "env_steps"}
    except (OSError, *MALFORMED):
        return
    total = sum(phases.values())
    if not total:
        return
    shares = [(name, seconds / total) for name, seconds in phases.items() if seconds / total > 1e-3]
    lines = [f"{format_count(float(status.get('steps_per_s') or 0))} transitions per second"]
    if status.get("machine_fraction") is not None:
        share = format_percent(float(status["machine_fraction"]))
        lines.append(f"{share} of the arithmetic that a core of this machine can do")
    yield section(
        "Where the time went",
        list_of("ul", [escape_text(line) for line in lines]),
        figure("Phases", importance_bars(shares), "Share of the time of the last session"),
    )


def _doctor(folder: Path) -> Iterator[str]:
    """The findings of the doctor, if it has examined this run."""
    path = folder / "doctor" / "report.json"
    try:
        report = json.loads(path.read_bytes()) if path.is_file() else None
        if report is None:
            return
        titles = [str(finding["title"]) for finding in report["findings"]]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if titles:
        yield section("Doctor", list_of("ul", [escape_text(title) for title in titles]))
    else:
        yield section("Doctor", element("p", "It found nothing that would make this run faster."))


def _reproduction(
    config: Mapping[str, JSON], status: Mapping[str, JSON], meta: Mapping[str, JSON]
) -> str:
    changed = changed_settings(config)
    steps = int(config.get("steps") or status.get("env_steps") or 0)
    command = train_command(str(config["env"]), str(config["algo"]), steps, changed)
    versions = meta.get("versions")
    found = list(versions.items()) if isinstance(versions, dict) else []
    found += [(name, _show(meta[name])) for name in _MACHINE if meta.get(name) is not None]
    found = [(str(name), str(value)) for name, value in found]
    return section(
        "How to repeat it",
        element("pre", escape_text(command)),
        element("p", escape_text("or, with every setting: brisk train --config config.toml")),
        table_of(("", ""), found) if found else "",
    )


_MACHINE = (
    *("git_commit", "platform", "cpu", "num_cpus", "threads"),
    *("start", "end", "exactness"),
)
"""Entries of meta.json that are shown, where a run has them."""


def check_report_path(path: Path) -> None:
    """Check that a report may be written, before episodes are played.

    Raises:
        BriskError: The folder does not exist, or the name does not end in .html.
    """
    if path.suffix.lower() not in (".html", ".htm"):
        raise BriskError(f"Reports are HTML pages: {path} must end in .html.")
    if not path.parent.is_dir():
        raise BriskError(f"Cannot write {path}: there is no folder {path.parent}.")
