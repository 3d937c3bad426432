"""The ledger of a sweep: nothing is lost, nothing is counted twice."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from briskrl.cluster.sweep.ledger import ENDS, LEDGER, Ledger, PlannedTrial, read_ledger, run_name
from briskrl.core.errors import RunFolderError

TRIALS = [PlannedTrial(0, {"lr": 0.1}, [0, 1]), PlannedTrial(1, {"lr": 0.2}, [0, 1])]
NAMES = [run_name(trial.trial, seed) for trial in TRIALS for seed in trial.seeds]
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["running", "retried", "saved", *ENDS]),
        st.sampled_from(NAMES),
        st.integers(0, 9),
    ),
    max_size=25,
)


def add(ledger: Ledger, event: str, name: str, number: int) -> None:
    facts = {"done": {"result": {"score": number}}, "failed": {"cause": f"cause {number}"}}
    ledger.add(event, name, **facts.get(event, {}))


@settings(max_examples=25)
@given(EVENTS)
def test_replaying_the_file_gives_the_state_of_the_writer(events):
    with tempfile.TemporaryDirectory() as name:
        ledger = Ledger(Path(name))
        ledger.plan(TRIALS)
        for event in events:
            add(ledger, *event)
        ledger.close()
        assert read_ledger(Path(name)) == list(ledger.records.values())
        assert [record.name for record in read_ledger(Path(name))] == NAMES


@settings(max_examples=25)
@given(EVENTS)
def test_the_first_end_of_a_run_counts_and_later_ones_are_noted(events):
    with tempfile.TemporaryDirectory() as name:
        ledger = Ledger(Path(name))
        ledger.plan(TRIALS)
        first: dict[str, tuple[str, int]] = {}
        for event, run, number in events:
            add(ledger, event, run, number)
            if event in ENDS:
                first.setdefault(run, (event, number))
        ledger.close()
        for record in read_ledger(Path(name)):
            state, number = first.get(record.name, ("", 0))
            assert record.has_ended == bool(state)
            assert not state or record.state == state
            assert record.result == ({"score": number} if state == "done" else None)
        lines = [json.loads(line) for line in (Path(name) / LEDGER).read_text().splitlines()]
        ends = [line for line in lines if line["event"] in ENDS]
        assert len(ends) == len(first)


@settings(max_examples=25)
@given(EVENTS, st.data())
def test_a_ledger_cut_anywhere_is_that_of_an_earlier_moment_and_continues(events, data):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ledger = Ledger(folder)
        ledger.plan(TRIALS)
        states = [list(ledger.records.values())]
        for event in events:
            add(ledger, *event)
            states.append(list(ledger.records.values()))
        ledger.close()
        content = (folder / LEDGER).read_bytes()
        planned = sum(map(len, content.splitlines(keepends=True)[: len(TRIALS)]))
        cut = data.draw(st.integers(planned, len(content)))
        (folder / LEDGER).write_bytes(content[:cut])
        assert read_ledger(folder) in states

        again = Ledger(folder)
        again.plan(TRIALS)
        again.add("running", NAMES[0])
        again.close()
        assert read_ledger(folder) == list(again.records.values())
        assert len(again.records) == len(NAMES)


def test_a_plan_torn_between_its_trials_is_completed(tmp_path: Path):
    ledger = Ledger(tmp_path)
    ledger.plan(TRIALS)
    ledger.close()
    path = tmp_path / LEDGER
    path.write_bytes(path.read_bytes()[:-5])
    assert [record.trial for record in read_ledger(tmp_path)] == [0, 0]
    again = Ledger(tmp_path)
    again.plan(TRIALS)
    again.close()
    assert [record.name for record in read_ledger(tmp_path)] == NAMES


def test_a_failed_run_can_be_tried_again(tmp_path: Path):
    ledger = Ledger(tmp_path)
    ledger.plan(TRIALS)
    ledger.add("failed", NAMES[0], cause="the disk was full")
    assert ledger.records[NAMES[0]].cause == "the disk was full"
    ledger.add("again", NAMES[0])
    ledger.add("done", NAMES[0], result={"score": 1.0})
    ledger.close()
    record = read_ledger(tmp_path)[0]
    assert (record.state, record.cause, record.result) == ("done", None, {"score": 1.0})


def test_reruns_of_the_best_trial_are_apart(tmp_path: Path):
    ledger = Ledger(tmp_path)
    ledger.plan([*TRIALS, PlannedTrial(1, {"lr": 0.2}, [2], confirms=True)])
    ledger.close()
    assert [record.confirms for record in read_ledger(tmp_path)] == [False] * 4 + [True]


@pytest.mark.parametrize(
    "line", [b"[1]\n", b"{}\n", b'{"event":"done","name":"runs/unknown"}\n', b"nonsense\n"]
)
def test_a_file_with_other_content_is_an_error_that_names_it(tmp_path: Path, line: bytes):
    (tmp_path / LEDGER).write_bytes(line)
    with pytest.raises(RunFolderError, match=LEDGER):
        read_ledger(tmp_path)
    with pytest.raises(RunFolderError, match=LEDGER):
        Ledger(tmp_path)


def test_a_folder_without_a_ledger_is_no_sweep(tmp_path: Path):
    with pytest.raises(RunFolderError, match="not a sweep folder"):
        read_ledger(tmp_path)


MALFORMED = {
    "a trial as a text": (b'"trial": 0', b'"trial": "0"'),
    "a seed as a text": (b'[0, "runs/000-seed0"]', b'["0", "runs/000-seed0"]'),
    "another folder": (b'"runs/000-seed0"]', b'"../../000-seed0"]'),
    "values as a list": (b'"values": {"lr": 0.1}', b'"values": [1]'),
    "a flag as a number": (b'"confirms": false', b'"confirms": 0'),
    "a result as a text": (b'"result": {"score": 1.0}', b'"result": "good"'),
    "a score as a text": (b'{"score": 1.0}', b'{"score": "1"}'),
    "a score of a thousand digits": (b'{"score": 1.0}', b'{"score": 1' + b"0" * 1000 + b"}"),
    "a cause as a list": (b'"cause": "broken"', b'"cause": ["broken"]'),
    "an unknown run": (b'"name": "runs/000-seed1"', b'"name": "runs/009-seed1"'),
}


@pytest.mark.parametrize(("good", "bad"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_ledger_is_refused(tmp_path: Path, good: bytes, bad: bytes):
    ledger = Ledger(tmp_path)
    ledger.plan(TRIALS)
    ledger.add("done", NAMES[0], result={"score": 1.0})
    ledger.add("failed", NAMES[1], cause="broken")
    ledger.close()
    path = tmp_path / LEDGER
    rows = [json.dumps(json.loads(line)).encode() for line in path.read_bytes().splitlines()]
    content = b"\n".join([*rows, b""])
    assert good in content
    path.write_bytes(content.replace(good, bad))
    with pytest.raises(RunFolderError, match="cannot be read"):
        read_ledger(tmp_path)
