from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from briskrl.algos.dqn.config import DQN_PRESETS, DQNConfig
from briskrl.core.config import Setting, to_dict, to_toml
from briskrl.core.config import settings as as_settings
from briskrl.core.config_file import Layer, read_file
from briskrl.core.errors import ConfigError
from briskrl.envs.snake.config import SnakeConfig
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete, env_config, load_config, resolve
from tests.core.config_strategies import plain, train_configs

CONFIGS = sorted((Path(__file__).parents[2] / "briskrl" / "zoo" / "recipes").iterdir())
in_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)


def layer(source: str = "x.toml", /, env: dict[str, Any] | None = None, **values: Any) -> Layer:
    algo = values.pop("algo_table", {})
    tables = {"env_config": as_settings(env or {}, source)}
    return Layer(as_settings(values, source), tables | {"algo_config": as_settings(algo, source)})


def error_text(*layers: Layer) -> str:
    with pytest.raises(ConfigError) as caught:
        resolve(layers)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_no_settings_give_the_defaults_with_nested_configs() -> None:
    config = resolve([], zoo=False)
    nested = {"env_config": SnakeConfig(), "algo_config": DQNConfig()}
    assert config == TrainConfig(num_envs=16, zoo=False, **nested)


@pytest.mark.parametrize("name", DQN_PRESETS)
def test_a_preset_overrides_defaults_and_settings_override_a_preset(name: str) -> None:
    preset = DQN_PRESETS[name]
    assert resolve([layer(algo=name)], zoo=False).algo_config == DQNConfig(**preset)
    undone = resolve([layer(algo=name, algo_table=to_dict(DQNConfig()))], zoo=False)
    assert undone.algo_config == DQNConfig()


def test_later_layers_win_key_by_key() -> None:
    first = layer(seed=1, steps=10, env={"height": 6, "width": 6}, algo_table={"lr": 0.5})
    second = layer(steps=20, env={"width": 8}, algo_table={"gamma": 0.5})
    config = resolve([first, second])
    assert (config.seed, config.steps) == (1, 20)
    assert (config.env_config.height, config.env_config.width) == (6, 8)
    assert (config.algo_config.lr, config.algo_config.gamma) == (0.5, 0.5)


def test_problems_of_all_tables_are_reported_together() -> None:
    text = error_text(
        layer("f", seed=-1, env={"height": 3}, algo_table={"lr": "fast"}),
        Layer({"bogus": Setting(1, "--bogus")}),
    )
    assert text.startswith("4 settings cannot be used.")
    for part in ("seed = -1 (f)", "height = 3 (f)", "lr = 'fast' (f)", "'bogus' (--bogus)"):
        assert part in text


def test_unknown_names_are_reported_with_source_and_suggestion() -> None:
    assert error_text(layer("f, line 1", env_name=1)).startswith(
        "Unknown key 'env_name' (f, line 1)."
    )
    text = error_text(Layer(as_settings({"env": "snaek", "algo": "rainbw"}, "f")))
    assert "Unknown env 'snaek' (f). Did you mean 'snake'?" in text
    assert "Unknown algorithm 'rainbw' (f). Did you mean 'rainbow'?" in text


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        (layer(lr=1.0), "'lr' (x.toml). It belongs to the table [algo_config]"),
        (layer(obs="grid"), "'obs' (x.toml). It belongs to the table [env_config]"),
        (layer(env={"lr": 1.0}), "'lr' in [env_config] (x.toml). It belongs to the table [algo"),
        (layer(env={"steps": 1}), "It belongs to the top level, above the tables"),
        (layer(algo_table={"bach_size": 1}), "Did you mean 'batch_size'"),
        (layer(env_config=3), "'env_config' (x.toml). It must be a table"),
        (Layer(tables={"algo": as_settings({"lr": 1}, "f")}), "Unknown table [algo] (f)."),
        (
            # Its name is that of the top level in messages; the settings there still count.
            Layer(as_settings({"algo": "a2c"}), tables={"": as_settings({"seed": 1}, "f")}),
            "Unknown table [] (f).",
        ),
    ],
)
def test_misplaced_keys_are_reported_with_their_right_place(wrong: Layer, hint: str) -> None:
    assert hint in error_text(wrong)


@pytest.mark.parametrize("ratio", [0, -1, 0.0, -0.5, float("nan"), float("inf"), "quick", True])
def test_impossible_ratios_raise(ratio: object) -> None:
    assert "train_steps_ratio" in error_text(layer(algo_table={"train_steps_ratio": ratio}))


def test_a_batch_larger_than_the_buffer_raises() -> None:
    table = {"batch_size": 300, "buffer_size": 200, "learning_starts": 0}
    assert "batch_size 300 is larger than buffer_size 200" in error_text(layer(algo_table=table))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_shipped_config_is_valid_and_round_trips(path: Path, tmp_path: Path) -> None:
    config = load_config(path)
    copy = tmp_path / "copy.toml"
    copy.write_text(to_toml(config))
    assert load_config(copy) == config


def test_shipped_configs_show_every_format() -> None:
    assert {path.suffix for path in CONFIGS} >= {".toml", ".json", ".yaml"}


@in_folder
@given(config=train_configs())
def test_any_config_round_trips_through_toml_json_and_yaml(
    tmp_path: Path, config: TrainConfig
) -> None:
    texts = {
        "c.toml": to_toml(config),
        "c.json": json.dumps(to_dict(config)),
        "c.yaml": yaml.safe_dump(to_dict(config)),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert load_config(tmp_path / name) == config


@given(config=train_configs())
def test_any_valid_config_made_in_code_is_complete_already(config: TrainConfig) -> None:
    assert complete(config) == config


def test_nested_configs_may_be_absent_or_mappings() -> None:
    config = complete(TrainConfig(algo="rainbow", zoo=False, env_config={"obs": "flood"}))
    assert config.env_config == SnakeConfig(obs="flood")
    assert config.algo_config == DQNConfig(**DQN_PRESETS["rainbow"])


def test_a_config_object_given_in_code_is_kept() -> None:
    config = complete(TrainConfig(algo="rainbow", algo_config=DQNConfig(n_step=1)))
    assert config.algo_config == DQNConfig(n_step=1)


@pytest.mark.parametrize(
    "config",
    [
        TrainConfig(algo_config=DQNConfig(lr=-1.0)),
        TrainConfig(env_config=DQNConfig()),
        TrainConfig(algo_config=3),
        TrainConfig(num_envs=0),
        TrainConfig(env="none"),
        TrainConfig(algo_config={"lrr": 1}),
    ],
)
def test_invalid_configs_made_in_code_raise(config: TrainConfig) -> None:
    with pytest.raises(ConfigError):
        complete(config)


def test_env_config_is_checked() -> None:
    assert env_config("snake", obs="grid") == SnakeConfig(obs="grid")
    with pytest.raises(ConfigError, match="must be an integer from 4 to 64"):
        env_config("snake", height=3)


tables = st.dictionaries(st.sampled_from(["lr", "obs", "seed", "net", "huh", "env"]), plain)


@in_folder
@given(top=tables, env=tables, algo=tables)
def test_any_combination_resolves_or_is_a_config_error(
    top: dict[str, Any], env: dict[str, Any], algo: dict[str, Any]
) -> None:
    mixture = Layer(
        as_settings(top), {"env_config": as_settings(env), "algo_config": as_settings(algo)}
    )
    try:
        config = resolve([mixture])
    except ConfigError:
        return
    assert isinstance(config.env_config, SnakeConfig)
    assert isinstance(config.algo_config, DQNConfig)


@in_folder
@given(text=st.text(max_size=40))
def test_any_yaml_resolves_or_is_a_config_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "fuzz.yaml"
    path.write_text(text, encoding="utf-8", errors="replace")
    try:
        resolve([read_file(path)])
    except ConfigError as error:
        assert "\n" not in str(error)  # noqa: PT017


def test_naming_another_algorithm_resets_the_preset_of_a_file(
    tmp_path: Path,
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(to_toml(complete(TrainConfig(algo="rainbow", algo_config={"lr": 1e-3}))))
    flags = Layer(values=as_settings({"algo": "dqn"}))
    config = resolve([read_file(file), flags])
    assert (config.algo, config.algo_config.noisy, config.algo_config.atoms) == ("dqn", False, 1)
    assert config.algo_config.lr == 1e-3
    flags = Layer(
        values=as_settings({"algo": "c51"}), tables={"algo_config": as_settings({"atoms": 21})}
    )
    config = resolve([read_file(file), flags])
    assert (config.algo_config.noisy, config.algo_config.atoms) == (False, 21)


def test_conflicting_values_under_two_names_are_an_error() -> None:
    flags = Layer(
        values={
            "total_episodes": Setting(10, "--total-episodes"),
            "episodes": Setting(20, "--episodes"),
        }
    )
    conflict = r"Conflicting values for episodes: 10 \(--total-episodes\) and 20 \(--episodes\)"
    with pytest.raises(ConfigError, match=conflict):
        resolve([flags])
    agreeing = Layer(values=as_settings({"n_envs": 8, "num_envs": 8, "total_episodes": 10}))
    config = resolve([agreeing])
    assert (config.num_envs, config.episodes) == (8, 10)


def test_a_preset_sets_run_settings_unless_they_are_given() -> None:
    assert resolve([Layer(values=as_settings({"algo": "ppo"}))]).num_envs == 1024
    asked = Layer(values=as_settings({"algo": "ppo", "n_envs": 16}))
    assert resolve([asked]).num_envs == 16
