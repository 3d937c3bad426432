"""Full disks of many sizes, kills at every system call of a save, and power cuts, on real runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.training.disk_faults import mounts_allowed, run_faults
from tests.training.storage.syscall_kills import tracing_allowed

REPO = Path(__file__).resolve().parents[2]
SIZES = ["4k", "16k", "96k", "128k", "192k", "256k", "320k", "384k", "512k", "1m"]
PRESETS = ["dqn", "per-dqn", "rainbow", "ppo"]
NUM_CUTS = 200

pytestmark = pytest.mark.chaos


def program(name: str, folder: Path, *args: str) -> dict[str, Any]:
    command = [sys.executable, "-m", f"tests.chaos.{name}", str(folder), *args]
    result = subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=3600)
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.fixture(scope="module")
def small_disks(tmp_path_factory):
    if not mounts_allowed():
        pytest.skip("mounting a small disk is not permitted here")
    return run_faults(tmp_path_factory.mktemp("disks"), SIZES)


@pytest.mark.parametrize("size", SIZES)
def test_a_run_on_a_disk_of_any_size_ends_clearly_and_continues_on_a_larger_one(small_disks, size):
    result = small_disks[size]
    full = [note for note in result["notes"] if "No space left on device" in note]
    if result["message"]:
        assert result["message"].startswith("StorageError 1: ")
        assert "No space left on device" in result["message"]
    assert len(full) <= 1 + sum("can be written again" in note for note in result["notes"])
    assert result["resumed"] == ""
    assert result["same"] in (True, None)
    if "saved" in result:
        assert result["damage"] == []
        assert result["leftovers"] == []
        assert result["widths"] == [7]


def test_the_sizes_reach_from_a_run_that_cannot_start_to_one_that_does_not_notice(small_disks):
    assert not small_disks[SIZES[0]]["started"]
    assert small_disks[SIZES[-1]]["message"] == ""
    ends = [result["message"] for result in small_disks.values() if result["started"]]
    assert any("The last state of the run is not saved" in message for message in ends)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_run_killed_at_any_system_call_of_a_save_resumes_bit_identically(tmp_path, preset):
    if not tracing_allowed():
        pytest.skip("tracing system calls is not permitted here")
    result = program("killed_saves", tmp_path, preset)
    assert result["wrong"] == []
    assert result["calls"] > 100
    assert result["old"] > 20
    assert result["new"] > 3
    assert result["old"] + result["new"] == result["states"]


@pytest.mark.parametrize("preset", PRESETS)
def test_a_run_resumes_bit_identically_after_a_power_cut(tmp_path, preset):
    result = program("power_cuts", tmp_path, preset, str(NUM_CUTS))
    assert result["wrong"] == []
    assert sum(result["steps"].values()) == NUM_CUTS
    assert {"800", "1600", "2400", "3200"} <= set(result["steps"])
