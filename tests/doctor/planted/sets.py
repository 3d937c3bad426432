"""All planted faults by set, and the loops without any."""

from __future__ import annotations

from tests.doctor.planted.fault import Plant
from tests.doctor.planted.faults_dev import FIRST, FIRST_HEALTHY
from tests.doctor.planted.faults_heldout import SECOND, SECOND_HEALTHY

SETS: dict[str, tuple[Plant, ...]] = {"first": FIRST, "second": SECOND}
HEALTHY: dict[str, tuple[Plant, ...]] = {"first": FIRST_HEALTHY, "second": SECOND_HEALTHY}
