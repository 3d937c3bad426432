"""What was found before, one file per kind of machine in the user's cache folder.

A result belongs to whatever is trained, not to the settings that tuning started from: a winner that
one start has found is tried first by the next.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from briskrl.algos.ppo.config import PPOConfig
from briskrl.core.config import to_toml
from briskrl.training.config import TrainConfig
from briskrl.training.machine_profile import fingerprint, keep, profile_path
from briskrl.tuning.config import Objective
from briskrl.tuning.space import Value


@dataclass(frozen=True, slots=True)
class Remembered:
    """A winner, and what it was measured to gain over its start."""

    values: dict[str, Value]
    ratio: float
    low: float
    high: float
    pairs: int
    measured_at: str


def recall(key: str) -> Remembered | None:
    """The winner for a target on this machine; None if there is none, or the file is broken."""
    return _read().get(key)


def remember(key: str, found: Remembered) -> Path | None:
    """Keep a winner; returns the file, or None if there is no place for it."""
    return keep(tune_file(), _read() | {key: found})


def tune_file() -> Path:
    """Where the winners on this machine are kept."""
    return profile_path().parent / f"tune-{fingerprint()}.json"


def target_key(config: TrainConfig, objective: Objective) -> str:
    """What is trained, as one word: equal for configs that differ in what is tuned alone."""
    algo, env = config.algo_config, config.env_config
    rollout = 0
    if isinstance(algo, PPOConfig):
        rollout = config.num_envs * algo.update_steps
        algo = replace(algo, update_steps=1)
    if hasattr(env, "backend"):
        env = replace(env, backend="auto")
    alike = TrainConfig(
        env=config.env,
        algo=config.algo,
        device=config.device,
        amp=config.amp,
        compile=config.compile,
        curriculum=config.curriculum,
        env_config=env,
        algo_config=algo,
    )
    facts = f"{to_toml(alike)}\n{rollout} {objective}"
    return hashlib.blake2b(facts.encode(), digest_size=8).hexdigest()


def _read() -> dict[str, Remembered]:
    try:
        return msgspec.json.decode(tune_file().read_bytes(), type=dict[str, Remembered])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}
