"""Faults planted in loops: the first finding names the right one.

The quick ones run always; both sets of twelve, three times each and beside a busy core, are slow
tests. `python benchmarks/planted_faults.py` also compares promised gains with long runs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from briskrl.doctor.examination import examine
from briskrl.doctor.legacy import LegacySubject
from briskrl.fused.calibration.timing import torch_threads
from tests.doctor.planted.fault import Plant
from tests.doctor.planted.runtime_faults import busy_core
from tests.doctor.planted.sets import HEALTHY, SETS

QUICK = {
    "store": 6.0,
    "flush": 6.0,
    "leak": 6.0,
    "many updates": 12.0,
    "updates by a while loop": 6.0,
}
"""Plants that show in so many seconds."""
SECONDS = 20.0
ALL = [plant for plants in SETS.values() for plant in plants]
WELL = [plant for plants in HEALTHY.values() for plant in plants]


def names_the_plant(plant: Plant, folder: Path, seconds: float) -> bool:
    with torch_threads(1):
        return plant.is_named_by(plant.examine(folder, seconds))


def named(plants: tuple[Plant, ...], folder: Path) -> list[str]:
    return [plant.name for plant in plants if names_the_plant(plant, folder, SECONDS)]


@pytest.mark.parametrize("plant", [p for p in ALL if p.name in QUICK], ids=lambda p: p.name)
def test_the_first_finding_names_a_plain_fault(plant: Plant, tmp_path: Path) -> None:
    assert names_the_plant(plant, tmp_path, QUICK[plant.name])


@pytest.mark.parametrize("plants", SETS.values(), ids=SETS)
def test_there_are_twelve_plants_of_twelve_kinds(plants: tuple[Plant, ...]) -> None:
    assert len({plant.name for plant in plants}) == 12
    assert len({plant.causes for plant in plants}) == 12


@pytest.mark.slow
@pytest.mark.parametrize("run", range(3))
@pytest.mark.parametrize("plants", SETS.values(), ids=SETS)
def test_the_first_finding_names_the_fault_in_eleven_of_twelve(
    plants: tuple[Plant, ...], run: int, tmp_path: Path
) -> None:
    right = named(plants, tmp_path)
    assert len(right) >= 11, f"right: {right}"


@pytest.mark.slow
@pytest.mark.parametrize("plants", SETS.values(), ids=SETS)
def test_the_same_beside_a_busy_core(plants: tuple[Plant, ...], tmp_path: Path) -> None:
    with busy_core():
        right = named(plants, tmp_path)
    assert len(right) >= 11, f"right: {right}"


@pytest.mark.slow
@pytest.mark.parametrize("plant", WELL, ids=lambda p: p.name)
def test_in_a_loop_without_a_fault_nothing_is_invented(plant: Plant, tmp_path: Path) -> None:
    with torch_threads(1):
        found = plant.examine(tmp_path, SECONDS).findings
    assert {finding.cause for finding in found} <= set(plant.causes)


@pytest.mark.slow
def test_the_faults_of_the_slow_loop_are_found() -> None:
    found = [finding.cause for finding in examine(LegacySubject(), budget_s=60).findings]
    assert {"updates", "flood", "store"} <= set(found)
