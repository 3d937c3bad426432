"""What a report says in words, for every form that it is shown in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

from briskrl.core.format import count, duration, figures, percent
from briskrl.doctor.report.records import Finding, Gain, Outcome, Report, Speed

COMPLETE = 0.98
"""Share of the time that the phases must account for."""
PHASES = "Where the time goes"
FINDINGS = "What is worth changing"
TRADE_OFFS = "Faster, but not for nothing"
NO_CURE = "Tested, and no cure"
MISSING = "Not tested"
IDLE = "Does not apply"
NOTES = "Notes"
PROOF = "Proof"
PROFILE = "Profile"


@dataclass(frozen=True, slots=True)
class Answers:
    """The experiments of a report that are no findings, by what they have shown."""

    trade_offs: tuple[Outcome, ...]
    """Faster, but something else is learnt, or too little faster to be a finding."""
    no_cure: tuple[Outcome, ...]
    missing: tuple[Outcome, ...]
    """Those that would have told something, had they been made."""
    idle: tuple[Outcome, ...]
    """Those that do not apply."""


def answers(report: Report) -> Answers:
    """What the experiments answered, apart from those that a finding tells of."""
    told = [line for found in report.findings for line in (found.advice, *found.evidence)]
    rest = [outcome for outcome in report.outcomes if not _is_told(outcome, told)]
    absent = [outcome for outcome in rest if outcome.verdict == "missing"]
    return Answers(
        trade_offs=tuple(outcome for outcome in rest if outcome.verdict == "helps"),
        no_cure=tuple(out for out in rest if out.verdict in ("no difference", "hurts", "unclear")),
        missing=tuple(outcome for outcome in absent if outcome.change),
        idle=tuple(outcome for outcome in absent if not outcome.change),
    )


def nothing_found(report: Report) -> str:
    """The sentence instead of findings."""
    if report.speed is None:
        return "Nothing is known yet."
    if report.interrupted or answers(report).missing:
        return "Nothing of what was tested is worth changing."
    return "Nothing is worth changing."


def _is_told(outcome: Outcome, told: Iterable[str]) -> bool:
    """Whether a finding rests on this experiment."""
    if outcome.verdict != "helps" or not outcome.change:
        return False
    return any(line == outcome.change or line.startswith(f"{outcome.change}: ") for line in told)


def headline(report: Report) -> list[tuple[str, str]]:
    """The figures that come first, each with its name."""
    speed = report.speed
    if speed is None:
        return [("Speed", "nothing was measured")]
    seen = f"{count(speed.steps)} steps, {count(speed.updates)} updates"
    if speed.episodes is not None:
        seen += f", {count(speed.episodes)} episodes"
    return [
        ("Speed", f"{count(speed.steps_per_s)} steps/s"),
        ("CPU", f"{count(speed.steps_per_cpu_s)} steps per CPU second"),
        ("Cores", f"{speed.cores_busy:.2f} busy{_of_cores(report)}"),
        ("Updates", _updates(speed)),
        ("Machine", _machine(speed)),
        ("Seen", f"{seen}; {_took(report)}"),
    ]


def _took(report: Report) -> str:
    return f"took {duration(report.took_s)}, budget {duration(report.budget_s)}"


def _of_cores(report: Report) -> str:
    return "" if report.cores is None else f" of {report.cores}"


def _updates(speed: Speed) -> str:
    ratio = speed.updates_per_step
    envs = f"{speed.num_envs:,} environment{'s' * (speed.num_envs != 1)}"
    if not ratio:
        return f"none counted, {envs}"
    often = f", one in {1 / ratio:.3g}" if ratio < 1 else ""
    return f"{ratio:.4g} per transition{often}; {envs}"


def _machine(speed: Speed) -> str:
    if speed.machine_fraction is None:
        return "share not known: needs `brisk bench machine`, and networks that we build"
    return f"{percent(speed.machine_fraction)} of the arithmetic that a core of this machine can do"


def warnings(report: Report) -> list[str]:
    """What makes the report worth less than it might be."""
    found = []
    if report.interrupted:
        found.append("Interrupted: this is what was known by then.")
    if is_busy(report):
        found.append(
            f"The machine was busy (load {report.load:.1f} on {_cores(report.cores or 1)}): the "
            "speed is what was left over. Ratios are taken in alternating turns and hold, but "
            "their intervals are wider."
        )
    if report.phases and report.coverage < COMPLETE:
        found.append(
            f"The picture is incomplete: the phases account for {percent(report.coverage)} of "
            f"the time only. Put what is missing into phases of their own."
        )
    return found


def is_busy(report: Report) -> bool:
    """Whether others left the loop less than a core when the examination began."""
    if report.load is None or report.cores is None:
        return False
    return report.load > report.cores - 0.75


def _cores(cores: int) -> str:
    return f"{cores} core{'s' * (cores != 1)}"


def times(gain: Gain, pairs: int = 0) -> str:
    """A gain with its interval, and what it rests on: 1.31 times as fast (1.25 to 1.37)."""
    told = f"{_factor(gain.factor)} times as fast"
    if gain.low == gain.high:
        return told
    if gain.low <= 0 or not isfinite(gain.high):
        return f"{told} (too few turns for an interval)"
    rests = f", {pairs} pairs of turns" if pairs else ""
    return f"{told} ({_factor(gain.low)} to {_factor(gain.high)}{rests})"


def _factor(value: float) -> str:
    return f"{value:.2f}" if 0.0995 <= value < 99.95 else figures(value)


def gain_told(finding: Finding) -> str:
    """What a finding promises, on what basis, and what must be done before."""
    gain = finding.gain
    first = f", once this is cured: {finding.after}" if finding.after else ""
    if abs(gain.factor - 1) < 0.005 and finding.basis != "measured":
        return "none in speed"
    if finding.basis == "measured":
        return f"{times(gain)}, measured with the change made{first}"
    if finding.basis == "predicted":
        return f"{times(gain)}, predicted from the figures above{first}"
    return f"at most {times(gain)}, if it cost nothing at all{first}"


def cost_told(alters_learning: str) -> str:
    """What a change costs in learning."""
    if not alters_learning:
        return "nothing: what is learnt stays the same"
    return f"alters learning: {alters_learning}"


def question(outcome: Outcome) -> str:
    """What an experiment asks, and what was changed for it."""
    asked = outcome.question or outcome.name
    return f"{asked} ({outcome.change})" if outcome.change else asked


def answer(outcome: Outcome) -> list[str]:
    """What an experiment has shown: the sentence with its figures, and the cost of the change."""
    told, gain = outcome.told, outcome.gain
    if gain is not None:
        plain, full = f"{gain.factor:.2f} times as fast", times(gain, outcome.pairs)
        told = told.replace(plain, full, 1) if plain in told else f"{told}; {full}"
    return [told, cost_told(outcome.alters_learning)] if outcome.alters_learning else [told]
