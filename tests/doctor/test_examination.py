"""Examinations: which experiments they run, and how they handle failures and interrupts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from briskrl.bench.snake_dqn import snake_dqn
from briskrl.core.errors import BriskError
from briskrl.doctor.apply_advice import combine_advice, measure_advice
from briskrl.doctor.examination import Examination, examine
from briskrl.doctor.experiments.base import Experiment, Skipped
from briskrl.doctor.observation import Observation
from briskrl.doctor.paired_turns import Loop
from briskrl.doctor.train_loop import TrainLoop, pushing_one_by_one
from briskrl.doctor.train_target import TrainTarget, describe_run
from briskrl.training.config import TrainConfig
from briskrl.training.loop import train
from briskrl.training.resolve import complete
from tests.doctor.fake_loops import GrowingLoop, SleepingLoop

SMALL = TrainConfig(num_envs=32, algo_config=snake_dqn(net=(16,), learning_starts=256))


class SleepingTarget:
    """A loop that sleeps 8 ms, with experiments of all kinds."""

    name, num_envs, obs_size = "sleeper", 10, 16

    def __init__(
        self,
        *experiments: Experiment | Skipped,
        make: Callable[[], SleepingLoop] = lambda: SleepingLoop(lambda i: 0.008),
    ) -> None:
        self._experiments = experiments
        self._make = make
        self.opened: list[SleepingLoop] = []

    def open(self) -> Loop:
        self.opened.append(self._make())
        return self.opened[-1]

    def open_with(self, changes: object) -> None:
        return None

    def experiments(self, seen: Observation) -> Sequence[Experiment | Skipped]:
        return self._experiments

    def notes(self) -> list[str]:
        return ["asleep"]

    def machine_fraction(self, seen: Observation) -> None:
        return None


def sleep_less(name: str, seconds: float) -> Experiment:
    return Experiment(
        name=name,
        question=f"{name}?",
        cause=name,
        change=f"--{name}",
        open=lambda: SleepingLoop(lambda i: seconds),
    )


def failing(error: BaseException) -> Experiment:
    def fail() -> Loop:
        raise error

    return replace(sleep_less("failing", 0.0), open=fail)


def test_gains_are_found_and_failed_or_skipped_experiments_are_listed() -> None:
    target = SleepingTarget(
        sleep_less("half", 0.002),
        failing(RuntimeError("out of luck")),
        Skipped("gpu", "gpu?", "there is none"),
    )
    report = examine(target, budget_s=9)
    assert report.findings[0].cause == "half"
    outcomes = {found.name: found for found in report.outcomes}
    assert outcomes["half"].verdict == "helps"
    assert "out of luck" in outcomes["failing"].answer
    assert outcomes["gpu"].answer == "there is none"
    assert report.coverage > 0.9
    assert report.notes[0] == "asleep"
    assert any("memory grew" in note for note in report.notes)
    assert all(loop.closed for loop in target.opened)


def test_an_interrupt_gives_a_partial_report() -> None:
    target = SleepingTarget(
        sleep_less("half", 0.002), failing(KeyboardInterrupt()), sleep_less("late", 0.001)
    )
    report = examine(target, budget_s=9)
    assert report.interrupted
    assert report.speed is not None
    assert [found.name for found in report.outcomes] == ["half"]
    assert all(loop.closed for loop in target.opened)


def test_experiments_beyond_the_budget_are_missing() -> None:
    many = [sleep_less(f"n{i}", 0.008) for i in range(30)]
    report = examine(SleepingTarget(*many), budget_s=5)
    missing = [found for found in report.outcomes if found.verdict == "missing"]
    assert missing
    assert all("budget" in found.answer for found in missing)
    assert len(report.outcomes) == 30


def test_experiments_that_may_give_advice_run_first() -> None:
    answers = replace(sleep_less("answers", 0.008), worth=None)
    report = examine(SleepingTarget(answers, sleep_less("advises", 0.008)), budget_s=5)
    assert [found.name for found in report.outcomes] == ["advises", "answers"]


def test_experiments_get_enough_time_for_an_interval_even_if_others_are_left_out() -> None:
    many = [sleep_less(f"n{i}", 0.16) for i in range(8)]
    target = SleepingTarget(*many, make=lambda: SleepingLoop(lambda i: 0.16))
    report = examine(target, budget_s=9)
    assert report.outcomes[0].pairs >= 4
    assert report.outcomes[-1].verdict == "missing"


# How far a loop grows during the observation depends on the load of the machine.
@pytest.mark.slow
def test_a_growing_phase_is_reported_as_growth_alone() -> None:
    report = examine(SleepingTarget(make=GrowingLoop), budget_s=12)
    assert [finding.cause for finding in report.findings] == ["growth"]
    assert "the log phase" in report.findings[0].evidence[0]


def test_phases_cover_a_training_and_its_counts_are_right() -> None:
    progress: list[float] = []
    examination = Examination(TrainTarget(SMALL), 6, lambda doing, done: progress.append(done))
    report = examination.run()
    assert report.speed is not None
    assert report.speed.updates_per_step == pytest.approx(0.03125, rel=0.2)
    assert {"act", "env", "store", "sample", "update", "log"} <= {row.name for row in report.phases}
    assert sum(row.share for row in report.phases) == pytest.approx(1, abs=0.01)
    assert all(0 <= done <= 1 for done in progress)
    names = {found.name for found in report.outcomes}
    assert {"engine", "no updates", "half the ratio", "quarter of the ratio", "batch size"} <= names
    assert {"backend", "overlap", "envs 1/8", "envs 1/4", "envs x4", "device", "compile"} <= names
    assert {"logging off", "checkpoints off", "just begun", "push one by one"} <= names


def test_storing_one_by_one_stores_the_same() -> None:
    together, apart = TrainLoop(complete(SMALL)), TrainLoop(complete(SMALL), [pushing_one_by_one])
    with closing(together), closing(apart):
        for _ in range(20):
            together.iterate()
            apart.iterate()
        states = [loop.inner.trainer.memory.state() for loop in (together, apart)]
        batches = [loop.inner.trainer.learner.batch for loop in (together, apart)]
    assert states[0].scalars == states[1].scalars
    np.testing.assert_array_equal(batches[0].obs, batches[1].obs)


def test_a_training_that_cannot_be_built_is_refused() -> None:
    with pytest.raises(BriskError, match="NoSuchGame"):
        examine(TrainTarget(TrainConfig(env="gym:NoSuchGame-v0")), budget_s=5)


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    train(replace(SMALL, steps=4096, run_dir=str(folder)))
    return folder


def contents(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path.relative_to(folder)): (
            hashlib.sha256(path.read_bytes()).hexdigest(),
            path.stat().st_mtime_ns,
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_run_folder_is_described_and_not_touched(finished: Path) -> None:
    before = contents(finished)
    assert any("steps/s" in line for line in describe_run(finished))
    assert contents(finished) == before


def test_a_run_of_another_version_is_reported(finished: Path) -> None:
    meta = finished / "meta.json"
    from briskrl import __version__

    meta.write_text(meta.read_text().replace(f'"briskrl": "{__version__}"', '"briskrl": "0.0.1"'))
    assert any("made by briskrl 0.0.1" in line for line in describe_run(finished))


@pytest.mark.slow
def test_advice_that_changes_learning_is_applied_only_on_request() -> None:
    report = examine(TrainTarget(replace(SMALL, engine="torch")), budget_s=12)
    safe = combine_advice(report.findings, altering=False)
    assert safe.changes.get("engine") == "fused"
    assert "algo_config.train_steps_ratio" not in safe.changes
    assert not safe.alters
    proof = measure_advice(TrainTarget(replace(SMALL, engine="torch")), safe, seconds=2)
    assert proof.gain is not None
    assert proof.gain.low > 1
