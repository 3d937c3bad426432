"""An algorithm in an installed package of somebody else: its entry point is all that is needed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import environment

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "own-algorithm.md"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """What pip would install of the example in the documentation."""
    found = re.search(r'```python title="linear_q.py"\n(.*?)```', PAGE.read_text(), re.DOTALL)
    assert found is not None
    # The entry point registers the name, as the page says.
    code = found[1].replace('ALGOS.add("linear-q", ENTRY)\n', "")
    (tmp_path / "linear_q.py").write_text(code)
    about = tmp_path / "linear_q-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: linear-q\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[briskrl.algorithms]\nlinear-q = linear_q:ENTRY\n")
    return tmp_path


def test_a_plugin_trains_from_the_command_line(package: Path) -> None:
    paths = f"{package}:{environment()['PYTHONPATH']}"
    words = ["train", "cartpole", "--algo", "linear-q", "--num-envs", "4", "--steps", "400"]
    words += ["--epsilon", "0.25", "--run-dir", "run", "--final-episodes", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "briskrl", *words],
        cwd=package,
        env=environment() | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "over 2 new episodes" in done.stdout
    assert "epsilon = 0.25" in (package / "run" / "config.toml").read_text()
