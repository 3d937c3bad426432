"""A search whose jobs run on a Ray cluster finds what this process finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from briskrl.cluster.ray.rehearsal import Rehearsal
from briskrl.workflows.run.run import resume_run, run_workflows
from briskrl.workflows.run.tables import read_table
from tests.workflows.run.tiny import Stopper, facts, tiny

BATCHES: dict[str, Any] = {"parallel_workflows": 2, "sync_batches": True}


@pytest.mark.slow
def test_a_search_on_ray_finds_what_this_process_finds(cluster: Rehearsal, tmp_path: Path):
    here = run_workflows(tiny(tmp_path / "here", executor="serial", **BATCHES), "search")
    settings = tiny(tmp_path / "there", executor="ray", address=cluster.address, **BATCHES)
    there = run_workflows(settings, "search")
    assert there.stopped == "finished"
    assert facts(there.jobs) == facts(here.jobs)
    rows = [
        [{**row, "seconds": ""} for row in read_table(found.info.folder / "workflows.csv")]
        for found in (here, there)
    ]
    assert rows[0] == rows[1]
    # What was learned has come back from the nodes.
    for name, job in there.jobs.items():
        if job.kind in ("base", "train"):
            assert (there.info.folder / name / "weights.safetensors").is_file()


@pytest.mark.slow
def test_an_interrupted_search_on_ray_goes_on_as_if_nothing_had_happened(
    cluster: Rehearsal, tmp_path: Path
):
    here = run_workflows(tiny(tmp_path / "here", executor="serial", **BATCHES), "search")
    folder, stopper = tmp_path / "there", Stopper("train", 2)
    settings = tiny(folder, executor="ray", address=cluster.address, **BATCHES)
    first = run_workflows(settings, "search", reporter=stopper, stop=lambda: stopper.signal)
    assert first.stopped == "sigint"
    again = resume_run(folder)
    assert again.stopped == "finished"
    assert facts(again.jobs) == facts(here.jobs)
