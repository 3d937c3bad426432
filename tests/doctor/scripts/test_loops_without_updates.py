"""Loops that learn without torch: their updates are not counted."""

from pathlib import Path

from tests.doctor.script.watched_scripts import LOOP, write
from tests.doctor.scripts.examine import examine_script


def test_settings_are_changed_in_turns_without_waiting_for_an_update(tmp_path: Path) -> None:
    report = examine_script(write(tmp_path, LOOP), 100, 0, budget_s=25)
    assert report.speed is not None
    assert report.speed.updates == 0
    # Within the budget there is time for several pairs only if no turn waits for an update.
    assert sum(outcome.pairs for outcome in report.outcomes) >= 5
