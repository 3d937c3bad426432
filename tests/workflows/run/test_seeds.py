"""Seeds of jobs."""

from __future__ import annotations

from briskrl.workflows.run.seeds import job_seed


def test_training_seeds_differ_by_root_workflow_visit_and_stage():
    seeds = {
        job_seed(root, stage, workflow_id=workflow, visit=visit)
        for root in (0, 1)
        for stage in ("base", "train")
        for workflow in (0, 5)
        for visit in (1, 2)
    }
    assert len(seeds) == 16


def test_all_workflows_are_evaluated_on_the_same_episodes():
    assert job_seed(3, "eval", workflow_id=1) == job_seed(3, "eval", workflow_id=7, visit=2)
    assert job_seed(3, "eval") != job_seed(3, "closing")
    assert job_seed(3, "eval") not in {job_seed(3, "train", workflow_id=i) for i in range(50)}


def test_seeds_are_those_of_earlier_versions():
    # Runs must stay reproducible.
    assert job_seed(0, "train", workflow_id=24, visit=1) == 4282013740818640830
