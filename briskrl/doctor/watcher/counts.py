"""What the watcher counts; plain attributes, because they change at every step."""

from __future__ import annotations

from typing import Any

UNSENT = ("gc_start", "optimizers", "step_thread", "update_thread")


class Counts:
    """Counters since the start of the script."""

    __slots__ = (
        "calls",
        "episodes",
        "gc_s",
        "gc_start",
        "gc_times",
        "learned",
        "num_envs",
        "optimizers",
        "resets",
        "rounds",
        "step_thread",
        "steps",
        "truncated",
        "update_thread",
        "updates",
    )

    def __init__(self) -> None:
        self.calls = 0
        """Calls of the outermost `step`."""
        self.steps = 0
        """Transitions."""
        self.episodes = 0
        self.truncated = 0
        """Episodes that a time limit ended."""
        self.resets = 0
        self.rounds = 0
        """Times that updates were made between two calls."""
        self.learned = 0
        """Updates before the last call."""
        self.updates = 0
        """Steps of optimizers."""
        self.optimizers: dict[int, int] = {}
        """Steps of each of them, by identity."""
        self.num_envs = 0
        self.gc_s = 0.0
        self.gc_start = 0.0
        self.gc_times = 0
        self.step_thread = self.update_thread = 0
        """Threads of the last step and of the last update; 0 before the first."""

    def as_dict(self) -> dict[str, Any]:
        """All counters by name."""
        return {name: getattr(self, name) for name in self.__slots__ if name not in UNSENT}
