"""The sentences of a report, shared by the terminal and the HTML page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

from briskrl.core.format import format_count, format_duration, format_figures, format_percent
from briskrl.doctor.report.records import (
    Finding,
    Gain,
    Outcome,
    Report,
    ScriptFacts,
    Speed,
)

COMPLETE = 0.98
"""Share of the time that the phases should cover."""
PHASES = "Where the time goes"
FINDINGS = "What is worth changing"
TRADE_OFFS = "Faster, with a trade-off"
NO_GAIN = "Tested, does not help"
MISSING = "Not tested"
NOT_APPLICABLE = "Not applicable"
NOTES = "Notes"
COUNTERS = "What the script did"
SUSPICIOUS = "Probably mistakes"
UNSEEN = "Not seen"
VERIFICATION = "Verification"
PROFILE = "Profile"


@dataclass(frozen=True, slots=True)
class Answers:
    """Experiments that are not part of a finding, by their result."""

    trade_offs: tuple[Outcome, ...]
    """Faster, but with an effect on learning, or too small a gain for a finding."""
    no_gain: tuple[Outcome, ...]
    missing: tuple[Outcome, ...]
    """Experiments that apply but were not run."""
    not_applicable: tuple[Outcome, ...]
    """Experiments that do not apply to this target."""


def counters(report: Report) -> list[str]:
    """Figures of an examined script, one per line."""
    script = report.script
    if script is None:
        return []
    lines = [f"{name}: {text}" for name, text in script.counters]
    if script.stopped:
        lines.append("end: stopped by the doctor when it had seen enough")
    elif script.exit_code is not None:
        lines.append(f"end: by itself, exit code {script.exit_code}")
    return [*lines, f"watching: {_watching(script)}"]


def _watching(script: ScriptFacts) -> str:
    counting = f"counting takes {format_percent(script.counting)} of the time"
    gain = script.watching
    if gain is None:
        return f"{counting}; the rest was not measured"
    return f"{times(gain)} without ticks, in alternating turns; {counting}"


def figures(value: float | None) -> str:
    """A figure, or a dash if it is unknown."""
    return "-" if value is None else format_figures(value)


def answers(report: Report) -> Answers:
    """Group the experiments that no finding mentions."""
    mentioned = [line for found in report.findings for line in (found.advice, *found.evidence)]
    rest = [outcome for outcome in report.outcomes if not _is_mentioned(outcome, mentioned)]
    absent = [outcome for outcome in rest if outcome.verdict == "missing"]
    return Answers(
        trade_offs=tuple(outcome for outcome in rest if outcome.verdict == "helps"),
        no_gain=tuple(out for out in rest if out.verdict in ("no difference", "hurts", "unclear")),
        missing=tuple(outcome for outcome in absent if outcome.change),
        not_applicable=tuple(outcome for outcome in absent if not outcome.change),
    )


def nothing_found(report: Report) -> str:
    """The sentence for a report without findings."""
    if report.speed is None:
        return "Nothing was measured."
    if report.interrupted or answers(report).missing:
        return "None of the tested changes is worth making."
    return "Nothing is worth changing."


def _is_mentioned(outcome: Outcome, lines: Iterable[str]) -> bool:
    """Whether a finding is based on this experiment."""
    if outcome.verdict != "helps" or not outcome.change:
        return False
    return any(line == outcome.change or line.startswith(f"{outcome.change}: ") for line in lines)


def headline(report: Report) -> list[tuple[str, str]]:
    """The figures at the top of the report, each with its name."""
    speed = report.speed
    if speed is None:
        return [("Speed", "nothing was measured")]
    seen = f"{format_count(speed.steps)} steps, {format_count(speed.updates)} updates"
    if speed.episodes is not None:
        seen += f", {format_count(speed.episodes)} episodes"
    return [
        ("Speed", f"{format_count(speed.steps_per_s)} steps/s"),
        ("CPU", f"{format_count(speed.steps_per_cpu_s)} steps per CPU second"),
        ("Cores", f"{speed.cores_busy:.2f} busy{_of_cores(report)}"),
        ("Updates", _updates(speed)),
        ("Machine", _machine(speed)),
        ("Observed", f"{seen}; {_took(report)}"),
    ]


def _took(report: Report) -> str:
    return f"took {format_duration(report.took_s)}, budget {format_duration(report.budget_s)}"


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
        return "unknown: run `brisk bench machine` first; needs a network built by briskrl"
    return f"{format_percent(speed.machine_fraction)} of the peak arithmetic rate of a core"


def warnings(report: Report) -> list[str]:
    """Reasons why the report is less certain or complete than usual."""
    found = []
    if report.interrupted:
        found.append("Interrupted: the report is incomplete.")
    if is_busy(report):
        found.append(
            f"The machine was busy (load {report.load:.1f} on {_cores(report.cores or 1)}), so "
            "absolute speeds are too low. Ratios are measured in alternating turns and remain "
            "valid, with wider intervals."
        )
    if report.phases and report.coverage < COMPLETE and report.script is None:
        found.append(
            f"The phases are incomplete: they cover {format_percent(report.coverage)} of the time. "
            "Put the remaining code into phases of its own."
        )
    return found


def is_busy(report: Report) -> bool:
    """Whether other programs left the loop less than one core."""
    if report.load is None or report.cores is None:
        return False
    return report.load > report.cores - 0.75


def _cores(cores: int) -> str:
    return f"{cores} core{'s' * (cores != 1)}"


def times(gain: Gain, pairs: int = 0) -> str:
    """A gain with its interval and sample size: 1.31 times as fast (1.25 to 1.37, 9 pairs)."""
    text = f"{_factor(gain.factor)} times as fast"
    if gain.low == gain.high:
        return text
    if gain.low <= 0 or not isfinite(gain.high):
        return f"{text} (too few turns for an interval)"
    size = f", {pairs} pairs of turns" if pairs else ""
    return f"{text} ({_factor(gain.low)} to {_factor(gain.high)}{size})"


def _factor(value: float) -> str:
    return f"{value:.2f}" if 0.0995 <= value < 99.95 else format_figures(value)


def describe_gain(finding: Finding) -> str:
    """The gain of a finding, its basis, and what has to be fixed first."""
    gain = finding.gain
    first = f", after fixing: {finding.after}" if finding.after else ""
    if abs(gain.factor - 1) < 0.005 and finding.basis != "measured":
        return "none in speed"
    if finding.basis == "measured":
        return f"{times(gain)}, measured with this change{first}"
    if finding.basis == "predicted":
        return f"{times(gain)}, predicted from the figures above{first}"
    return f"at most {times(gain)}, if it took no time at all{first}"


def describe_cost(alters_learning: str) -> str:
    """The effect of a change on learning."""
    if not alters_learning:
        return "nothing: learning is unchanged"
    return f"changes learning: {alters_learning}"


def question(outcome: Outcome) -> str:
    """The question of an experiment, with its change."""
    asked = outcome.question or outcome.name
    return f"{asked} ({outcome.change})" if outcome.change else asked


def answer_lines(outcome: Outcome) -> list[str]:
    """The result of an experiment with its interval, and its effect on learning."""
    text, gain = outcome.answer, outcome.gain
    if gain is not None:
        plain, full = f"{gain.factor:.2f} times as fast", times(gain, outcome.pairs)
        text = text.replace(plain, full, 1) if plain in text else f"{text}; {full}"
    return [text, describe_cost(outcome.alters_learning)] if outcome.alters_learning else [text]
