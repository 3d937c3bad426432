"""Faults planted in loops: does the doctor name them, and are its gains those of long runs?

    python benchmarks/planted_faults.py --runs 3 --busy 1 --out planted.jsonl

Every plant of tests/doctor/plants.py is examined; its first finding must name it. Then the loop as
it is and the loop with the cure run for a while each, in turns of seconds and apart from the
examination, and the ratio of their speeds is set beside the gain that the finding promised.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from contextlib import ExitStack, closing, nullcontext
from functools import partial
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from briskrl.doctor.code import CallLoop, Treated
from briskrl.doctor.examine import BY_WALL, settle
from briskrl.doctor.report import Finding
from briskrl.doctor.turns import Loop, take_turn
from tests.doctor.plants import PLANTS, Plant, busy_core, torch_threads
from tests.doctor.victim import Victim

CHUNK_S = 2.0
"""Length of a turn in the long run."""
MINUTE_S = 60.0


def main() -> None:
    """Examine, run long, tell."""
    args = _words()
    with ExitStack() as stack:
        for _ in range(args.busy):
            stack.enter_context(busy_core())
        for run in range(args.runs):
            for plant in PLANTS:
                if not args.only or plant.name in args.only:
                    row = {"run": run, "busy": args.busy, **examine_plant(plant, args)}
                    _tell(row, args.out)


def examine_plant(plant: Plant, args: argparse.Namespace) -> dict[str, object]:
    """One plant: its first finding, and the gain of a long run."""
    with tempfile.TemporaryDirectory() as name, torch_threads(1):
        folder = Path(name)
        report = plant.examine(folder, args.seconds)
        first = report.findings[0] if report.findings else None
        right = first is not None and first.cause in plant.causes
        gain = None
        if first is not None and right and args.long:
            gain = long_run(plant, first, folder, args.long)
    return {
        "plant": plant.name,
        "found": None if first is None else first.cause,
        "right": right,
        "basis": None if first is None else first.basis,
        "promised": None if first is None else [first.gain.factor, first.gain.low, first.gain.high],
        "long_run": gain,
        "others": [finding.cause for finding in report.findings[1:]],
    }


def long_run(plant: Plant, found: Finding, folder: Path, seconds: float) -> float:
    """Speed with the cure over speed without, over long turns."""
    if plant.name == "cold-start":
        return _first_minute(folder)
    by_wall = found.cause in BY_WALL
    with closing(_faulty(plant, folder)) as before, closing(_cured(plant, found, folder)) as after:
        settle(before)
        settle(after)
        if plant.name == "growth":
            # What growing costs depends on the age, so both get as old as the examined loop was.
            _age(before, age_of(found))
            seconds = 0.0
        speeds: tuple[list[float], list[float]] = ([], [])
        end = perf_counter() + seconds
        while not speeds[0] or perf_counter() < end:
            for loop, found_speeds in zip((before, after), speeds, strict=True):
                with plant.around(folder) if loop is before else nullcontext():
                    turn = take_turn(loop, min(CHUNK_S, max(0.5, seconds)))
                found_speeds.append(turn.steps_per_s if by_wall else turn.own_steps_per_s)
    return sorted(speeds[1])[len(speeds[1]) // 2] / sorted(speeds[0])[len(speeds[0]) // 2]


def age_of(found: Finding) -> int:
    """Steps that the finding's last figure was taken at."""
    return int(found.evidence[0].rpartition(" at ")[2].removesuffix(" steps").replace(",", ""))


def _age(loop: Loop, steps: int) -> None:
    while loop.steps < steps:
        loop.iterate()


def _faulty(plant: Plant, folder: Path) -> Loop:
    if plant.subject is not None:
        return plant.subject().open()
    return victim_loop(folder, plant.victim, **plant.options)


def _cured(plant: Plant, found: Finding, folder: Path) -> Loop:
    if plant.subject is not None:
        return plant.subject().open_with(found.changes)
    if plant.name == "denormals":
        loop = victim_loop(folder, plant.victim)
        return Treated(loop, partial(flush_denormal, True), partial(flush_denormal, False))
    return victim_loop(folder, "", **plant.options)


def flush_denormal(on: bool) -> None:
    """Let tiny numbers be zero, or not."""
    torch.set_flush_denormal(on)


def _first_minute(folder: Path) -> float:
    """Steps of the first minute without the slow start, over those with it."""
    done = []
    for plant in ("cold-start", ""):
        loop = victim_loop(folder, plant)
        end, own = perf_counter() + MINUTE_S, 0.0
        while perf_counter() < end:
            own += take_turn(loop, 0.5).own_s
        done.append(loop.steps / own)
    return done[1] / done[0]


def victim_loop(folder: Path, plant: str, **options: int) -> CallLoop:
    """The hand-written loop, with a fault or without."""
    victim = Victim(folder, plant, **options)
    return CallLoop(victim.iterate, victim.timer, victim.num_envs, lambda: victim.episodes)


def _tell(row: dict[str, object], out: Path | None) -> None:
    line = json.dumps(row)
    print(line, flush=True)
    if out is not None:
        with out.open("a") as file:
            file.write(line + "\n")


def _words() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--busy", type=int, default=0, help="processes that keep a core busy each")
    parser.add_argument("--seconds", type=float, default=20.0, help="of every examination")
    parser.add_argument(
        "--long", type=float, default=20.0, help="of every long run; 0 leaves it out"
    )
    parser.add_argument("--only", nargs="*", default=[], help="names of plants")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
