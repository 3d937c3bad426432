"""`brisk workflow` as a real command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from briskrl.workflows.run.ledger import LEDGER, read_ledger
from briskrl.workflows.run.tables import read_table
from tests.cli.conftest import Brisk, environment
from tests.workflows.run.tiny import facts

TINY = """\
task = "cage2"
num_envs = 20
total_episodes = 500
base_episodes = 60
max_episodes = 4
eval_episodes = 20
final_eval_episodes = 20
plain_ppo = "no"

[searcher]
max_workflows = 3

[stop]
gate_min_judged = 20
gate_min_episodes = 20
reward_patience = 2

[task_config]
length = 10

[algo_config]
update_steps = 10
net = [16]
"""
PATIENCE_S = 300.0
SEARCH = ("workflow", "search", "--config", "tiny.toml", "--red-agent", "bline")
CONTRACT = {
    *("run_dir", "task", "best", "evaluated", "episodes", "train_episodes_per_s"),
    *("order_matters", "contested_share", "runner_up", "plain_ppo", "cpu_s"),
}


@pytest.fixture(autouse=True)
def tiny(tmp_path: Path) -> None:
    """A file with a short search."""
    (tmp_path / "tiny.toml").write_text(TINY)


def test_a_search_prints_json_and_can_be_evaluated_and_reported(brisk: Brisk, tmp_path: Path):
    done = brisk(*SEARCH, "--run-dir", "run", "--infeasible", "ignore", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.keys() >= CONTRACT
    assert found["best"].keys() >= {
        *("workflow", "id", "score", "ci", "feasible", "compliance", "contested_compliance")
    }
    assert found["runner_up"].keys() >= {"workflow", "score", "differs"}
    low, high = found["best"]["ci"]
    assert low <= found["best"]["score"] <= high
    assert (found["evaluated"], found["task"], found["plain_ppo"]) == (3, "cage2", None)
    assert "search for the best workflow on cage2" in done.stderr
    assert "closing evaluation" in done.stderr
    for name in ("best.json", "report.html", "report.md", "workflow.toml", "plan.json"):
        assert (tmp_path / "run" / name).is_file()
    again = brisk("workflow", "eval", "run", "--workflow", "critical-first", "--episodes", "20")
    assert again.returncode == 0, again.stderr
    assert "defender>op_server>enterprise>op_host>user" in again.stdout
    page = brisk("workflow", "report", "run", "run", "--out", "both", "--json")
    assert page.returncode == 0, page.stderr
    assert [Path(path).name for path in json.loads(page.stdout)["files"]] == [
        "report.html",
        "report.md",
    ]


def test_the_notes_command_is_planned(brisk: Brisk, tmp_path: Path):
    words = "workflow search --task cage2 --red-agent bline --n-envs 200 --total-episodes 100000"
    more = "--max-episodes 50 --update-steps 50 --dry-run --json"
    done = brisk(*words.split(), *more.split())
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert (plan["worst_case"], plan["best_case"], plan["space_size"]) == (9, 69, 120)
    assert "9 of 120" in plan["warnings"][0]
    assert not (tmp_path / "runs").exists()


def test_a_search_that_was_killed_goes_on_as_if_nothing_had_happened(brisk: Brisk, tmp_path: Path):
    check_resume_after_kill(brisk, tmp_path, SEARCH, '"kind":"train"')


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("search", '"kind":"base"'),
        ("search", '"kind":"closing"'),
        ("search", '"kind":"plain"'),
        ("joint", '"kind":"joint"'),
        ("joint", '"kind":"sweep"'),
        ("joint", '"kind":"train"'),
    ],
)
def test_a_run_that_was_killed_at_any_stage_goes_on(
    brisk: Brisk, tmp_path: Path, mode: str, text: str
):
    more = ("--sweep-episodes", "2", "--finetune", "1") if mode == "joint" else ()
    words = ("workflow", mode, *SEARCH[2:], "--plain-ppo", "yes", *more)
    check_resume_after_kill(brisk, tmp_path, words, text)


def check_resume_after_kill(brisk: Brisk, tmp_path: Path, words: tuple[str, ...], text: str):
    """Kill a run when its ledger holds some text; the resumed one must equal a whole one."""
    whole = brisk(*words, "--run-dir", "whole")
    assert whole.returncode in (0, 3), whole.stderr
    command = [sys.executable, "-m", "briskrl", *words, "--run-dir", "cut"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for(process, tmp_path / "cut" / LEDGER, text)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = brisk("workflow", "resume", "cut", "--json")
    assert done.returncode in (0, 3), done.stderr
    assert facts(read_ledger(tmp_path / "cut")) == facts(read_ledger(tmp_path / "whole"))
    rows = [(row["job_id"], row["update"]) for row in read_table(tmp_path / "cut" / "updates.csv")]
    assert len(rows) == len(set(rows))


def wait_for(process: subprocess.Popen[bytes], path: Path, text: str) -> None:
    """Wait until a file holds some text."""
    end = time.monotonic() + PATIENCE_S
    while not path.exists() or text not in path.read_text():
        assert process.poll() is None, "it ended too early"
        assert time.monotonic() < end
        time.sleep(0.02)


def test_an_interrupted_search_prints_how_to_continue(tmp_path: Path):
    command = [sys.executable, "-m", "briskrl", *SEARCH, "--run-dir", "run"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    wait_for(process, tmp_path / "run" / LEDGER, '"event":"progress"')
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, printed.decode()
    assert printed.decode().splitlines()[-1].endswith("workflow resume run")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("search", "--task", "snake"), "no built-in task"),
        (("search", "--task", "cage3"), "Did you mean 'cage2'"),
        (("search", "--total-episodes", "100"), "smallest number is"),
        (("search", "--require", "user>server"), "unknown category 'server'"),
        (("search", "--require", "user>op_host", "--require", "op_host>user"), "contradict"),
        (("search", "--suite", "olympic"), "no suite"),
        (("search", "--preset", "cage4"), "no preset"),
        (("search", "--total-epsodes", "5"), "Unknown flag"),
        (("train",), "--workflow"),
        (("train", "--workflow", "user>op_host"), "lacks"),
        (("train", "--workflow", "user>user>op_host>enterprise>defender"), "repeats"),
        (("baseline", "--kind", "ppo", "--workflow", "balanced"), "knows no workflows"),
        (("resume", "nowhere"), "not the folder of a run under workflows"),
        (("seek",), "Unknown command"),
    ],
)
def test_a_mistake_is_named_and_nothing_is_written(
    words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch, capsys
):
    from briskrl.cli.main import main

    monkeypatch.chdir(tmp_path)
    assert main(["workflow", *words]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_workflows_are_listed(monkeypatch, capsys):
    from briskrl.cli.main import main

    assert main(["workflow", "list", "--task", "cage2", "--require", "user>op_host", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["size"] == 60
    assert found["named"]["balanced"] == 1
    assert len(found["workflows"]) == 60


def test_the_oracle_obeys_and_random_actions_do_not(capsys):
    from briskrl.cli.main import main

    compliance = {}
    for kind in ("greedy", "random"):
        words = ("baseline", "--task", "cage2", "--kind", kind, "--episodes", "20", "--json")
        assert main(["workflow", *words, "--response-prob", "0.25", "--red", "bline"]) == 0
        rows = json.loads(capsys.readouterr().out)["workflows"]
        assert len(rows) == 6
        compliance[kind] = [row["compliance"] for row in rows]
    assert set(compliance["greedy"]) == {1.0}
    assert max(compliance["random"]) < 0.4


def test_the_settings_are_printed_as_a_file_that_gives_the_same_run(brisk: Brisk, tmp_path: Path):
    printed = brisk(*SEARCH, "--lr", "2e-3", "--print-config")
    assert printed.returncode == 0, printed.stderr
    (tmp_path / "all.toml").write_text(printed.stdout)
    again = brisk("workflow", "search", "--config", "all.toml", "--print-config")
    assert again.stdout == printed.stdout
    assert "lr = 0.002" in printed.stdout
    assert 'red = "bline"' in printed.stdout
