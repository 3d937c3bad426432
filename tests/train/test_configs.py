"""Every ready-made configuration file loads and trains."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from briskrl.train.loop import train
from briskrl.train.resolve import load_config

FILES = sorted((Path(__file__).parents[2] / "configs").iterdir())


def test_every_format_is_among_the_files():
    assert {file.suffix for file in FILES} == {".toml", ".json", ".yaml"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_ready_made_file_trains(tmp_path, file):
    config = load_config(file)
    algo = replace(config.algo_config, learning_starts=0, buffer_size=4096)
    steps = 2048
    short = replace(config, steps=steps, algo_config=algo, run_dir=str(tmp_path / "run"))
    result = train(short)
    assert result.env_steps == steps
    assert result.updates > 0
