"""The report as text for a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from briskrl.doctor.report.records import Gain, Report
from briskrl.doctor.report.terminal import WIDTH, describe
from tests.doctor.report_fixtures import (
    EMPTY,
    HALF,
    HEALTHY,
    ILL,
    PHASES,
    RATIO,
    SPEED,
    STORE,
    hostile,
)


def section(text: str, title: str) -> str:
    """The lines under a title, up to the next one."""
    below = text.split(f"\n{title}\n")[1].splitlines()[1:]
    end = next((at for at, line in enumerate(below) if line and line[0] != " "), len(below))
    return "\n".join(below[:end]).rstrip()


def test_the_headline_has_speed_cores_updates_and_machine_fraction() -> None:
    head = describe(HEALTHY).split("\n\nWhere")[0]
    assert head.startswith("Doctor's report of snake --algo dqn\n")
    for line in (
        "109k steps/s",
        "220k steps per CPU second",
        "0.51 busy of 2",
        "0.03125 per transition, one in 32; 256 environments",
        "61% of the peak arithmetic",
        "1.36M steps, 42.4k updates, 15.1k episodes; took 1m00s, budget 1m00s",
    ):
        assert line in head
    assert "!" not in head


def test_unknown_figures_are_reported_as_unknown() -> None:
    speed = replace(SPEED, machine_fraction=None, episodes=None, updates_per_step=0.0)
    text = describe(replace(HEALTHY, speed=speed, load=None, cores=None))
    assert "unknown: run `brisk bench machine`" in text
    assert "0.51 busy\n" in text
    assert "none counted, 256 environments" in text
    assert "episodes" not in text


@pytest.mark.parametrize(
    ("load", "cores", "busy"),
    [(0.4, 2, False), (1.3, 2, True), (0.2, 1, False), (6.0, 8, False), (None, 2, False)],
)
def test_a_machine_without_a_free_core_is_called_busy(
    load: float | None, cores: int, busy: bool
) -> None:
    assert ("was busy" in describe(replace(HEALTHY, load=load, cores=cores))) == busy


def test_phases_are_a_table_with_bars_proportional_to_their_shares() -> None:
    lines = section(describe(HEALTHY), "Where the time goes").splitlines()
    assert lines[0].split() == (
        ["phase", "share", "wall", "s/M", "CPU", "s/M", "calls/M", "p50", "us", "p95", "us"]
    )
    assert lines[1].split() == ["update", "75%", "#" * 15, "7.50", "3.50", "3,905", "917", "8,995"]
    assert lines[2].split()[2] == "#" * 5
    assert lines[3].split() == ["other", "1.0%", "0.100", "0.050", "-", "-", "-"]
    assert len({len(line) for line in lines[:4]}) == 1
    assert "99.0% of the wall time" in lines[5]


def test_phases_that_leave_time_uncovered_are_called_incomplete() -> None:
    assert "The phases are incomplete: they cover 97%" in describe(replace(HEALTHY, coverage=0.97))
    assert "incomplete" not in describe(replace(HEALTHY, coverage=0.98))


def test_findings_list_evidence_change_gain_basis_and_cost_in_order() -> None:
    text = section(describe(ILL), "What is worth changing")
    assert text.splitlines()[:6] == [
        "  1. storing transitions takes 83 % of the time",
        "     seen    256 transitions take 4,700 us to store",
        "     seen    one batched write takes 17 us here",
        "     change  write a vector step as one batch",
        "     gain    5.60 times as fast, predicted from the figures above",
        "     costs   nothing: learning is unchanged",
    ]
    assert "  2. learning takes most of the time" in text
    assert "2.58 times as fast (2.51 to 2.65), measured with this change" in text
    assert "changes learning: less is learned from each step" in text
    assert "  3. the environment takes 60 % of the time" in text
    assert "at most 2.50 times as fast, if it took no time at all" in text


def test_a_gain_that_depends_on_other_fixes_names_them() -> None:
    hidden = replace(RATIO, after="store and env")
    text = " ".join(describe(replace(ILL, findings=(hidden,))).split())
    assert "measured with this change, after fixing: store and env" in text


def test_a_finding_without_a_gain_in_speed_has_none() -> None:
    leak = replace(STORE, gain=replace(STORE.gain, factor=1.0, low=1.0, high=1.0))
    assert "gain    none in speed" in describe(replace(ILL, findings=(leak,)))


def test_without_findings_nothing_is_worth_changing() -> None:
    text = describe(HEALTHY)
    assert "\nNothing is worth changing.\n" in text
    assert "What is worth changing" not in text


@pytest.mark.parametrize("report", [replace(ILL, findings=()), replace(HEALTHY, interrupted=True)])
def test_missing_experiments_qualify_an_empty_report(report: Report) -> None:
    text = describe(report)
    assert "None of the tested changes is worth making." in text
    assert "Nothing is worth changing." not in text


def test_other_outcomes_follow_with_their_intervals() -> None:
    text = describe(ILL)
    faster = section(text, "Faster, with a trade-off")
    assert faster.splitlines() == [
        "  - How much faster with half the ratio? (--train-steps-ratio 0.5)",
        "      yes: 1.68 times as fast (1.61 to 1.77, 18 pairs of turns)",
        "      changes learning: less is learned from each step",
    ]
    assert " ".join(section(text, "Tested, does not help").split()) == (
        "- Would 2 threads be faster than 1? (--threads 2) unclear: the difference is within "
        "measurement noise; 0.95 times as fast (0.84 to 1.09, 9 pairs of turns)"
    )


def test_a_factor_is_printed_once_whatever_its_size() -> None:
    for factor, expected in (
        (121.77, "yes: 122 times as fast (97.42 to 146, 18 pairs of turns)"),
        (0.05, "yes: 0.050 times as fast (0.040 to 0.060, 18 pairs of turns)"),
    ):
        large = replace(
            HALF,
            answer=f"yes: {factor:.2f} times as fast",
            gain=Gain(factor, 0.8 * factor, 1.2 * factor),
        )
        lines = describe(replace(HEALTHY, outcomes=(large,))).splitlines()
        assert [line.strip() for line in lines if "times as fast" in line] == [expected]


def test_an_experiment_appears_once_as_a_finding_or_as_an_answer() -> None:
    assert "the usual ratio?" not in describe(ILL)
    assert "the usual ratio?" in describe(replace(ILL, findings=()))
    assert "half the ratio?" in describe(ILL)


def test_missing_experiments_are_separate_from_those_that_do_not_apply() -> None:
    text = describe(ILL)
    assert section(text, "Not tested").split("\n")[0] == (
        "  - Would torch.compile help? (--compile) it failed (RuntimeError: no compiler)"
    )
    assert "Would an accelerator help? this machine has none" in section(text, "Not applicable")


def test_notes_verification_and_profile_come_last() -> None:
    text = describe(ILL)
    assert (
        text.index("\nNotes\n")
        < text.index("\nVerification\n")
        < text.index("\nProfile by cprofile\n")
    )
    assert "- engine fused" in text
    assert "3.10 times as fast (3.00 to 3.20, 12 pairs of turns)" in text
    assert section(text, "Profile by cprofile").splitlines()[:2] == [
        "  share  own s  calls  what",
        "    75%   1.50  1,234  train.py:10(step)",
    ]
    assert text.endswith("saved profile.pstats")


def test_an_interrupted_report_is_marked_even_if_nothing_was_measured() -> None:
    text = describe(EMPTY)
    assert "Interrupted: the report is incomplete." in text
    assert "nothing was measured" in text
    assert text.endswith("Nothing was measured.")


def test_lines_fit_a_terminal_and_have_no_control_characters() -> None:
    long = replace(
        hostile(),
        target="word " * 80,
        phases=(replace(PHASES[0], name="x" * 300),),
        outcomes=(replace(HALF, change="y" * 300),),
    )
    for report in (ILL, hostile(), long):
        for line in describe(report).split("\n"):
            assert len(line) <= WIDTH
            assert line.isprintable()
