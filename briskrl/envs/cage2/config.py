"""Settings of the CAGE-2 environments, as data; imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

Weight = Annotated[int, Meta(ge=0, le=1_000_000)]


@dataclass(frozen=True, slots=True)
class Cage2Config:
    """Edition, attacker, length, actions and observation of a defended network."""

    edition: Literal["current", "competition"] = "current"
    """Rules: as the simulator is today, or as the published leaderboard was scored."""
    red: Literal["bline", "meander", "sleep", "mixed"] = "mixed"
    """The attacker; mixed draws one of the three for every episode."""
    red_weights: tuple[Weight, Weight, Weight] = (1, 1, 1)
    """How often mixed draws B_line, Meander and Sleep, relative to one another."""
    length: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """Steps of an episode; officially 30, 50 or 100."""
    green: bool = False
    """Let a user scan hosts at random; officially asleep."""
    view: Literal["table", "wrapper2"] = "table"
    """How blue's events are told; wrapper2 shows scans of a host that has just got a decoy."""
    actions: Literal["full", "reduced"] = "full"
    """All 145 actions, or 37 with the next best decoy of each host as one action."""
    mask: Literal["none", "legal", "useful"] = "none"
    """Actions kept from the trainer: decoys that never fit a host, or that would fail now."""
    frames: Annotated[int, Meta(ge=1, le=16)] = 1
    """Observations stacked, the newest first."""
    scan_memory: bool = False
    """Add per host whether a scan was ever seen there (0.5), and whether that was the last (1)."""
    decoy_memory: Literal["none", "count", "full"] = "none"
    """Add the decoys that blue has up: the share of those that fit a host, or every single one."""
    event_memory: bool = False
    """Add per host 1 / (1 + steps since activity was last seen there); 0 if never."""
    restore_memory: bool = False
    """Add per host whether blue has restored it in this episode."""
    clock: bool = False
    """Add the steps so far, in hundreds, at most 1; how long the episode will be is not told."""
    terminal: bool = False
    """Let episodes terminate, so that values do not look beyond; by default they are cut off."""

    def check(self) -> list[str]:
        """Combinations that cannot work, one sentence each."""
        wrong = []
        if not 1 <= self.length <= 10_000:
            wrong.append(f"length must be 1 to 10000, not {self.length}.")
        if self.red == "mixed" and sum(self.red_weights) < 1:
            wrong.append("red_weights must not all be 0 if red is mixed.")
        return wrong
