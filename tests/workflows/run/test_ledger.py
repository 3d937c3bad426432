"""The ledger: charges, reservations, replay."""

from __future__ import annotations

import json

import pytest

from briskrl.core.errors import RunFolderError
from briskrl.workflows.run.ledger import LEDGER, JobRecord, Ledger, how_it_ended, read_ledger

RESULT = {"train_episodes": 70, "eval_episodes": 30, "evaluations": []}


def train(name: str, number: int, **changes) -> JobRecord:
    return JobRecord(name, "train", workflow_id=number, visit=1, cap=100, reserved=130, **changes)


@pytest.fixture
def ledger(tmp_path):
    found = Ledger(tmp_path)
    yield found
    found.close()


def test_a_dispatch_reserves_and_a_result_returns_what_was_not_used(ledger):
    ledger.dispatch([train("a", 0), train("b", 1)])
    assert (ledger.account(1000).reserved, ledger.account(1000).left) == (260, 740)
    ledger.done("a", RESULT, 100)
    account = ledger.account(1000)
    assert (account.used, account.reserved, account.left) == (100, 130, 770)


def test_a_failed_job_is_charged_what_it_has_reported(ledger):
    ledger.dispatch([train("a", 0)])
    ledger.progress("a", 40, 4000)
    ledger.retried("a", "killed")
    ledger.progress("a", 20, 2000)
    assert ledger.failed("a", "no luck").charged == 20
    assert ledger.account(1000).reserved == 0


def test_closing_evaluation_and_plain_ppo_are_outside(ledger):
    ledger.dispatch([JobRecord("c", "closing"), JobRecord("p", "plain", cap=1000)])
    ledger.done("c", RESULT, 100)
    ledger.done("p", RESULT, 100)
    assert ledger.account(1000).used == 0


def test_the_ledger_of_a_killed_driver_is_replayed(tmp_path, ledger):
    ledger.dispatch([train("a", 5, start_from="jobs/base", choice={"round": 1})])
    ledger.done("a", RESULT, 100)
    ledger.dispatch([train("b", 7)])
    ledger.progress("b", 10, 1000)
    again = Ledger(tmp_path)
    assert again.jobs == ledger.jobs
    assert [job.state for job in again.jobs.values()] == ["done", "dispatched"]
    again.close()


def test_a_torn_line_counts_as_not_written(tmp_path, ledger):
    ledger.dispatch([train("a", 5)])
    with (tmp_path / LEDGER).open("ab") as file:
        file.write(b'{"event":"done","job":"a"')
    assert read_ledger(tmp_path)["a"].state == "dispatched"
    again = Ledger(tmp_path)
    again.done("a", RESULT, 100)
    again.close()
    assert read_ledger(tmp_path)["a"].state == "done"


def test_a_job_that_has_ended_stays_as_it_is(ledger):
    ledger.dispatch([train("a", 5)])
    ledger.done("a", RESULT, 100)
    assert ledger.failed("a", "late").state == "done"
    assert ledger.account(1000).used == 100


def test_jobs_are_dispatched_together_or_not_at_all(tmp_path, ledger):
    before = (tmp_path / LEDGER).stat().st_size
    ledger.dispatch([train("a", 5), train("b", 6)])
    block = (tmp_path / LEDGER).read_bytes()[before:]
    assert [json.loads(line)["job"] for line in block.splitlines()] == ["a", "b"]


def test_what_is_no_ledger_is_refused(tmp_path):
    with pytest.raises(RunFolderError, match="no ledger"):
        read_ledger(tmp_path)
    (tmp_path / LEDGER).write_text('{"event":"done","job":"unknown"}\n')
    with pytest.raises(RunFolderError, match="cannot be read"):
        read_ledger(tmp_path)
    (tmp_path / LEDGER).write_text('{"event":"dispatch","job":"x","kind":"cook"}\n')
    with pytest.raises(RunFolderError, match="cannot be read"):
        read_ledger(tmp_path)


def test_how_a_run_has_ended(tmp_path, ledger):
    ledger.note("begin")
    assert how_it_ended(tmp_path) == "killed"
    ledger.note("end", reason="sigint")
    assert how_it_ended(tmp_path) == "sigint"
    ledger.note("begin")
    assert how_it_ended(tmp_path) == "killed"
