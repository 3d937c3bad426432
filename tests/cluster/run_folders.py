"""Run folders with known episodes, written by the code that writes those of real runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from briskrl.core.config import to_toml
from briskrl.core.types import JSON, EpisodeStats
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete
from briskrl.training.storage.metrics import MetricLog
from briskrl.training.storage.run_dir import RunDir

STEPS = 100
"""Transitions per episode."""
SPEED = 1000.0
"""Transitions per CPU second; a second of wall time is half of one of CPU."""


def make_run(
    path: Path,
    scores: Sequence[float],
    *,
    env: str = "snake",
    algo: str = "dqn",
    seed: int = 0,
    state: str = "finished",
    **settings: JSON,
) -> Path:
    """A run with an episode of each score after every 100 transitions; returns are ten times that.

    `settings` are those of the run; `algo_config` and `env_config` may be among them.
    """
    config = complete(TrainConfig(env=env, algo=algo, seed=seed, **settings))
    toml = to_toml(config)
    with RunDir.create(path, env=env, algo=algo, seed=seed, config_toml=toml) as run:
        with MetricLog(path, flush_s=1e9) as log:
            for number, score in enumerate(scores, 1):
                log.episodes(number * STEPS, _episode(score))
            end = len(scores) * STEPS
            for steps in sorted({end // 2, end} - {0}):
                row = {"env_steps": steps, "wall_s": steps / SPEED / 2, "cpu_s": steps / SPEED}
                log.metrics(row)
        run.write_status({"state": state, "env_steps": end})
    return path


def put_result(path: Path, score: float, *, episodes: int = 100, **facts: JSON) -> dict[str, JSON]:
    """Give a run of `make_run` the result of its job."""
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    last = rows[-1]
    result = {**last, "score": score, "return": 10 * score, "eval_episodes": episodes, **facts}
    (path / "result.json").write_text(json.dumps({"job": "digest", "result": result}))
    return result


def _episode(score: float) -> EpisodeStats:
    return EpisodeStats(
        env=np.zeros(1, np.int32),
        steps=np.full(1, STEPS, np.int32),
        returns=np.full(1, 10 * score, np.float32),
        score=np.full(1, score, np.float32),
        won=np.zeros(1, np.bool_),
        cause=np.zeros(1, np.uint8),
    )
