"""Saving at the default interval takes less than 2 % of the time of a run.

Each run lasts until it has saved a few times, about four minutes per case. Time in which other
programs had the core does not count as saving, so the test can run on a busy machine.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from briskrl.doctor.paired_turns import ClockReading, read_clocks
from briskrl.training.config import TrainConfig
from briskrl.training.loop import train
from briskrl.training.recorder import RunRecorder

pytestmark = pytest.mark.chaos

SAVES = 4
MAX_SHARE = 0.02
CASES = {
    "dqn": {"env": "snake", "algo": "dqn"},
    "rainbow": {"env": "cage2", "algo": "rainbow"},
    "ppo": {"env": "snake", "algo": "ppo"},
    # Pictures, which make large memories.
    "dqn-grid": {"env": "snake", "algo": "dqn", "env_config": {"obs": "grid"}},
}


class EnoughSavesError(Exception):
    """Enough has been measured."""


class SaveTimes:
    """Measures every save of a recorder, and ends the run after a few."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begin = read_clocks()
        self.end = self.begin
        self.own_s: list[float] = []
        """Seconds of each save without those in which other programs had the core."""
        self.wall_s: list[float] = []
        self._save = RunRecorder.save
        monkeypatch.setattr(RunRecorder, "save", lambda recorder: self.measure(recorder))

    def measure(self, recorder: RunRecorder) -> None:
        before = read_clocks()
        self._save(recorder)
        self.end = read_clocks()
        self.own_s.append(_own_s(before, self.end))
        self.wall_s.append(self.end.wall_s - before.wall_s)
        if len(self.own_s) == SAVES:
            raise EnoughSavesError


def _own_s(before: ClockReading, after: ClockReading) -> float:
    return after.wall_s - before.wall_s - (after.queued_s - before.queued_s)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_saving_at_the_default_interval_takes_little_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: dict
):
    run = tmp_path / "run"
    times = SaveTimes(monkeypatch)
    with pytest.raises(EnoughSavesError):
        train(TrainConfig(**case, steps=10**12, run_dir=str(run)))
    whole = times.end.wall_s - times.begin.wall_s
    assert whole > SAVES * 55
    share, by_clock = sum(times.own_s) / whole, sum(times.wall_s) / whole
    size = sum(path.stat().st_size for path in (run / "checkpoints").rglob("*") if path.is_file())
    print(
        f"{SAVES} saves in {whole:.0f} s: {share:.2%} of the time ({by_clock:.2%} with that of "
        f"other programs), longest {max(times.own_s):.2f} s, {size / 2**20:.0f} MB"
    )
    assert share < MAX_SHARE
