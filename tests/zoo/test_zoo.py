"""The zoo's entries are settings that exist, and they go before files and flags."""

from __future__ import annotations

import json
import tomllib

import pytest

from briskrl.algos.registry import ALGOS
from briskrl.cli import zoo as command
from briskrl.cli.train import parse_args
from briskrl.cli.train import run as train_command
from briskrl.core.config import settings
from briskrl.core.config_file import Layer
from briskrl.core.errors import ConfigError
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete, load_config, resolve
from briskrl.zoo import (
    FOLDER,
    RECIPES,
    file_name,
    find_entry,
    recipe_path,
    zoo_entries,
    zoo_entry,
)

ENTRIES = list(zoo_entries())


def test_every_algorithm_of_every_file_is_an_entry():
    tables = {path.stem: tomllib.loads(path.read_text()) for path in FOLDER.glob("*.toml")}
    names = {f"{file_name(table['env'])}/{algo}" for table in tables.values() for algo in table}
    names -= {name for name in names if name.endswith("/env")}
    assert {entry.name for entry in ENTRIES} == names
    assert {file_name(table["env"]) for table in tables.values()} == set(tables)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_the_settings_of_an_entry_are_those_of_a_run(entry):
    config = complete(TrainConfig(env=entry.env, algo=entry.algo))
    assert entry.algo in ALGOS
    for name, value in entry.run.items():
        assert getattr(config, name) == value
    for table in ("env_config", "algo_config"):
        for name, value in getattr(entry, table).items():
            found = getattr(getattr(config, table), name)
            assert (list(found) if isinstance(found, tuple) else found) == value
    assert not config.zoo


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_a_measured_entry_says_how_it_was_measured(entry):
    if entry.measured:
        assert {"score", "bar", "seeds", "reached", "games", "cpu_s"} <= set(entry.measured)
        assert entry.measured["score"] >= entry.measured["bar"]
        assert "steps" in entry.run


@pytest.mark.parametrize("name", ["lunarlander-v3/ppo", "pendulum-v1/ppo", "acrobot-v1/a2c"])
def test_entries_that_only_set_steps_measure_the_general_defaults(name):
    entry = find_entry(name)
    tuned = complete(TrainConfig(env=entry.env, algo=entry.algo))
    steps = entry.run["steps"]
    assert complete(TrainConfig(env=entry.env, algo=entry.algo, steps=steps, zoo=False)) == tuned


def test_files_and_flags_go_before_the_zoo():
    before = zoo_entry("snake", "dqn")
    assert before is not None
    layers = [Layer(tables={"algo_config": settings({"gamma": 0.5})})]
    config = resolve(layers)
    assert config.algo_config.gamma == 0.5
    assert config.algo_config.batch_size == before.algo_config["batch_size"]


def test_without_the_zoo_the_defaults_of_the_classes_apply():
    config, _ = parse_args(["snake", "--algo", "dqn", "--no-zoo"])
    plain = complete(TrainConfig(env="snake", algo="dqn", zoo=False))
    assert config == plain
    assert resolve([], zoo=False) == plain
    file = Layer(values=settings({"zoo": False}))
    assert resolve([file]) == plain


def test_a_complete_config_takes_nothing_from_the_zoo_any_more():
    config = complete(TrainConfig(env="snake", algo="dqn", algo_config={"gamma": 0.5}))
    assert complete(config) == config


def test_the_settings_of_another_algorithm_are_taken_over_and_changed():
    dqn, rainbow = zoo_entry("snake", "dqn"), zoo_entry("snake", "rainbow")
    assert rainbow.algo_config["gamma"] == dqn.algo_config["gamma"]
    assert (dqn.algo_config["n_step"], rainbow.algo_config["n_step"]) == (1, 3)
    assert rainbow.run == dqn.run
    assert rainbow.measured == {}


@pytest.mark.parametrize(
    "env",
    [
        *("none", "../snake", "gym:Nothing-v0", "recipes/snake_ppo"),
        *("", "snake\0", "too long for a file" * 50),
    ],
)
def test_other_environments_have_no_entry(env):
    assert zoo_entry(env, "dqn") is None
    assert zoo_entry("snake", "env") is None
    assert zoo_entry("snake", "ppo2") is None


def test_recipes_are_config_files():
    assert recipe_path("x.toml") == "x.toml"
    path = recipe_path("zoo:snake_dqn")
    assert path == str(RECIPES / "snake_dqn.toml")
    config, _ = parse_args(["--config", "zoo:snake_dqn"])
    assert config == load_config(path)
    with pytest.raises(ConfigError, match="snake_dqn"):
        recipe_path("zoo:snake_dqm")
    with pytest.raises(ConfigError, match="no recipe"):
        recipe_path("zoo:../snake")


def test_training_prints_one_line_about_the_zoo(tmp_path, capsys):
    flags = ["snake", "--algo", "dqn", "--steps", "64", "--num-envs", "8", "--no-warmup"]
    for number, extra in enumerate(([], ["--no-zoo"])):
        run_dir = ["--run-dir", str(tmp_path / str(number))]
        # So short a run does no update.
        train_command([*flags, *extra, *run_dir])
        printed = capsys.readouterr().out
        assert printed.count("zoo: snake/dqn: ") == (not extra)


def test_the_command_lists_and_shows_entries(capsys):
    assert command.run([]) == 0
    listed = capsys.readouterr().out
    assert all(entry.name in listed for entry in ENTRIES)
    assert "snake_minute" in listed
    assert "9 of 10" in next(line for line in listed.splitlines() if "cartpole/pqn" in line)
    assert command.run(["snake/dqn"]) == 0
    assert "gamma 0.97" in capsys.readouterr().out
    assert command.run(["snake/dqn", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)["snake/dqn"]
    assert facts["settings"]["algo_config"]["gamma"] == 0.97
    with pytest.raises(ConfigError, match="snake/dqn"):
        command.run(["snake/dqm"])


def test_an_entry_without_a_bar_cannot_be_checked():
    with pytest.raises(ConfigError, match="not measured"):
        command.run(["check", "snake/dqn"])
    assert find_entry("snake/dqn").measured == {}
