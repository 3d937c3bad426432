"""Training with hostile terminals, locales, homes and output streams, in real processes."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import SMALL, environment
from tests.cli.test_output import command, is_finished, run_on_terminal

TRAIN = ("train", "snake", "--steps", "600", "--run-dir", "r", *SMALL)

TERMINALS = [
    {"TERM": term, "COLUMNS": columns, "LINES": lines}
    for term, (columns, lines) in itertools.product(
        ["dumb", "xterm-256color", "no-such-terminal", ""],
        [("0", "0"), ("1", "1"), ("-3", "x"), ("²", "99999999999"), ("", "")],
    )
]
LOCALES = [
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"LC_ALL": "POSIX"},
    {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"},
    {"LANG": "xx_XX.nonsense", "LC_CTYPE": "nonsense"},
    {"LC_ALL": "", "LANG": ""},
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "utf-16"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "latin-1:strict"},
]
STREAMS = ["| head -1", ">&-", "2>&-", "<&-", "<&- >&- 2>&-", ">/dev/full", ">/dev/full 2>&1"]


def home(kind: str, folder: Path) -> dict[str, str | None]:
    """Variables for a home folder of this kind; None unsets one."""
    path = folder / "home"
    if kind == "file":
        path.write_text("not a folder")
    elif kind == "read-only":
        path.mkdir()
        path.chmod(0o555)
    elif kind == "loop":
        path.symlink_to(path)
    value = {"unset": None, "empty": "", "relative": "some/where"}.get(kind, str(path))
    return {"HOME": value, "XDG_CACHE_HOME": None}


def changed(variables: dict[str, str | None]) -> dict[str, str]:
    env: dict[str, str | None] = {**environment(), **variables}
    return {name: value for name, value in env.items() if value is not None}


@pytest.mark.chaos
@pytest.mark.parametrize("terminal", TERMINALS, ids=lambda names: "-".join(names.values()))
def test_training_finishes_on_any_terminal(terminal: dict[str, str], tmp_path: Path) -> None:
    code, shown = run_on_terminal(TRAIN, tmp_path, terminal)
    assert code == 0
    assert b"Traceback" not in shown
    assert b"Finished: 608 steps" in shown
    assert is_finished(tmp_path / "r")


@pytest.mark.chaos
@pytest.mark.parametrize("locale", LOCALES, ids=str)
def test_training_finishes_in_any_locale(locale: dict[str, str], tmp_path: Path) -> None:
    for words in (TRAIN, ("runs", "--root", "."), ("eval", "r", "--episodes", "2", "--json")):
        done = subprocess.run(
            command(*words), cwd=tmp_path, env=changed({**locale}), capture_output=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        assert b"Traceback" not in done.stderr
    assert is_finished(tmp_path / "r")


@pytest.mark.chaos
@pytest.mark.parametrize(
    "kind", ["unset", "empty", "missing", "file", "read-only", "relative", "loop"]
)
def test_training_finishes_with_any_home(kind: str, tmp_path: Path) -> None:
    """Kernels are compiled if the cache cannot be used; a shared cache would hide that."""
    run = tmp_path / "run"
    run.mkdir()
    env = changed(home(kind, tmp_path))
    done = subprocess.run(
        command(*TRAIN, "--engine", "torch"), cwd=run, env=env, capture_output=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    assert is_finished(run / "r")


@pytest.mark.chaos
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("algo", ["dqn", "ppo"])
def test_training_finishes_with_any_lost_stream(algo: str, stream: str, tmp_path: Path) -> None:
    words = " ".join(command(*TRAIN, "--algo", algo) if algo == "dqn" else _ppo())
    done = subprocess.run(
        ["bash", "-c", f"{words} {stream}; exit ${{PIPESTATUS[0]}}"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr + done.stdout
    assert is_finished(tmp_path / "r")


def _ppo() -> list[str]:
    words = ("train", "snake", "--algo", "ppo", "--steps", "600", "--run-dir", "r", "--net", "16")
    return command(*words, "--num-envs", "16")


@pytest.mark.chaos
@pytest.mark.parametrize(
    "words",
    [
        ("eval", "snake", "--episodes", "4"),
        ("eval", "snake", "--episodes", "4", "--json"),
        ("play", "snake", "--episodes", "20"),
        ("bench", "env", "snake", "--num-envs", "8"),
        ("doctor", "snake", "--budget", "5", "--num-envs", "16"),
        ("tune", "snake", "--budget", "5", "--num-envs", "16"),
        (*TRAIN, "--json"),
    ],
    ids=" ".join,
)
def test_results_that_cannot_be_written_end_every_command_as_unix_tools_do(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    for name, stream, code in (
        ("full", ">/dev/full", 1),
        ("closed", ">&-", 1),
        ("pipe", "| true", 141),
    ):
        folder = tmp_path / name
        folder.mkdir()
        line = f"{' '.join(command(*words))} {stream}; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(
            ["bash", "-c", line], cwd=folder, env=environment(), capture_output=True, timeout=300
        )
        assert b"Traceback" not in done.stderr, done.stderr
        assert done.returncode == code, (stream, done.stderr)
