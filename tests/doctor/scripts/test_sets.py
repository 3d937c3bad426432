"""The sets of scripts on which the doctor is tested, and the rules by which it is judged."""

import pytest

from benchmarks.doctor_scripts import Case, Place, read_place, read_set, table


@pytest.mark.parametrize(
    ("name", "count"), [("first", 12), ("second", 12), ("third", 12), ("legacy", 4)]
)
def test_every_fault_has_a_place_or_a_warning(name, count):
    cases = read_set(name)
    assert len(cases) == count
    assert all(case.script.is_file() and (case.places or case.warning) for case in cases)


def test_sets_share_no_script():
    names = [case.script.name for name in ("first", "second", "third") for case in read_set(name)]
    assert len(set(names)) == 36
    assert len(read_set("healthy")) == 7


def test_a_place_that_is_gone_is_an_error(tmp_path):
    (tmp_path / "a.py").write_text("one\ntwo\nthree\ntwo\n")
    assert read_place(tmp_path, "a.py", "two", "two", 2) == Place("a.py", 2, 4)
    with pytest.raises(ValueError, match="no line with 'four'"):
        read_place(tmp_path, "a.py", "four")


@pytest.mark.parametrize(
    ("location", "hit"),
    [
        ("a.py:9-10", True),
        ("x/a.py:12", True),
        ("a.py:13-20", False),
        ("b.py:10", False),
        ("", False),
    ],
)
def test_locations_overlap_places(location, hit):
    assert Place("a.py", 10, 12).overlaps(location) is hit


def _report(*causes, location="a.py:10", warnings=()):
    findings = [
        {"cause": cause, "location": location, "gain": {"factor": 2.0}, "basis": "measured"}
        for cause in causes
    ]
    return {"findings": findings, "script": {"warnings": warnings}}


def test_only_the_first_finding_counts(tmp_path):
    case = Case(tmp_path, kinds=("store",), places=(Place("a.py", 10, 12),))
    assert case.is_named_by(_report("store", "updates"))
    assert not case.is_named_by(_report("updates", "store"))
    assert not case.is_named_by(_report("store", location="a.py:99"))
    assert not case.is_named_by(_report("store", location=""))


def test_healthy_scripts_and_warnings_allow_no_finding(tmp_path):
    healthy, warned = Case(tmp_path, healthy=True), Case(tmp_path, warning="time limit")
    assert healthy.is_named_by(_report())
    assert not healthy.is_named_by(_report("env"))
    assert warned.is_named_by(_report(warnings=["A time limit is stored as the end of the game."]))
    assert not warned.is_named_by(_report())
    assert not warned.is_named_by(_report("env", warnings=["A time limit is stored."]))


def test_the_table_counts_targets():
    row = {
        "script": "a.py",
        "right": True,
        "findings": [
            {"cause": "store", "location": "a.py:1", "gain": {"factor": 2.0}, "basis": "measured"}
        ],
        "separate_gain": 1.9,
        "gain_near": True,
        "coverage": 0.97,
        "cost": 1.05,
        "wall_s": 70.0,
        "budget_s": 60.0,
    }
    text = table([row, {"script": "b.py", "right": False, "failed": "", "gain_near": None}])
    assert "right: 1 of 2" in text
    assert "gains within 25%: 1 of 1" in text
    assert "watching costs 3% or less: 0 of 1" in text
