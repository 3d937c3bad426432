"""Settings of the CAGE-2 environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

MOST_COMPROMISED_REDUCED = 9
"""Hosts that the reduced actions repair."""
Weight = Annotated[int, Meta(ge=0, le=1_000_000)]


@dataclass(frozen=True, slots=True)
class Cage2Config:
    """Edition, attacker, length, actions and observation of a defended network."""

    edition: Literal["current", "competition"] = "current"
    """Rules: those of the current simulator, or those of the published leaderboard."""
    red: Literal["bline", "meander", "sleep", "mixed"] = "mixed"
    """The attacker; mixed draws one of the three for every episode."""
    red_weights: tuple[Weight, Weight, Weight] = (1, 1, 1)
    """Relative frequencies of B_line, Meander and Sleep if red is mixed."""
    length: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """Steps of an episode; officially 30, 50 or 100."""
    green: bool = False
    """Let a green user scan hosts at random; off in official evaluations."""
    view: Literal["table", "wrapper2"] = "table"
    """How events are shown; wrapper2 also shows scans of a host that has just got a decoy."""
    actions: Literal["full", "reduced"] = "full"
    """All 145 actions, or 37 in which one action per host sets up its next best decoy."""
    mask: Literal["none", "legal", "useful"] = "none"
    """Masked actions: none, decoys that never fit a host, or decoys that would fail now."""
    frames: Annotated[int, Meta(ge=1, le=16)] = 1
    """Number of stacked observations, the newest first."""
    scan_memory: bool = False
    """Add per host whether a scan was seen there (0.5), or in the last step with any (1)."""
    decoy_memory: Literal["none", "count", "full"] = "none"
    """Add blue's decoys: the fraction of those that fit a host, or one flag per decoy."""
    event_memory: bool = False
    """Add per host 1 / (1 + steps since activity was last seen there); 0 if never."""
    restore_memory: bool = False
    """Add per host whether blue has restored it in this episode."""
    clock: bool = False
    """Add the number of steps so far, in hundreds, at most 1."""
    terminal: bool = False
    """Terminate episodes at their end instead of truncating them, so that values stop there."""
    response_prob: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """Probability that blue's action is carried out; otherwise blue sleeps in that step. Below 1
    several kinds of host can be compromised at once, so that the order of repairs matters."""
    start_compromised: Annotated[int, Meta(ge=0, le=12)] = 0
    """Random hosts on which red holds a user session when an episode begins; never User0, and only
    hosts that an action can repair."""

    def check(self) -> list[str]:
        """Invalid combinations of settings, one sentence each."""
        wrong = []
        if not 1 <= self.length <= 10_000:
            wrong.append(f"length must be 1 to 10000, not {self.length}.")
        if self.red == "mixed" and sum(self.red_weights) < 1:
            wrong.append("red_weights must not all be 0 if red is mixed.")
        if self.actions == "reduced" and self.start_compromised > MOST_COMPROMISED_REDUCED:
            wrong.append(
                f"start_compromised must be at most {MOST_COMPROMISED_REDUCED} with reduced "
                "actions, which repair no other hosts."
            )
        return wrong
