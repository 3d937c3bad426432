"""Faults planted in loops: does the doctor name them, and are its gains those of long runs?

    python benchmarks/planted_faults.py --set heldout --runs 3 --busy 1 --out planted.jsonl

Every fault of tests/doctor/planted is examined; its first finding must name it. Then the loop as it
is and the loop with the advice taken run for a while each, in turns of seconds and apart from the
examination, and the ratio of their speeds is set beside the gain that the finding promised. With
`--healthy` loops without a fault are examined as well; the doctor should find nothing.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from statistics import median
from threading import Event, Thread
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from briskrl.doctor.examination import BY_WALL, run_until_learning
from briskrl.doctor.paired_turns import Loop, Turn, take_turn
from briskrl.doctor.report.records import Finding
from briskrl.fused.calibration.timing import torch_threads
from tests.doctor.planted.fault import Fault
from tests.doctor.planted.runtime_faults import busy_core
from tests.doctor.planted.sets import HEALTHY, SETS

CHUNK_S = 2.0
"""Length of a turn in the long run."""
MINUTE_S, START_S, STARTING = 60.0, 0.5, 10
"""Of a start: the time it is looked at, the length of a turn, and how many may be slow."""
AT_AGE_S = 0.2
"""Length of a turn of loops that have reached an age."""
STOPPED_S, AGAIN = 4.0, 4
"""A pause of the whole process that spoils an examination, and how often to try."""
NEAR = 1.2
"""A promise this many times too high or too low is kept."""


def main() -> None:
    """Examine, run long, tell."""
    args = _words()
    names = list(SETS) if args.set == "all" else [args.set]
    counts: Counter[tuple[str, int, str]] = Counter()
    with ExitStack() as stack:
        for _ in range(args.busy):
            stack.enter_context(busy_core())
        for run in range(args.runs):
            for name in names:
                for fault in SETS[name] + (HEALTHY[name] if args.healthy else ()):
                    if not args.only or fault.name in args.only:
                        healthy = fault in HEALTHY[name]
                        row = _undisturbed(partial(examine_fault, fault, args, healthy=healthy))
                        _progress({"set": name, "run": run, "busy": args.busy, **row}, args.out)
                        counts.update((name, run, what) for what in _merits(row, healthy))
    for (name, run, what), count in sorted(counts.items()):
        print(f"{name} set, run {run}: {count} {what}")


def _undisturbed(examine: Callable[[], dict[str, object]]) -> dict[str, object]:
    """The first of a few examinations in which nobody stopped this process for seconds."""
    for _ in range(AGAIN):
        with Heart() as heart:
            row = examine()
        if heart.longest_s < STOPPED_S:
            break
    return {**row, "stopped_s": round(heart.longest_s, 1)}


class Heart:
    """Beats while it is entered; its longest pause tells whether the process was stopped."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._ended = Event()
        self._thread = Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Heart:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        self._thread.join()

    def _beat(self) -> None:
        last = perf_counter()
        while not self._ended.wait(0.5):
            now = perf_counter()
            self.longest_s = max(self.longest_s, now - last - 0.5)
            last = now


def _merits(row: dict[str, object], healthy: bool) -> list[str]:
    if healthy:
        return ["healthy and found so"] if row["right"] else ["healthy, but found ill"]
    merits = ["named" if row["right"] else "not named"]
    if row["kept"] is not None:
        merits.append("promises kept" if row["kept"] else "promises not kept")
    return merits


def examine_fault(fault: Fault, args: argparse.Namespace, *, healthy: bool) -> dict[str, object]:
    """One fault: its first finding, and the gain of a long run."""
    with tempfile.TemporaryDirectory() as name, torch_threads(1):
        folder = Path(name)
        report = fault.examine(folder, args.seconds)
        first = report.findings[0] if report.findings else None
        right = fault.is_named_by(report)
        gain = None
        if first is not None and right and args.long and not healthy:
            gain = long_run(fault, first, folder, args.long)
        if healthy:
            right = all(finding.cause in fault.causes for finding in report.findings)
    return {
        "fault": fault.name,
        "found": None if first is None else first.cause,
        "right": right,
        "basis": None if first is None else first.basis,
        "promised": None if first is None else [first.gain.factor, first.gain.low, first.gain.high],
        "long_run": gain,
        "kept": None if first is None or gain is None else is_kept(first, gain),
        "others": [finding.cause for finding in report.findings[1:]],
        "load": report.load,
    }


def is_kept(found: Finding, gain: float) -> bool:
    """Whether a promise is near what a separate run gave, or its interval holds that.

    A ceiling promises no more than that it is one.
    """
    promised = found.gain
    if found.basis == "ceiling":
        return 1 <= gain <= NEAR * promised.factor
    near = 1 / NEAR <= gain / promised.factor <= NEAR
    return near or promised.low <= gain <= promised.high


def long_run(fault: Fault, found: Finding, folder: Path, seconds: float) -> float:
    """Speed with the cure over speed without, over long turns."""
    with fault.around(folder):
        before, after = fault.open(folder), fault.open_cured(folder, found)
        with closing(before), closing(after):
            if found.cause == "cold-start":
                return _first_minute(before, after)
            run_until_learning(before)
            run_until_learning(after)
            if found.cause == "growth":
                # What growing costs depends on the age, so both get as old as the examined loop.
                _age(before, age_of(found))
                _age(after, age_of(found))
                return _duel(before, after, 0.0, chunk_s=AT_AGE_S, by_wall=False)
            return _duel(before, after, seconds, by_wall=found.cause in BY_WALL)


def _duel(
    before: Loop, after: Loop, seconds: float, *, chunk_s: float = CHUNK_S, by_wall: bool
) -> float:
    """The ratio of the medians of speeds, in turns; so many that a pause of one does not matter."""
    speeds: tuple[list[float], list[float]] = ([], [])
    for _ in range(max(3, round(seconds / chunk_s / 2))):
        for loop, found in zip((before, after), speeds, strict=True):
            turn = take_turn(loop, chunk_s)
            found.append(turn.steps_per_s if by_wall else turn.own_steps_per_s)
    return median(speeds[1]) / median(speeds[0])


def age_of(found: Finding) -> int:
    """Steps that the finding's last figure was taken at."""
    return int(re.findall(r" at ([0-9,]+) steps", found.evidence[0])[-1].replace(",", ""))


def _age(loop: Loop, steps: int) -> None:
    while loop.steps < steps:
        loop.iterate()


def _first_minute(before: Loop, after: Loop) -> float:
    """Steps of the first minute without the slow start, over those with it, in turns."""
    speeds = []
    turns: tuple[list[Turn], list[Turn]] = ([], [])
    for _ in range(round(MINUTE_S / START_S)):
        for loop, taken in zip((before, after), turns, strict=True):
            taken.append(take_turn(loop, START_S))
    for taken in turns:
        # Once it has started, a turn that takes much longer than it should was a pause.
        usual = 2 * median(turn.own_s for turn in taken)
        own = [
            turn.own_s if i < STARTING else min(usual, turn.own_s) for i, turn in enumerate(taken)
        ]
        speeds.append(sum(turn.steps for turn in taken) / sum(own))
    return speeds[1] / speeds[0]


def _progress(row: dict[str, object], out: Path | None) -> None:
    line = json.dumps(row)
    print(line, flush=True)
    if out is not None:
        with out.open("a") as file:
            file.write(line + "\n")


def _words() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", choices=[*SETS, "all"], default="all", help="of faults")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--busy", type=int, default=0, help="processes that keep a core busy each")
    parser.add_argument("--seconds", type=float, default=20.0, help="of every examination")
    parser.add_argument(
        "--long", type=float, default=20.0, help="of every long run; 0 leaves it out"
    )
    parser.add_argument("--only", nargs="*", default=[], help="names of faults")
    parser.add_argument("--healthy", action="store_true", help="loops without a fault as well")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
