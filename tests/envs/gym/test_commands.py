"""Gymnasium environments on the command line."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from briskrl.cli.main import main
from briskrl.cli.train import parse_args
from briskrl.core.config_file import read_file
from briskrl.core.errors import BriskError
from briskrl.core.text_values import parse_value
from briskrl.envs.gym.config import GymConfig
from briskrl.training.resolve import load_config, resolve


def parse_env_config(*words: str) -> GymConfig:
    config = parse_args(["gym:CartPole-v1", *words])[0].env_config
    assert isinstance(config, GymConfig)
    return config


def test_packages_may_be_repeated_or_listed() -> None:
    config = parse_env_config("--import", "a.b", "--import", "c,d")
    assert config.packages == ("a.b", "c", "d")


@pytest.mark.parametrize(
    ("words", "table"),
    [
        (["x=1"], {"x": 1}),
        (["x=1,y=abc", "z=true"], {"x": 1, "y": "abc", "z": True}),
        (['{"x": [1, 2], "y": {"z": 0.5}}'], {"x": [1, 2], "y": {"z": 0.5}}),
    ],
)
def test_env_args_are_json_or_pairs(words: list[str], table: dict[str, object]) -> None:
    given = [part for word in words for part in ("--env-args", word)]
    assert parse_env_config(*given).env_args == table


@pytest.mark.parametrize("word", ["zz", "{oops", "=3"])
def test_other_env_args_are_an_error(word: str) -> None:
    assert parse_value(word, dict[str, object]) == word
    with pytest.raises(BriskError, match="a table of keys and values"):
        parse_env_config("--env-args", word)


def test_flags_may_come_before_the_environment() -> None:
    config, _ = parse_args(["--backend", "sync", "--max-steps", "7", "gym:CartPole-v1"])
    assert config.env == "gym:CartPole-v1"
    assert (config.env_config.backend, config.env_config.max_steps) == ("sync", 7)


def test_env_args_may_be_a_table_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "lake.toml"
    path.write_text(
        'env = "gym:FrozenLake-v1"\n[env_config]\npackages = ["a"]\nmax_steps = 9\n'
        "[env_config.env_args]\nis_slippery = false\n"
    )
    config = resolve([read_file(path)])
    assert config.env_config == GymConfig(
        packages=("a",), max_steps=9, env_args={"is_slippery": False}
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "lake"
    words = ["gym:FrozenLake-v1", "--num-envs", "8", "--steps", "600", "--run-dir", str(folder)]
    arguments = ["--learning-starts", "100", "--env-args", "is_slippery=false", "--no-warmup"]
    assert main(["train", *words, *arguments]) == 0
    return folder


def test_a_run_keeps_the_settings_of_its_environments(trained: Path) -> None:
    config = load_config(trained / "config.toml")
    assert config.env == "gym:FrozenLake-v1"
    assert config.env_config.env_args == {"is_slippery": False}


def test_a_trained_policy_can_be_evaluated(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", str(trained), "--episodes", "5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["episodes"] == 5


def test_an_episode_is_shown_as_text(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", str(trained)]) == 0
    out = capsys.readouterr().out
    assert "FHFH" in out.replace("\x1b[41m", "").replace("\x1b[0m", "")
    assert "over: score" in out


def test_without_a_text_mode_an_episode_is_shown_as_numbers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["play", "gym:Pendulum-v1", "--max-steps", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("obs [")
    assert [line.split()[0] for line in lines[1:6]] == ["action"] * 5
    assert "in 5 steps" in lines[6]


@pytest.mark.skipif(importlib.util.find_spec("pygame") is not None, reason="pygame is installed")
def test_a_gif_without_pygame_is_an_error_that_names_the_package(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gif = tmp_path / "game.gif"
    assert main(["play", "gym:CartPole-v1", "--gif", str(gif)]) == 2
    assert "pip install" in capsys.readouterr().err
    assert not gif.exists()


def test_a_gif_has_the_rendered_frames(tmp_path: Path) -> None:
    from PIL import Image

    gif = tmp_path / "game.gif"
    name = "gym:brisktest/ImageWorld-v0"
    words = ["--import", "tests.envs.gym.toy_envs", "--gif", str(gif), "--seed", "2"]
    assert main(["play", name, *words]) == 0
    with Image.open(gif) as image:
        assert image.size == (40, 32)
        assert 2 <= image.n_frames <= 21  # type: ignore[attr-defined]


def test_a_misspelled_id_suggests_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "gym:CartPoll-v1"]) == 2
    assert "Did you mean gym:CartPole-v1" in capsys.readouterr().err


def test_gym_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs"]) == 0
    assert "gym:CartPole-v1" in capsys.readouterr().out
    assert main(["envs", "gym:Anything-v0"]) == 0
    assert "--env-args" in capsys.readouterr().out


def test_our_own_ids_of_gymnasium_can_be_trained(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    arguments = ["--num-envs", "2", "--steps", "160", "--learning-starts", "20", "--net", "8"]
    arguments += ["--backend", "process", "--run-dir", str(folder)]
    assert main(["train", "gym:briskrl/Snake-v0", *arguments]) == 0
    assert load_config(folder / "config.toml").env == "gym:briskrl/Snake-v0"
