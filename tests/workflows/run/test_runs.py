"""Whole runs: search, joint training, training under one workflow, plain PPO."""

from __future__ import annotations

import html
import json
import math
import shutil

import pytest

from briskrl.core.errors import ConfigError, RunFolderError
from briskrl.envs.workflow.config import WorkflowEnvConfig
from briskrl.workflows.config import SearcherConfig
from briskrl.workflows.run.api import WorkflowTrainer
from briskrl.workflows.run.evaluation_plan import Evaluated
from briskrl.workflows.run.ledger import read_ledger
from briskrl.workflows.run.outcome import Outcome
from briskrl.workflows.run.policies import find_policy
from briskrl.workflows.run.run import read_outcome, resume_run, run_workflows
from briskrl.workflows.run.tables import read_table
from tests.workflows.run.tiny import Stopper, facts, tiny


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A finished search."""
    folder = tmp_path_factory.mktemp("search") / "run"
    return run_workflows(tiny(folder), "search")


def test_a_search_evaluates_workflows_and_recommends_one(searched):
    assert searched.stopped == "finished"
    assert len(searched.ranking) == 5
    assert searched.best is not None
    assert searched.best.is_closing
    first, second = searched.finalists[:2]
    assert first.interval.low <= first.interval.value <= first.interval.high
    assert searched.difference.value == pytest.approx(
        first.evaluated.score - second.evaluated.score
    )


def test_the_episodes_of_a_search_add_up(searched):
    jobs = searched.jobs.values()
    trained = [job for job in jobs if job.kind == "train"]
    assert searched.episodes == sum(job.episodes for job in jobs if job.kind != "closing")
    for job in trained:
        assert job.episodes == job.result["train_episodes"] + job.result["eval_episodes"]
        assert job.result["eval_episodes"] == 20
        # A rollout of 10 steps ends one episode of every environment.
        assert job.result["train_episodes"] <= job.cap + 20
    assert searched.episodes <= 700 + 20
    assert searched.outside_episodes == 5 * 20


@pytest.mark.parametrize("length", [3, 25])
def test_episodes_add_up_if_they_are_shorter_or_longer_than_a_rollout(tmp_path, length):
    """Of 3 steps, several end in one environment within a rollout of 10 steps."""
    config = tiny(
        tmp_path / "run",
        searcher=SearcherConfig(max_workflows=2),
        env_config=WorkflowEnvConfig(task_config={"red": "bline", "length": length}),
    )
    found = run_workflows(config, "search")
    most_in_a_rollout = config.num_envs * math.ceil(10 / length)
    updates = read_table(found.info.folder / "updates.csv")
    for job in found.jobs.values():
        rows = [row for row in updates if row["job_id"] == job.name]
        if job.kind in ("base", "train"):
            ended = [int(row["episodes"]) for row in rows]
            assert sum(ended) == job.result["train_episodes"] == int(rows[-1]["total_episodes"])
            assert max(ended) <= most_in_a_rollout
            assert job.result["train_episodes"] <= job.cap + most_in_a_rollout
    inside = [job.episodes for job in found.jobs.values() if job.kind != "closing"]
    assert found.episodes == sum(inside) <= config.total_episodes + most_in_a_rollout


def test_workflows_begin_with_the_base_policy(searched):
    assert [job.start_from for job in searched.jobs.values() if job.kind == "train"] == [
        "jobs/base"
    ] * 5


def test_the_tables_of_a_search_are_complete(searched):
    folder = searched.info.folder
    workflows = read_table(folder / "workflows.csv")
    assert [row["status"] for row in workflows] == ["done"] * 5
    for row in workflows:
        assert float(row["score"]) <= 0
        assert row["start_from"] == "jobs/base"
    choices = read_table(folder / "search.csv")
    assert [int(row["round"]) for row in choices] == [1, 2, 3, 4, 5]
    assert {row["phase"] for row in choices} == {"design"}
    updates = read_table(folder / "updates.csv")
    by_job = {row["job_id"] for row in updates}
    assert by_job == {"jobs/base", *(row["job_id"] for row in workflows)}
    last = [row for row in updates if row["job_id"] == "jobs/base"][-1]
    assert int(last["total_episodes"]) == 60
    assert float(last["total_return"]) == float(last["env_return"]) + float(last["bonus"])
    assert len(read_table(folder / "pairs.csv")) == 10
    assert len(read_table(folder / "exposure.csv")) == 25


def test_best_json_and_the_report_say_the_same(searched):
    folder = searched.info.folder
    best = json.loads((folder / "best.json").read_text())
    assert best["best"]["workflow"] == str(searched.best.workflow)
    assert best["order_matters"] in (True, False, None)
    page = html.unescape((folder / "report.md").read_text())
    assert str(searched.best.workflow) in page
    assert "Does the order matter?" in page
    assert "Plain PPO was not trained" in page
    assert "<svg" in (folder / "report.html").read_text()


def test_all_workflows_are_scored_by_as_many_episodes(searched):
    found = [
        Evaluated.from_json(job.result["evaluations"][0])
        for job in searched.jobs.values()
        if job.kind == "train"
    ]
    assert {one.counts.episodes for one in found} == {20}
    assert {one.counts.steps for one in found} == {200}


def test_a_finished_search_is_only_reported_again(searched, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(searched.info.folder, copy)
    again = resume_run(copy)
    assert facts(again.jobs) == facts(searched.jobs)
    assert again.best.workflow == searched.best.workflow


@pytest.mark.parametrize(("kind", "at"), [("base", 1), ("train", 0), ("train", 8), ("closing", 0)])
def test_a_search_that_was_stopped_goes_on_as_if_nothing_had_happened(searched, tmp_path, kind, at):
    stopper = Stopper(kind, at)
    folder = tmp_path / "run"
    first = run_workflows(tiny(folder), "search", reporter=stopper, stop=lambda: stopper.signal)
    assert first.stopped == "sigint"
    assert facts({n: j for n, j in first.jobs.items() if j.has_ended}) != facts(searched.jobs)
    again = resume_run(folder)
    assert again.stopped == "finished"
    assert facts(again.jobs) == facts(searched.jobs)
    rows = [(row["job_id"], row["update"]) for row in read_table(folder / "updates.csv")]
    assert len(rows) == len(set(rows))
    expected = read_table(searched.info.folder / "updates.csv")
    assert sorted(rows) == sorted((row["job_id"], row["update"]) for row in expected)


def test_a_ledger_cut_anywhere_leads_to_the_same_choices(searched, tmp_path):
    """As after a kill: the ledger ends somewhere, and results of jobs may be there already."""
    lines = (searched.info.folder / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    done = [k for k, line in enumerate(lines) if b'"event":"done"' in line]
    for cut in (done[2], done[2] + 1):
        copy = tmp_path / f"cut{cut}"
        shutil.copytree(searched.info.folder, copy)
        (copy / "ledger.jsonl").write_bytes(b"".join(lines[:cut]) + b'{"event":"do')
        assert facts(resume_run(copy).jobs) == facts(searched.jobs)


def test_a_search_needs_a_task_that_stays(searched, tmp_path):
    from briskrl.core.config import settings

    copy = tmp_path / "copy"
    shutil.copytree(searched.info.folder, copy)
    with pytest.raises(ConfigError, match="cannot change task"):
        resume_run(copy, settings({"task": "ordered-visit"}))
    assert resume_run(copy, settings({"executor": "serial"})).stopped == "finished"


def test_a_policy_is_found_by_its_workflow(searched):
    best = find_policy(searched)
    assert best.workflow == searched.best.workflow
    named = find_policy(searched, "critical-first")
    assert named.folder.name == "wf_006_v1"
    assert (named.folder / "config.toml").is_file()
    with pytest.raises(ConfigError, match="no policy for"):
        find_policy(searched, "119" if 119 not in {o.workflow_id for o in searched.scored} else "3")


def test_joint_training_sweeps_and_refines(tmp_path):
    found = run_workflows(
        tiny(
            tmp_path / "run",
            total_episodes=600,
            env_config=WorkflowEnvConfig(
                task_config={"red": "bline", "length": 10}, require=("defender>enterprise>op_host",)
            ),
        ),
        "joint",
    )
    # Ten positions of two categories among the other three, in any order: 5 * 4 orders.
    assert found.info.setup.space.size == 20
    rows = read_table(found.info.folder / "sweep.csv")
    assert len(rows) == 20
    assert {row["episodes"] for row in rows} == {"2"}
    kinds = [job.kind for job in found.jobs.values()]
    assert kinds == ["joint", "sweep", "train", "closing"]
    refined = [job for job in found.jobs.values() if job.kind == "train"]
    assert [job.start_from for job in refined] == ["jobs/joint"]
    assert found.episodes <= 600 + 20
    any_order = next(
        flow
        for flow in map(found.info.setup.space.from_id, [int(r["workflow_id"]) for r in rows])
        if flow.id != refined[0].workflow_id
    )
    assert find_policy(found, str(any_order)).follows_any


def test_one_workflow_can_be_trained_alone(tmp_path):
    trainer = WorkflowTrainer(tiny(tmp_path / "run", warm_start="none", base_episodes=None))
    found = trainer.train("user-first")
    assert [job.kind for job in found.jobs.values()] == ["train", "closing"]
    assert found.best.workflow.id == 96


def test_plain_ppo_gets_as_many_episodes(tmp_path):
    found = run_workflows(
        tiny(tmp_path / "run", total_episodes=100, warm_start="none", base_episodes=None), "ppo"
    )
    (job,) = found.jobs.values()
    assert job.result["train_episodes"] == 100
    evaluated, interval = found.plain_ppo
    assert evaluated.counts.episodes == 20
    assert interval.low <= interval.value <= interval.high


def test_a_space_of_one_workflow_is_trained_once(tmp_path):
    only = WorkflowEnvConfig(
        task_config={"red": "bline", "length": 10},
        require=("user>op_host>op_server>enterprise>defender",),
    )
    found = run_workflows(
        tiny(tmp_path / "run", env_config=only, warm_start="none", base_episodes=None), "search"
    )
    assert [job.workflow_id for job in found.jobs.values() if job.kind == "train"] == [119]
    assert found.order_effect.matters is None


def test_a_policy_that_fixes_nothing_is_not_feasible(tmp_path):
    """With a response probability of 0 no fix is ever judged: compliance is unknown."""
    asleep = WorkflowEnvConfig(task_config={"red": "bline", "length": 10, "response_prob": 0.0})
    found = run_workflows(
        tiny(tmp_path / "run", env_config=asleep, searcher=SearcherConfig(max_workflows=2)),
        "search",
    )
    assert found.stopped == "finished"
    assert math.isnan(found.best.evaluated.counts.compliance)
    assert not found.best.ranked.feasible
    assert found.as_json()["best"]["compliance"] is None
    rows = read_table(found.info.folder / "workflows.csv")
    assert [row["compliance_pooled"] for row in rows] == ["", ""]


def test_too_few_episodes_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ConfigError, match="smallest number is 100"):
        run_workflows(tiny(tmp_path / "run", total_episodes=99), "search")
    with pytest.raises(ConfigError, match="smallest number"):
        run_workflows(tiny(tmp_path / "run", total_episodes=99), "joint")
    assert not (tmp_path / "run").exists()


def test_an_existing_folder_is_not_touched(searched):
    with pytest.raises(RunFolderError, match="already exists"):
        run_workflows(tiny(searched.info.folder), "search")


def test_weights_of_another_encoding_are_refused(searched, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(searched.info.folder, copy)
    lines = (copy / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    first = next(k for k, line in enumerate(lines) if b'"kind":"train"' in line)
    (copy / "ledger.jsonl").write_bytes(b"".join(lines[:first]))
    shutil.rmtree(copy / "jobs" / "wf_006_v1")
    text = (copy / "workflow.toml").read_text()
    (copy / "workflow.toml").write_text(text.replace('"position"', '"rank"'))
    found = resume_run(copy)
    assert found.stopped == "failures"
    assert "encoding" in found.first_cause


def test_workers_and_this_process_find_the_same(searched, tmp_path):
    batches = {"parallel_workflows": 2, "sync_batches": True}
    here = run_workflows(tiny(tmp_path / "here", executor="serial", **batches), "search")
    there = run_workflows(tiny(tmp_path / "there", executor="local", **batches), "search")
    assert facts(here.jobs) == facts(there.jobs)
    rows = [
        [
            {k: v for k, v in row.items() if k != "seconds"}
            for row in read_table(f / "workflows.csv")
        ]
        for f in (here.info.folder, there.info.folder)
    ]
    assert rows[0] == rows[1]


def test_a_run_can_be_read_while_its_driver_is_gone(searched, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(searched.info.folder, copy)
    lines = (copy / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (copy / "ledger.jsonl").write_bytes(b"".join(lines[:-1]))
    found = read_outcome(copy)
    assert found.stopped == "killed"
    assert read_ledger(copy).keys() == searched.jobs.keys()
