"""Findings: what counts as one, how they are merged, and their order."""

from __future__ import annotations

from dataclasses import replace

from briskrl.doctor.experiments.base import Experiment, missing, outcome
from briskrl.doctor.findings import find, from_experiment
from briskrl.doctor.paired_turns import Comparison
from briskrl.doctor.report.records import Finding, Gain
from tests.doctor.fake_loops import SleepingLoop


def experiment(cause: str = "engine", worth: float | None = 1.05, **more: object) -> Experiment:
    made = Experiment(
        name=cause,
        question="?",
        cause=cause,
        change=f"--{cause}",
        open=lambda: SleepingLoop(lambda i: 0.0),
        worth=worth,
    )
    return replace(made, **more)  # type: ignore[arg-type]


def comparison(factor: float, spread: float = 0.01) -> Comparison:
    gain = Gain(factor, factor * (1 - spread), factor * (1 + spread))
    return Comparison(gain, gain, 10, 100.0, 100.0 * factor)


def finding(cause: str, factor: float, **more: object) -> Finding:
    made = Finding(cause, cause, (cause,), "", Gain(factor, factor, factor), "predicted")
    return replace(made, **more)  # type: ignore[arg-type]


def test_a_clear_gain_is_a_finding_and_an_unclear_one_is_not() -> None:
    tried = experiment()
    clear = from_experiment(tried, outcome(tried, comparison(1.5)))
    assert clear is not None
    assert (clear.basis, clear.gain.factor, clear.advice) == ("measured", 1.5, "--engine")
    assert from_experiment(tried, outcome(tried, comparison(1.5, spread=0.5))) is None
    assert from_experiment(tried, outcome(tried, comparison(1.35, spread=0.25))) is None
    assert from_experiment(tried, outcome(tried, comparison(1.03))) is None
    assert from_experiment(tried, missing(tried, "no time")) is None


def test_an_experiment_that_only_answers_a_question_is_no_finding() -> None:
    tried = experiment(worth=None)
    assert from_experiment(tried, outcome(tried, comparison(7.0))) is None


def test_verdicts_follow_the_interval() -> None:
    tried = experiment()
    assert outcome(tried, comparison(2.0)).verdict == "helps"
    assert outcome(tried, comparison(0.5)).verdict == "hurts"
    assert outcome(tried, comparison(1.0)).verdict == "no difference"
    assert outcome(tried, comparison(1.1, spread=0.3)).verdict == "unclear"
    assert outcome(tried, None).verdict == "missing"


def test_one_finding_per_cause_with_the_largest_measured_gain_and_all_evidence() -> None:
    half, quarter = experiment("updates"), experiment("updates", change="--quarter")
    found = find(
        [(half, outcome(half, comparison(1.5))), (quarter, outcome(quarter, comparison(2.5)))],
        [finding("updates", 9.0, title="learning is expensive")],
    )
    assert len(found) == 1
    assert (found[0].basis, found[0].gain.factor) == ("measured", 2.5)
    assert found[0].title == "learning is expensive"
    assert len(found[0].evidence) == 3


def test_a_partial_fix_yields_to_a_symptom_with_a_larger_gain() -> None:
    silent = experiment("write-per-step", partial=True)
    tried = [(silent, outcome(silent, comparison(1.1)))]
    (found,) = find(tried, [finding("write-per-step", 1.6)])
    assert (found.basis, found.gain.factor) == ("predicted", 1.6)
    (found,) = find(tried, [finding("write-per-step", 1.1)])
    assert found.basis == "measured"


def test_findings_are_ranked_by_gain_and_ceilings_come_last() -> None:
    found = find(
        [],
        [
            finding("env", 50.0, basis="ceiling"),
            finding("leak", 1.0),
            finding("log", 1.2),
            finding("store", 3.0),
        ],
    )
    assert [one.cause for one in found] == ["store", "log", "leak", "env"]
