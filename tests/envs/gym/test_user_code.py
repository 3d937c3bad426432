"""Modules and files of the user: what `--import` and `--env-file` find, and what errors say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from briskrl.core.errors import ConfigError
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.env_factory import EnvFactory
from briskrl.envs.gym.user_code import import_env_file, import_user_module
from briskrl.training.resolve import load_config
from briskrl.training.trust import check_trusted
from tests.cli.conftest import environment

ENV_FILE = """
import gymnasium, numpy as np
from helper_beside import LENGTH

class Corridor(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.at += 1
        return np.zeros(1, np.float32), float(action), self.at == LENGTH, False, {}

gymnasium.register("Corridor-v0", "corridor_envs:Corridor")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "corridor_envs.py").write_text(ENV_FILE)
    (tmp_path / "helper_beside.py").write_text("LENGTH = 5\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


def brisk(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "briskrl", *words]
    return subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize(
    "flags",
    [("--import", "corridor_envs"), ("--env-file", "corridor_envs.py", "--backend", "process")],
    ids=["import", "file"],
)
def test_a_file_of_the_current_folder_trains_and_is_evaluated_from_anywhere(
    flags: tuple[str, ...], folder: Path
) -> None:
    small = ("--algo", "a2c", "--num-envs", "2", "--steps", "64", "--run-dir", "run")
    done = brisk(folder, "train", "gym:Corridor-v0", *flags, *small)
    assert done.returncode == 0, done.stderr
    config = load_config(folder / "run" / "config.toml")
    assert config.env_config.env_files == (str(folder / "corridor_envs.py"),)
    assert config.env_config.packages == ()
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    done = brisk(elsewhere, "eval", str(folder / "run"), "--episodes", "2")
    assert done.returncode == 0, done.stderr
    assert "steps   5.0 per episode" in done.stdout


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("corridor_envs", r"The current folder has corridor_envs.*--import corridor_envs"),
        ("no_such_thing", r"no installed package 'no_such_thing'.*--env-file PATH/no_such_thing"),
    ],
)
def test_a_missing_module_gets_a_hint(name: str, hint: str, folder: Path) -> None:
    with pytest.raises(ConfigError, match=hint):
        import_user_module(name)
    assert name not in sys.modules


def test_errors_of_the_users_file_show_its_lines(folder: Path) -> None:
    (folder / "broken_envs.py").write_text("x = 1\nraise KeyError('dragon')\n")
    with pytest.raises(ConfigError, match=r"(?s)KeyError: 'dragon'.*broken_envs.py\", line 2"):
        import_env_file("broken_envs.py")
    assert "broken_envs" not in sys.modules
    (folder / "needs.py").write_text("import no_such_thing\n")
    with pytest.raises(ConfigError, match="No module named 'no_such_thing'"):
        import_env_file("needs.py")


def test_a_file_that_would_replace_a_module_is_refused(folder: Path) -> None:
    (folder / "json.py").write_text("")
    with pytest.raises(ConfigError, match="another module is called 'json'"):
        import_env_file("json.py")
    with pytest.raises(ConfigError, match="There is no Python file"):
        import_env_file("absent.py")


def test_an_installed_package_comes_before_the_current_folder(folder: Path) -> None:
    (folder / "numpy.py").write_text("raise SystemExit")
    from briskrl.core.config import Setting

    given = {"import": Setting(("numpy", "corridor_envs"))}
    found = GymConfig.resolve_flags(given)
    assert found["packages"].value == ("numpy",)
    assert found["env_files"].value == (str(folder / "corridor_envs.py"),)


@pytest.mark.skipif(os.name != "posix", reason="permissions")
def test_a_file_that_others_can_change_needs_trust(folder: Path) -> None:
    file = folder / "corridor_envs.py"
    modules = GymConfig(env_files=(str(file),)).modules("gym:Corridor-v0")
    check_trusted([], modules, trust=False)
    file.chmod(0o666)
    with pytest.raises(ConfigError, match=r"corridor_envs.py can be changed by other users"):
        check_trusted([], modules, trust=False)
    check_trusted([], modules, trust=True)


def test_an_id_of_a_known_package_that_is_missing_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("briskrl.envs.gym.known_packages.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install ale-py"):
        EnvFactory("ALE/NoSuchGame-v5").make()
