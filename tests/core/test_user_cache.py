from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from briskrl.core.user_cache import make_folder, user_cache, user_state

ROOT = Path(__file__).resolve().parents[2]
USE_EVERYTHING = """
import os
from pathlib import Path
# The effective user stays the same: an interpreter in somebody's home must stay readable.
os.setresuid(54_321, -1, -1)
try:
    Path.home()
except RuntimeError:
    pass
else:
    raise SystemExit("this user has a home")
from briskrl.compiler.jit import cache_folder
from briskrl.core.user_cache import user_cache
from briskrl.training.machine_profile import load_profile, profile_path, save
from briskrl.tuning.cache import CachedResult, load, save as save_result
from briskrl.plots.style import new_figure
assert user_cache() is cache_folder() is load_profile() is profile_path() is load("a") is None
assert save_result("a", CachedResult({}, 1.0, 1.0, 1.0, 1, "")) is None
from briskrl.cli.main import main
for command in ("runs", "envs", "algos", "train --help"):
    assert main(command.split()) == 0
"""


def test_the_cache_is_where_the_environment_puts_it(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert user_cache() == tmp_path / ".cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert user_cache() == tmp_path / "other"


@pytest.mark.parametrize("given", ["", "cache", "../cache"])
def test_a_relative_cache_folder_is_ignored(monkeypatch, tmp_path, given):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", given)
    assert user_cache() == tmp_path / ".cache"


def test_all_missing_folders_are_made_for_their_owner_only(tmp_path):
    before = os.umask(0)
    try:
        make_folder(tmp_path / "a" / "b" / "c")
        make_folder(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "a").rglob("*")] == [0o700] * 2
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_without_a_name_and_a_home_can_use_everything(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", USE_EVERYTHING],
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("XDG_CACHE_HOME") == 1


def test_the_state_is_apart_from_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert user_state() == tmp_path / ".local" / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    assert user_state() == tmp_path / "other"
