"""A config.toml that was changed before a resume."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from briskrl.algos.dqn.config import DQNConfig
from briskrl.cli.main import main
from briskrl.core.config import changeable_fields, field_hints, to_dict
from briskrl.core.errors import ConfigError
from briskrl.envs.gym.config import GymConfig
from briskrl.training.config import TrainConfig
from briskrl.training.config_changes import check_unchanged
from briskrl.training.loop import resume, train
from briskrl.training.resolve import load_config
from tests.training.runs import small_config


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("changes") / "run"
    train(small_config(folder, steps=640, checkpoint_steps=320))
    return folder


def edited(finished: Path, tmp_path: Path, old: str, new: str) -> Path:
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    file = folder / "config.toml"
    text = re.sub(old, new, file.read_text(), count=1, flags=re.MULTILINE)
    assert text != file.read_text()
    file.write_text(text)
    return folder


FIXED = [
    ("^num_envs = 16", "num_envs = 32", "num_envs = 32 (was 16)"),
    ("^seed = 5", "seed = 6", "seed = 6 (was 5)"),
    ('^algo = "dqn"', 'algo = "ppo"', "algo = 'ppo' (was 'dqn')"),
    ('^env = "snake"', 'env = "cartpole"', "env = 'cartpole' (was 'snake')"),
    (r"^net = \[[^\]]*\]", "net = [64]", "algo_config.net = [64] (was [32])"),
    ("^adam_eps = .*", "adam_eps = 0.5", "algo_config.adam_eps = 0.5 (was 1e-08)"),
    ("^height = 10", "height = 12", "env_config.height = 12 (was 10)"),
    ("^batch_size = 16\n", "", "algo_config.batch_size = 128 (was 16)"),
]


@pytest.mark.parametrize(("old", "new", "message"), FIXED, ids=[case[2] for case in FIXED])
def test_a_setting_that_the_saved_state_depends_on_is_refused_by_name(
    old: str,
    new: str,
    message: str,
    finished: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = edited(finished, tmp_path, old, new)
    if message.startswith(("algo =", "env =")):
        # Settings of the old one mean nothing in the new one.
        file = folder / "config.toml"
        file.write_text(file.read_text().split("[env_config]")[0])
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert main(["resume", str(folder), "--steps", "1280"]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert len(shown.splitlines()) == 1
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    after.pop(folder / "lock", None)
    assert after == {path: data for path, data in before.items() if path.name != "lock"}


def test_all_changed_settings_are_named_at_once(finished: Path, tmp_path: Path) -> None:
    folder = edited(finished, tmp_path, "^num_envs = 16", "num_envs = 8")
    text = (folder / "config.toml").read_text().replace("height = 10", "height = 11")
    (folder / "config.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"num_envs = 8 .* env_config.height = 11"):
        resume(folder)


def test_budget_output_and_machine_settings_may_change(finished: Path, tmp_path: Path) -> None:
    folder = edited(finished, tmp_path, "^steps = 640", "steps = 960")
    text = (folder / "config.toml").read_text()
    for old, new in (
        ("checkpoint_steps = 320", "checkpoint_steps = 64"),
        ("keep_checkpoints = 2", "keep_checkpoints = 1"),
        ("log_seconds = 2.0", "log_seconds = 0.5"),
        ("warmup = true", "warmup = false"),
    ):
        assert old in text
        text = text.replace(old, new)
    (folder / "config.toml").write_text(text)
    assert resume(folder).env_steps == 960
    assert json.loads((folder / "meta.json").read_text())["config"]["warmup"] is False


@pytest.mark.parametrize("field", sorted(changeable_fields(TrainConfig)))
def test_each_of_them_is_accepted_alone(field: str, finished: Path) -> None:
    config = load_config(finished / "config.toml")
    values = {"threads": 2, "device": "auto", "engine": "torch", "run_dir": "x"}
    value: Any = values.get(field, 3)
    assert value != getattr(config, field)
    check_unchanged(replace(config, **{field: value}), to_dict(config), finished)


def test_a_run_of_a_version_without_the_record_resumes(finished: Path, tmp_path: Path) -> None:
    folder = edited(finished, tmp_path, "^steps = 640", "steps = 960")
    meta = json.loads((folder / "meta.json").read_text())
    del meta["config"]
    (folder / "meta.json").write_text(json.dumps(meta))
    assert resume(folder).env_steps == 960


DAMAGED = [b"", b"\xff\xfe", b"env = ", b"env = 5\n", b"[[env_config]]\n", b"\x00" * 100]


@pytest.mark.parametrize("content", DAMAGED, ids=repr)
def test_a_damaged_config_is_one_line_of_error(
    content: bytes, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    (folder / "config.toml").write_bytes(content)
    assert main(["resume", str(folder), "--steps", "1280"]) == 2
    shown = capsys.readouterr().err
    assert "config.toml" in shown
    assert len(shown.splitlines()) == 1


@pytest.mark.parametrize("cls", [TrainConfig, GymConfig, DQNConfig])
def test_the_fields_that_may_change_exist(cls: type) -> None:
    assert changeable_fields(cls) <= set(field_hints(cls))
