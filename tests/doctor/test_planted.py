"""The first finding names a planted fault.

A few quick faults are tested always; both sets of twelve, three times each and with a busy core,
are slow tests. `python benchmarks/planted_faults.py` also compares predicted gains with long runs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.legacy.doctor_case import LegacyTarget
from briskrl.doctor.examination import examine
from briskrl.fused.calibration.timing import torch_threads
from tests.doctor.planted.fault import Fault
from tests.doctor.planted.runtime_faults import busy_core
from tests.doctor.planted.sets import HEALTHY, SETS

QUICK = {
    "store": 6.0,
    "flush": 6.0,
    "leak": 6.0,
    "many updates": 12.0,
    "updates by a while loop": 6.0,
}
"""Faults that are found within a few seconds, with their budgets."""
SECONDS = 20.0
ALL = [fault for faults in SETS.values() for fault in faults]
WELL = [fault for faults in HEALTHY.values() for fault in faults]


def names_the_fault(fault: Fault, folder: Path, seconds: float) -> bool:
    with torch_threads(1):
        return fault.is_named_by(fault.examine(folder, seconds))


def named(faults: tuple[Fault, ...], folder: Path) -> list[str]:
    return [fault.name for fault in faults if names_the_fault(fault, folder, SECONDS)]


@pytest.mark.parametrize("fault", [p for p in ALL if p.name in QUICK], ids=lambda p: p.name)
def test_the_first_finding_names_an_obvious_fault(fault: Fault, tmp_path: Path) -> None:
    # On a machine that is busy with other work, the first budget may be too short.
    budgets = (QUICK[fault.name], 4 * QUICK[fault.name])
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    assert any(map(names_the_fault, (fault, fault), folders, budgets))


@pytest.mark.parametrize("faults", SETS.values(), ids=SETS)
def test_there_are_twelve_faults_of_twelve_kinds(faults: tuple[Fault, ...]) -> None:
    assert len({fault.name for fault in faults}) == 12
    assert len({fault.causes for fault in faults}) == 12


@pytest.mark.slow
@pytest.mark.parametrize("run", range(3))
@pytest.mark.parametrize("faults", SETS.values(), ids=SETS)
def test_the_first_finding_names_the_fault_in_eleven_of_twelve(
    faults: tuple[Fault, ...], run: int, tmp_path: Path
) -> None:
    right = named(faults, tmp_path)
    assert len(right) >= 11, f"right: {right}"


@pytest.mark.slow
@pytest.mark.parametrize("faults", SETS.values(), ids=SETS)
def test_the_first_finding_names_the_fault_with_a_busy_core(
    faults: tuple[Fault, ...], tmp_path: Path
) -> None:
    with busy_core():
        right = named(faults, tmp_path)
    assert len(right) >= 11, f"right: {right}"


@pytest.mark.slow
@pytest.mark.parametrize("fault", WELL, ids=lambda p: p.name)
def test_a_healthy_loop_has_no_findings(fault: Fault, tmp_path: Path) -> None:
    with torch_threads(1):
        found = fault.examine(tmp_path, SECONDS).findings
    assert {finding.cause for finding in found} <= set(fault.causes)


@pytest.mark.slow
def test_the_faults_of_the_legacy_loop_are_found() -> None:
    found = [finding.cause for finding in examine(LegacyTarget(), budget_s=60).findings]
    assert {"updates", "flood", "store"} <= set(found)
