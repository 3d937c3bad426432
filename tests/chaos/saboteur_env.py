"""An environment in which one instance fails once: in a given call of a given method.

Workers import this module by name, so it registers its id at import.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from tests.envs.gym.slow_envs import WalkEnv

PACKAGE = "tests.chaos.saboteur_env"
ID = "brisk-saboteur-v0"


class SaboteurEnv(WalkEnv):
    """A walk of short episodes; instances are numbered in the order in which they are made.

    Args:
        fault: What happens: raise, exit, segfault, kill or hang.
        place: Where: constructor, reset, step or close.
        who: The instance that fails.
        at: The call of the method in which it fails, from 1.
        folder: Instances take their numbers here, and the moment of the fault is written here.
        slow: The instance whose constructor and first reset take `slow_s` seconds.
        slow_s: See `slow`.
    """

    def __init__(
        self,
        fault: str,
        place: str,
        who: int,
        at: int,
        folder: str,
        slow: int = -1,
        slow_s: float = 0.0,
    ) -> None:
        super().__init__(length=6)
        self._fault, self._place, self._at = fault, place, at
        self._folder = Path(folder)
        number = self._take_number()
        self._mine = number == who
        self._slow_s = slow_s if number == slow else 0.0
        self._calls = 0
        time.sleep(self._slow_s)
        self._visit("constructor")

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        slow_s, self._slow_s = self._slow_s, 0.0
        time.sleep(slow_s)
        self._visit("reset")
        return super().reset(seed=seed)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self._visit("step")
        return super().step(action)

    def close(self) -> None:
        self._visit("close")

    def _take_number(self) -> int:
        number = 0
        while True:
            try:
                (self._folder / f"env-{number}").touch(exist_ok=False)
                return number
            except FileExistsError:
                number += 1

    def _visit(self, place: str) -> None:
        if not self._mine or place != self._place:
            return
        self._calls += 1
        if self._calls == self._at:
            self._fail()

    def _fail(self) -> None:
        # The clock is the same in all processes.
        moment = self._folder / "moment.new"
        moment.write_text(repr(time.monotonic()))
        moment.rename(self._folder / "moment")
        if self._fault == "raise":
            raise RuntimeError("sabotage")
        if self._fault == "exit":
            os._exit(3)
        if self._fault == "segfault":
            ctypes.string_at(0)
        if self._fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        while self._fault == "hang":
            time.sleep(1.0)


gymnasium.register(ID, entry_point=f"{PACKAGE}:SaboteurEnv")
