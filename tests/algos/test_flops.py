"""Counted operations against numbers computed by hand and against torch's counter."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from briskrl.algos.dqn.agent import DQN
from briskrl.algos.dqn.config import DQN_PRESETS, DQNConfig
from briskrl.algos.flops import Flops
from briskrl.algos.ppo.agent import PPO
from briskrl.algos.ppo.config import PPOConfig
from briskrl.core.counters import Counters
from briskrl.core.rng import Streams
from briskrl.core.spec import ArraySpec, BoxSpec, DiscreteSpec, EnvSpec, ImagePart
from briskrl.core.types import Batch, Decision, Minibatch
from briskrl.nets.compute import Compute

TORCH = Compute(torch.device("cpu"), engine="torch")
SHAPES = {"mlp": (11,), "cnn": (3, 5, 4), "fcn": (3, 5, 4), "nature": (3, 36, 40), "multi": (72,)}
CHANNELS = {"nature": (4, 6, 5)}


def spec(shape: tuple[int, ...], actions: int | None = 3) -> EnvSpec:
    images: tuple[ImagePart, ...] = ()
    if shape == SHAPES["multi"]:
        images = (ImagePart("view", (3, 5, 4), 2),)
    if shape == SHAPES["nature"]:
        images = (ImagePart("", (3, 36, 40), 0),)
    return EnvSpec(
        obs=ArraySpec.of(shape, np.float32, 0, 1, images),
        action=BoxSpec((2,), -1.0, 1.0) if actions is None else DiscreteSpec(actions),
        max_steps=None,
        has_mask=False,
        exact_state=True,
    )


def dqn(env: EnvSpec, **options) -> DQN:
    return DQN(DQNConfig(**options), env, Streams(0), TORCH)


def ppo(env: EnvSpec, **options) -> PPO:
    return PPO(PPOConfig(**options), env, Streams(0), TORCH)


def counted(call) -> int:
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


def test_operations_of_a_dqn_batch_by_hand():
    flops = dqn(spec((11,)), net=(128, 128), batch_size=64).flops(256)
    forward = 2 * (11 * 128 + 128 * 128 + 128 * 3)
    backward = 2 * (11 * 128) + 4 * (128 * 128 + 128 * 3)
    assert forward == 36_352
    assert backward == 69_888
    assert flops == Flops(per_step=36_352, per_update=64 * (2 * 36_352 + 69_888))


def test_operations_of_a_ppo_iteration_by_hand():
    flops = ppo(spec((4,), 2)).flops(1024)
    policy, value = 2 * (4 * 64 + 64 * 64 + 64 * 2), 2 * (4 * 64 + 64 * 64 + 64)
    assert (policy, value) == (8_960, 8_832)
    backward = 2 * (policy + value) - 2 * 2 * 4 * 64
    epochs = 4 * 1024 * 32 * (policy + value + backward)
    assert flops.per_step == policy
    assert flops.per_update * 4 * 8 == epochs + 1024 * 33 * value
    assert flops.total(1024 * 32, 4 * 8) == epochs + 1024 * 33 * value + 1024 * 32 * policy


def test_convolutions_are_counted_at_every_cell_by_hand():
    flops = dqn(spec((2, 6, 5)), channels=(4, 8), net=(16,), batch_size=3).flops(1)
    first, second = 30 * 9 * 2 * 4, 30 * 9 * 4 * 8
    dense = 8 * 30 * 16 + 16 * 3
    assert flops.per_step == 2 * (first + second + dense)
    backward = 2 * first + 4 * (second + dense)
    assert flops.per_update == 3 * (2 * flops.per_step + backward)


def test_reused_rollouts_count_log_probs_and_values():
    fresh, again = (ppo(spec((4,), 2), reuse=reuse).flops(8) for reuse in (0, 3))
    steps, updates = 8 * 32, 4
    # Three of four rollouts need log probabilities; all need values and updates.
    assert again.per_update - fresh.per_update == pytest.approx(0.75 * steps * 8_960 / updates)


def test_totals_add_up():
    assert Flops(per_step=3.0, per_update=50.0).total(10, 2) == 130.0


@pytest.mark.parametrize("body", list(SHAPES))
@pytest.mark.parametrize("preset", list(DQN_PRESETS))
def test_torch_counts_as_many_operations_in_dqn(preset, body):
    env = spec(SHAPES[body], 20 if body == "fcn" else 3)
    channels = CHANNELS.get(body, (4, 6))
    options = {**DQN_PRESETS[preset], "net": (16, 8), "channels": channels, "batch_size": 10}
    algo = dqn(env, **options)
    flops, counters = algo.flops(7), Counters()
    obs, decision = np.ones((7, *env.obs.shape), np.float32), Decision.allocate(env, 7)
    assert counted(lambda: algo.act(obs, None, counters, decision)) == 7 * flops.per_step
    batch = Batch.allocate(env, 3, 10)
    assert counted(lambda: algo.update(batch, 3, counters)) == 3 * flops.per_update


@pytest.mark.parametrize("actions", [3, None], ids=["discrete", "continuous"])
@pytest.mark.parametrize("body", list(SHAPES))
@pytest.mark.parametrize("shared", [False, True])
def test_torch_counts_as_many_operations_in_ppo(shared, body, actions):
    if body == "fcn":
        # One logit per cell; there are no cells to choose from among continuous actions.
        actions = 20
    env = spec(SHAPES[body], actions)
    # Two minibatches of a rollout of 3 x 4 steps, twice.
    options = {"update_steps": 4, "epochs": 2, "minibatch_size": 6}
    algo = ppo(env, net=(16, 8), channels=CHANNELS.get(body, (4, 6)), shared=shared, **options)
    flops, counters = algo.flops(3), Counters()
    obs, decision = np.ones((7, *env.obs.shape), np.float32), Decision.allocate(env, 7)
    assert counted(lambda: algo.act(obs, None, counters, decision)) == 7 * flops.per_step
    values, batch = np.zeros(15, np.float32), Minibatch.allocate(env, 6)
    seen = np.ones((15, *env.obs.shape), np.float32)
    valuing = counted(lambda: algo.engines.now.values(seen, values))
    learning = counted(lambda: algo.update(batch, counters))
    assert 4 * flops.per_update == valuing + 4 * learning
