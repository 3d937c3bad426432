"""Every reader of files, fuzzed with atheris, a coverage-guided fuzzer: `make fuzz`.

Each reader runs in a process of its own for FUZZ_SECONDS (default 600). A finding is an error that
the reader does not document, a crash, a hang, or anything that `audit` forbids. Inputs that lead to
findings stay in FUZZ_FOLDER (default .fuzz), which also keeps what the fuzzer has learned.

    make fuzz FUZZ_SECONDS=60
    pytest -m chaos -rP tests/fuzz/test_readers.py -k manifest
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.fuzz.readers import NAMES
from tests.training.planted import make_run

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.skipif(
        find_spec("atheris") is None, reason='needs: pip install -e ".[fuzz]" (Linux)'
    ),
]
SECONDS = int(os.environ.get("FUZZ_SECONDS", "600"))
FOLDER = Path(os.environ.get("FUZZ_FOLDER", ".fuzz"))
HANG_S, RSS_MB = 20, 4096
"""Limits of one input."""


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("fuzz") / "run", "cartpole", "ppo")


@pytest.mark.parametrize("name", NAMES)
def test_a_fuzzed_reader_refuses_what_it_cannot_read(run: Path, name: str):
    corpus, findings = FOLDER / "corpus" / name, FOLDER / "findings" / name
    corpus.mkdir(parents=True, exist_ok=True)
    findings.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.fuzz.fuzz_one", name, str(run), str(corpus)]
    command += [f"-max_total_time={SECONDS}", f"-timeout={HANG_S}", f"-rss_limit_mb={RSS_MB}"]
    command += [f"-artifact_prefix={findings}/", "-print_final_stats=1"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, f"{done.stdout[-6000:]}\nThe input is in {findings}."
    (executions,) = re.findall(r"number_of_executed_units: (\d+)", done.stdout)
    print(f"{name}: {SECONDS} s, {int(executions):,} executions, no findings")
