"""CAGE-2 as an environment: editions, lengths, attackers, records, errors, Gymnasium, pictures."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import briskrl  # noqa: F401
from briskrl.core.errors import ConfigError
from briskrl.core.types import StepBuffers
from briskrl.envs.cage2 import scenario as s
from briskrl.envs.cage2.config import Cage2Config
from briskrl.envs.cage2.env import Cage2Env, Cage2VecEnv
from briskrl.envs.cage2.players import Heuristic
from briskrl.envs.make import make_env
from tests.envs.cage2.driver import Network


def test_reset_shows_nothing() -> None:
    env = Cage2VecEnv(5)
    obs, infos = env.reset(seed=1)
    assert obs.shape == (5, 52)
    assert obs.dtype == np.float32
    assert not obs.any()
    assert infos == {}
    assert (env.single_observation_space.low == -1).all()
    assert env.single_action_space.n == 145


@pytest.mark.parametrize("length", [1, 30, 50, 100, 137])
def test_an_episode_has_the_configured_length_and_is_truncated(length: int) -> None:
    env = Cage2VecEnv(2, length=length)
    env.reset(seed=0)
    for step in range(length):
        _, _, terminated, truncated, infos = env.step(np.zeros(2, np.int64))
        assert not terminated.any()
        assert truncated.all() == (step == length - 1)
    assert infos["episode_steps"].tolist() == [length, length]


def test_a_terminal_episode_is_terminated() -> None:
    env = Cage2VecEnv(2, length=3, terminal=True)
    env.reset(seed=0)
    flags = [env.step(np.zeros(2, np.int64))[2:4] for _ in range(3)]
    assert flags[-1][0].all()
    assert not np.any([truncated for _, truncated in flags])


def test_the_length_changes_no_dynamics() -> None:
    rows = []
    for length in (30, 100):
        env = Cage2VecEnv(64, length=length, red="mixed")
        out = StepBuffers.allocate(env.env_spec, 64)
        env.start(5, out)
        rng = np.random.default_rng(0)
        rewards = []
        for _ in range(30):
            env.step_into(rng.integers(145, size=64), out)
            rewards.append(out.reward.copy())
        rows.append(np.stack(rewards))
    np.testing.assert_array_equal(*rows)


def test_records_carry_return_and_attacker() -> None:
    env = Cage2VecEnv(30, length=30, red="mixed")
    env.reset(seed=3)
    agents = env.truth().red_agent
    rng = np.random.default_rng(1)
    total = np.zeros(30)
    for _ in range(30):
        _, reward, _, truncated, infos = env.step(rng.integers(145, size=30))
        total += reward
    assert truncated.all()
    np.testing.assert_allclose(infos["return"], total, atol=1e-3)
    np.testing.assert_array_equal(infos["score"], infos["return"])
    np.testing.assert_array_equal(infos["red"], agents)
    assert (infos["cause"] == 1).all()


def test_an_episode_without_loss_is_won() -> None:
    env = Cage2VecEnv(4, red="sleep", length=10)
    out = StepBuffers.allocate(env.env_spec, 4)
    env.start(0, out)
    actions = np.array([0, 1, 30, 132])
    for _ in range(10):
        env.step_into(actions, out)
    stats = env.drain_stats()
    assert stats.won.tolist() == [True, True, True, False]
    assert stats.returns.tolist() == [0, 0, 0, -10]


def test_editions_differ_in_what_scans_forget() -> None:
    left = {}
    for edition in ("current", "competition"):
        net = Network(edition=edition)
        net.step("DecoyTomcat Enterprise0", red="scan Enterprise0")
        net.step("Restore Enterprise0", red="scan Enterprise0")
        left[edition] = int(net.of("red_ports", "Enterprise0")) & 0xFFF
    assert left["current"] == 1 << s.PORTS.index(22)
    assert left["competition"] == 1 << s.PORTS.index(22) | 1 << s.PORTS.index(443)


@pytest.mark.parametrize("host", ["User3", "User4"])
def test_editions_differ_in_haraka_after_a_restore(host: str) -> None:
    results = {}
    for edition in ("current", "competition"):
        net = Network(edition=edition)
        net.take(host, "HarakaRCE")
        assert net.red_result == "succeeded"
        net.step(f"Restore {host}")
        net.step(red=f"exploit {host}", by="HarakaRCE", detected=True)
        results[edition] = net.red_result, net.seen(host)
    assert results == {"current": ("succeeded", "Exploit"), "competition": ("failed", "Scan")}


@pytest.mark.parametrize("settings", [{}, {"frames": 3, "mask": "useful", "actions": "reduced"}])
def test_a_state_saved_mid_episode_goes_on_the_same(settings: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    env = Cage2VecEnv(32, length=40, red="mixed", green=True, **settings)
    moves = rng.integers(env.single_action_space.n, size=(90, 32))
    env.reset(seed=8)
    for row in moves[:17]:
        env.step(row)
    state = env.get_state()
    first = [env.step(row)[:4] for row in moves[17:]]
    other = Cage2VecEnv(32, length=40, red="mixed", green=True, **settings)
    other.set_state(state)
    for wanted, row in zip(first, moves[17:], strict=True):
        for one, two in zip(wanted, other.step(row), strict=False):
            np.testing.assert_array_equal(one, two)
    for field in fields(env.truth()):
        left, right = getattr(env.truth(), field.name), getattr(other.truth(), field.name)
        np.testing.assert_array_equal(left, right)


def test_observe_into_repeats_the_last_observation() -> None:
    env = Cage2VecEnv(16, red="meander", frames=2, scan_memory=True)
    out = StepBuffers.allocate(env.env_spec, 16)
    env.start(0, out)
    for _ in range(20):
        env.step_into(np.zeros(16, np.int64), out)
    again = StepBuffers.allocate(env.env_spec, 16)
    env.observe_into(again)
    np.testing.assert_array_equal(again.obs, out.obs)
    assert out.obs.any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"edition": "future"}, "future"),
        ({"red": "blue"}, "blue"),
        ({"length": 0}, "1"),
        ({"length": 10_001}, "10000"),
        ({"length": 2.5}, "int"),
        ({"view": "wrapper3"}, "wrapper3"),
        ({"actions": "few"}, "few"),
        ({"mask": "all"}, "all"),
        ({"frames": 0}, "1"),
        ({"red": "mixed", "red_weights": (0, 0, 0)}, "red_weights"),
        ({"red_weights": (1, 1)}, "length 3"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Cage2VecEnv(2, **settings)


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(TypeError, match="lenght"):
        Cage2VecEnv(2, lenght=30)


@pytest.mark.parametrize(("actions", "top"), [("full", 144), ("reduced", 36)])
def test_actions_out_of_range_are_refused(actions: str, top: int) -> None:
    env = Cage2VecEnv(2, actions=actions)
    env.reset(seed=0)
    env.step(np.array([0, top]))
    for wrong in (-1, top + 1):
        with pytest.raises(ValueError, match=f"0 to {top}"):
            env.step(np.array([0, wrong]))


def test_an_unknown_host_or_action_name_is_refused() -> None:
    assert s.action_index("Restore User4") == 144
    with pytest.raises(ConfigError, match="Did you mean 'Restore Op_Server0'"):
        s.action_index("Restore Op_Server9")


@pytest.mark.parametrize(
    ("name", "edition"), [("Cage2-v0", "current"), ("Cage2-competition-v0", "competition")]
)
def test_gymnasium_makes_both_editions(name: str, edition: str) -> None:
    single = gymnasium.make(name, red="meander", length=30)
    obs, _ = single.reset(seed=1)
    assert obs.shape == (52,)
    assert single.unwrapped._vec_env.config.edition == edition
    many = gymnasium.make_vec(name, num_envs=3, red="bline")
    obs, _ = many.reset(seed=1)
    assert obs.shape == (3, 52)
    assert many.unwrapped.config == Cage2Config(edition=edition, red="bline")
    many.close()


@pytest.mark.filterwarnings("ignore")
def test_gymnasium_checker_accepts_it() -> None:
    check_env(Cage2Env(red="mixed", length=20, render_mode="rgb_array"), skip_render_check=True)


def test_the_same_seed_is_the_same_episode_alone_and_in_a_batch() -> None:
    moves = np.random.default_rng(2).integers(145, size=50)
    single = Cage2Env(red="mixed", length=60)
    single.reset(seed=21)
    many = Cage2VecEnv(3, red="mixed", length=60)
    many.reset(seed=19)
    for move in moves:
        one = single.step(move)
        batch = many.step(np.full(3, move))
        np.testing.assert_array_equal(one[0], batch[0][2])
        assert one[1] == batch[1][2]


def test_a_network_renders_as_text() -> None:
    net = Network(red="meander")
    net.env.set_render_mode("ansi")
    assert "red    -" in net.env.render()[0]
    net.step("DecoyTomcat Enterprise0", green="User1")
    net.take("Enterprise1", "HTTPRFI", detected=False)
    net.step("Restore User1", red="exploit Enterprise1", by="BlueKeep")
    text = net.env.render()[0]
    assert "step 4 of 1000   red is Meander   reward -2.0   total -2.0" in text
    assert "blue   Restore User1 (succeeded)" in text
    assert "red    ExploitRemoteService Enterprise1 (BlueKeep, succeeded, shell seen)" in text
    lines = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert "ROOT (1 sticky)" in lines["Enterprise1"]
    assert "Exploit" in lines["Enterprise1"]
    assert "User" in lines["Enterprise1"]
    assert "Tomcat" in lines["Enterprise0"]
    assert "running" in lines["operational"]


def test_a_network_renders_as_an_image() -> None:
    net = Network()
    net.env.set_render_mode("rgb_array")
    net.env.cell_px = 10
    before = net.env.render()[0]
    assert before.shape == (270, 400, 3)
    assert before.dtype == np.uint8
    net.take("Enterprise1", "BlueKeep")
    after = net.env.render()[0]
    assert (before != after).any()
    red = np.array((200, 58, 58))
    assert (after == red).all(axis=2).sum() > 1.5 * (before == red).all(axis=2).sum()


def test_make_env_builds_it_and_the_heuristic_defends() -> None:
    env = make_env("cage2", 200, Cage2Config(red="bline", length=50))
    out = StepBuffers.allocate(env.env_spec, 200)
    returns = {}
    for name, player in (("sleep", lambda obs: np.zeros(len(obs), np.int64)), ("h", Heuristic())):
        env.start(3, out)
        for _ in range(50):
            env.step_into(player(out.obs), out)
        returns[name] = env.drain_stats().returns.mean()
    assert returns["sleep"] < -400
    assert returns["h"] > -25


def test_next_step_mode_resets_in_a_separate_step() -> None:
    env = Cage2VecEnv(3, length=2, red="sleep", autoreset_mode="NextStep")
    env.reset(seed=0)
    restore = np.full(3, 132)
    rewards = [env.step(restore)[1].tolist() for _ in range(6)]
    assert rewards == [[-1] * 3, [-1] * 3, [0] * 3] * 2


def test_disabled_mode_keeps_the_final_state_until_a_reset() -> None:
    env = Cage2VecEnv(2, length=2, red="meander", autoreset_mode="Disabled")
    env.reset(seed=0)
    for _ in range(2):
        env.step(np.zeros(2, np.int64))
    assert env.truth().steps.tolist() == [2, 2]
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros(2, np.int64))
    env.reset(options={"reset_mask": np.array([True, True])})
    assert env.truth().steps.tolist() == [0, 0]
