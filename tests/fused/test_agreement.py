"""From the same state and the same batches, both engines come to the same parameters."""

from __future__ import annotations

import numpy as np
import pytest

from briskrl.algos.dqn.config import DQN_PRESETS
from briskrl.algos.ppo.config import PPO_PRESETS
from briskrl.core.counters import Counters
from briskrl.core.types import Decision
from tests.algos import rollouts, transitions

SMALL = {"net": (32, 16), "batch_size": 48, "target_every": 30, "lr": 3e-4, "adam_eps": 1e-4}


def values_of(preset: str, engine: str, *, seed: int = 0, **options):
    config = transitions.small(**{**SMALL, **DQN_PRESETS[preset], **options})
    return transitions.make(config, transitions.spec(mask=True), seed=seed, engine=engine)


def batch_for(algo, updates: int, seed: int):
    batch = transitions.random_batch(transitions.spec(mask=True), updates, 48, seed=seed)
    if not algo.config.prioritized:
        batch.weight[...] = 1
    return batch


def apart(first: np.ndarray, second: np.ndarray, start: np.ndarray) -> float:
    """The largest difference between two results, relative to the distance from the start."""
    way = float(np.abs(first - start).mean())
    assert way > 1e-4
    return float(np.abs(first - second).max()) / way


@pytest.mark.parametrize("preset", DQN_PRESETS)
def test_a_hundred_value_updates_agree_within_rounding(preset):
    torch_algo, fused = values_of(preset, "torch"), values_of(preset, "fused", seed=9)
    torch_algo.update(batch_for(torch_algo, 10, seed=5), 10, Counters())
    fused.load_state(torch_algo.state())
    start = transitions.parameters(fused)
    assert np.array_equal(start, transitions.parameters(torch_algo))
    for seed in range(10):
        errors = [
            algo.update(batch_for(algo, 10, seed), 10, Counters()).copy()
            for algo in (torch_algo, fused)
        ]
        if fused.config.prioritized:
            assert errors[0] == pytest.approx(errors[1], rel=1e-3, abs=1e-3)
    ends = [transitions.parameters(algo) for algo in (torch_algo, fused)]
    assert apart(*ends, start) < 0.01
    states = [algo.state() for algo in (torch_algo, fused)]
    assert states[0]["optim"].scalars == states[1]["optim"].scalars
    for part in ("model", "optim"):
        one, other = (state[part].arrays for state in states)
        assert {name: (a.shape, a.dtype) for name, a in one.items()} == {
            name: (a.shape, a.dtype) for name, a in other.items()
        }


@pytest.mark.parametrize("preset", ["dqn", "dueling-dqn", "c51", "noisy-dqn", "rainbow"])
def test_both_engines_choose_the_same_actions(preset):
    algos = [values_of(preset, engine, epsilon_start=0.3) for engine in ("torch", "fused")]
    rng = np.random.default_rng(2)
    for count in (1, 64, 65, 200):
        obs, mask = rng.random((count, 5), np.float32), rng.random((count, 3)) < 0.6
        decisions = [Decision(np.zeros(count, np.int64)) for _ in algos]
        for algo, decision in zip(algos, decisions, strict=True):
            algo.act(obs, mask, Counters(), decision)
        assert np.array_equal(decisions[0].action, decisions[1].action)


@pytest.mark.parametrize("space", ["discrete", "masked", "several"])
@pytest.mark.parametrize("preset", PPO_PRESETS)
def test_a_hundred_policy_updates_agree_within_rounding(preset, space):
    env = rollouts.spec(space if space != "masked" else "discrete", mask=space == "masked")
    options = {**PPO_PRESETS[preset], "lr": 3e-4, "adam_eps": 1e-4, "normalize_obs": True}
    agents = [
        rollouts.make(rollouts.config(**options), env, seed=seed, engine=engine)
        for seed, engine in ((0, "torch"), (9, "fused"))
    ]
    agents[1].load_state(agents[0].state())
    agents[1]._rng.bit_generator.state = agents[0]._rng.bit_generator.state
    start = rollouts.parameters(agents[0])
    for seed in range(5):
        rolls = [rollouts.collect(agent, env, seed=seed) for agent in agents]
        assert np.array_equal(rolls[0].action, rolls[1].action)
        assert rolls[0].behavior_log_prob[:-1] == pytest.approx(
            rolls[1].behavior_log_prob[:-1], abs=1e-4
        )
        for agent, rollout in zip(agents, rolls, strict=True):
            agent.compute_advantages([rollout], Counters())
        assert rolls[0].returns[:-1] == pytest.approx(rolls[1].returns[:-1], rel=1e-3, abs=1e-4)
        order = np.random.default_rng(seed)
        for _ in range(20):
            rows = order.permutation(48)[:24]
            for agent in agents:
                agent.update(rollouts.minibatch(rolls[0], env, rows), Counters())
    assert apart(*(rollouts.parameters(agent) for agent in agents), start) < 0.01


@pytest.mark.parametrize("preset", ["dqn", "rainbow"])
def test_engines_may_take_turns_within_a_run(preset):
    """Both engines share the memory of parameters and optimizer."""
    plain, mixed = values_of(preset, "torch"), values_of(preset, "auto")
    assert mixed.engines.candidates == ("fused", "torch")
    start = transitions.parameters(plain)
    for seed in range(10):
        mixed.engines.use("fused" if seed % 2 else "torch")
        for algo in (plain, mixed):
            algo.update(batch_for(algo, 10, seed), 10, Counters())
    assert apart(transitions.parameters(plain), transitions.parameters(mixed), start) < 0.01
