"""The programs in `examples/` run and learn."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_custom_environment_is_learned(capsys: pytest.CaptureFixture[str]) -> None:
    main = runpy.run_path(str(EXAMPLES / "custom_env.py"))["main"]
    assert main(episodes=50) > 0.9
    assert "arrived" in capsys.readouterr().out


def test_a_compiled_environment_trains_in_a_loop_of_ones_own() -> None:
    main = runpy.run_path(str(EXAMPLES / "gymnasium_vec.py"))["main"]
    assert main(iterations=60, num_envs=128, horizon=64) > 60
