"""Jobs that work on something long show signs of life, but few."""

from __future__ import annotations

from briskrl.cluster import life_signs
from briskrl.cluster.life_signs import LifeSigns


def test_signs_are_empty_reports_at_most_every_few_seconds(monkeypatch):
    clock = iter([100.0, 101.0, 100.0 + life_signs.EVERY_S, 100.5 + life_signs.EVERY_S])
    monkeypatch.setattr(life_signs, "monotonic", lambda: next(clock))
    reports: list[object] = []
    alive = LifeSigns(reports.append)
    for _ in range(4):
        alive("whatever a hook gets")
    assert reports == [{}, {}]
