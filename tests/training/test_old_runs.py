"""Runs that an earlier version wrote still load, evaluate and resume to the same result.

Each archive in old_runs/<version>/ holds the folder `run` of a short run that this version trained
and stopped, and in `reached` the policy and the counters of the same version after `resume
--steps`. make_old_runs.py writes them for a release.
"""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from briskrl.core.errors import ConfigError, RunFolderError
from briskrl.core.types import State
from briskrl.training.evaluate import evaluate
from briskrl.training.loop import resume
from briskrl.training.resolve import load_config
from briskrl.training.storage.run_dir import RunDir
from tests.training.make_old_runs import FIRST, FOLDER
from tests.training.runs import policy_hash

ARCHIVES = sorted(FOLDER.glob("*/*.tar.gz"))
CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


@pytest.fixture(params=ARCHIVES, ids=lambda path: f"{path.parent.name}-{path.name[:-7]}")
def unpacked(request, tmp_path):
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def test_every_released_version_has_its_archives():
    released = set(re.findall(r"^## \[?(\d[^\] ]*)", CHANGELOG.read_text(), re.MULTILINE))
    versions = {FIRST.name, *released}
    assert {path.parent.name for path in ARCHIVES} == versions
    assert len(list(FIRST.iterdir())) == 9
    for version in versions:
        found = list((FOLDER / version).iterdir())
        assert {path.name for path in found} == {path.name for path in FIRST.iterdir()}
        assert sum(path.stat().st_size for path in found) < 400_000


def test_an_old_run_loads_evaluates_and_resumes_to_the_same_policy(unpacked):
    run, reached = unpacked / "run", unpacked / "reached"
    config = load_config(run / "config.toml")
    assert evaluate(run, episodes=4).episodes == 4
    expected = json.loads((reached / "counters.json").read_text())
    assert expected["env_steps"] == 2 * config.steps
    result = resume(run, steps=expected["env_steps"])
    assert {name: getattr(result, name) for name in expected} == expected
    found = load_file(run / "policy" / "model.safetensors")
    wanted = load_file(reached / "model.safetensors")
    assert found.keys() == wanted.keys()
    # Equal to the bit on the processor that wrote them; others may add up in another order.
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.fixture
def old_run(tmp_path):
    with tarfile.open(FIRST / "dqn-snake.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "run"


def test_an_old_run_killed_before_its_policy_was_written_plays_its_checkpoint(old_run):
    before = policy_hash(old_run)
    run = RunDir.open(old_run)
    state, description = run.load_policy_files()
    earlier = State({name: 0 * array for name, array in state.arrays.items()}, state.scalars)
    run.save_policy(earlier, {**description, "env_steps": 8})
    assert policy_hash(old_run) != before
    found, about = RunDir.open(old_run).load_policy_files()
    assert about == description
    assert all((found.arrays[name] == array).all() for name, array in state.arrays.items())
    assert policy_hash(old_run) == before


def test_an_old_run_without_a_policy_gets_one_from_a_resume(old_run):
    before = policy_hash(old_run)
    shutil.rmtree(old_run / "policy")
    with pytest.raises(RunFolderError, match="brisk resume"):
        evaluate(old_run, episodes=1)
    with pytest.raises(ConfigError, match="reached its budget"):
        resume(old_run)
    assert policy_hash(old_run) == before
