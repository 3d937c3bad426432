"""Lost output streams, hostile terminals and control characters, with the real command."""

from __future__ import annotations

import errno
import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from briskrl.cli.main import main
from briskrl.cli.output import (
    Output,
    Sink,
    StandardStreams,
    drawing,
    escape_all_but_colors,
    optional,
    print_json,
    terminal_environ,
)
from tests.cli.conftest import SMALL, environment

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
TRAIN = ("train", "snake", "--steps", "600", *SMALL)
LISTS = (("--help",), ("runs",), ("runs", "--json"), ("envs",), ("train", "--help"))


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "briskrl", *words]


def run(words: tuple[str, ...], cwd: Path, **options: Any) -> subprocess.CompletedProcess[bytes]:
    options = {"env": environment(), "stderr": subprocess.PIPE, **options}
    return subprocess.run(command(*words), cwd=cwd, timeout=300, **options)


def read_only_first_line(words: tuple[str, ...], cwd: Path) -> tuple[int, bytes]:
    """The exit code and standard error of a command whose reader ends after one line."""
    with subprocess.Popen(
        command(*words),
        cwd=cwd,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
        return process.wait(timeout=300), errors


def is_finished(folder: Path) -> bool:
    status = json.loads((folder / "status.json").read_text())
    saved = list((folder / "checkpoints").glob("step_*"))
    return status["state"] == "finished" and bool(saved)


def test_training_continues_when_the_reader_of_its_output_has_ended(tmp_path: Path) -> None:
    code, errors = read_only_first_line((*TRAIN, "--run-dir", "r"), tmp_path)
    assert code == 0
    assert b"Traceback" not in errors
    assert b"standard output cannot be written" in errors
    assert is_finished(tmp_path / "r")


def test_training_continues_on_a_full_disk_behind_both_streams(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = run((*TRAIN, "--run-dir", "r"), tmp_path, stdout=full, stderr=full)
    assert done.returncode == 0
    assert is_finished(tmp_path / "r")


def test_training_continues_with_closed_standard_streams(tmp_path: Path) -> None:
    words = " ".join(command(*TRAIN, "--run-dir", "r", "--checkpoint-steps", "100"))
    done = subprocess.run(
        ["sh", "-c", f"{words} <&- >&- 2>&-"], cwd=tmp_path, env=environment(), timeout=300
    )
    assert done.returncode == 0
    assert is_finished(tmp_path / "r")


def test_a_name_that_the_stream_cannot_encode_is_escaped(tmp_path: Path) -> None:
    env = environment() | {"PYTHONIOENCODING": "ascii"}
    done = run((*TRAIN, "--run-dir", "fühler"), tmp_path, env=env, stdout=subprocess.PIPE)
    assert done.returncode == 0
    assert done.stderr == b""
    assert b"in f\\xfchler" in done.stdout
    assert is_finished(tmp_path / "fühler")


def test_a_name_that_the_locale_cannot_represent_is_an_error_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('run_dir = "fühler"\n', encoding="utf-8")
    words = ("train", "snake", "--config", "c.toml", "--steps", "600", *SMALL)
    done = run(words, tmp_path, env=environment() | ASCII, stdout=subprocess.PIPE)
    assert done.returncode == 2
    assert b"The locale cannot represent" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_a_result_that_cannot_be_written_is_an_error(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    with open("/dev/full", "w") as full:
        done = run(words, tmp_path, stdout=full)
    assert done.returncode == 1
    expected = "brisk: cannot write to standard output: No space left on device\n"
    assert done.stderr.decode() == expected


def test_a_closed_standard_output_is_an_error_if_there_is_a_result(tmp_path: Path) -> None:
    words = " ".join(command("envs"))
    done = subprocess.run(
        ["sh", "-c", f"{words} >&-"], cwd=tmp_path, env=environment(), stderr=subprocess.PIPE
    )
    assert done.returncode == 1
    assert done.stderr == b"brisk: cannot write to standard output: Bad file descriptor\n"


def test_a_reader_that_has_ended_gives_the_exit_code_of_a_broken_pipe(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = run(("train", "--help"), tmp_path, stdout=write)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_full_disk_behind_standard_error_does_not_hide_the_exit_code(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = run(("train", "snaek"), tmp_path, stdout=subprocess.PIPE, stderr=full)
    assert (done.returncode, done.stdout) == (2, b"")


class Failing(io.StringIO):
    """A stream whose writes fail from some moment on."""

    error: OSError | None = None

    def write(self, text: str) -> int:
        if self.error is not None:
            raise self.error
        return super().write(text)


def test_only_lost_results_change_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = Failing(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    out.error = OSError(errno.ENOSPC, "No space left on device")
    with StandardStreams() as streams:
        optional(sys.stdout).write("progress")
        assert streams.exit_code(0) == 0
        sys.stdout.write("result")
        assert streams.exit_code(0) == 1
        assert streams.exit_code(130) == 130
    assert sys.stdout is out
    assert "the work continues" in err.getvalue()
    assert "cannot write to standard output: No space left" in err.getvalue()


HOSTILE = "a\x1b]0;owned\x07\x9b31m\u202eb\r\x00\x7f"
ESCAPED = r"a\x1b]0;owned\x07\x9b31m\u202eb\r\x00\x7f"


def text_of(write: Callable[[Output], object]) -> str:
    target = io.StringIO()
    write(Output(Sink(target)))
    return target.getvalue()


def test_control_characters_are_escaped_and_line_breaks_stay() -> None:
    assert text_of(lambda out: out.write(f"{HOSTILE}\n\tx")) == f"{ESCAPED}\n\tx"


def test_json_with_control_characters_stays_valid(capsys: pytest.CaptureFixture[str]) -> None:
    with StandardStreams():
        print_json({HOSTILE: [HOSTILE, float("nan")]})
    shown = capsys.readouterr().out
    assert json.loads(shown) == {HOSTILE: [HOSTILE, None]}
    assert shown[:-1].isprintable()


def test_pictures_keep_their_colors_and_nothing_else() -> None:
    assert escape_all_but_colors("\x1b[31mS\x1b[0m\n\x1b[2J") == "\x1b[31mS\x1b[0m\n\\x1b[2J"


def test_runs_shows_hostile_names_and_fields_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "runs" / "evil\x1b[2J\nfake  run"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text('env = "x\\u001b[31m"\nalgo = "a\\nb"\n')
    (folder / "meta.json").write_text(json.dumps({"exit_reason": "\x1b]52;c;eA==\x07"}))
    monkeypatch.chdir(tmp_path)
    assert main(["runs"]) == 0
    shown = capsys.readouterr().out
    assert len(shown.splitlines()) == 2
    assert "".join(shown.splitlines()).isprintable()
    assert r"evil\x1b[2J\nfake  run" in shown
    assert main(["runs", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["runs"]
    assert listed[0]["name"] == folder.name


def test_error_messages_show_names_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["eval", HOSTILE], ["resume", HOSTILE], ["train", "snake", "--config", HOSTILE]):
        assert main(words) == 2
        assert capsys.readouterr().err.rstrip("\n").isprintable()


@pytest.mark.parametrize("size", ["0", "1", "-5", "x", "²", "99999999999999", ""])
def test_a_terminal_of_any_claimed_size_gets_its_help(
    size: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", size)
    for words in (["train", "snake", "--help"], ["algos", "dqn"]):
        assert main(words) == 0
        assert "--num-envs" in capsys.readouterr().out or words[0] == "algos"
    assert "COLUMNS" not in terminal_environ()


def test_training_on_a_terminal_with_a_nonsense_size_finishes(tmp_path: Path) -> None:
    terminal = {"TERM": "no-such-terminal", "COLUMNS": "²", "LINES": "0", "LANG": "xx_XX.nonsense"}
    code, shown = run_on_terminal((*TRAIN, "--run-dir", "r"), tmp_path, terminal)
    assert code == 0
    assert b"Traceback" not in shown
    assert b"Finished: 608 steps" in shown


def run_on_terminal(words: tuple[str, ...], cwd: Path, env: dict[str, str]) -> tuple[int, bytes]:
    """The exit code of a command on a terminal, and what it showed there."""
    leader, follower = pty.openpty()
    with subprocess.Popen(
        command(*words), cwd=cwd, env=environment() | env, stdout=follower, stderr=follower
    ) as process:
        os.close(follower)
        shown = b""
        # Linux reports the end of a terminal as an error.
        with suppress(OSError):
            while chunk := os.read(leader, 65536):
                shown += chunk
        code = process.wait(timeout=300)
    os.close(leader)
    return code, shown


def test_what_is_drawn_keeps_its_codes_and_its_stream_may_be_lost() -> None:
    target = Failing()
    out = Output(Sink(target), is_optional=True)
    screen = drawing(out)  # type: ignore[arg-type]
    screen.write("\x1b[2K")
    assert target.getvalue() == "\x1b[2K"
    target.error = OSError(errno.EIO, "gone")
    screen.write("x")
    screen.flush()
    assert target.getvalue() == "\x1b[2K"
