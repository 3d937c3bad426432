"""Test `brisk doctor -- python SCRIPT` on plain training scripts with and without planted faults.

    python benchmarks/doctor_scripts.py --set first --rounds 3 --out first.jsonl
    python benchmarks/doctor_scripts.py --set healthy --budget 60
    python benchmarks/doctor_scripts.py --report first.jsonl

The scripts are in benchmarks/doctor_scripts. Each one is examined as it is; its first finding must
be the planted fault. Then the script and its `--fixed` variant run in turns, apart from the
examination, and the ratio of their speeds is compared with the gain of the finding. Scripts without
a fault must have no finding. The table also holds the share of the time that phases cover, the
cost of watching, and the time that the examination took. `covered` includes functions and other
code of the script as phases, `named` does not.

Every set of faults has a file `faults.toml`:

- `kinds`: causes that name the fault correctly.
- `places`: where it is, as `[file, first line, last line, which]`. Lines are given by a text that
  they contain; the last line follows the first; `which` counts its occurrences from there.
- `anywhere = true`: the cause may have no place in the code.
- `warning`: for mistakes that cost no time, a pattern for one of the warnings; nothing else may be
  found.
- `rank = "any"`: the script has several faults; any finding may be this one.
- `arguments` of the script, and its flags that remove the fault: `fixed`.
- `gain = "none"`: the fault costs no time. `clock = "wall"`: it costs waiting.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Literal

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE / "doctor_scripts"
COVERED, WATCHING, NEAR, OVERRUN = 0.95, 1.03, 1.25, 1.2
"""Targets: covered share, slow-down by watching, ratio of gains, and of time to the budget."""
SHORT_STEPS = 600
"""Steps of a run that is all start-up; it is subtracted."""
LIMIT_S = 1200.0
"""Limit of any run."""

SETS = ("first", "second", "third", "healthy", "legacy")
Clock = Literal["cpu", "wall"]
Rank = Literal["first", "any"]
Examined = dict[tuple[str, ...], dict[str, Any]]
"""Reports by script and arguments."""


@dataclass(frozen=True, slots=True)
class Place:
    """Lines of a file."""

    file: str
    first: int
    last: int

    def overlaps(self, location: str) -> bool:
        """Whether `file.py:10-20` or `file.py:10` touches these lines."""
        found = re.fullmatch(r"(.*?):(\d+)(?:-(\d+))?", location)
        if found is None or Path(found[1]).name != self.file:
            return False
        first = int(found[2])
        return first <= self.last and int(found[3] or first) >= self.first


@dataclass(frozen=True, slots=True)
class Case:
    """A script and what is to be found in it."""

    script: Path
    kinds: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()
    anywhere: bool = False
    warning: str = ""
    rank: Rank = "first"
    gain: str = ""
    clock: Clock = "cpu"
    arguments: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ("--fixed",)
    healthy: bool = False

    def is_named_by(self, report: dict[str, Any]) -> bool:
        """Whether the first finding is the fault; for a healthy script, whether there is none."""
        if self.healthy:
            return not report["findings"]
        if self.warning:
            found = any(re.search(self.warning, text) for text in warnings_of(report))
            return found and not report["findings"]
        return self.finding_in(report["findings"]) is not None

    def finding_in(self, findings: list[dict[str, Any]]) -> dict[str, Any] | None:
        """The finding that names the fault."""
        considered = findings if self.rank == "any" else findings[:1]
        return next((finding for finding in considered if self._is(finding)), None)

    def _is(self, finding: dict[str, Any]) -> bool:
        location = finding["location"]
        placed = self.anywhere and not location
        placed = placed or any(place.overlaps(location) for place in self.places)
        return placed and finding["cause"] in self.kinds


def warnings_of(report: dict[str, Any]) -> list[str]:
    """The suspicious patterns of a report."""
    script = report.get("script") or {}
    return list(script.get("warnings", ()))


def read_place(folder: Path, file: str, first: str, last: str = "", which: int = 1) -> Place:
    """Line numbers of the texts.

    Raises:
        ValueError: A text is not in the file.
    """
    lines = (folder / file).read_text().splitlines()
    start = _line_with(lines, first, 0, 1)
    end = _line_with(lines, last, start, which) if last else start
    if start < 0 or end < 0:
        raise ValueError(f"{folder / file} has no line with {first!r}, or no {last!r} after it.")
    return Place(file, start + 1, end + 1)


def _line_with(lines: list[str], text: str, start: int, which: int) -> int:
    if start < 0:
        return -1
    found = [i for i in range(start, len(lines)) if text in lines[i]]
    return found[which - 1] if len(found) >= which else -1


def read_set(name: str) -> list[Case]:
    """The cases of a set."""
    if name == "healthy":
        return [Case(path, healthy=True) for path in sorted((SCRIPTS / name).glob("*.py"))]
    folder = HERE / "legacy" if name == "legacy" else SCRIPTS / name
    cases = []
    for entry in tomllib.loads((folder / "faults.toml").read_text())["fault"]:
        entry["script"] = folder / entry["script"]
        entry["places"] = tuple(read_place(folder, *place) for place in entry.get("places", ()))
        for key in ("kinds", "arguments", "fixed"):
            if key in entry:
                entry[key] = tuple(entry[key])
        cases.append(Case(**entry))
    return cases


def examine(case: Case, budget_s: float, folder: Path) -> dict[str, Any]:
    """Run the doctor on a script; returns its report and the time of the whole command."""
    brisk = Path(sys.executable).with_name("brisk")
    command = [str(brisk), "doctor", "--json", "--budget", f"{budget_s:g}", "--"]
    command += [sys.executable, str(case.script), *case.arguments]
    began = perf_counter()
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, timeout=LIMIT_S, check=False
    )
    took_s = perf_counter() - began
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError:
        return {"failed": done.stderr[-2000:], "exit_code": done.returncode, "wall_s": took_s}
    return {**report, "wall_s": took_s}


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a script by itself."""

    steps: int
    wall_s: float
    """As the script prints it, without start-up."""
    cpu_s: float
    """Of the process and its children, with start-up."""


def run_script(case: Case, arguments: Iterable[str], folder: Path) -> Run:
    """Run a script that prints `N steps in S s` at its end.

    Raises:
        RuntimeError: It fails, or does not print the line.
    """
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [sys.executable, str(case.script), *case.arguments, *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    found = re.findall(r"^(\d+) steps in ([\d.]+) s$", text, re.MULTILINE)
    if process.returncode or not found:
        raise RuntimeError(f"{case.script.name} failed ({process.returncode}): {text[-500:]}")
    steps, seconds = found[-1]
    return Run(int(steps), float(seconds), usage.ru_utime + usage.ru_stime)


def measure_gain(case: Case, rounds: int, steps: int | None, folder: Path) -> dict[str, Any]:
    """Speeds of the fixed script over those of the script, by both clocks, in alternating turns."""
    variants: tuple[tuple[str, ...], ...] = ((), case.fixed)
    idle = [run_script(case, (*extra, "--steps", str(SHORT_STEPS)), folder) for extra in variants]
    length = () if steps is None else ("--steps", str(steps))
    wall, cpu = [], []
    for _ in range(rounds):
        before, after = (run_script(case, (*extra, *length), folder) for extra in variants)
        wall.append(before.wall_s / before.steps / (after.wall_s / after.steps))
        slow, fast = (
            (run.cpu_s - start.cpu_s) / (run.steps - start.steps)
            for run, start in zip((before, after), idle, strict=True)
        )
        cpu.append(slow / fast)
    return {"wall": [round(x, 3) for x in wall], "cpu": [round(x, 3) for x in cpu]}


def study(case: Case, args: argparse.Namespace, examined: Examined) -> dict[str, Any]:
    """Examine a script and measure its fault; returns a row of results."""
    row: dict[str, Any] = {"set": args.set, "script": case.script.name, "budget_s": args.budget}
    key = (case.script.name, *case.arguments)
    with tempfile.TemporaryDirectory(prefix="doctor-scripts-") as name:
        folder = Path(name)
        if not args.only_gains:
            if key not in examined:
                examined[key] = examine(case, args.budget, folder)
            row |= _summary(case, examined[key])
        if args.rounds and not case.healthy:
            row["clock"] = case.clock
            row["separate"] = measure_gain(case, args.rounds, args.steps, folder)
            row["separate_gain"] = round(median(row["separate"][case.clock]), 3)
    row["gain_near"] = _is_near(case, row)
    return row


def _summary(case: Case, report: dict[str, Any]) -> dict[str, Any]:
    """What the table needs from a report."""
    if "failed" in report:
        return {"right": False, **report}
    script = report.get("script") or {}
    return {
        "right": case.is_named_by(report),
        "findings": [
            {key: finding[key] for key in ("cause", "location", "basis", "gain")}
            for finding in report["findings"]
        ],
        "warnings": warnings_of(report),
        "coverage": report["coverage"],
        "named": round(sum(row["share"] for row in report["phases"] if _is_part(row["name"])), 3),
        "cost": _cost(script),
        "wall_s": round(report["wall_s"], 1),
        "cores_busy": (report["speed"] or {}).get("cores_busy", 0.0),
        "load": report["load"],
    }


def _cost(script: dict[str, Any]) -> float | None:
    """Slow-down by watching and counting; None if it was not measured."""
    watching = script.get("watching")
    return None if watching is None else round(watching["factor"] + script["counting"], 4)


def _is_part(phase: str) -> bool:
    """Whether a phase is a part of training, not just a function or the code of the loop."""
    return phase not in ("loop", "other") and not phase.endswith("()")


def _is_near(case: Case, row: dict[str, Any]) -> bool | None:
    """Whether the gain of the right first finding is near that of the separate runs."""
    if "separate_gain" not in row or "right" not in row:
        return None
    found = None if case.gain == "none" else case.finding_in(row["findings"])
    if not row["right"] or (found is None and case.gain != "none"):
        return False
    promised = 1.0 if found is None else found["gain"]["factor"]
    return bool(1 / NEAR <= promised / row["separate_gain"] <= NEAR)


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as a table, with counts below."""
    head = (
        "script",
        "right",
        "first finding",
        "at",
        "gain",
        "separate",
        "covered",
        "named",
        "cost",
        "s",
    )
    cells = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]
    return "\n".join([*lines, "", *_counts(rows)])


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    first = next(iter(row.get("findings", ())), None)
    warning = next(iter(row.get("warnings", ())), "")[:30]
    promised = "" if first is None else f"{first['gain']['factor']:.2f}"
    return (
        row["script"],
        {True: "yes", False: "no", None: ""}[row.get("right")],
        "failed" if "failed" in row else warning if first is None else first["cause"],
        "" if first is None else first["location"],
        promised,
        f"{row['separate_gain']:.2f}" if "separate_gain" in row else "",
        f"{row['coverage']:.3f}" if "coverage" in row else "",
        f"{row['named']:.3f}" if "named" in row else "",
        f"{row['cost']:.3f}" if row.get("cost") else "",
        f"{row['wall_s']:.0f}" if "wall_s" in row else "",
    )


def _counts(rows: list[dict[str, Any]]) -> list[str]:
    def count(what: str, hits: list[bool]) -> str:
        return f"{what}: {sum(hits)} of {len(hits)}"

    covered = [row["coverage"] >= COVERED for row in rows if "coverage" in row]
    cheap = [row["cost"] <= WATCHING for row in rows if row.get("cost")]
    timely = [row["wall_s"] <= OVERRUN * row["budget_s"] for row in rows if "wall_s" in row]
    near = [row["gain_near"] for row in rows if row["gain_near"] is not None]
    right = [row["right"] for row in rows if "right" in row]
    return [
        count("right", right),
        count(f"gains within {NEAR - 1:.0%}", near),
        count(f"phases cover {COVERED:.0%}", covered),
        count(f"watching costs {WATCHING - 1:.0%} or less", cheap),
        count("in time", timely),
    ]


def main() -> None:
    """Study a set, or print the table of earlier results."""
    args = _parse_args()
    if args.report is not None:
        print(table([json.loads(line) for line in args.report.read_text().splitlines()]))
        return
    cases = [case for case in read_set(args.set) if not args.only or case.script.stem in args.only]
    rows: list[dict[str, Any]] = []
    examined: Examined = {}
    for case in cases:
        rows.append(study(case, args, examined))
        line = json.dumps(rows[-1])
        print(line, file=sys.stderr, flush=True)
        if args.out is not None:
            with args.out.open("a") as file:
                file.write(line + "\n")
    print(table(rows))


def _parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--set", choices=["first", "second", "third", "healthy", "legacy"], default="first"
    )
    parser.add_argument("--only", nargs="*", default=[], help="scripts, without .py")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds per examination")
    parser.add_argument("--rounds", type=int, default=2, help="pairs of separate runs; 0 for none")
    parser.add_argument("--steps", type=int, help="of the separate runs; default: the script's")
    parser.add_argument("--only-gains", action="store_true", help="separate runs only")
    parser.add_argument("--out", type=Path, help="JSONL file for the results")
    parser.add_argument("--report", type=Path, help="print the table of a file of results")
    return parser.parse_args()


if __name__ == "__main__":
    main()
