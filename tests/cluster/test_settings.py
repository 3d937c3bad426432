"""The settings of every command that runs jobs, and the executors that they open."""

from __future__ import annotations

from pathlib import Path

import pytest

from briskrl.cluster.local import LocalExecutor
from briskrl.cluster.settings import ExecutorConfig, open_executor
from briskrl.core.config import build, field_docs, field_hints, settings
from briskrl.core.cpu import usable_cores
from briskrl.core.errors import ConfigError


def test_the_default_is_local_processes_in_the_folder_of_the_command(tmp_path: Path):
    with open_executor(ExecutorConfig(), tmp_path) as executor:
        assert isinstance(executor, LocalExecutor)
        assert executor.folder == tmp_path
        assert executor.slots == usable_cores()


def test_jobs_count_jobs_of_the_given_number_of_cores(tmp_path: Path):
    with open_executor(ExecutorConfig(jobs=3), tmp_path, cpus_per_job=2) as executor:
        assert executor.slots == 6


def test_one_job_runs_even_if_it_needs_more_cores_than_there_are(tmp_path: Path):
    cores = 2 * usable_cores()
    with open_executor(ExecutorConfig(), tmp_path, cpus_per_job=cores) as executor:
        assert executor.slots == cores


def test_a_storage_folder_replaces_the_folder_of_the_command(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with open_executor(ExecutorConfig(storage="~/elsewhere"), tmp_path / "here") as executor:
        assert executor.folder == tmp_path / "elsewhere"


def test_with_a_storage_url_jobs_work_in_the_folder_of_the_command(tmp_path: Path):
    with open_executor(ExecutorConfig(storage="memory://kept"), tmp_path) as executor:
        assert executor.folder == tmp_path


def test_a_storage_url_that_cannot_be_used_is_a_clear_error(tmp_path: Path):
    with pytest.raises(ConfigError, match="nonsense://bucket"):
        open_executor(ExecutorConfig(storage="nonsense://bucket"), tmp_path)


def test_an_address_needs_the_ray_executor():
    with pytest.raises(ConfigError, match="executor = ray"):
        build(ExecutorConfig, settings({"address": "auto"}))
    assert build(ExecutorConfig, settings({"address": "auto", "executor": "ray"})).address == "auto"


def test_every_setting_has_a_help_text():
    assert field_docs(ExecutorConfig).keys() == field_hints(ExecutorConfig).keys()
