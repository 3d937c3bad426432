from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest

from briskrl.cli.progress import (
    LiveReporter,
    PlainReporter,
    facts,
    make_reporter,
    row,
    summary,
    title,
)
from briskrl.cli.run_command import run_with_progress
from briskrl.training.evaluate import EvalResult
from briskrl.training.reporter import Progress, Reporter, RunInfo, RunResult

PHASES = {"act": 1.0, "env": 1.0, "update": 2.0}
INFO = RunInfo(
    run_dir="runs/my run",
    env="snake",
    algo="dqn",
    device="cpu",
    threads=1,
    overlap=False,
    num_envs=256,
    total_steps=4_000_000,
    resumed=False,
)
PROGRESS = Progress(
    env_steps=1_000_000,
    total_steps=4_000_000,
    fraction=0.25,
    eta_s=30.0,
    episodes=5000,
    updates=31_250,
    wall_s=10.0,
    cpu_s=9.0,
    steps_per_s=100_000.0,
    achieved_gflops=40.0,
    machine_fraction=0.234,
    mean_return=123.4,
    mean_score=12.3,
    epsilon=0.01,
    loss=0.5,
    phases=PHASES,
)
RESULT = RunResult(
    run_dir="runs/my run",
    algo="dqn",
    env="snake",
    seed=0,
    env_steps=4_000_000,
    episodes=20_000,
    steps_per_episode=200.0,
    updates=124_687,
    updates_per_transition=0.03125,
    learning_starts=10_000,
    wall_s=40.0,
    cpu_s=39.0,
    warmup_s=1.5,
    steps_per_s=100_000.0,
    flops_per_step=319_200.0,
    achieved_gflops=32.7,
    machine_gflops=115.0,
    machine_fraction=0.2843,
    phases=PHASES,
    mean_return=170.0,
    mean_score=18.0,
    exact_resume=True,
    stopped="finished",
)


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_the_title_mentions_the_learner_thread() -> None:
    line = title(replace(INFO, threads=2, overlap=True, resumed=True))
    place = "256 envs, cpu, 2 threads and a learner thread"
    assert line == f"dqn on snake: {place}, resumed, in runs/my run"


def test_a_row_has_progress_score_speed_and_time_left() -> None:
    assert row(PROGRESS) == (
        " 25%  1.00M steps  training score 12.30  return 123.40  100k steps/s  31.2k updates  "
        "epsilon 0.010  23% of this machine  10.0s, 30.0s to go"
    )


def test_a_row_can_be_formatted_before_anything_is_known() -> None:
    early = replace(
        PROGRESS,
        env_steps=0,
        eta_s=None,
        steps_per_s=0.0,
        mean_return=None,
        mean_score=None,
        epsilon=None,
        machine_fraction=None,
    )
    assert "training score -  return -" in row(early)
    assert "machine" not in row(early)
    assert row(early).endswith("- to go")


def test_the_panel_shows_phase_shares_and_the_best_score() -> None:
    shown = dict(facts(PROGRESS, 13.0))
    assert shown["time in"] == "update 50%  act 25%  env 25%"
    assert shown["training score"] == "12.30  (best 13.00)"
    assert shown["loss"] == "0.5"
    assert shown["speed"] == "100k steps/s, 23% of this machine"


def test_the_summary_suggests_commands_quoted_for_the_shell() -> None:
    text = summary(RESULT, None)
    for part in (
        "score 18.00",
        "100k steps/s",
        "1.5s of warm-up",
        "319k FLOP per step, 32.7 GFLOP/s of CPU: 28% of the 115 that a core can do",
        "update 50%",
        "brisk eval 'runs/my run' --episodes 1000",
        "brisk play 'runs/my run'",
        "brisk resume 'runs/my run' --steps 8000000",
    ):
        assert part in text


def test_the_summary_names_the_command_that_measures_the_machine() -> None:
    text = summary(replace(RESULT, machine_gflops=None, machine_fraction=None), None)
    assert "32.7 GFLOP/s of CPU; brisk bench machine measures the peak" in text


def test_the_summary_has_no_rate_for_an_accelerator() -> None:
    nothing = dict.fromkeys(("achieved_gflops", "machine_gflops", "machine_fraction"))
    text = summary(replace(RESULT, **nothing), None)
    assert "  machine  319k FLOP per step\n" in text


def test_the_summary_of_a_finished_run_has_the_score_of_new_episodes() -> None:
    played = EvalResult(256, 180.0, 40.0, 19.5, 4.0, 41.0, 0.0, 150.0, 0)
    text = summary(RESULT, played)
    assert "score 19.50 on average, 41.00 at best, over 256 new episodes" in text
    assert "training episodes" not in text


def test_plain_lines_are_not_repeated_within_a_few_seconds() -> None:
    stream = StringIO()
    reporter = make_reporter(stream)
    assert isinstance(reporter, PlainReporter)
    reporter.on_start(INFO)
    reporter.on_warmup(1.5)
    for _ in range(50):
        reporter.on_progress(PROGRESS)
    reporter.on_note("a checkpoint was damaged")
    reporter.on_note("warning: no update")
    lines = stream.getvalue().splitlines()
    assert len(lines) == 6
    assert lines[0] == "dqn on snake: 256 envs, cpu, 1 thread, in runs/my run"
    assert lines[-2:] == ["note: a checkpoint was damaged", "warning: no update"]
    assert "\x1b" not in stream.getvalue()


def test_a_terminal_gets_one_panel_that_is_redrawn_and_then_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    stream = Terminal()
    reporter = make_reporter(stream)
    assert isinstance(reporter, LiveReporter)
    reporter.on_start(INFO)
    reporter.on_warmup(1.5)
    reporter.on_progress(PROGRESS)
    reporter.on_progress(replace(PROGRESS, mean_score=11.0))
    shown = stream.getvalue()
    assert "12.30" in shown
    assert "11.00  (best 12.30)" in shown
    reporter.on_end(RESULT)
    assert stream.getvalue().count("\x1b[?25l") == stream.getvalue().count("\x1b[?25h")


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(make_reporter(Terminal()), PlainReporter)


@pytest.mark.parametrize(
    ("stopped", "code"), [("finished", 0), ("sighup", 129), ("sigint", 130), ("sigterm", 143)]
)
def test_how_a_run_stopped_decides_the_exit_code_and_the_last_line(
    stopped: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    result = replace(RESULT, stopped=stopped)

    def work(reporter: Reporter) -> RunResult:
        reporter.on_end(result)
        return result

    assert run_with_progress(work, as_json=True, final_episodes=0) == code
    last = capsys.readouterr().err.splitlines()[-1]
    assert (last == "brisk resume 'runs/my run'") == (stopped != "finished")


def test_the_terminal_is_restored_when_a_run_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    monkeypatch.setattr("sys.stdout", stream)

    def work(reporter: Reporter) -> RunResult:
        reporter.on_start(INFO)
        reporter.on_warmup(1.0)
        reporter.on_progress(PROGRESS)
        raise RuntimeError("lost")

    with pytest.raises(RuntimeError, match="lost"):
        run_with_progress(work, as_json=False)
    assert stream.getvalue().count("\x1b[?25l") == stream.getvalue().count("\x1b[?25h") > 0
