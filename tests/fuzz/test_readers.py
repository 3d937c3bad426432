"""Every reader of files, fuzzed with atheris, a coverage-guided fuzzer: `make fuzz`.

Each reader runs in processes of its own until it has had FUZZ_SECONDS (default 600) of the CPU in
all sittings together; one that has them already is not fuzzed again. A finding is an error that the
reader does not document, a crash, a hang, or anything that `audit` forbids. FUZZ_FOLDER keeps what
the fuzzer has learned, inputs that lead to findings, and the record of all sittings (`sittings`).
FUZZ_HANG is how long one input may take (default 20 s on the clock: more on a busy machine).

    make fuzz FUZZ_SECONDS=60
    make fuzz FUZZ_SECONDS=600                 (540 more)
    pytest -m chaos -rP tests/fuzz/test_readers.py -k manifest
    python -m tests.fuzz.sittings              (how far it is)
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from datetime import date
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.fuzz.readers import BY_EXPOSURE
from tests.fuzz.sittings import Record, Sitting, fuzz_folder, next_slice
from tests.training.planted import make_run

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.skipif(
        find_spec("atheris") is None, reason='needs: pip install -e ".[fuzz]" (Linux)'
    ),
]
SECONDS = int(os.environ.get("FUZZ_SECONDS", "600"))
SLICE_S = int(os.environ.get("FUZZ_SLICE", "180"))
"""Longest time on the clock until what was fuzzed is recorded."""
FOLDER = fuzz_folder()
HANG_S = int(os.environ.get("FUZZ_HANG", "20"))
RSS_MB = 4096
"""Limits of one input; seconds are those on the clock."""


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("fuzz") / "run", "cartpole", "ppo")


def children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fuzz(run: Path, name: str, seconds: int) -> tuple[Sitting, str]:
    """One process that fuzzes; what it did, and its output."""
    corpus, findings = FOLDER / "corpus" / name, FOLDER / "findings" / name
    corpus.mkdir(parents=True, exist_ok=True)
    findings.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.fuzz.fuzz_one", name, str(run), str(corpus)]
    command += [f"-max_total_time={seconds}", f"-timeout={HANG_S}", f"-rss_limit_mb={RSS_MB}"]
    command += [f"-artifact_prefix={findings}/", "-print_final_stats=1"]
    before = children_cpu_s()
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    used = children_cpu_s() - before
    started = re.search(r"^started after ([\d.]+) s of the CPU$", done.stdout, re.MULTILINE)
    assert started, done.stdout[-6000:]
    executions = re.findall(r"number_of_executed_units: (\d+)", done.stdout)
    sitting = Sitting(
        date=date.today().isoformat(),
        cpu_s=round(used - float(started[1]), 2),
        wall_s=seconds,
        executions=int(executions[0]) if executions else 0,
        finding=done.returncode != 0,
    )
    return sitting, f"{done.stdout[-6000:]}\nThe input is in {findings}."


@pytest.mark.parametrize("name", BY_EXPOSURE)
def test_a_fuzzed_reader_refuses_what_it_cannot_read(run: Path, name: str):
    record = Record(FOLDER, name)
    while seconds := next_slice(SECONDS, record.cpu_s, SLICE_S):
        sitting, output = fuzz(run, name, seconds)
        record.add(sitting)
        assert not sitting.finding, output
    sittings = record.read()
    executions = sum(sitting.executions for sitting in sittings)
    print(f"{name}: {record.cpu_s:.0f} s of the CPU, {executions:,} executions, no findings")
