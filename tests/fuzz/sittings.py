"""How long every reader has been fuzzed, added up over all sittings: python -m tests.fuzz.sittings.

Corpus, findings and records lie in FUZZ_FOLDER, which is briskrl-fuzz in the user's cache folder by
default, so that they outlive a checkout. Seconds are those of the CPU, without the start of the
process: on a busy machine, seconds on the clock mean little.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from briskrl.core.user_cache import make_folder, user_cache
from tests.fuzz.readers import NAMES


@dataclass(frozen=True)
class Sitting:
    """One process that fuzzed one reader."""

    date: str
    cpu_s: float
    """Seconds of the CPU, without the start of the process."""
    wall_s: float
    """Seconds that the fuzzer was given."""
    executions: int
    finding: bool
    """Whether it ended with a finding."""


def fuzz_folder() -> Path:
    """FUZZ_FOLDER, or a folder in the user's cache."""
    given = os.environ.get("FUZZ_FOLDER")
    cache = user_cache()
    if given or cache is None:
        return Path(given or ".fuzz")
    return cache / "briskrl-fuzz"


class Record:
    """The sittings of one reader, one line of JSON each."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / "sittings" / f"{name}.jsonl"

    def read(self) -> list[Sitting]:
        """All sittings so far."""
        if not self._path.exists():
            return []
        return [Sitting(**json.loads(line)) for line in self._path.read_text().splitlines()]

    def add(self, sitting: Sitting) -> None:
        """Append a sitting."""
        make_folder(self._path.parent)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(sitting)) + "\n")

    @property
    def cpu_s(self) -> float:
        """Seconds of the CPU in all sittings."""
        return sum(sitting.cpu_s for sitting in self.read())


def next_slice(total_s: float, done_s: float, longest_s: int) -> int:
    """Seconds on the clock to fuzz now; 0 when a reader has had `total_s` seconds of the CPU.

    A slice is recorded when it ends, so an interrupt loses at most one.
    """
    missing = total_s - done_s
    # Starting costs seconds, and on a busy machine only a part of a slice is CPU time.
    return 0 if missing < 1 else min(longest_s, max(120, round(missing)))


def table(folder: Path, names: Sequence[str] = NAMES) -> str:
    """CPU seconds, executions and findings of every reader, and their sums."""
    lines = [f"{'reader':18} {'CPU s':>8} {'executions':>13} {'sittings':>9} {'findings':>9}"]
    every: list[Sitting] = []
    for name in names:
        sittings = Record(folder, name).read()
        every += sittings
        lines.append(_row(name, sittings))
    return "\n".join([*lines, _row("all", every)])


def _row(name: str, sittings: Sequence[Sitting]) -> str:
    cpu_s = sum(each.cpu_s for each in sittings)
    executions = sum(each.executions for each in sittings)
    findings = sum(each.finding for each in sittings)
    return f"{name:18} {cpu_s:8.0f} {executions:13,} {len(sittings):9} {findings:9}"


if __name__ == "__main__":
    print(table(fuzz_folder()))
