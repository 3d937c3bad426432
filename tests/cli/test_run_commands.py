"""The commands that train, evaluate and play, in a real process."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from PIL import Image

from tests.cli.conftest import SMALL, Brisk, environment

Trained = tuple[Path, str]
TRAIN_KEYS = {
    "run_dir",
    "algo",
    "env",
    "env_steps",
    "episodes",
    "updates",
    "updates_per_transition",
    "wall_s",
    "cpu_s",
    "warmup_s",
    "steps_per_s",
    "flops_per_step",
    "achieved_gflops",
    "machine_gflops",
    "machine_fraction",
    "phases",
    "mean_return",
    "mean_score",
}
PHASE_KEYS = {"act", "env", "store", "sample", "update", "log", "other"}
EVAL_KEYS = {
    "episodes",
    "mean_return",
    "std_return",
    "mean_score",
    "max_score",
    "win_rate",
    "mean_steps",
}


def test_train_prints_exactly_one_json_object_with_the_documented_keys(trained: Trained) -> None:
    folder, printed = trained
    result = json.loads(printed)
    assert set(result) >= TRAIN_KEYS
    assert set(result["phases"]) >= PHASE_KEYS
    assert (result["run_dir"], result["env"], result["algo"]) == (str(folder), "snake", "dqn")
    assert result["env_steps"] == 4000
    assert result["updates"] == int(3500 * 0.03125)


def test_with_json_progress_goes_to_standard_error(brisk: Brisk) -> None:
    done = brisk("train", "snake", "--run-dir", "r", "--steps", "600", *SMALL, "--json")
    assert json.loads(done.stdout)["run_dir"] == "r"
    assert "dqn on snake: 16 envs" in done.stderr
    assert "Finished: 608 steps" in done.stderr


def test_the_saved_config_reproduces_the_run(trained: Trained, brisk: Brisk) -> None:
    folder, printed = trained
    done = brisk("train", "--config", str(folder / "config.toml"), "--run-dir", "again", "--json")
    first, second = json.loads(printed), json.loads(done.stdout)
    same = ("env_steps", "episodes", "updates", "mean_return", "mean_score")
    assert [first[key] for key in same] == [second[key] for key in same]


def test_an_existing_run_folder_is_an_error_and_not_changed(trained: Trained, brisk: Brisk) -> None:
    folder, _ = trained
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    done = brisk("train", "snake", "--run-dir", str(folder), *SMALL)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "already exists" in done.stderr
    assert "Traceback" not in done.stderr
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("snaek",), "Did you mean 'snake'?"),
        (("snake", "--algo", "rainbo"), "Did you mean 'rainbow'"),
        (("snake", "--lrr", "1"), "Unknown flag --lrr. Did you mean '--lr'"),
        (("snake", "--num-env", "1"), "Unknown flag --num-env. Did you mean '--num-envs'"),
        (("snake", "--config", "bad.toml"), "Unknown key 'lr' (bad.toml, line 2). It belongs to"),
        (("snake", "--train-steps-ratio", "0"), "train_steps_ratio must be above 0"),
        (("snake", "--train-steps-ratio", "-1"), "train_steps_ratio must be above 0"),
        (("snake", "--train-steps-ratio", "nan"), "train_steps_ratio = nan"),
        (("snake", "--batch-size", "9999999"), "is larger than buffer_size"),
        (("snake", "--height", "3"), "height = 3 (--height) must be an integer from 4 to 64"),
        (("snake", "--steps", "many"), "steps = 'many' (--steps) must be an integer"),
        (("snake", "--lr"), "expected one argument"),
        (("snake", "ladder"), "unexpected argument 'ladder'"),
    ],
)
def test_user_errors_are_one_paragraph_exit_2_and_write_nothing(
    brisk: Brisk, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    (tmp_path / "bad.toml").write_text("seed = 1\nlr = 0.1\n")
    done = brisk("train", *words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message.lower() in done.stderr.lower()
    assert len(done.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["bad.toml"]


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGTERM, 143)],
    ids=["hup", "int", "term"],
)
def test_a_signal_saves_and_the_last_line_resumes_the_run(
    brisk: Brisk, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    words = ("train", "snake", "--run-dir", "r", "--log-seconds", "0.1", *SMALL)
    command = [sys.executable, "-u", "-m", "briskrl", *words]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "steps/s" in line:
                process.send_signal(number)
                break
        rest = process.stdout.read()
    assert process.returncode == code
    last = rest.splitlines()[-1]
    assert last == "brisk resume r"
    assert "Stopped and saved" in rest
    done_steps = json.loads((tmp_path / "r" / "status.json").read_text())["env_steps"]
    total = str(done_steps + 160)
    done = brisk(*last.split()[1:], "--steps", total, "--json")
    assert json.loads(done.stdout)["env_steps"] == done_steps + 160
    assert f"from step {done_steps:,}" in done.stderr


def test_a_terminal_shows_the_live_panel(tmp_path: Path) -> None:
    words = ("train", "snake", "--run-dir", "r", "--steps", "3000", "--log-seconds", "0.05", *SMALL)
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "briskrl", *words],
        cwd=tmp_path,
        env=environment() | {"TERM": "xterm"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    shown = b""
    # Linux reports the end of a terminal as an error.
    with suppress(OSError):
        while chunk := os.read(master, 65536):
            shown += chunk
    os.close(master)
    assert process.wait(60) == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert "╭─ dqn on snake: 16 envs, cpu, 1 thread, in r" in text
    assert re.search(r"│ training score +[-0-9]", text)
    assert "time in" in text
    assert "Finished: 3,008 steps" in text


@pytest.mark.parametrize("words", [(), ("--steps", "3000")], ids=["same", "smaller"])
def test_resuming_a_finished_run_without_a_larger_budget_is_an_error(
    trained: Trained, brisk: Brisk, tmp_path: Path, words: tuple[str, ...]
) -> None:
    folder = shutil.copytree(trained[0], tmp_path / "copy")
    names = ("config.toml", "meta.json", "status.json", "metrics.jsonl")
    before = [(folder / name).read_bytes() for name in names]
    done = brisk("resume", str(folder), *words)
    assert done.returncode == 2
    assert "--steps" in done.stderr
    assert "Traceback" not in done.stderr
    assert [(folder / name).read_bytes() for name in names] == before


@pytest.mark.parametrize("command", ["resume", "eval", "play"])
def test_a_missing_run_is_an_error(brisk: Brisk, tmp_path: Path, command: str) -> None:
    done = brisk(command, "nowhere")
    assert done.returncode == 2
    assert done.stderr.startswith("brisk: nowhere is n")
    assert list(tmp_path.iterdir()) == []


def test_eval_prints_the_documented_keys_and_equal_seeds_give_equal_results(
    trained: Trained, brisk: Brisk
) -> None:
    words = ("eval", str(trained[0]), "--episodes", "20", "--json")
    first, same, other = (brisk(*words, "--seed", seed).stdout for seed in ("1", "1", "2"))
    result = json.loads(first)
    assert set(result) >= EVAL_KEYS
    assert result["episodes"] == 20
    assert first == same
    assert json.loads(other)["mean_steps"] != result["mean_steps"]


def test_eval_of_an_environment_uses_the_heuristic_which_beats_random_play(brisk: Brisk) -> None:
    words = ("eval", "snake", "--episodes", "30", "--json")
    heuristic = json.loads(brisk(*words).stdout)
    chance = json.loads(brisk(*words, "--player", "random", "--masks").stdout)
    assert heuristic["mean_score"] > 10 > chance["mean_score"]


def test_play_prints_whole_episodes_when_piped(trained: Trained, brisk: Brisk) -> None:
    shown = brisk("play", str(trained[0]), "--episodes", "2").stdout
    assert "\x1b" not in shown
    assert len(re.findall(r"^over: score \d+ in \d+ steps", shown, re.MULTILINE)) == 2
    assert "|" + "." * 7 in shown


def test_play_saves_a_gif_of_the_episode(trained: Trained, brisk: Brisk, tmp_path: Path) -> None:
    words = ("play", str(trained[0]), "--gif", "game.gif", "--fps", "10", "--cell-px", "8")
    shown = brisk(*words).stdout
    steps = int(re.findall(r"in (\d+) steps", shown)[0])
    with Image.open(tmp_path / "game.gif") as gif:
        assert (gif.format, gif.size) == ("GIF", (80, 80))
        # Equal frames in a row are one longer frame of a GIF.
        assert 1 < gif.n_frames <= steps + 1
        assert gif.info["duration"] == 100


@pytest.mark.parametrize("path", ["no/such/folder.gif", "game.png"])
def test_a_gif_that_cannot_be_written_is_an_error_before_playing(brisk: Brisk, path: str) -> None:
    done = brisk("play", "snake", "--gif", path)
    assert done.returncode == 2
    assert path in done.stderr


def test_runs_lists_the_facts_of_run_folders(trained: Trained, brisk: Brisk) -> None:
    root = str(trained[0].parent)
    (found,) = json.loads(brisk("runs", "--root", root, "--json").stdout)["runs"]
    assert (found["name"], found["env"], found["algo"]) == ("run", "snake", "dqn")
    assert (found["env_steps"], found["status"]) == (4000, "finished")
    table = brisk("runs", "--root", root).stdout.splitlines()
    heads = ["run", "env", "algo", "steps", "score", "in training", "status", "age"]
    assert re.split(r"\s{2,}", table[0].strip()) == heads
    assert table[1].split()[1:3] == ["snake", "dqn"]
