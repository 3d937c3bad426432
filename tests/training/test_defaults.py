"""The command line, files and Python have the same defaults."""

from __future__ import annotations

import pytest

from briskrl.algos.registry import ALGOS
from briskrl.cli.train import parse_args
from briskrl.core.config import settings, to_toml
from briskrl.core.config_file import Layer, read_file
from briskrl.envs.registry import ENVS
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete, resolve

NAMES = [*ENVS, "gym:CartPole-v1", "gym:Acrobot-v1", "gym:Pendulum-v1"]
# A family of environments from elsewhere, of which each has its own name.
ENVIRONMENTS = [name for name in NAMES if name not in ("gym", "given")]


@pytest.mark.parametrize("algo", ALGOS)
@pytest.mark.parametrize("env", ENVIRONMENTS)
@pytest.mark.parametrize("zoo", [True, False])
def test_flags_files_and_python_have_the_same_defaults(tmp_path, env, algo, zoo):
    in_python = complete(TrainConfig(env=env, algo=algo, zoo=zoo))
    flags = [] if zoo else ["--no-zoo"]
    assert parse_args([env, "--algo", algo, *flags])[0] == in_python
    in_file = resolve([Layer(values=settings({"env": env, "algo": algo, "zoo": zoo}))])
    assert in_file == in_python
    file = tmp_path / "config.toml"
    file.write_text(to_toml(in_python))
    assert resolve([read_file(file)]) == in_python


@pytest.mark.parametrize("algo", ALGOS)
def test_a_given_number_of_environments_is_kept(algo):
    for count in (1, 64, 256, 1024):
        config = complete(TrainConfig(env="cartpole", algo=algo, num_envs=count, steps=1000))
        assert config.num_envs == count


@pytest.mark.parametrize("algo", ALGOS)
@pytest.mark.parametrize("steps", [10_000, 100_000, 1_000_000, 50_000_000])
def test_short_runs_get_fewer_environments_and_enough_rounds_of_updates(algo, steps):
    config = complete(TrainConfig(env="cartpole", algo=algo, steps=steps, zoo=False))
    entry = ALGOS.get(algo)
    per_round = getattr(config.algo_config, entry.round_steps) * config.num_envs
    assert steps / per_round >= 64 or config.num_envs == 1
    most = entry.run_preset.get("num_envs", 256)
    assert config.num_envs == most or steps / (2 * per_round) < 64


def test_a_budget_of_episodes_leaves_the_number_of_environments():
    for budget in ({"episodes": 10}, {"max_episodes": 2}):
        config = complete(TrainConfig(env="cartpole", algo="ppo", **budget))
        assert config.num_envs == 1024


def ppo_of_gym(**settings):
    config = complete(TrainConfig(env="gym:Walk-v0", algo="ppo", zoo=False, **settings))
    return config.num_envs, config.algo_config.update_steps


def test_environments_stepped_in_python_get_longer_rollouts_of_fewer():
    assert ppo_of_gym() == (16, 256)
    given = complete(TrainConfig(env="given", algo="ppo"))
    assert (given.num_envs, given.algo_config.update_steps) == (16, 256)
    compiled = complete(TrainConfig(env="cartpole", algo="ppo", zoo=False))
    assert (compiled.num_envs, compiled.algo_config.update_steps) == (1024, 32)
    flags = ["gym:Walk-v0", "--algo", "a2c", "--no-zoo"]
    assert parse_args(flags)[0].algo_config == complete(TrainConfig(algo="a2c")).algo_config


def test_more_environments_shorten_the_rollouts_that_nobody_asked_for():
    assert ppo_of_gym(num_envs=64) == (64, 64)
    assert ppo_of_gym(num_envs=4) == (4, 256)
    assert ppo_of_gym(num_envs=4096) == (4096, 32)
    assert ppo_of_gym(num_envs=64, algo_config={"update_steps": 256}) == (64, 256)
    assert ppo_of_gym(num_envs=64, algo_config={"n_steps": 256}) == (64, 256)


def test_short_runs_get_shorter_rollouts_if_their_environments_are_given():
    assert ppo_of_gym(steps=50_000) == (2, 256)
    assert ppo_of_gym(steps=50_000, num_envs=8) == (8, 64)
    assert ppo_of_gym(steps=100, num_envs=8) == (8, 32)
    assert ppo_of_gym(episodes=100, num_envs=8) == (8, 256)


def test_another_algorithm_over_a_file_takes_its_own_settings_for_python():
    file = Layer(values=settings({"env": "gym:Walk-v0", "algo": "a2c"}))
    config = resolve([file, Layer(values=settings({"algo": "ppo"}))])
    assert (config.algo_config.update_steps, config.algo_config.gae_lambda) == (256, 0.98)
    back = resolve([file, Layer(values=settings({"algo": "reinforce"}))])
    assert back.algo_config.update_steps == 128
