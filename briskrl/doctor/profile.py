"""Profile a loop by Python function, torch operator or sampled stack."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, get_args

from briskrl.core.errors import ConfigError
from briskrl.doctor.paired_turns import Loop, take_turn
from briskrl.doctor.py_spy import error_message, sample_with_py_spy

Kind = Literal["cprofile", "torch", "pyspy"]
KINDS: tuple[str, ...] = get_args(Kind)
TOP = 20
"""Entries in the report."""
TRACED_S = 3.0
"""Longest torch trace: every operator is an event, so long traces are huge."""
LITTLE = 0.2
"""Share of the time below which torch operators are not where it is spent."""

Entry = dict[str, Any]
Profile = dict[str, Any]


def profile(loop: Loop, kind: str, seconds: float, folder: Path) -> Profile:
    """Profile a loop and save the raw profile.

    Returns:
        `kind`; the profiled `seconds` and `steps`; the saved `files`; `top`, the entries with most
        time of their own (`name`, `calls`, `own_s`, `total_s` and `share` of all profiled time;
        `calls` is None if they are not counted); and `why`, a warning or error, usually empty.

    Args:
        loop: The loop; it continues from its current state.
        kind: One of KINDS.
        seconds: Approximate time.
        folder: Folder of the files; created if missing.

    Raises:
        ConfigError: There is no such kind.
    """
    if kind not in KINDS:
        raise ConfigError(f"Unknown profiler {kind!r}; choose one of {', '.join(KINDS)}.")
    makers: dict[str, Callable[[Loop, float, Path], Profile]] = {
        "cprofile": _by_cprofile,
        "torch": _by_torch,
        "pyspy": _by_py_spy,
    }
    made: Profile = {"kind": kind, "seconds": 0.0, "steps": 0, "files": [], "top": [], "why": ""}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # The first turn includes one-time work such as compiling.
        take_turn(loop, 0.0)
        made |= makers[kind](loop, seconds, folder)
    except OSError as error:
        made["why"] = f"the profile cannot be saved in {folder}: {error}"
    return made


def _by_cprofile(loop: Loop, seconds: float, folder: Path) -> Profile:
    """Every call of the iterating thread; short calls look more expensive than they are."""
    path = folder / "profile.pstats"
    profiler = cProfile.Profile()
    try:
        profiler.enable()
    except ValueError as error:
        return {"why": f"cProfile cannot start: {error}"}
    try:
        ran = _run(loop, seconds)
    finally:
        profiler.disable()
    profiler.dump_stats(path)
    stats = pstats.Stats(profiler)
    # The stubs of pstats lack these attributes.
    table: dict[tuple[str, int, str], tuple[int, int, float, float, object]]
    table, whole = stats.stats, stats.total_tt  # type: ignore[attr-defined]
    entries = [
        {"name": _function(*key), "calls": calls, "own_s": own, "total_s": total}
        for key, (_, calls, own, total, _) in table.items()
    ]
    return ran | {"files": [str(path)], "top": _most_expensive(entries, whole)}


def _by_torch(loop: Loop, seconds: float, folder: Path) -> Profile:
    """Every operator of torch on the CPU, with a trace for Perfetto or chrome://tracing."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as traced

    path = folder / "profile.trace.json.gz"
    with traced(activities=[ProfilerActivity.CPU]) as tracer:
        ran = _run(loop, min(seconds, TRACED_S))
    tracer.export_chrome_trace(str(path))
    entries = [
        {
            "name": event.key,
            "calls": event.count,
            "own_s": event.self_cpu_time_total / 1e6,
            "total_s": event.cpu_time_total / 1e6,
        }
        for event in tracer.key_averages()
    ]
    spent = sum(entry["own_s"] for entry in entries)
    why = ""
    if spent < LITTLE * ran["seconds"]:
        why = (
            f"torch operators took {100 * spent / ran['seconds']:.0f} % of the time; the rest "
            "is Python or compiled code, which this profiler does not record"
        )
    top = _most_expensive(entries, ran["seconds"])
    return ran | {"files": [str(path)], "top": top, "why": why}


def _by_py_spy(loop: Loop, seconds: float, folder: Path) -> Profile:
    """Samples of all threads by py-spy, which does not slow the loop down."""
    path = folder / "profile.speedscope.json"
    before = loop.steps
    loop.enter()
    try:
        began = perf_counter()
        seen = sample_with_py_spy(loop.iterate, seconds, path)
        took = perf_counter() - began
    finally:
        loop.leave()
    if isinstance(seen, str):
        return {"why": error_message(seen)}
    entries = [
        {
            "name": _function(frame.file, frame.line, frame.name),
            "calls": None,
            "own_s": frame.own_s,
            "total_s": frame.total_s,
        }
        for frame in seen
    ]
    whole = sum(frame.own_s for frame in seen)
    return {
        "seconds": took,
        "steps": loop.steps - before,
        "files": [str(path)],
        "top": _most_expensive(entries, whole),
    }


def _run(loop: Loop, seconds: float) -> Profile:
    """Run the loop; returns the seconds and steps."""
    turn = take_turn(loop, seconds)
    return {"seconds": turn.wall_s, "steps": turn.steps}


def _most_expensive(entries: list[Entry], whole_s: float) -> list[Entry]:
    """The entries with most time of their own, with their shares of the whole."""
    ordered = sorted(entries, key=lambda entry: (-entry["own_s"], entry["name"]))
    return [entry | {"share": entry["own_s"] / max(whole_s, 1e-9)} for entry in ordered[:TOP]]


def _function(file: str, line: int, name: str) -> str:
    """A function with the last folders of its file."""
    if file in ("~", ""):
        return name
    return f"{'/'.join(Path(file).parts[-4:])}:{line} {name}"
