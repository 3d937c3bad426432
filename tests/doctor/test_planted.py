"""Faults planted in loops: the first finding names the right one.

The quick ones run always; all twelve, three times each and beside a busy core, are slow tests.
`python benchmarks/planted_faults.py` also compares predicted gains with long runs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from briskrl.doctor.examine import examine
from briskrl.doctor.legacy import LegacySubject
from tests.doctor.planted import PLANTS, Plant, busy_core, in_victim, torch_threads

QUICK = {"store": 6.0, "flush": 6.0, "leak": 6.0, "many updates": 12.0}
"""Plants that show in so many seconds."""
SECONDS = 15.0


def names_the_plant(plant: Plant, folder: Path, seconds: float) -> bool:
    with torch_threads(1):
        found = plant.examine(folder, seconds).findings
    return bool(found) and found[0].cause in plant.causes


@pytest.mark.parametrize("plant", [p for p in PLANTS if p.name in QUICK], ids=lambda p: p.name)
def test_the_first_finding_names_a_plain_fault(plant: Plant, tmp_path: Path) -> None:
    assert names_the_plant(plant, tmp_path, QUICK[plant.name])


def test_there_are_twelve_plants() -> None:
    assert len({plant.name for plant in PLANTS}) == 12


@pytest.mark.slow
@pytest.mark.parametrize("run", range(3))
def test_the_first_finding_names_the_fault_in_eleven_of_twelve(run: int, tmp_path: Path) -> None:
    right = [plant.name for plant in PLANTS if names_the_plant(plant, tmp_path, SECONDS)]
    assert len(right) >= 11, f"right: {right}"


@pytest.mark.slow
def test_the_same_beside_a_busy_core(tmp_path: Path) -> None:
    with busy_core():
        right = [plant.name for plant in PLANTS if names_the_plant(plant, tmp_path, SECONDS)]
    assert len(right) >= 11, f"right: {right}"


@pytest.mark.slow
def test_a_clean_loop_has_no_finding(tmp_path: Path) -> None:
    with torch_threads(1):
        assert in_victim("", tmp_path, SECONDS).findings == ()


@pytest.mark.slow
def test_the_faults_of_the_slow_loop_are_found() -> None:
    found = [finding.cause for finding in examine(LegacySubject(), budget_s=60).findings]
    assert {"updates", "flood", "store"} <= set(found)
