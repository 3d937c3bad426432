"""Replicas learn what one process learns."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from briskrl.training.config import TrainConfig
from briskrl.training.replicas.exchange import Decision
from briskrl.training.replicas.rounds import Rounds
from briskrl.training.resolve import complete
from briskrl.training.trainer import Trainer
from tests.training.replicas.thread_group import ThreadGroup, in_threads

STEPS, ENVS = 16, 16
WHOLE_ROLLOUT = {
    "net": (16,),
    "update_steps": STEPS,
    "minibatch_size": STEPS * ENVS,
    "epochs": 1,
    "max_grad_norm": 0.0,
}
CASES = [
    ("cartpole", "ppo", "fused", {}),
    ("cartpole", "ppo", "torch", {}),
    ("cartpole", "a2c", "fused", {}),
    ("snake", "reinforce", "torch", {}),
    ("cage2", "ppo", "fused", {"normalize_obs": True}),
    ("cartpole", "ppo", "torch", {"baseline": "peers", "normalize_obs": True}),
    ("gym:Pendulum-v1", "ppo", "torch", {}),
    ("snake", "ppo", "fused", {"reuse": 1, "target_kl": 0.5}),
]


def config_of(env: str, algo: str, engine: str, **settings: Any) -> TrainConfig:
    return complete(
        TrainConfig(
            env=env,
            algo=algo,
            engine=engine,
            seed=3,
            num_envs=ENVS,
            steps=10**6,
            # On a busy machine auto may choose environments that step by themselves.
            env_config={"backend": "sync"} if env.startswith("gym:") else None,
            algo_config={**WHOLE_ROLLOUT, **settings},
        )
    )


def one_process(config: TrainConfig, rollouts: int) -> Trainer:
    trainer = Trainer(config)
    trainer.start()
    for _ in range(rollouts * STEPS):
        trainer.iterate()
    return trainer


def replicas(config: TrainConfig, count: int, rounds: int) -> list[Trainer]:
    def work(group: ThreadGroup) -> Trainer:
        trainer = Trainer(replace(config, replicas=count), group=group)
        trainer.start()
        mine = Rounds(trainer, group)
        for _ in range(rounds):
            mine.run(Decision)
        return trainer

    return in_threads(count, work)


def flat(trainer: Trainer) -> Any:
    return trainer.algo.model.flat


def close_all(trainers: list[Trainer]) -> None:
    for trainer in trainers:
        trainer.close()


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize(("env", "algo", "engine", "settings"), CASES)
def test_replicas_compute_the_gradient_of_one_process(
    env: str, algo: str, engine: str, settings: dict[str, Any], count: int
):
    config = config_of(env, algo, engine, **settings)
    with closing(one_process(config, 1)) as alone:
        together = replicas(config, count, 1)
        expected = flat(alone).gradients.numpy()
        assert np.abs(expected).max() > 1e-3
        for trainer in together:
            found = flat(trainer).gradients.numpy()
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
            assert trainer.counters.env_steps == alone.counters.env_steps
            assert trainer.counters.updates == alone.counters.updates
        close_all(together)


@pytest.mark.parametrize("engine", ["fused", "torch"])
def test_all_replicas_have_the_same_bits_after_many_minibatches(engine: str):
    config = config_of(
        "cartpole", "ppo", engine, minibatch_size=64, epochs=3, normalize_obs=True, target_kl=0.01
    )
    together = replicas(config, 2, 6)
    first, second = (trainer.algo.state() for trainer in together)
    assert together[0].counters.updates == together[1].counters.updates > 6
    # The KL divergence ends some epochs early, on both.
    assert together[0].counters.updates < 6 * 12
    for name in ("model", "optim"):
        for key, array in first[name].arrays.items():
            if key != "reward.returns":
                np.testing.assert_array_equal(array, second[name].arrays[key], err_msg=key)
    close_all(together)


def test_replicas_play_the_games_of_one_process():
    config = config_of("cartpole", "ppo", "fused")
    episodes: list[Any] = []

    def work(group: ThreadGroup) -> Any:
        with closing(Trainer(replace(config, replicas=2), group=group)) as trainer:
            trainer.start()
            return Rounds(trainer, group).run(Decision).ended

    found = in_threads(2, work)
    with closing(Trainer(config)) as trainer:
        trainer.start()
        for _ in range(STEPS):
            ended = trainer.iterate()
            if ended.count:
                episodes.append((trainer.counters.env_steps, ended))
    assert episodes
    for mine in found:
        assert [step for step, _ in mine] == [step for step, _ in episodes]
        for (_, stats), (_, expected) in zip(mine, episodes, strict=True):
            for name in stats.__match_args__:
                np.testing.assert_array_equal(getattr(stats, name), getattr(expected, name))


def test_statistics_of_observations_and_rewards_are_those_of_one_process():
    config = config_of("cartpole", "ppo", "fused", normalize_obs=True)
    with closing(one_process(config, 1)) as alone:
        together = replicas(config, 4, 1)
        expected = alone.algo.state()
        for trainer in together:
            state = trainer.algo.state()
            for name in ("obs.count", "obs.mean", "obs.squares"):
                np.testing.assert_allclose(
                    state["model"].arrays[name], expected["model"].arrays[name], rtol=1e-10
                )
            np.testing.assert_allclose(
                state["optim"].arrays["reward.moments"],
                expected["optim"].arrays["reward.moments"],
                rtol=1e-10,
            )
        close_all(together)


@pytest.mark.parametrize(
    ("algo", "engine"), [("dqn", "fused"), ("rainbow", "fused"), ("double-dqn", "torch")]
)
def test_replicas_of_value_networks_are_equal_after_every_average(algo: str, engine: str):
    small = {"net": (16,), "batch_size": 16, "buffer_size": 1024, "learning_starts": 200}
    config = complete(
        TrainConfig(
            env="cartpole",
            algo=algo,
            engine=engine,
            seed=3,
            num_envs=ENVS,
            steps=10**6,
            algo_config={**small, "train_steps_ratio": 0.125, "target_every": 24},
        )
    )
    # The first round ends without updates, when it has as many iterations as a round may have.
    together = replicas(config, 2, 4)
    first, second = (trainer.algo.state() for trainer in together)
    steps = together[0].counters.env_steps
    assert together[0].counters.updates == (steps - 200) // 8 > 16
    for name in ("model", "optim"):
        for key, array in first[name].arrays.items():
            # Noise and the rewards of its own environments belong to each replica alone.
            if "noise" not in key and key != "range.rewards":
                np.testing.assert_array_equal(array, second[name].arrays[key], err_msg=key)
    memories = [trainer.memory.state() for trainer in together]
    assert memories[0].arrays.keys() == memories[1].arrays.keys()
    acted = [trainer.collector.state().arrays["obs"] for trainer in together]
    assert (acted[0] != acted[1]).any()
    close_all(together)
