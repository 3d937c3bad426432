from __future__ import annotations

import pytest

import briskrl
from briskrl.cli import main as front
from briskrl.cli.main import COMMANDS, main
from briskrl.core.errors import BriskError, StorageError
from tests.cli.conftest import Brisk


def test_help_names_every_command(brisk: Brisk) -> None:
    done = brisk("--help")
    assert done.returncode == 0
    assert done.stderr == ""
    assert all(f"\n  {name}  " in done.stdout for name in COMMANDS)


def test_no_arguments_print_the_help(brisk: Brisk) -> None:
    assert brisk().stdout == brisk("--help").stdout


def test_version(brisk: Brisk) -> None:
    assert brisk("--version").stdout == f"brisk {briskrl.__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code: object = main([name, "--help"])
    except SystemExit as left:
        code = left.code
    assert code == 0
    shown = capsys.readouterr().out
    assert f"brisk {name}" in shown
    assert "example" in shown


def test_an_unknown_command_suggests_the_nearest(brisk: Brisk) -> None:
    done = brisk("trian")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "brisk: Unknown command 'trian'. Did you mean 'train'?\n"


@pytest.mark.parametrize(
    ("fault", "code"),
    [(BriskError("oops"), 2), (StorageError("disk full"), 1), (KeyboardInterrupt(), 130)],
)
def test_user_errors_and_interrupts_become_exit_codes_without_traceback(
    fault: BaseException,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(words: list[str]) -> int:
        raise fault

    monkeypatch.setattr(front, "_dispatch", fail)
    assert main(["runs"]) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1


def test_bugs_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(words: list[str]) -> int:
        raise RuntimeError("a bug")

    monkeypatch.setattr(front, "_dispatch", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        main(["runs"])
