"""Sort and filter descriptions of runs, by their facts and settings."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from datetime import date, time
from fnmatch import fnmatchcase
from typing import Any

from briskrl.core.errors import BriskError, nearest
from briskrl.training.storage.run_files import CONFIG, RunFiles

Facts = dict[str, Any]
"""Facts about a run by name, and its settings under `settings`."""
ALIASES = {
    "steps": "env_steps",
    "score": "final_score",
    "training": "mean_score",
    "age": "age_s",
    "run": "run_dir",
}
"""Short names of facts, as in the head of the table."""

_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_CONDITION = re.compile(r"\s*([\w.-]+?)\s*(<=|>=|!=|=|<|>)\s*(.*?)\s*")


def flat_settings(files: RunFiles) -> dict[str, Any]:
    """Settings in the config of a run; those of tables under their own and their dotted name."""
    flat: dict[str, Any] = {}
    for name, value in files.table(CONFIG).items():
        if isinstance(value, dict):
            flat |= {f"{name}.{key}": one for key, one in value.items()}
        else:
            flat[name] = value
    return {name: _without_dates(value) for name, value in flat.items()}


def _without_dates(value: Any) -> Any:
    """The value with dates and times of TOML, which no setting has and JSON lacks, as text."""
    if isinstance(value, dict):
        return {key: _without_dates(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_without_dates(member) for member in value]
    return value.isoformat() if isinstance(value, date | time) else value


def look_up(run: Facts, name: str) -> Any:
    """A fact or a setting of a run; None if it has none of that name."""
    name = ALIASES.get(name, name)
    if name in run:
        return run[name]
    settings: dict[str, Any] = run["settings"]
    if name in settings:
        return settings[name]
    # `lr` stands for algo_config.lr if only one table has it.
    found = [value for key, value in settings.items() if key.rpartition(".")[2] == name]
    return found[0] if len(found) == 1 else None


def check_names(runs: Sequence[Facts], names: Sequence[str]) -> None:
    """Check that some run has a fact or setting of every name.

    Raises:
        BriskError: No run has one.
    """
    known = set(ALIASES).union(*(run.keys() | run["settings"].keys() for run in runs))
    known |= {name.rpartition(".")[2] for name in known}
    for name in names:
        if runs and name not in known - {"settings"}:
            raise BriskError(f"No run has {name!r}. {nearest(name, known - {'settings'})}")


def filter_runs(runs: Sequence[Facts], conditions: Sequence[str]) -> list[Facts]:
    """The runs that meet all conditions, such as `env=snake`, `score>40` or `algo!=dqn`.

    `=` and `!=` compare texts, with * and ? as wildcards, or numbers.

    Raises:
        BriskError: A condition has another form, or names something that no run has.
    """
    tests = [_parse(condition) for condition in conditions]
    check_names(runs, [name for name, _, _ in tests])
    return [
        run
        for run in runs
        if all(_holds(look_up(run, name), sign, value) for name, sign, value in tests)
    ]


def sort_runs(runs: Sequence[Facts], key: str) -> list[Facts]:
    """The runs in ascending order of a fact or setting; descending with a minus before its name.

    Runs without it come last.

    Raises:
        BriskError: No run has it.
    """
    name = key.removeprefix("-")
    check_names(runs, [name])
    known = [run for run in runs if look_up(run, name) is not None]
    others = [run for run in runs if look_up(run, name) is None]
    known.sort(key=lambda run: _sortable(look_up(run, name)), reverse=key.startswith("-"))
    return known + others


def _parse(condition: str) -> tuple[str, str, str]:
    found = _CONDITION.fullmatch(condition)
    if found is None or not found[3]:
        raise BriskError(
            f"--filter {condition!r} must have the form NAME=VALUE, NAME!=VALUE, NAME<VALUE or "
            "NAME>VALUE."
        )
    name, sign, value = found.groups()
    return name, sign, value


def _holds(found: Any, sign: str, value: str) -> bool:
    number = _number(value)
    if sign in _ORDER:
        ordered = isinstance(found, int | float) and number is not None
        return ordered and _ORDER[sign](found, number)
    if isinstance(found, int | float) and not isinstance(found, bool) and number is not None:
        equal = found == number
    else:
        equal = fnmatchcase(_text(found), value)
    return equal if sign == "=" else not equal


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _sortable(value: Any) -> tuple[int, float, str]:
    """Numbers before texts."""
    if isinstance(value, int | float):
        return 0, float(value), ""
    return 1, 0.0, _text(value)
