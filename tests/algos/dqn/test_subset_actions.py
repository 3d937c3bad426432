"""DQN with several actions of one set at once (SubsetSpec)."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from briskrl.algos.dqn.agent import DQN
from briskrl.algos.dqn.config import DQN_PRESETS, DQNConfig
from briskrl.algos.losses import large_margin
from briskrl.core.counters import Counters
from briskrl.core.errors import ConfigError
from briskrl.core.rng import Streams
from briskrl.core.spec import ArraySpec, EnvSpec, SubsetSpec
from briskrl.core.types import Batch, Decision
from briskrl.nets.compute import Compute

SIZE, TAKEN, ROWS = 6, 3, 5
SPEC = EnvSpec(
    obs=ArraySpec.of((2, 2, 3), np.float32, 0, 1),
    action=SubsetSpec(SIZE, TAKEN),
    max_steps=None,
    has_mask=True,
    exact_state=True,
)


def make(preset="dqn", **options):
    small = {"channels": (4, 4), "net": (8,), "batch_size": ROWS, "max_grad_norm": 0.0}
    config = DQNConfig(**DQN_PRESETS[preset] | small | options)
    return DQN(config, SPEC, Streams(1), Compute(torch.device("cpu")))


def random_batch(seed=0):
    rng = np.random.default_rng(seed)
    batch = Batch.allocate(SPEC, 1, ROWS)
    batch.obs[...] = rng.random(batch.obs.shape)
    batch.next_obs[...] = rng.random(batch.next_obs.shape)
    for row in range(ROWS):
        batch.action[0, row] = rng.permutation(SIZE)[:TAKEN]
    batch.action[0, 1, 2] = -1
    batch.reward[...] = rng.standard_normal(batch.reward.shape)
    batch.discount[...] = 0.9 * (rng.random(batch.discount.shape) < 0.7)
    batch.weight[...] = rng.random(batch.weight.shape)
    batch.next_mask[...] = rng.random(batch.next_mask.shape) < 0.6
    batch.next_mask[0, 0] = [True, False, False, True, False, False]
    return batch


def values(network, obs):
    with torch.no_grad():
        return network(torch.from_numpy(obs)).double().numpy()


def expected_targets(algo, batch):
    """r + discount * mean of the best legal values, in plain Python."""
    parts, seen = algo.model, batch.next_obs[0]
    chooser = values(parts.online if algo.config.double else parts.target, seen)
    judged = values(parts.target, seen)
    targets = []
    for row in range(ROWS):
        legal = np.flatnonzero(batch.next_mask[0, row])
        legal = legal if len(legal) else np.arange(SIZE)
        best = sorted(legal, key=lambda cell: -chooser[row, cell])[:TAKEN]
        follow = np.mean([judged[row, cell] for cell in best])
        targets.append(batch.reward[0, row] + batch.discount[0, row] * follow)
    return targets


def huber(error):
    return 0.5 * error**2 if abs(error) < 1 else abs(error) - 0.5


@pytest.mark.parametrize("how", ["mean", "each"])
@pytest.mark.parametrize("preset", ["dqn", "double-dqn", "per-dqn", "dueling-dqn"])
def test_losses_and_errors_by_hand(preset, how):
    algo, batch = make(preset, subset_loss=how), random_batch()
    with torch.no_grad():
        algo.model.target_flat.values.mul_(1.3)
    targets, now = expected_targets(algo, batch), values(algo.model.online, batch.obs[0])
    losses, errors = [], []
    for row, target in enumerate(targets):
        taken = [now[row, cell] for cell in batch.action[0, row] if cell >= 0]
        errors.append(abs(np.mean(taken) - target))
        each = np.mean([huber(value - target) for value in taken])
        loss = huber(np.mean(taken) - target) if how == "mean" else each
        losses.append(loss * (batch.weight[0, row] if algo.config.prioritized else 1))
    found = algo.update(batch, 1, Counters())
    assert algo.engines.now.drain()["loss"] == pytest.approx(np.mean(losses), rel=1e-4)
    if algo.config.prioritized:
        np.testing.assert_allclose(found[0], errors, rtol=1e-4, atol=1e-6)


def test_the_best_legal_actions_are_taken_best_first():
    algo = make(epsilon_start=0.0, epsilon_end=0.0)
    batch, decision = random_batch(), Decision.allocate(SPEC, ROWS)
    algo.act(batch.next_obs[0], batch.next_mask[0], Counters(), decision)
    judged = values(algo.model.online, batch.next_obs[0])
    for row in range(ROWS):
        legal = np.flatnonzero(batch.next_mask[0, row])
        legal = legal if len(legal) else np.arange(SIZE)
        taken = decision.action[row]
        real = taken[taken >= 0]
        # Two actions may have exactly the same value, so values are compared.
        assert judged[row, real].tolist() == sorted(judged[row, legal], reverse=True)[:TAKEN]
        assert set(real) <= set(legal)
        assert (taken[len(real) :] == -1).all()


def test_distributions_of_returns_are_refused():
    with pytest.raises(ConfigError, match="--atoms 1"):
        make("c51")


def test_the_fused_engine_refuses_subset_actions():
    spec = EnvSpec(ArraySpec.of((4,), np.float32, 0, 1), SubsetSpec(5, 2), None, True, True)
    with pytest.raises(ConfigError, match="several actions of one set"):
        DQN(DQNConfig(), spec, Streams(0), Compute(torch.device("cpu"), engine="fused"))


def test_the_margin_applies_to_each_action_of_the_teacher():
    values = torch.tensor([[1.0, 0.5, 0.9, 2.0], [1.0, 0.5, 0.9, 2.0]])
    losses = large_margin(values, torch.tensor([[3, 0], [1, -1]]), 0.3)
    # The value 2.0 is far enough ahead of 0.9; 0.5 is behind by 1.5 plus the margin.
    assert losses.tolist() == pytest.approx([(0 + 0.2) / 2, 1.8])
