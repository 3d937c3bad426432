"""The command line of a script: which interpreter runs it, and what is wrong with it."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from briskrl.core.errors import ConfigError, nearest

PYTHON = re.compile(r"^(python|pypy)[0-9.]*$")
DETACHED = {"-I": "-I", "-E": "-E", "-S": "-S"}
"""Options with which Python ignores PYTHONPATH or loads no site modules."""
WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


@dataclass(frozen=True, slots=True)
class Command:
    """A program that can be started."""

    argv: tuple[str, ...]
    name: str
    """Name in the report: the script, the module or the program."""
    first_flag: int
    """Position in `argv` of the script's own arguments."""

    def with_flags(self, flags: Sequence[str]) -> Command:
        """The same program with more arguments; later ones win in most parsers."""
        return Command((*self.argv, *flags), self.name, self.first_flag)


def parse_command(words: Sequence[str]) -> Command:
    """The command as it will be started.

    Args:
        words: An interpreter with a script or `-m module`, a script, `-m module`, or a program.

    Raises:
        ConfigError: There is no such program, script or module name.
    """
    if not words:
        raise ConfigError("Add the command of the script: brisk doctor -- python train.py")
    first = words[0]
    if PYTHON.match(Path(first).name):
        return _of_python(_interpreter(first), words[1:])
    if first == "-m" or first.endswith(".py"):
        return _of_python(sys.executable, words)
    program = shutil.which(first)
    if program is None:
        raise ConfigError(
            f"There is no program {first!r}. Name a script (python train.py), a module "
            "(-m package.train) or a program that is on the PATH."
        )
    return Command((program, *words[1:]), Path(first).name, 1)


def _interpreter(name: str) -> str:
    found = shutil.which(name)
    if found is not None:
        return found
    if name in ("python", "python3"):
        return sys.executable
    raise ConfigError(f"There is no interpreter {name!r}.")


def _of_python(interpreter: str, words: Sequence[str]) -> Command:
    place = 0
    while place < len(words) and words[place].startswith("-") and words[place] != "-":
        option = words[place]
        if option in ("-m", "-c"):
            if place + 1 == len(words):
                raise ConfigError(f"python {option} needs an argument.")
            name = words[place + 1] if option == "-m" else "python -c"
            return Command((interpreter, *words), name, place + 3)
        if option in DETACHED:
            raise ConfigError(
                f"python {option} shuts out the watcher of the doctor. Leave {option} out."
            )
        place += 2 if option in WITH_VALUE else 1
    if place >= len(words):
        raise ConfigError("Name the script: brisk doctor -- python train.py")
    _check_script(Path(words[place]))
    return Command((interpreter, *words), words[place], place + 2)


def _check_script(path: Path) -> None:
    if path.is_file() or (path / "__main__.py").is_file():
        return
    folder = path.parent
    names = [entry.name for entry in folder.glob("*.py")] if folder.is_dir() else []
    hint = nearest(path.name, names)
    raise ConfigError(f"There is no script {path}.{hint}")
