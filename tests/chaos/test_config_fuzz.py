"""100,000 fuzzed configs and command lines through the parser, and 2,000 accepted ones started.

No traceback, no hang: a config is accepted, or refused with a message of one paragraph.

The starts take hours on a busy machine, so they can be divided: other seeds draw other settings.

    BRISK_FUZZ_STARTS=100 BRISK_FUZZ_SEED=7 BRISK_FUZZ_ENGINE=fused \\
        pytest -m chaos -rP tests/chaos/test_config_fuzz.py -k accepted
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.chaos.fuzz_outcomes import GOOD, parse_files, parse_lines, start_accepted

FILES = int(os.environ.get("BRISK_FUZZ_FILES", "75000"))
LINES = int(os.environ.get("BRISK_FUZZ_LINES", "25000"))
STARTS = int(os.environ.get("BRISK_FUZZ_STARTS", "2000"))
SEED = int(os.environ.get("BRISK_FUZZ_SEED", "3"))
ENGINE = os.environ.get("BRISK_FUZZ_ENGINE", "")
"""The engine of all starts; by default, each draws its own."""


def report(name: str, found: Counter[str]) -> None:
    counts = ", ".join(f"{found[name]:,} {name}" for name in sorted(GOOD & {*found}))
    sys.stdout.write(f"{name}: {sum(found.values()):,} configs, {counts}\n")


@pytest.mark.chaos
def test_no_fuzzed_config_file_ends_in_a_traceback(tmp_path: Path) -> None:
    found = parse_files(FILES, tmp_path)
    report("config files", found)
    assert set(found) <= GOOD, [text for text in found if text not in GOOD][:5]


@pytest.mark.chaos
def test_no_fuzzed_command_line_ends_in_a_traceback() -> None:
    found = parse_lines(LINES)
    report("command lines", found)
    assert set(found) <= GOOD, [text for text in found if text not in GOOD][:5]


@pytest.mark.chaos
def test_accepted_configs_train_or_are_refused_with_a_message(tmp_path: Path) -> None:
    found, failed = start_accepted(STARTS, tmp_path, SEED, ENGINE)
    report("starts", found)
    assert not failed, failed[:3]
