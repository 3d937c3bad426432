"""Reads the seeds of every reader and random changes of them, without a fuzzer.

python -m tests.fuzz.mutations FOLDER RUN COUNT
"""

from __future__ import annotations

import json
import random
import sys
import traceback
from contextlib import suppress
from pathlib import Path

from tests.fuzz.audit import Guard
from tests.fuzz.readers import NAMES, Reader, make_readers

WORDS = (b"[" * 3000, b"-1", b"1e999", b"NaN", b'"', b"{}", b"null", b"\x00", b"\xff" * 8, b"../")


def mutate(seed: bytes, rng: random.Random) -> bytes:
    """A few random changes: bytes, words, cuts and repeats."""
    data = bytearray(seed)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(4)
        if kind == 0 and at < len(data):
            data[at] = rng.randrange(256)
        elif kind == 1:
            data[at : at + rng.randrange(4)] = rng.choice(WORDS)
        elif kind == 2:
            del data[at : at + rng.randrange(1, 40)]
        else:
            data[at:at] = data[at : at + rng.randrange(1, 40)]
    return bytes(data)


def try_reader(name: str, reader: Reader, guard: Guard, count: int) -> dict:
    """Read mutated seeds; returns how many were accepted, and a traceback of each finding."""
    rng = random.Random(name)
    accepted, findings = 0, []
    for seed in reader.seeds:
        with suppress(*reader.refusals):
            reader.read(seed)
    for _ in range(count):
        data = mutate(rng.choice(reader.seeds), rng)
        try:
            with guard.watched(), suppress(*reader.refusals):
                reader.read(data)
                accepted += 1
        except Exception:
            findings.append(f"{data[:200]!r}\n{traceback.format_exc()[-3000:]}")
    return {"name": name, "accepted": accepted, "findings": findings}


def main() -> None:
    """Try all readers and write one line of JSON for each."""
    folder, run, count = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    readers = make_readers(folder, run, NAMES)
    guard = Guard(folder)
    for name, reader in readers.items():
        print(json.dumps(try_reader(name, reader, guard, count)), flush=True)


if __name__ == "__main__":
    main()
