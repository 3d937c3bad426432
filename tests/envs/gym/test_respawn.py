"""The policy "respawn" in this process: what happens in workers, without workers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from briskrl.core.errors import EnvStepError
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.env_factory import EnvFactory
from briskrl.envs.gym.process import GymProcessEnv
from briskrl.envs.gym.sync import GymSyncEnv
from tests.envs.gym import slow_envs
from tests.envs.gym.test_faults import AT, FAULTY, NUM_ENVS, SEED, STEP_ERRORS, settings
from tests.envs.recording import Trace, assert_same, play, random_actions


def walk() -> EnvFactory:
    return EnvFactory(slow_envs.WALK_ID, GymConfig(packages=(slow_envs.PACKAGE,)))


@pytest.mark.parametrize("fault", STEP_ERRORS)
def test_a_respawn_is_the_same_in_this_process_as_in_a_worker(fault: str, tmp_path: Path) -> None:
    spec = walk().spec()
    actions = random_actions(spec, 60, NUM_ENVS)
    traces: list[Trace] = []
    for name in ("sync", "process"):
        config = settings(fault, tmp_path / name, "respawn")
        factory = EnvFactory(slow_envs.ID, config)
        env = (
            GymSyncEnv(factory, NUM_ENVS, spec)
            if name == "sync"
            else GymProcessEnv(factory, NUM_ENVS, config, spec)
        )
        try:
            traces.append(play(env, actions, seed=SEED))
            assert env.respawns == 1
            assert len(env.notes) == 1
        finally:
            env.close()
    truncated = traces[0].rows["truncated"][:, FAULTY]
    assert np.flatnonzero(truncated).tolist() == [AT - 1]
    assert_same(*traces)


def test_without_a_failure_nothing_differs() -> None:
    plain = GymSyncEnv(walk(), NUM_ENVS, walk().spec())
    config = GymConfig(packages=(slow_envs.PACKAGE,), on_env_error="respawn")
    ready = GymSyncEnv(EnvFactory(slow_envs.WALK_ID, config), NUM_ENVS, plain.env_spec)
    actions = random_actions(plain.env_spec, 60, NUM_ENVS)
    assert_same(play(ready, actions, seed=SEED), play(plain, actions, seed=SEED))
    assert ready.respawns == 0


def test_a_failure_that_stops_names_the_flag_that_would_continue() -> None:
    env = GymSyncEnv(
        EnvFactory(slow_envs.ID, settings("raise", None, "stop", at=1)), 2, walk().spec()
    )
    with pytest.raises(EnvStepError, match="--on-env-error respawn"):
        play(env, random_actions(env.env_spec, 60, 2), seed=SEED)


def test_the_eleventh_failure_in_a_row_stops() -> None:
    env = GymSyncEnv(
        EnvFactory(slow_envs.ID, settings("raise", None, "respawn", at=1)), 2, walk().spec()
    )
    with pytest.raises(EnvStepError, match="the last of 11 failures in a row"):
        play(env, random_actions(env.env_spec, 40, 2), seed=SEED)
    assert 10 <= env.respawns <= 20
