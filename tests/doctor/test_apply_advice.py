"""Advice of several findings is combined into one set of changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from briskrl.doctor.apply_advice import combine_advice
from briskrl.doctor.report.records import Finding, Gain


def finding(cause: str, changes: dict[str, Any], factor: float = 2.0) -> Finding:
    return Finding(
        cause=cause,
        title=cause,
        evidence=(),
        advice=cause,
        gain=Gain(factor, factor, factor),
        basis="measured",
        changes=changes,
    )


def test_of_two_changes_of_one_setting_the_larger_gain_wins() -> None:
    findings = [
        finding("threads", {"threads": 2}, 3.0),
        finding("overlap", {"overlap": True, "threads": 1}, 2.0),
        finding("engine", {"engine": "fused"}, 1.5),
    ]
    advice = combine_advice(findings, altering=False)
    assert advice.changes == {"threads": 2, "engine": "fused"}
    assert advice.causes == ("threads", "engine")


def test_changes_that_alter_learning_are_made_on_request_only() -> None:
    altering = replace(finding("updates", {"ratio": 0.1}), alters_learning="less is learned")
    both = [altering, finding("engine", {"engine": "fused"})]
    assert combine_advice(both, altering=False).changes == {"engine": "fused"}
    assert combine_advice(both, altering=False).alters == ""
    combined = combine_advice(both, altering=True)
    assert combined.changes == {"ratio": 0.1, "engine": "fused"}
    assert combined.alters == "less is learned"


def test_predicted_gains_are_not_applied() -> None:
    guessed = replace(finding("store", {"push": "batch"}), basis="predicted")
    assert combine_advice([guessed], altering=True).changes == {}
