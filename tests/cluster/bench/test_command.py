"""`brisk bench cluster` through the real command, with tiny budgets."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from briskrl.cluster.bench.command import WORKERS, ClusterBench
from briskrl.core.config import build, settings
from briskrl.core.errors import ConfigError

ROOT = Path(__file__).parents[3]
FIGURES = {
    *("jobs_scaling", "two_jobs_ratio", "overhead_per_job_s", "replicas_ratio"),
    *("averaging_share", "replicas_ratios", "averaging_shares", "replicas_of_4_ratio"),
    *("intervals", "reasons"),
}


def bench(*words: str) -> tuple[dict[str, Any], str]:
    """The figures, and what was printed on the way."""
    command = [sys.executable, "-m", "briskrl", "bench", "cluster", *words, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures, done.stderr


def test_jobs_are_measured_and_what_is_left_out_is_null_with_a_reason():
    words = ("--only", "local", "--parts", "two_jobs,overhead", "--seconds", "0.2")
    figures, progress = bench(*words, "--slices", "2")
    local, ray = figures["local"], figures["ray"]
    assert local.keys() == ray.keys() == FIGURES
    assert local["two_jobs_ratio"] > 0
    assert local["overhead_per_job_s"] > 0
    low, high = local["intervals"]["two_jobs_ratio"]
    assert 0 < low <= local["two_jobs_ratio"] <= high
    assert local["jobs_scaling"] == dict.fromkeys(map(str, WORKERS))
    assert local["reasons"].keys() == {"jobs", "replicas"}
    assert ray["two_jobs_ratio"] is None
    assert "--only local" in ray["reasons"]["all"]
    assert "local: two computing jobs, turn 2 of 2" in progress


@pytest.mark.slow
def test_jobs_scale_with_workers():
    figures, _ = bench("--only", "local", "--parts", "jobs", "--seconds", "2", "--slices", "1")
    scaling = figures["local"]["jobs_scaling"]
    assert scaling["1"] == 1.0
    assert 1.0 < scaling["2"] < scaling["4"]


def test_an_address_is_for_ray():
    with pytest.raises(ConfigError, match="leaves out"):
        build(ClusterBench, settings({"only": "local", "address": "auto"}))


def test_parts_have_the_names_of_the_help():
    with pytest.raises(ConfigError, match="parts"):
        build(ClusterBench, settings({"parts": ("job",)}))
