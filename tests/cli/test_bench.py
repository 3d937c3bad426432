"""`brisk bench` through the real command, with tiny budgets."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from briskrl.cli.bench import CHECKOUT_COMMANDS, COMMANDS
from briskrl.cli.main import main
from briskrl.core import registry
from briskrl.training.machine_profile import load_profile
from tests.cli.conftest import ROOT, Brisk, environment
from tests.cli.test_import_cost import HEAVY

SPEED = ("steps", "wall_s", "cpu_s", "steps_per_s", "steps_per_cpu_s", "threads")
SMALL = ("--num-envs", "16", "--learning-starts", "500", "--buffer-size", "4096", "--net", "16")


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert isinstance(figures, dict)
    return figures


def positive(figures: dict[str, object], *names: str) -> None:
    for name in names:
        value = figures[name]
        assert isinstance(value, int | float), name
        assert value > 0, name


@pytest.mark.parametrize("obs", ["features", "flood", "extended", "grid"])
def test_bench_env_measures_every_observation_mode(brisk: Brisk, obs: str) -> None:
    words = ("--obs", obs, "--num-envs", "32", "--seconds", "0.05", "--seed", "3", "--json")
    figures = answer(brisk("bench", "env", "snake", *words))
    positive(figures, *SPEED)
    assert figures["threads"] == 1
    assert figures["obs"] == obs
    assert figures["num_envs"] == 32
    assert figures["steps"] % (figures["replays"] * 32) == 0
    assert figures["wall_s"] >= 0.05
    assert figures["steps_per_cpu_s"] == pytest.approx(figures["steps"] / figures["cpu_s"])
    assert 13 <= figures["mean_length"] <= 22
    assert figures["best_ns_per_step"] <= figures["ns_per_step"]


def test_bench_env_measures_cartpole(brisk: Brisk) -> None:
    figures = answer(
        brisk("bench", "env", "cartpole", "--num-envs", "8", "--seconds", "0.05", "--json")
    )
    positive(figures, *SPEED)
    assert figures["obs"] is figures["mean_length"] is None


def test_bench_env_can_use_threads(brisk: Brisk) -> None:
    words = ("--num-envs", "1024", "--threads", "2", "--seconds", "0.05", "--json")
    figures = answer(brisk("bench", "env", "snake", *words))
    assert figures["threads"] == 2
    positive(figures, "steps")


def test_bench_train_reports_speed_steadiness_and_phases(brisk: Brisk, tmp_path: Path) -> None:
    words = ("--algo", "dqn", "--steps", "12000", *SMALL, "--seed", "1", "--json")
    figures = answer(brisk("bench", "train", "snake", *words))
    positive(figures, *SPEED, "updates_per_transition", "early_ratio", "late_cost_ratio")
    positive(figures, "warmup_s", "updates", "flops_per_step", "machine_fraction")
    done = figures["flops_per_step"] * figures["steps"]
    assert figures["achieved_gflops"] == pytest.approx(1e-9 * done / figures["cpu_s"], rel=1e-3)
    share = figures["machine_fraction"]
    assert figures["achieved_gflops"] == pytest.approx(share * figures["machine_gflops"])
    assert figures["steps"] == 12000
    assert figures["updates_per_transition"] == pytest.approx(0.03125, rel=0.01)
    low, high = figures["steady_spread"]
    assert 0 < low <= 1 <= high
    assert isinstance(figures["rss_growth_mb"], float)
    phases = figures["phases"]
    assert {"act", "env", "store", "sample", "update", "log", "other"} <= set(phases)
    assert min(phases.values()) >= 0
    assert sum(phases.values()) == pytest.approx(figures["wall_s"], rel=0.05)
    assert list(tmp_path.iterdir()) == []


def test_ratios_of_a_short_run_are_null(brisk: Brisk) -> None:
    figures = answer(brisk("bench", "train", "snake", "--steps", "600", *SMALL, "--json"))
    assert figures["early_ratio"] is None
    positive(figures, *SPEED)


def test_ours_is_faster_than_the_slow_loop_in_all_three(brisk: Brisk) -> None:
    words = ("--slices", "2", "--seconds", "0.05", "--num-envs", "64", "--json")
    figures = answer(brisk("bench", "legacy", *words))
    for name in ("push_speedup", "flood_speedup", "loop_speedup"):
        assert figures[name] > 1, name
    assert figures["slices"] == 2
    assert figures["push_legacy_us"] > figures["push_ours_us"] > 0
    assert figures["flood_legacy_us"] > figures["flood_ours_us"] > 0
    assert figures["loop_ours_steps_per_cpu_s"] > figures["loop_legacy_steps_per_cpu_s"] > 0
    assert figures["loop_legacy_updates_per_transition"] == 0.25
    assert 13 <= figures["mean_length"] <= 22


def test_bench_peers_measures_both_sides(brisk: Brisk) -> None:
    pytest.importorskip("stable_baselines3")
    words = ("--only", "dqn", "--slices", "2", "--seconds", "0.05", "--json")
    figures = answer(brisk("bench", "peers", *words))
    assert figures["peer"] == "stable-baselines3"
    assert figures["peer_version"].count(".") >= 1
    names = ("ours_steps_per_cpu_s", "peer_steps_per_cpu_s", "ratio", "ours_64_steps_per_cpu_s")
    positive(figures, *names)
    assert "flush_denormal" in figures["notes"]
    assert figures["ppo"] is None


def test_bench_peers_compares_ppo_in_three_settings(brisk: Brisk) -> None:
    pytest.importorskip("stable_baselines3")
    words = ("--only", "ppo", "--slices", "1", "--seconds", "0.01", "--json")
    figures = answer(brisk("bench", "peers", *words))
    assert figures["peer"] == "stable-baselines3"
    assert figures["ratio"] is None
    ppo = figures["ppo"]
    for name, ours, peer in (("equal", 64, 64), ("cleanrl", 4, 4), ("defaults", 1024, 64)):
        match = ppo[name]
        positive(match, "ours_steps_per_cpu_s", "peer_steps_per_cpu_s", "ratio")
        assert (match["ours"]["num_envs"], match["peer"]["num_envs"]) == (ours, peer)
    assert figures["whole"] is figures["stepping"] is None


def test_bench_machine_measures_and_saves_for_later_runs(
    brisk: Brisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    figures = answer(brisk("bench", "machine", "--seconds", "0.1", "--json"))
    positive(figures, "gflops", "cores")
    rates = [rate for product in figures["products"].values() for rate in product.values()]
    assert figures["gflops"] == max(
        max(product["torch"], product["fused"]) for product in figures["products"].values()
    )
    if figures["cores"] > 1:
        positive(figures, "two_threads_gflops")
        assert None not in rates
    positive(figures["memory_gb_per_s"], "copy", "triad")
    positive(figures["calls"], "python_us", "kernel_us", "torch_us")
    assert Path(figures["saved_as"]).parent == tmp_path / "cache" / "briskrl"
    known = load_profile()
    assert known is not None
    assert known.fingerprint == figures["fingerprint"]
    assert known.calibration.gflops == figures["gflops"]


def test_without_the_peer_the_message_names_its_extra() -> None:
    code = (
        "import sys; sys.modules['stable_baselines3'] = None\n"
        "from briskrl.cli.main import main; sys.exit(main(['bench', 'peers', '--json']))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert 'pip install "briskrl[peers]"' in done.stderr
    assert done.stdout == ""


def test_without_json_the_figures_are_a_table(brisk: Brisk) -> None:
    done = brisk("bench", "env", "snake", "--num-envs", "16", "--seconds", "0.01")
    assert done.returncode == 0, done.stderr
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert names[: len(SPEED) - 1] == list(SPEED[:-1])
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("wind",),
            "'wind'. Known: backends, cluster, engines, env, env-share, legacy, machine, peers, "
            "ratio, rollout, train, workflow.",
        ),
        (("legcy",), "Did you mean 'legacy'?"),
        (("env", "snak"), "Did you mean 'snake'?"),
        (("env", "snake", "--obs", "floods"), "Did you mean 'flood'?"),
        (("env", "cartpole", "--obs", "flood"), "--obs is an option of snake"),
        (("env", "gym:CartPole-v1"), "'gym:CartPole-v1' is not native"),
        (("env", "snake", "--seconds", "nan"), "seconds = nan"),
        (("env", "snake", "--seconds", "0"), "above 0"),
        (("env", "snake", "--num-envs", "0"), "num_envs = 0"),
        (("env", "snake", "--second", "1"), "Did you mean '--seconds'"),
        (("train", "snake", "--algo", "dqm"), "Did you mean 'dqn'"),
        (("train", "snake", "--train-steps-ratio", "0"), "train_steps_ratio"),
        (("train", "snake", "--run-dir", "x"), "does not take --run-dir"),
        (("train", "snake", "--print-config"), "does not take --print-config"),
        (("legacy", "--slices", "0"), "slices = 0"),
        (("peers", "--peer-num-envs", "40"), "must divide 32 or be a multiple"),
        (("peers", "--only", "pp"), "Did you mean 'ppo'"),
        (("rollout", "--update-steps", "0"), "update_steps = 0"),
        (("machine", "--seconds", "-1"), "above 0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_mistakes_are_explained_in_one_paragraph(
    brisk: Brisk, words: tuple[str, ...], message: str
) -> None:
    done = brisk("bench", *words, "--json")
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [(), *((name,) for name in COMMANDS), ("env", "wildfire")],
    ids=" ".join,
)
def test_help_imports_nothing_heavy(brisk: Brisk, words: tuple[str, ...]) -> None:
    done = brisk("bench", *words, "--help", python=("-X", "importtime"))
    assert done.returncode == 0
    assert "examples:" in done.stdout
    assert done.stdout.startswith("usage: brisk bench")
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}
    assert imported.isdisjoint(HEAVY)


def test_bench_env_takes_options_of_the_environment_and_a_player(brisk: Brisk) -> None:
    words = ("--red", "meander", "--player", "random", "--num-envs", "8", "--seconds", "0.05")
    figures = answer(brisk("bench", "env", "cage2", *words, "--json"))
    positive(figures, *SPEED)
    assert figures["num_envs"] == 8


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("cage2", "--red", "nobody"), "--red"),
        (("cage2", "--player", "nobody"), "no player 'nobody'"),
        (("cage2", "--obs", "grid"), "option of snake"),
        (("snake", "--player", "random"), "--player"),
    ],
)
def test_bench_env_rejects_options_of_other_environments(
    brisk: Brisk, words: tuple[str, ...], message: str
) -> None:
    done = brisk("bench", "env", *words)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize("name", CHECKOUT_COMMANDS)
def test_without_a_checkout_the_message_names_the_folder(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(registry, "__file__", str(tmp_path / "briskrl" / "core" / "registry.py"))
    assert main(["bench", name]) == 2
    message = capsys.readouterr().err
    assert f"benchmarks/{name}" in message
    assert "pip install -e ." in message


def test_the_wheel_holds_the_package_alone() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"] == {"packages": ["briskrl"]}
