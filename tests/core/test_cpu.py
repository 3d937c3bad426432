from __future__ import annotations

import os

import pytest

from briskrl.core import cpu


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs affinity masks")
def test_only_cores_that_the_process_may_use_count() -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert cpu.usable_cores() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert cpu.usable_cores() == len(before)


def test_without_affinity_masks_all_cores_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert cpu.usable_cores() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cpu.usable_cores() == 1


def test_the_processor_has_a_name() -> None:
    assert cpu.cpu_model()
