"""Settings that other users can change name no modules to import, unless the user consents."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from briskrl.cli.main import main
from briskrl.core.errors import ConfigError
from briskrl.core.ownership import why_foreign
from briskrl.training.evaluate import evaluate, load_policy
from briskrl.training.loop import resume, train
from tests.cli.conftest import environment
from tests.training.runs import small_config

MODULE = "planted_module"


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that exists once the planted module has been imported."""
    marker = tmp_path / "imported"
    code = f"open({str(marker)!r}, 'w').close()\n"
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / f"{MODULE}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path / "lib")
    yield marker
    sys.modules.pop(MODULE, None)


def folder_with(tmp_path: Path, *lines: str) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.toml").write_text("\n".join(lines) + "\n")
    return folder


BY_ID = (f'env = "gym:{MODULE}:X-v0"',)
BY_PACKAGE = ('env = "gym:X-v0"', "[env_config]", f'packages = ["{MODULE}"]')
BY_STAGE = (
    *('env = "gym:X-v0"', "[[curriculum]]", 'until = "steps"', "value = 5"),
    *("[curriculum.env]", f'packages = ["{MODULE}"]'),
)


@pytest.mark.parametrize("lines", [BY_ID, BY_PACKAGE, BY_STAGE], ids=["id", "package", "stage"])
def test_a_run_that_others_can_change_imports_nothing_when_it_is_resumed(
    lines: tuple[str, ...], tmp_path: Path, marker: Path
) -> None:
    folder = folder_with(tmp_path, *lines)
    folder.chmod(0o777)
    with pytest.raises(ConfigError, match=f"can be changed by other users.*{MODULE}.*--trust"):
        resume(folder)
    assert not marker.exists()


@pytest.mark.parametrize(("mode", "trust"), [(0o777, True), (0o755, False)])
def test_consent_or_an_own_folder_allows_the_import(
    mode: int, trust: bool, tmp_path: Path, marker: Path
) -> None:
    folder = folder_with(tmp_path, *BY_ID)
    folder.chmod(mode)
    with pytest.raises(ConfigError, match="no environment 'X-v0'"):
        resume(folder, trust=trust)
    assert marker.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_folder_of_another_user_is_foreign(tmp_path: Path, marker: Path) -> None:
    folder = folder_with(tmp_path, *BY_ID)
    os.chown(folder / "config.toml", 12345, 12345)
    with pytest.raises(ConfigError, match=r"config.toml belongs to another user \(uid 12345\)"):
        resume(folder)
    assert not marker.exists()


def test_a_group_of_one_user_is_not_foreign(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.touch()
    file.chmod(0o664)
    private = file.stat().st_gid == file.stat().st_uid
    assert (why_foreign([file]) is None) is private
    assert why_foreign([tmp_path / "absent"]) is None


def test_a_policy_that_others_can_change_imports_nothing(tmp_path: Path, marker: Path) -> None:
    config = small_config(
        tmp_path / "run",
        "ppo",
        env="gym:CartPole-v1",
        env_config={"packages": [MODULE]},
        num_envs=2,
        steps=48,
    )
    result = train(config)
    marker.unlink()
    sys.modules.pop(MODULE)
    assert evaluate(result.run_dir, episodes=1).episodes == 1
    marker.unlink()
    sys.modules.pop(MODULE)
    policy = tmp_path / "run" / "policy" / "policy.json"
    policy.chmod(0o666)
    with pytest.raises(ConfigError, match=MODULE):
        load_policy(result.run_dir)
    assert main(["eval", result.run_dir, "--episodes", "1"]) == 2
    assert main(["play", result.run_dir]) == 2
    assert not marker.exists()
    assert main(["eval", result.run_dir, "--episodes", "1", "--trust"]) == 0
    assert marker.exists()


@pytest.mark.parametrize("command", ["train", "doctor", "tune"])
def test_a_config_that_others_can_change_needs_trust_or_the_same_module_as_a_flag(
    command: str, tmp_path: Path, marker: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_with(tmp_path, *BY_PACKAGE)
    (folder / "config.toml").chmod(0o666)
    named = {"train": ["--config", str(folder / "config.toml")]}.get(command, [str(folder)])
    assert main([command, *named]) == 2
    assert "--trust" in capsys.readouterr().err
    assert not marker.exists()
    if command == "train":
        assert main([command, *named, "--import", MODULE, "--run-dir", str(tmp_path / "n")]) == 2
        assert "no environment 'X-v0'" in capsys.readouterr().err
        assert marker.exists()


def test_nothing_is_imported_from_the_current_folder(tmp_path: Path, marker: Path) -> None:
    """Neither by name nor instead of a module of the standard library or a package."""
    for name in (MODULE, "tomllib", "msgspec"):
        (tmp_path / f"{name}.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    command = [sys.executable, "-m", "briskrl", "train", f"gym:{MODULE}:X-v0"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert f"Cannot import '{MODULE}'" in done.stderr
    assert not marker.exists()
