"""Rewards and the fires that they are measured with."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from briskrl.envs.wildfire.simulate import Simulator
from tests.envs.wildfire.episode_driver import full_loss, legal_actions, make, play_out


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    directions=st.sampled_from([8, 16, 32]),
    leaky=st.booleans(),
    cells_per_step=st.sampled_from([1, 1, 3]),
    duration=st.sampled_from([60.0, 300.0, 720.0, 3000.0]),
    wind=st.sampled_from([5.0, 20.0, 50.0]),
    settlements=st.integers(0, 2),
)
def test_delta_rewards_equal_full_simulation_exactly(
    seed, directions, leaky, cells_per_step, duration, wind, settlements
):
    env = make(
        directions=directions,
        leaky_diagonals=leaky,
        cells_per_step=cells_per_step,
        duration_min=duration,
        wind_kmh=wind,
        n_settlements=settlements,
        budget_frac=0.15,
    )
    rng = np.random.default_rng(seed)
    env.reset(seed=seed)
    before = [full_loss(env, i) for i in range(2)]
    np.testing.assert_array_equal(env.peek()["burned_frac"], before)
    terminated = np.zeros(2, np.bool_)
    while not terminated.all():
        _, reward, terminated, _, _ = env.step(legal_actions(env, rng))
        after = [full_loss(env, i) for i in range(2)]
        np.testing.assert_array_equal(env.peek()["burned_frac"], after)
        expected = np.float32(100 * (np.array(before) - np.array(after)))
        np.testing.assert_array_equal(reward, expected)
        before = after


def narrow(seed):
    """Fires driven by a gale, so thin that they pass cells which they do not reach in time."""
    env = make(1, wind_kmh=60.0, wind_sd_kmh=0.0, duration_min=40.0, cell_m=60.0, n_fires=20)
    env.reset(seed=seed)
    return env


def grazed_cells(env):
    """Cells that no fire burns, but that change a fire when they are treated."""
    scene = env.pool.members[env.peek()["landscape"][0]].scene
    simulator, fires = Simulator(scene), env.fires(0)
    untreated, burned = simulator.losses(fires), simulator.burn_probability(fires) > 0
    found = []
    for cell in np.flatnonzero(env.action_masks()[0] & ~burned):
        treated = np.zeros(scene.landscape.cells, np.bool_)
        treated[cell] = True
        if (simulator.losses(fires, treated) != untreated).any():
            found.append(int(cell))
    return found


def test_breaks_that_a_fire_only_grazes_count():
    """Treating a cell that nothing burns may change a fire, and rewards must show it."""
    tried = 0
    for seed in range(30):
        for cell in grazed_cells(narrow(seed)):
            env = narrow(seed)
            _, reward, _, _, _ = env.step(np.array([cell]))
            assert env.peek()["burned_frac"][0] == full_loss(env, 0)
            assert reward[0] > 0
            tried += 1
    assert tried > 5


def test_rewards_telescope():
    for name in ("delta", "relative", "terminal"):
        env = make(4, reward=name, budget_frac=0.1)
        rewards, infos = play_out(env, np.random.default_rng(3))
        burned, untreated = infos["burned_frac"], infos["burned_frac_untreated"]
        if name == "terminal":
            assert not rewards[:-1].any()
            expected = -100 * burned
        else:
            expected = 100 * (untreated - burned) / (untreated if name == "relative" else 1)
        np.testing.assert_allclose(rewards.sum(axis=0), expected, rtol=1e-5)
        np.testing.assert_allclose(infos["return"], expected, rtol=1e-5)
        np.testing.assert_allclose(infos["score"], 100 * (1 - burned / untreated), rtol=1e-5)


def test_terminal_and_delta_rewards_agree():
    ends = []
    for name in ("delta", "terminal"):
        _, infos = play_out(make(3, reward=name), np.random.default_rng(5))
        ends.append(infos["burned_frac"])
    np.testing.assert_array_equal(*ends)


def test_fresh_fires_compare_both_masks_on_the_same_new_sample():
    env = make(2, fires="fresh", n_fires=12)
    env.reset(seed=4)
    rng = np.random.default_rng(0)
    samples = []
    for _ in range(3):
        before = env.treated()
        _, reward, _, _, _ = env.step(legal_actions(env, rng))
        for i in range(2):
            scene = env.pool.members[env.peek()["landscape"][i]].scene
            fires, simulator = env.fires(i), Simulator(scene)
            gain = simulator.burned_frac(fires, before[i]) - simulator.burned_frac(
                fires, env.treated()[i]
            )
            np.testing.assert_allclose(reward[i], 100 * gain, atol=1e-4)
        samples.append(env.fires(0).cell.copy())
    assert not np.array_equal(samples[0], samples[1])


def test_fires_are_fixed_during_an_episode_and_new_in_the_next():
    env = make(1, autoreset_mode="SameStep", landscapes=1)
    env.reset(seed=1)
    first = env.fires(0)
    rng = np.random.default_rng(0)
    for _ in range(env.env_spec.max_steps - 1):
        env.step(legal_actions(env, rng))
        np.testing.assert_array_equal(env.fires(0).cell, first.cell)
    env.step(legal_actions(env, rng))
    assert not np.array_equal(env.fires(0).cell, first.cell)


def test_fires_of_a_round_are_the_same_for_all_and_new_in_the_next():
    env = make(3, autoreset_mode="SameStep", landscapes=1, fires="round")
    rng, rounds = np.random.default_rng(0), []
    env.reset(seed=1)
    for _ in range(3):
        first, *others = (env.fires(i) for i in range(3))
        for other in others:
            np.testing.assert_array_equal(other.cell, first.cell)
            np.testing.assert_array_equal(other.weather, first.weather)
        assert all(not np.array_equal(first.cell, before) for before in rounds)
        rounds.append(first.cell)
        for _ in range(env.env_spec.max_steps):
            env.step(legal_actions(env, rng))
    env.reset(seed=2)
    np.testing.assert_array_equal(env.fires(0).cell, rounds[0])


@pytest.mark.parametrize("mode", ["fixed", "test"])
def test_a_set_of_fires_belongs_to_its_landscape(mode):
    env = make(6, fires=mode)
    env.reset(seed=3)
    by_landscape = {}
    for i, land in enumerate(env.peek()["landscape"]):
        cells = env.fires(i).cell
        np.testing.assert_array_equal(by_landscape.setdefault(int(land), cells), cells)
        np.testing.assert_array_equal(cells, env.pool.members[land].fires(mode, 6).cell)


def test_samples_for_different_purposes_differ():
    member = make(1).pool.members[0]
    samples = [
        member.fires(purpose, 50).cell for purpose in ("test", "training", "fixed", "observation")
    ]
    for i, one in enumerate(samples):
        assert all(not np.array_equal(one, other) for other in samples[:i])
