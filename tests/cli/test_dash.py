"""`brisk dash` refuses what it cannot serve, in one line."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from briskrl.cli.main import main


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["dash", "--no-browser", *arguments])
    error = capsys.readouterr().err
    assert error.count("\n") == 1, error
    return code, error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "70000"], "from 0 to 65535"),
        (["--port", "x"], "from 0 to 65535"),
        (["--token", "short"], "8 to 200"),
        (["--token", "a" * 201], "8 to 200"),
        (["--token", "eight\u00e9eight"], "8 to 200"),
        (["--host", "203.0.113.9"], "Cannot listen on 203.0.113.9"),
        (["--hots", "::1"], "--host"),
    ],
)
def test_bad_arguments_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], message: str
) -> None:
    code, error = refused(capsys, str(tmp_path), *arguments)
    assert code == 2
    assert message in error


def test_a_folder_that_is_missing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    _, error = refused(capsys, str(tmp_path / "nowhere"))
    assert "There is no folder" in error


def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        _, error = refused(capsys, str(tmp_path), "--port", str(port))
    assert f"Port {port} is taken" in error


def test_the_help_explains_who_can_open_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dash", "--help"]) == 0
    text = capsys.readouterr().out
    assert "token" in text
    assert "--beside-run" not in text
