"""The DQN family against values computed by hand from its own networks, option by option."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from briskrl.algos.dqn.config import DQN_PRESETS
from briskrl.algos.dqn.policy import QPolicy
from briskrl.core.counters import Counters
from briskrl.core.errors import ConfigError, DivergedError
from briskrl.core.spec import BoxSpec, EnvSpec
from briskrl.core.types import Batch, Decision
from tests.algos.transitions import (
    ACTIONS,
    forward,
    make,
    move_target,
    parameters,
    random_batch,
    small,
    spec,
)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_errors_are_value_minus_target_computed_by_hand(engine, double, masked):
    env = spec(mask=masked)
    rows = 40
    config = small(double=double, prioritized=True, batch_size=rows)
    algo = make(config, env, engine=engine)
    move_target(algo, scale=1.0)
    batch = random_batch(env, 1, rows)
    batch.next_obs[...] = 2 * np.random.default_rng(1).standard_normal(batch.next_obs.shape)
    online, next_online = (
        forward(algo.model.online, batch.obs[0]),
        forward(algo.model.online, batch.next_obs[0]),
    )
    next_target = forward(algo.model.target, batch.next_obs[0])
    expected, of_other_chooser = [], []
    for i in range(rows):
        legal = range(ACTIONS)
        if masked and batch.next_mask[0, i].any():
            legal = np.flatnonzero(batch.next_mask[0, i])
        choosers = (next_online, next_target) if double else (next_target, next_online)
        for errors, chooser in zip((expected, of_other_chooser), choosers, strict=True):
            best = max(legal, key=lambda a, values=chooser[i]: values[a])
            target = batch.reward[0, i] + batch.discount[0, i] * next_target[i, best]
            errors.append(abs(online[i, batch.action[0, i]] - target))
    # Where both networks prefer the same action, the test could not see which one chooses.
    assert np.count_nonzero(np.abs(np.subtract(expected, of_other_chooser)) > 0.01) >= 5
    errors = algo.update(batch, 1, Counters())
    assert errors[0] == pytest.approx(np.array(expected), rel=1e-5, abs=1e-6)


def test_the_gradient_is_the_weighted_mean_of_clipped_errors(engine):
    algo = make(small(max_grad_norm=0.0, prioritized=True), engine=engine)
    batch = random_batch(spec(), 1)
    q = algo.model.online(torch.from_numpy(batch.obs[0]))
    target = batch.reward[0] + batch.discount[0] * forward(
        algo.model.target, batch.next_obs[0]
    ).max(1)
    chosen = q[torch.arange(8), torch.from_numpy(batch.action[0])]
    grad = torch.clamp(chosen.detach() - torch.from_numpy(target), -1, 1)
    by_hand = torch.autograd.grad(
        chosen, list(algo.model.online.parameters()), grad * torch.from_numpy(batch.weight[0]) / 8
    )
    algo.update(batch, 1, Counters())
    got = torch.cat([p.grad.flatten() for p in algo.model.online.parameters()])
    assert torch.allclose(got, torch.cat([g.flatten() for g in by_hand]), atol=1e-6)


def test_dueling_values_average_to_the_state_value():
    algo = make(small(dueling=True))
    obs = np.random.default_rng(1).random((6, 5), np.float32)
    hidden = algo.model.online.body(torch.from_numpy(obs))
    head = algo.model.online.head
    value, advantage = head.value(hidden).detach(), head.advantage(hidden).detach()
    by_hand = value + advantage - advantage.mean(1, keepdim=True)
    assert forward(algo.model.online, obs) == pytest.approx(by_hand.numpy(), abs=1e-6)
    assert forward(algo.model.online, obs).mean(1) == pytest.approx(value[:, 0].numpy(), abs=1e-6)


def test_distributional_errors_are_the_cross_entropy_by_hand(engine):
    algo = make(small(atoms=7, double=True, prioritized=True), engine=engine)
    batch = random_batch(spec(), 1)
    support = np.linspace(-5, 5, 7)
    logits = torch.from_numpy(forward(algo.model.online, batch.obs[0]))
    next_probs = torch.from_numpy(forward(algo.model.target, batch.next_obs[0])).softmax(2).numpy()
    errors = algo.update(batch, 1, Counters())[0]
    for i in range(8):
        best = int(np.argmax(next_probs[i] @ support))
        target = np.zeros(7)
        for z, p in zip(support, next_probs[i, best], strict=True):
            moved = np.clip(batch.reward[0, i] + batch.discount[0, i] * z, -5, 5)
            position = (moved + 5) / (10 / 6)
            below = int(position)
            target[below] += p * (1 - (position - below))
            target[min(below + 1, 6)] += p * (position - below)
        log_probs = logits[i, batch.action[0, i]].log_softmax(0).numpy()
        assert errors[i] == pytest.approx(-(target * log_probs).sum(), rel=1e-4)


def test_quantile_errors_are_the_quantile_huber_loss_by_hand(engine):
    config = small(atoms=5, distribution="quantile", prioritized=True)
    algo = make(config, engine=engine)
    move_target(algo, scale=1.0)
    batch = random_batch(spec(), 1)
    predicted = forward(algo.model.online, batch.obs[0])
    following = forward(algo.model.target, batch.next_obs[0])
    errors = algo.update(batch, 1, Counters())[0]
    for i in range(8):
        best = int(np.argmax(following[i].mean(1)))
        loss = 0.0
        for number, quantile in enumerate(predicted[i, batch.action[0, i]]):
            share = (number + 0.5) / 5
            for sample in following[i, best]:
                error = batch.reward[0, i] + batch.discount[0, i] * sample - quantile
                huber = 0.5 * error**2 if abs(error) < 1 else abs(error) - 0.5
                loss += (share if error >= 0 else 1 - share) * huber / 5
        assert errors[i] == pytest.approx(loss, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("quiet", [False, True])
def test_the_maximum_over_noisy_values_is_too_high_and_without_noise_exact(quiet):
    """The best of several noisy values is above the best of their means (Jensen's inequality)."""
    algo = make(small(noisy=True, noisy_sigma=2.0, target_noise=not quiet), engine="torch")
    batch = random_batch(spec(), 1)
    engine = algo.engines.now
    views = engine._views.of(batch)
    targets = np.array([engine._targets(views, 0, 1).numpy().ravel() for _ in range(400)])
    algo.model.target.eval()
    values = forward(algo.model.target, batch.next_obs[0]).max(1)
    expected = batch.reward[0] + batch.discount[0] * values
    error = (targets.mean(0) - expected)[batch.discount[0] > 0]
    if quiet:
        assert error == pytest.approx(0, abs=1e-5)
    else:
        assert error.min() > 0.05


@pytest.mark.parametrize("unit", ["updates", "steps"])
def test_a_soft_target_moves_by_tau(engine, unit):
    algo = make(small(tau=0.25, target_every=2, target_unit=unit), engine=engine)
    before = algo.model.target_flat.values.clone()
    one = random_batch(spec(), 1)
    algo.update(one, 1, Counters(env_steps=1))
    assert torch.equal(algo.model.target_flat.values, before)
    algo.update(one, 1, Counters(env_steps=2))
    online = algo.model.online_flat.values
    if unit == "steps":
        # The target moves before the update.
        online = replayed(algo, one, 1)
    expected = before + 0.25 * (online - before)
    assert torch.allclose(algo.model.target_flat.values, expected, atol=1e-7)
    assert not torch.equal(algo.model.target_flat.values, online)


def replayed(algo, batch, updates):
    """The online parameters after some updates from the beginning."""
    again = make(algo.config, engine=algo.engines.name)
    for k in range(updates):
        again.update(batch, 1, Counters(env_steps=k))
    return again.model.online_flat.values


@pytest.mark.parametrize("preset", DQN_PRESETS)
def test_every_preset_overfits_one_batch(engine, preset):
    config = small(**{**DQN_PRESETS[preset], "prioritized": True}, lr=3e-3)
    algo = make(config, engine=engine)
    batch = random_batch(spec(), 1)
    batch.discount[...] = 0
    batch.weight[...] = 1
    first = float(algo.update(batch, 1, Counters())[0].mean())
    for _ in range(400):
        last = float(algo.update(batch, 1, Counters())[0].mean())
    # Cross entropy cannot fall below the entropy of the target, so the bound is looser.
    assert last < first * (0.75 if config.atoms > 1 else 0.2)


@pytest.mark.parametrize("preset", DQN_PRESETS)
def test_many_updates_in_one_call_equal_single_calls(engine, preset):
    config = small(**DQN_PRESETS[preset], target_every=3)
    together, apart = (make(config, engine=engine) for _ in range(2))
    env = spec()
    batch = random_batch(env, 10)
    together.update(batch, 10, Counters())
    one = Batch.allocate(env, 1, 8)
    for k in range(10):
        for name in ("obs", "action", "reward", "next_obs", "discount", "weight"):
            getattr(one, name)[0] = getattr(batch, name)[k]
        apart.update(one, 1, Counters())
    # One product over many rows may round differently from many products over few rows.
    assert parameters(together) == pytest.approx(parameters(apart), abs=2e-5)


@pytest.mark.parametrize("preset", DQN_PRESETS)
def test_a_restored_algorithm_continues_to_the_same_bits(engine, preset):
    config = small(**DQN_PRESETS[preset], target_every=3)
    original, restored = (make(config, seed=seed, engine=engine) for seed in (0, 99))
    batch = random_batch(spec(), 4)
    original.update(batch, 4, Counters())
    restored.load_state(original.state())
    original.update(batch, 4, Counters())
    restored.update(batch, 4, Counters())
    assert np.array_equal(parameters(original), parameters(restored))


def test_the_target_network_is_refreshed_every_target_every_updates(engine):
    algo = make(small(target_every=4), engine=engine)
    batch = random_batch(spec(), 6)
    algo.update(batch, 3, Counters())
    assert not torch.equal(algo.model.target_flat.values, algo.model.online_flat.values)
    algo.update(batch, 1, Counters())
    assert torch.equal(algo.model.target_flat.values, algo.model.online_flat.values)


def test_the_target_network_can_be_refreshed_by_env_steps_for_any_number_of_envs(engine):
    algo = make(small(target_every=100, target_unit="steps"), engine=engine)
    batch = random_batch(spec(), 1)
    algo.update(batch, 1, Counters(env_steps=99))
    before = algo.model.target_flat.values.clone()
    algo.update(batch, 1, Counters(env_steps=99))
    assert torch.equal(algo.model.target_flat.values, before)
    online = algo.model.online_flat.values.clone()
    algo.update(batch, 1, Counters(env_steps=256))
    assert torch.equal(algo.model.target_flat.values, online)


def by_update(algo, batch, counters):
    return algo.update(batch, 1, counters)


def by_task(algo, batch, counters):
    compiled = algo.compiled_updates
    compiled.run(compiled.prepare(batch, 1, counters), 0)
    compiled.finish(batch, 1)
    return algo.engines.now.finish(batch)


@pytest.mark.parametrize(
    ("engine", "do"), [("torch", by_update), ("fused", by_update), ("fused", by_task)]
)
def test_a_period_of_env_steps_may_pass_over_several_calls(engine, do):
    algo = make(small(target_every=100, target_unit="steps", prioritized=True), engine=engine)
    batch = random_batch(spec(), 1)
    refreshed = []
    for env_steps in range(0, 420, 30):
        before = algo.model.target_flat.values.clone()
        online = algo.model.online_flat.values.clone()
        q = forward(algo.model.online, batch.obs[0])[np.arange(8), batch.action[0]]
        errors = do(algo, batch, Counters(env_steps=env_steps))
        if torch.equal(algo.model.target_flat.values, online):
            refreshed.append(env_steps)
        else:
            assert torch.equal(algo.model.target_flat.values, before)
        # The new target network is used at once.
        next_q = forward(algo.model.target, batch.next_obs[0]).max(1)
        expected = np.abs(q - batch.reward[0] - batch.discount[0] * next_q)
        assert errors[0] == pytest.approx(expected, rel=1e-4, abs=1e-5)
    # The first call finds both networks equal, because training begins so.
    assert refreshed == [0, 120, 210, 300]


def test_epsilon_falls_with_transitions_not_with_updates(engine):
    config = small(epsilon_start=1.0, epsilon_end=0.2, epsilon_steps=100)
    algo = make(config, engine=engine)
    algo.updates = 3
    counters = Counters(env_steps=75, updates=3)
    assert algo.epsilon(counters) == pytest.approx(0.4)
    assert algo.progress(counters)["epsilon"] == pytest.approx(0.4)
    obs = np.tile(np.random.default_rng(0).random((1, 5), np.float32), (30_000, 1))
    decision = Decision(np.zeros(30_000, np.int64))
    algo.act(obs, None, counters, decision)
    greedy = forward(algo.model.online, obs[:1]).argmax()
    # A random action is the greedy one in a third of the cases.
    assert np.mean(decision.action != greedy) == pytest.approx(0.4 * 2 / 3, abs=0.01)


def test_greedy_and_random_actions_respect_the_mask(engine):
    env = spec(mask=True)
    for epsilon in (0.0, 1.0):
        algo = make(small(epsilon_start=epsilon, epsilon_end=epsilon), env, engine=engine)
        rng = np.random.default_rng(0)
        obs = rng.random((500, 5), np.float32)
        mask = np.zeros((500, ACTIONS), np.bool_)
        mask[np.arange(500), rng.integers(0, ACTIONS, 500)] = True
        decision = Decision(np.zeros(500, np.int64))
        algo.act(obs, mask, Counters(), decision)
        assert mask[np.arange(500), decision.action].all()


def test_noisy_layers_explore_and_their_policy_does_not(engine):
    # Without random actions, only noise can change what is done.
    silent = {"epsilon_start": 0.0, "epsilon_end": 0.0}
    algo = make(small(noisy=True, noisy_sigma=3.0, **silent), engine=engine)
    plain = make(small(**silent), engine=engine)
    obs = np.tile(np.random.default_rng(0).random((1, 5), np.float32), (4, 1))
    seen = {algo: set(), plain: set()}
    for agent, actions in seen.items():
        decision = Decision(np.zeros(4, np.int64))
        for _ in range(50):
            agent.act(obs, None, Counters(), decision)
            actions.add(int(decision.action[0]))
    assert len(seen[algo]) > 1
    assert len(seen[plain]) == 1
    env = spec()
    policy = QPolicy(algo.config, env.obs, env.action, algo.state()["model"].arrays)
    assert len({int(policy.act(obs, None)[0]) for _ in range(20)}) == 1


@pytest.mark.parametrize(("engine", "body"), [("torch", "cnn"), ("torch", "mlp"), ("fused", "mlp")])
def test_a_policy_acts_like_the_network_it_was_saved_from(engine, body):
    env = spec(shape=(2, 4, 4), dtype=np.uint8)
    config = small(channels=(4,), body=body, epsilon_start=0.0, epsilon_end=0.0)
    algo = make(config, env, engine=engine)
    obs = np.random.default_rng(0).integers(0, 256, (40, 2, 4, 4)).astype(np.uint8)
    decision = Decision(np.zeros(40, np.int64))
    algo.act(obs, None, Counters(), decision)
    policy = QPolicy(algo.config, env.obs, env.action, algo.state()["model"].arrays)
    assert np.array_equal(policy.act(obs, None), decision.action)


@pytest.mark.parametrize("what", ["reward", "discount", "obs", "next_obs"])
@pytest.mark.parametrize("preset", ["dqn", "rainbow"])
def test_three_non_finite_updates_stop_and_change_no_parameter(engine, preset, what):
    algo = make(small(**DQN_PRESETS[preset]), engine=engine)
    batch = random_batch(spec(), 1)
    good = parameters(algo)
    getattr(batch, what)[0, 3] = np.nan
    algo.update(batch, 1, Counters())
    algo.update(batch, 1, Counters())
    assert np.array_equal(parameters(algo), good)
    assert algo.progress(Counters())["skipped_updates"] == 2
    with pytest.raises(DivergedError, match="3 updates in a row"):
        algo.update(batch, 1, Counters())
    assert np.array_equal(parameters(algo), good)


def test_continuous_actions_and_planeless_cnns_are_refused():
    env = spec()
    box = EnvSpec(env.obs, BoxSpec((2,), -1, 1), None, False, True)
    with pytest.raises(ConfigError, match="continuous"):
        make(small(), box)
    with pytest.raises(ConfigError, match="planes"):
        make(small(body="cnn"))


@pytest.mark.parametrize("preset", ["dqn", "per-dqn", "rainbow"])
def test_accumulated_pieces_make_the_same_updates(engine, preset):
    results = []
    for count in (1, 3):
        algo = make(small(**DQN_PRESETS[preset], grad_accumulation=count), engine=engine)
        errors = algo.update(random_batch(spec(), 5), 5, Counters()).copy()
        results.append((parameters(algo), errors))
    assert results[0][0] == pytest.approx(results[1][0], abs=1e-5)
    assert results[0][1] == pytest.approx(results[1][1], abs=1e-3)


def test_more_pieces_than_transitions_are_refused():
    assert "grad_accumulation 9 is larger" in small(grad_accumulation=9).check()[0]
    assert not small(grad_accumulation=8).check()


def relative_distance(preset, **compute):
    """Distance of the parameters from a plain run's, relative to the distance both have moved."""
    plain, other = (make(small(**DQN_PRESETS[preset]), **how) for how in ({}, compute))
    start = parameters(plain)
    for algo in (plain, other):
        algo.update(random_batch(spec(), 10), 10, Counters())
    apart = np.abs(parameters(plain) - parameters(other)).mean()
    return apart / np.abs(parameters(plain) - start).mean()


@pytest.mark.parametrize("preset", ["dqn", "rainbow"])
def test_half_precision_learns_about_the_same(preset):
    assert 0 < relative_distance(preset, amp=True) < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["dqn", "rainbow"])
def test_compiled_networks_learn_the_same(preset):
    assert relative_distance(preset, compile=True) < 0.01


def test_acting_noise_stays_the_same_for_a_round_of_steps(engine):
    algo = make(small(noisy=True, update_every=3), engine=engine)
    obs = 3 * np.random.default_rng(0).standard_normal((200, 5)).astype(np.float32)
    actions = np.zeros((9, 200), np.int64)
    for row in actions:
        algo.engines.now.act(obs, None, 0.0, row)
    for first in (0, 3, 6):
        assert (actions[first : first + 3] == actions[first]).all()
    assert (actions[0] != actions[3]).any()
    assert (actions[3] != actions[6]).any()
    # A resumed run begins with a round.
    state = algo.state()
    algo.engines.now.act(obs, None, 0.0, actions[0])
    algo.load_state(state)
    for row in actions[1:4]:
        algo.engines.now.act(obs, None, 0.0, row)
    assert (actions[1:4] == actions[0]).all()
