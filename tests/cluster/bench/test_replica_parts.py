"""Measured runs with replicas do what is measured and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from briskrl.cluster.bench.replica_parts import ReplicaRuns
from briskrl.cluster.bench.workloads import tiny_run
from briskrl.core.errors import BriskError
from briskrl.training.storage.run_dir import RunDir


def test_a_measured_run_is_not_evaluated(tmp_path: Path):
    runs = ReplicaRuns(tmp_path / "runs", "local", None)
    assert runs.rate(replace(tiny_run(), steps=128), replicas=1) > 0
    assert "final_episodes" not in RunDir.open(tmp_path / "runs" / "run-0").read_meta()
    assert runs.averaging_shares == []


def test_a_run_that_fails_is_an_error_with_its_last_line(tmp_path: Path):
    runs = ReplicaRuns(tmp_path / "runs", "local", None)
    # 16 environments cannot be divided among 3 replicas.
    with pytest.raises(BriskError, match=r"with 3 replicas has failed: .*num_envs"):
        runs.rate(tiny_run(), replicas=3)
