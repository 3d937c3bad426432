"""Check whether the doctor names planted faults, and whether its gains match long runs.

    python benchmarks/planted_faults.py --set heldout --runs 3 --busy 1 --out planted.jsonl

Every fault of tests/doctor/planted is examined; its first finding must name it. Then the loop with
and without the fault run in alternating turns of seconds, apart from the examination, and the ratio
of their speeds is compared with the gain of the finding. With `--healthy`, healthy loops are
examined as well; the doctor should find nothing.
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

from briskrl.bench.compare import PairedComparison
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
"""For slow starts: observed time, length of a turn, and number of turns that may be slow."""
AT_AGE_S = 0.2
"""Length of a turn for growing costs."""
STOPPED_S, AGAIN = 4.0, 4
"""A pause of the process that invalidates an examination, and the number of attempts."""
NEAR = 1.2
"""Largest ratio between a predicted and a measured gain that counts as a match."""


def main() -> None:
    """Examine all faults, run the long comparisons, and print the results."""
    args = _parse_args()
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
                        _print_row({"set": name, "run": run, "busy": args.busy, **row}, args.out)
                        counts.update((name, run, what) for what in _merits(row, healthy))
    for (name, run, what), count in sorted(counts.items()):
        print(f"{name} set, run {run}: {count} {what}")


def _undisturbed(examine: Callable[[], dict[str, object]]) -> dict[str, object]:
    """The first of a few examinations during which this process was not paused for seconds."""
    for _ in range(AGAIN):
        with PauseDetector() as detector:
            row = examine()
        if detector.longest_s < STOPPED_S:
            break
    return {**row, "stopped_s": round(detector.longest_s, 1)}


class PauseDetector:
    """Measures the longest pause of this process while it is entered."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._ended = Event()
        self._thread = Thread(target=self._beat, daemon=True)

    def __enter__(self) -> PauseDetector:
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
        return ["healthy, no findings"] if row["right"] else ["healthy, but with findings"]
    merits = ["named" if row["right"] else "not named"]
    if row["kept"] is not None:
        merits.append("gains confirmed" if row["kept"] else "gains not confirmed")
    return merits


def examine_fault(fault: Fault, args: argparse.Namespace, *, healthy: bool) -> dict[str, object]:
    """Examine one fault and compare the gain of its first finding with a long run."""
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
    """Whether the gain of a finding is near that of a long run, or its interval contains it.

    An upper bound only has to be one.
    """
    predicted = found.gain
    if found.basis == "ceiling":
        return 1 <= gain <= NEAR * predicted.factor
    near = 1 / NEAR <= gain / predicted.factor <= NEAR
    return near or predicted.low <= gain <= predicted.high


def long_run(fault: Fault, found: Finding, folder: Path, seconds: float) -> float:
    """Speed with the fix over speed without, in long turns."""
    with fault.around(folder):
        before, after = fault.open(folder), fault.open_fixed(folder, found)
        with closing(before), closing(after):
            if found.cause == "cold-start":
                return _first_minute(before, after)
            run_until_learning(before)
            run_until_learning(after)
            if found.cause == "growth":
                # Growth depends on the number of steps: run both as far as the examined loop.
                _age(before, age_of(found))
                _age(after, age_of(found))
                return _speed_ratio(before, after, 0.0, chunk_s=AT_AGE_S, by_wall=False)
            return _speed_ratio(before, after, seconds, by_wall=found.cause in BY_WALL)


def _speed_ratio(
    before: Loop, after: Loop, seconds: float, *, chunk_s: float = CHUNK_S, by_wall: bool
) -> float:
    """Ratio of the median speeds in alternating turns; a single pause does not matter."""

    def speed(loop: Loop) -> float:
        turn = take_turn(loop, chunk_s)
        return turn.steps_per_s if by_wall else turn.own_steps_per_s

    comparison = PairedComparison(before=partial(speed, before), after=partial(speed, after))
    comparison.take_turns(max(3, round(seconds / chunk_s / 2)))
    return comparison.median("after") / comparison.median("before")


def age_of(found: Finding) -> int:
    """Number of steps at which the finding measured its last cost."""
    return int(re.findall(r" at ([0-9,]+) steps", found.evidence[0])[-1].replace(",", ""))


def _age(loop: Loop, steps: int) -> None:
    while loop.steps < steps:
        loop.iterate()


def _first_minute(before: Loop, after: Loop) -> float:
    """Steps in the first minute without the slow start over those with it, in turns."""
    speeds = []
    turns: tuple[list[Turn], list[Turn]] = ([], [])
    for _ in range(round(MINUTE_S / START_S)):
        for loop, taken in zip((before, after), turns, strict=True):
            taken.append(take_turn(loop, START_S))
    for taken in turns:
        # After the start, a turn that takes much longer than usual was a pause.
        usual = 2 * median(turn.own_s for turn in taken)
        own = [
            turn.own_s if i < STARTING else min(usual, turn.own_s) for i, turn in enumerate(taken)
        ]
        speeds.append(sum(turn.steps for turn in taken) / sum(own))
    return speeds[1] / speeds[0]


def _print_row(row: dict[str, object], out: Path | None) -> None:
    line = json.dumps(row)
    print(line, flush=True)
    if out is not None:
        with out.open("a") as file:
            file.write(line + "\n")


def _parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", choices=[*SETS, "all"], default="all", help="set of faults")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--busy", type=int, default=0, help="processes that each keep a core busy")
    parser.add_argument("--seconds", type=float, default=20.0, help="budget of every examination")
    parser.add_argument(
        "--long", type=float, default=20.0, help="seconds of every long run; 0 for none"
    )
    parser.add_argument("--only", nargs="*", default=[], help="names of faults")
    parser.add_argument("--healthy", action="store_true", help="also examine healthy loops")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
