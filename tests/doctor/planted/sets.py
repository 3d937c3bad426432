"""All planted faults by set, and the healthy loops."""

from __future__ import annotations

from tests.doctor.planted.fault import Fault
from tests.doctor.planted.faults_dev import DEV, DEV_HEALTHY
from tests.doctor.planted.faults_heldout import HELDOUT, HELDOUT_HEALTHY

SETS: dict[str, tuple[Fault, ...]] = {"dev": DEV, "heldout": HELDOUT}
HEALTHY: dict[str, tuple[Fault, ...]] = {"dev": DEV_HEALTHY, "heldout": HELDOUT_HEALTHY}
