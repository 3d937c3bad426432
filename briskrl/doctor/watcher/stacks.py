"""Sampled stacks, in numbers: which code ran at every tick, and where in it.

A stack is a tuple from the inside out. Code of libraries that hold no training loop (the standard
library, torch, NumPy, Gymnasium, ...) appears as one number per function. All other code, that of
the user and of packages with training loops, appears as a number and the position of the running
instruction. The doctor gets the meaning of a number when it first appears.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Key = tuple[int, ...]

NO_LOOPS = frozenset(
    (
        "torch",
        "torchvision",
        "torchaudio",
        "numpy",
        "gymnasium",
        "gym",
        "envpool",
        "tensorboard",
        "tensorboardX",
        "wandb",
        "mlflow",
        "jax",
        "jaxlib",
        "keras",
        "tensorflow",
        "flax",
        "optax",
        "scipy",
        "pandas",
        "matplotlib",
        "numba",
        "PIL",
        "tqdm",
        "rich",
        "cloudpickle",
        "psutil",
        "yaml",
        "mujoco",
        "ale_py",
        "pygame",
        "cv2",
        "IPython",
        "ipykernel",
        "traitlets",
        "tornado",
        "jupyter_client",
        "zmq",
    )
)
"""Packages whose lines are of no interest."""
DEEPEST, NEAREST = 40, 4
"""Frames of a stack, and library functions that are kept below and above a frame of other code."""


class Stacks:
    """Counts of sampled stacks, and the meaning of their numbers."""

    def __init__(self) -> None:
        self.counts: dict[Key, int] = {}
        self.cores: dict[Key, float] = {}
        """Cores in use at the ticks of a stack, added up."""
        self.grad_enabled: Callable[[], bool] | None = None
        """Tells whether torch records gradients; None before torch is imported."""
        self._numbers: dict[CodeType, int] = {}
        self._fresh: list[dict[str, Any]] = []
        self._keys: dict[Key, int] = {}
        self._codes: dict[int, CodeType] = {}
        self._known: dict[tuple[int, int], bool] = {}
        self._standard = os.path.dirname(os.__file__) + os.sep
        self._here = os.path.dirname(os.path.abspath(__file__)) + os.sep
        self._sites = tuple({sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib")})

    def add(self, frame: FrameType | None, weight: int, cores: float = -1.0) -> None:
        """Count a stack, and how many cores were in use; less than zero if that is unknown."""
        key = self._key(frame)
        self.counts[key] = self.counts.get(key, 0) + weight
        if cores >= 0:
            self.cores[key] = self.cores.get(key, 0.0) + weight * cores

    def _key(self, frame: FrameType | None) -> Key:
        numbers = self._numbers
        grad = self.grad_enabled
        key = [1 if grad is None or grad() else 0]
        skipped: list[int] = []
        left = DEEPEST
        while frame is not None and left:
            code = frame.f_code
            number = numbers.get(code)
            if number is None:
                number = self._register(code)
            if number < 0:
                skipped.append(number)
            else:
                if skipped:
                    key += skipped[-NEAREST:]
                    skipped.clear()
                key.append(number)
                key.append(frame.f_lasti)
                left -= 1
            frame = frame.f_back
        if len(key) == 1:
            key += skipped[:NEAREST]
        return tuple(key)

    def is_of_loop(self, code: CodeType) -> bool:
        """Whether code may hold a training loop or be the user's."""
        number = self._numbers.get(code)
        return (self._register(code) if number is None else number) >= 0

    def is_loop_file(self, name: str) -> bool:
        """Whether a file may hold a training loop or be the user's."""
        if name.startswith(self._here) or name.startswith("<frozen"):
            return False
        for site in self._sites:
            if name.startswith(site):
                first = name[len(site) :].split(os.sep)[0]
                return first.split(".")[0] not in NO_LOOPS
        if name.startswith(self._standard):
            return False
        return f"{os.sep}site-packages{os.sep}" not in name

    def is_own_file(self, name: str) -> bool:
        """Whether a file is the user's, not of a package."""
        return self.is_loop_file(name) and not name.startswith((*self._sites, "<"))

    def _register(self, code: CodeType) -> int:
        number = len(self._numbers) + 1
        if not self.is_loop_file(code.co_filename):
            number = -number
        self._numbers[code] = number
        if number > 0:
            self._codes[number] = code
        # From Python 3.11 on.
        name = getattr(code, "co_qualname", code.co_name)
        file = code.co_filename
        if number > 0 and not file.startswith("<"):
            file = os.path.abspath(file)
        self._fresh.append({"code": number, "f": file, "q": name, "l": code.co_firstlineno})
        return number

    def drain(self) -> list[dict[str, Any]]:
        """Records of new numbers, and of the stacks since the last call."""
        counts, self.counts = self.counts, {}
        cores, self.cores = self.cores, {}
        rows: list[tuple[int, int, float]] = []
        for key, weight in counts.items():
            number = self._keys.get(key)
            if number is None:
                number = self._keys[key] = len(self._keys)
                self._describe_positions(key)
                self._fresh.append({"key": number, "k": key})
            rows.append((number, weight, round(cores.get(key, 0.0), 3)))
        fresh, self._fresh = self._fresh, []
        return [*fresh, {"s": rows}] if rows else fresh

    def _describe_positions(self, key: Key) -> None:
        place = 1
        while place < len(key):
            number = key[place]
            if number < 0:
                place += 1
                continue
            at = (number, key[place + 1])
            place += 2
            if at not in self._known:
                self._known[at] = True
                self._fresh.append({"at": at, "p": _position(self._codes[number], at[1])})


def _position(code: CodeType, instruction: int) -> list[int | None]:
    """First and last line and column of an instruction; only the line before Python 3.11."""
    if sys.version_info >= (3, 11):
        for place, position in enumerate(code.co_positions()):
            if 2 * place >= instruction:
                return list(position)
        return [code.co_firstlineno, None, None, None]
    import dis

    line = code.co_firstlineno
    for offset, starts in dis.findlinestarts(code):
        if offset > instruction:
            break
        line = starts
    return [line, line, None, None]
