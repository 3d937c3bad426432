"""Tracking of one environment in plain Python, with dicts and lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations


@dataclass
class Episode:
    """Counters and bonuses of one episode under a fixed order."""

    order: Sequence[int]
    mode: str = "rate"
    weight: float = 30.0
    idle_fix: str = "ignore"
    violation_weight: float = 1.0
    no_fix_penalty: float = 0.2
    verdicts: list[str] = field(default_factory=list)
    contested: list[str] = field(default_factory=list)
    bonuses: list[float] = field(default_factory=list)
    opened: list[set[int]] = field(default_factory=list)
    judged_open: list[set[int]] = field(default_factory=list)
    idle: int = 0

    def step(self, opened: set[int], addressed: int, *, ended: bool) -> float:
        """Judge a step; returns the bonus."""
        before = self._score()
        self.opened.append(opened)
        verdict = self._verdict(opened, addressed)
        if verdict:
            self.verdicts.append(verdict)
            self.judged_open.append(opened)
            if len(opened) >= 2:
                self.contested.append(verdict)
        bonus = self._bonus(verdict, before)
        if ended and not self.verdicts and any(self.opened) and self.mode != "none":
            bonus -= self.no_fix_penalty * self.weight
        self.bonuses.append(bonus)
        return bonus

    def _verdict(self, opened: set[int], addressed: int) -> str:
        if addressed < 0:
            return ""
        if not opened:
            self.idle += 1
            return {"ignore": "", "compliant": "ok", "violation": "wrong"}[self.idle_fix]
        required = next(category for category in self.order if category in opened)
        return "ok" if required == addressed else "wrong"

    def _score(self) -> float:
        return self.weight * self.ok / len(self.verdicts) if self.verdicts else 0.0

    def _bonus(self, verdict: str, before: float) -> float:
        if self.mode == "none" or not verdict:
            return 0.0
        if self.mode == "rate":
            return self._score() - before
        return self.weight / 10 * (1 if verdict == "ok" else -self.violation_weight)

    @property
    def ok(self) -> int:
        return self.verdicts.count("ok")

    @property
    def compliance(self) -> float:
        return self.ok / len(self.verdicts)

    def pairs(self, m: int) -> list[int]:
        """Judged steps at which both categories were open, for i < j."""
        return [sum({i, j} <= s for s in self.judged_open) for i, j in combinations(range(m), 2)]

    def open_steps(self, m: int) -> list[int]:
        return [sum(c in opened for opened in self.opened) for c in range(m)]

    def spells(self, m: int) -> list[int]:
        """How often a category became open."""
        before = [set[int](), *self.opened]
        return [
            sum(c in now and c not in then for then, now in zip(before, self.opened, strict=False))
            for c in range(m)
        ]
