"""Cache of earlier results, one file per kind of machine in the user's cache folder.

A result belongs to the training task, not to the settings that tuning started from: the best
settings found from one start are tested first from the next.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from briskrl.algos.ppo.config import PPOConfig
from briskrl.algos.pqn.config import PQNConfig
from briskrl.core.config import to_toml
from briskrl.envs.gym.config import GymConfig
from briskrl.training.config import TrainConfig
from briskrl.training.machine_profile import cache_file, fingerprint, keep
from briskrl.tuning.config import Objective
from briskrl.tuning.space import Value


@dataclass(frozen=True, slots=True)
class CachedResult:
    """The best settings for a task, and their measured gain over the start."""

    values: dict[str, Value]
    ratio: float
    low: float
    high: float
    pairs: int
    measured_at: str


def load(key: str) -> CachedResult | None:
    """The cached result of a task on this machine; None if there is none or the file is broken."""
    return _read().get(key)


def save(key: str, result: CachedResult) -> Path | None:
    """Save a result; returns the file, or None if it cannot be written."""
    return keep(tune_file(), _read() | {key: result})


def tune_file() -> Path | None:
    """The cache file of this machine; None for a user without a home folder."""
    return cache_file(f"tune-{fingerprint()}.json")


def target_key(config: TrainConfig, objective: Objective) -> str:
    """Hash of the training task: equal for configs that differ only in tuned settings."""
    algo, env = config.algo_config, config.env_config
    rollout = 0
    if isinstance(algo, PPOConfig | PQNConfig):
        rollout = config.num_envs * algo.update_steps
        algo = replace(algo, update_steps=1)
    if isinstance(env, GymConfig):
        env = replace(env, backend="auto")
    task = TrainConfig(
        env=config.env,
        algo=config.algo,
        device=config.device,
        amp=config.amp,
        compile=config.compile,
        curriculum=config.curriculum,
        env_config=env,
        algo_config=algo,
    )
    facts = f"{to_toml(task)}\n{rollout} {objective}"
    return hashlib.blake2b(facts.encode(), digest_size=8).hexdigest()


def _read() -> dict[str, CachedResult]:
    path = tune_file()
    if path is None:
        return {}
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, CachedResult])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
