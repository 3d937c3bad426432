"""Training goes on while its disk is full, read-only or not permitted; nothing is torn or lost."""

from __future__ import annotations

import re

import pytest

from tests.training.disk_faults import mounts_allowed, run_faults

CAUSES = {
    "full": "No space left on device",
    "read_only": "Read-only file system",
    "permission": "Permission denied",
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    faults = [name for name in CAUSES if name == "permission" or mounts_allowed()]
    names = [name + ending for name in faults for ending in ("", "_to_the_end")]
    return run_faults(tmp_path_factory.mktemp("disks"), names)


def result_of(results, name: str):
    if name not in results:
        pytest.skip("mounting a small disk is not permitted here")
    return results[name]


@pytest.mark.parametrize("fault", CAUSES)
def test_training_continues_with_one_warning_and_saves_when_the_disk_is_back(results, fault):
    result = result_of(results, fault)
    warnings = [note for note in result["notes"] if CAUSES[fault] in note]
    assert len(warnings) == 1
    assert "Training continues" in warnings[0]
    ends = [note for note in result["notes"] if "can be written again" in note]
    assert len(ends) == 1
    assert re.search(r"step_\d{12} is saved\.$", ends[0])
    assert result["notes"].index(warnings[0]) < result["notes"].index(ends[0])
    assert result["message"] == ""
    assert result["saved"] > result["before_fault"]


@pytest.mark.parametrize("fault", CAUSES)
def test_a_run_that_cannot_save_its_end_fails_and_names_the_newest_checkpoint(results, fault):
    result = result_of(results, f"{fault}_to_the_end")
    message = result["message"]
    assert message.startswith(
        "StorageError 1: The last state of the run is not saved (3,008 steps)."
    )
    assert CAUSES[fault] in message
    assert f"The newest checkpoint is {result['before_fault']}, which is intact." in message
    assert "brisk resume" in message
    assert result["saved"] == result["before_fault"]
    assert sum(CAUSES[fault] in note for note in result["notes"]) == 1
    assert result["resumed"] == ""


@pytest.mark.parametrize("ending", ["", "_to_the_end"])
@pytest.mark.parametrize("fault", CAUSES)
def test_the_files_stay_whole_and_the_end_is_that_of_a_run_without_the_fault(
    results, fault, ending
):
    result = result_of(results, fault + ending)
    assert result["widths"] == [7]
    assert result["metrics"] > 1
    assert result["phases"] > 1
    assert result["damage"] == []
    assert result["leftovers"] == []
    assert result["same"]
