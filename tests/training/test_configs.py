"""Every shipped config file loads and trains."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from briskrl.algos.dqn.config import DQNConfig
from briskrl.envs.wildfire.config import WildfireConfig
from briskrl.training.loop import train
from briskrl.training.resolve import load_config

FILES = sorted((Path(__file__).parents[2] / "briskrl" / "zoo" / "recipes").iterdir())


def test_the_config_files_cover_every_format():
    assert {file.suffix for file in FILES} == {".toml", ".json", ".yaml"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_config_file_trains(tmp_path, file):
    config = load_config(file)
    short = replace(
        config,
        steps=2048,
        episodes=None,
        num_envs=min(config.num_envs, 256),
        env_config=_few_landscapes(config.env_config),
        algo_config=_quick(config.algo_config),
        run_dir=str(tmp_path / "run"),
    )
    result = train(short)
    assert result.env_steps == 2048
    assert result.updates > 0


def _quick(config):
    """The settings with what would keep so short a run from learning out of the way."""
    if isinstance(config, DQNConfig):
        return replace(config, learning_starts=0, buffer_size=4096)
    return replace(config, update_steps=4, pretrain_steps=min(config.pretrain_steps, 4))


def _few_landscapes(config):
    """The settings with fewer landscapes to prepare and plan for."""
    if not isinstance(config, WildfireConfig):
        return config
    plans, keep = min(config.teacher_plans, 4), min(config.teacher_keep, 2)
    landscapes = min(config.landscapes, 4)
    return replace(config, landscapes=landscapes, teacher_plans=plans, teacher_keep=keep)
