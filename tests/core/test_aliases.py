"""Setting names of other libraries work in flags, files and Python."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from briskrl.algos.dqn.config import DQNConfig
from briskrl.algos.ppo.config import PPOConfig
from briskrl.algos.pqn.config import PQNConfig
from briskrl.cli.main import main
from briskrl.cli.train import parse_args
from briskrl.core.aliases import field_aliases, names_without_equivalent
from briskrl.core.config import field_hints
from briskrl.core.errors import BriskError, ConfigError
from briskrl.envs.gym.config import GymConfig
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete, load_config

CLASSES: list[Any] = [TrainConfig, PPOConfig, PQNConfig, DQNConfig, GymConfig]

PPO = {
    "n_steps": ("update_steps", 64),
    "n_epochs": ("epochs", 7),
    "batch_size": ("minibatch_size", 128),
    "clip_range": ("clip", 0.3),
    "clip_range_vf": ("clip_value", 0.4),
    "ent_coef": ("entropy_coef", 0.02),
    "vf_coef": ("value_coef", 0.25),
    "learning_rate": ("lr", 1e-4),
    "net_arch": ("net", (32, 32)),
    "norm_adv": ("normalize_advantage", False),
}
DQN = {
    "replay_size": ("buffer_size", 20_000),
    "learning_rate": ("lr", 1e-4),
    "net_arch": ("net", (32, 32)),
    "exploration_initial_eps": ("epsilon_start", 0.9),
    "exploration_final_eps": ("epsilon_end", 0.1),
    "n_steps": ("n_step", 5),
    "target_update_interval": ("target_every", 2000),
}
RUN = {
    "total_timesteps": ("steps", 1000),
    "n_envs": ("num_envs", 16),
    "total_episodes": ("episodes", 9),
}

CASES = [(PPOConfig, "ppo", *case) for case in PPO.items()]
CASES += [(DQNConfig, "dqn", *case) for case in DQN.items()]
IDS = [f"{algo}-{name}" for _, algo, name, _ in CASES]


@pytest.mark.parametrize("cls", CLASSES)
def test_aliases_stand_for_fields_and_are_not_fields(cls: type) -> None:
    hints = field_hints(cls)
    assert set(field_aliases(cls).values()) <= set(hints)
    assert set(hints).isdisjoint(field_aliases(cls))
    assert set(hints).isdisjoint(names_without_equivalent(cls))
    assert set(field_aliases(cls)).isdisjoint(names_without_equivalent(cls))


@pytest.mark.parametrize(("cls", "algo", "alias", "meaning"), CASES, ids=IDS)
def test_an_alias_works_in_python_files_and_flags(
    cls: Any, algo: str, alias: str, meaning: tuple[str, Any], tmp_path: Path
) -> None:
    field, value = meaning
    plain = list(value) if isinstance(value, tuple) else value
    file = tmp_path / "run.toml"
    literal = str(plain).lower() if isinstance(value, bool) else str(plain)
    file.write_text(f'algo = "{algo}"\n[algo_config]\n{alias} = {literal}\n')
    flag = "--" + alias.replace("_", "-")
    words = [flag, ",".join(map(str, plain)) if isinstance(plain, list) else str(plain)]
    if isinstance(value, bool):
        words = ["--no-" + flag[2:]]
    made = {
        "constructor": cls(**{alias: value}),
        "table": complete(TrainConfig(algo=algo, algo_config={alias: plain})).algo_config,
        "file": load_config(file).algo_config,
        "flag": parse_args(["snake", "--algo", algo, *words])[0].algo_config,
    }
    assert {place: getattr(config, field) for place, config in made.items()} == dict.fromkeys(
        made, value
    )


@pytest.mark.parametrize(("alias", "meaning"), RUN.items(), ids=list(RUN))
def test_an_alias_of_the_run_works_in_python_files_and_flags(
    alias: str, meaning: tuple[str, int], tmp_path: Path
) -> None:
    field, value = meaning
    (tmp_path / "run.yaml").write_text(f"{alias}: {value}\n")
    arguments: dict[str, Any] = {alias: value}
    flag = "--" + alias.replace("_", "-")
    assert getattr(TrainConfig(**arguments), field) == value
    assert getattr(load_config(tmp_path / "run.yaml"), field) == value
    assert getattr(parse_args(["snake", flag, str(value)])[0], field) == value


def test_the_target_update_interval_counts_environment_steps() -> None:
    arguments: dict[str, Any] = {"target_update_interval": 2000}
    for config in (
        DQNConfig(**arguments),
        complete(TrainConfig(algo_config=arguments)).algo_config,
    ):
        assert (config.target_every, config.target_unit) == (2000, "steps")
    with pytest.raises(ConfigError, match="Conflicting values for target_unit"):
        DQNConfig(**arguments, target_unit="updates")


def test_a_later_source_overrides_an_earlier_one_under_another_name(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('algo = "ppo"\nsteps = 10\n[algo_config]\nlr = 0.5\ntarget_kl = 0.1\n')
    words = ["--config", str(file), "--learning-rate", "0.25", "--total-timesteps", "20"]
    config, _ = parse_args(words)
    assert (config.steps, config.algo_config.lr, config.algo_config.target_kl) == (20, 0.25, 0.1)


def test_conflicting_values_under_two_names_name_both_sources() -> None:
    with pytest.raises(
        ConfigError, match=r"Conflicting values for lr: 0.2 \(lr\) and 0.1 \(learning_rate\)"
    ):
        PPOConfig(lr=0.2, **{"learning_rate": 0.1})
    words = ["snake", "--algo", "ppo", "--lr", "0.1", "--learning-rate", "0.2"]
    with pytest.raises(BriskError, match=r"0.1 \(--lr\) and 0.2 \(--learning-rate\)"):
        parse_args(words)
    assert PPOConfig(lr=0.2, **{"learning_rate": 0.2}).lr == 0.2


@pytest.mark.parametrize("cls", CLASSES)
def test_a_name_without_equivalent_says_what_to_use(cls: Any) -> None:
    for name, advice in names_without_equivalent(cls).items():
        with pytest.raises(ConfigError) as caught:
            cls(**{name: 1})
        assert str(caught.value) == f"{name} has no exact equivalent. {advice}"


def test_flags_without_equivalent_say_what_to_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "snake", "--gradient-steps", "4"]) == 2
    assert "(--gradient-steps) has no exact equivalent. Set train_steps_ratio" in (
        capsys.readouterr().err
    )
    assert main(["train", "snake", "--algo", "ppo", "--anneal-lr"]) == 2
    assert "lr_schedule" in capsys.readouterr().err


def test_an_alias_in_the_wrong_table_names_the_right_one(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('algo = "ppo"\nlearning_rate = 0.5\n')
    with pytest.raises(ConfigError, match=r"belongs to the table \[algo_config\]"):
        load_config(file)


def test_an_alias_of_the_environment_works_in_a_stage_of_the_curriculum() -> None:
    stages = [{"env": {"max_episode_steps": 10}, "until": "steps", "value": 100}]
    config: Any = TrainConfig(env="gym:CartPole-v1", curriculum=stages)  # type: ignore[arg-type]
    assert complete(config).curriculum[0].env == {"max_episode_steps": 10}


@pytest.mark.parametrize("words", [["ppo"], ["dqn"]])
def test_the_help_lists_all_aliases(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "gym:CartPole-v1", "--algo", *words, "--help"]) == 0
    listed = " ".join(capsys.readouterr().out.split())
    cls = PPOConfig if words == ["ppo"] else DQNConfig
    for alias in (*field_aliases(cls), *field_aliases(TrainConfig), *field_aliases(GymConfig)):
        assert "--" + alias.replace("_", "-") in listed


@pytest.mark.parametrize("cls", CLASSES)
def test_constructors_stay_those_of_frozen_dataclasses(cls: Any) -> None:
    config = cls()
    assert pickle.loads(pickle.dumps(config)) == config
    assert replace(config) == config
    assert list(inspect.signature(cls).parameters) == [field.name for field in fields(cls)]
    with pytest.raises(TypeError, match="unexpected keyword"):
        cls(no_such_setting=1)


@pytest.mark.parametrize(("cls", "algo", "alias", "case"), CASES, ids=IDS)
def test_dataclasses_replace_accepts_aliases(
    cls: type, algo: str, alias: str, case: tuple[str, Any]
) -> None:
    field, value = case
    config = cls(gamma=0.5)
    changed = replace(config, **{alias: value})
    assert getattr(changed, field) == value != getattr(config, field)
    assert changed.gamma == 0.5


def test_dataclasses_replace_still_reports_conflicts_and_names_without_equivalent() -> None:
    with pytest.raises(ConfigError, match="Conflicting values for update_steps"):
        PPOConfig(n_steps=3, update_steps=4)
    name = next(iter(names_without_equivalent(PPOConfig)))
    with pytest.raises(ConfigError, match="has no exact equivalent"):
        replace(PPOConfig(), **{name: 1})
