"""Every random draw has the specified distribution, by chi-square tests."""

from __future__ import annotations

import numpy as np
import pytest

from briskrl.core.types import StepBuffers
from briskrl.envs.cage2 import scenario as s
from briskrl.envs.cage2.env import Cage2VecEnv
from briskrl.envs.cage2.kernels import layout as k
from briskrl.envs.cage2.replay import Choices, replay_step

NUM = 40_000
CRITICAL = {1: 15.1, 2: 18.4, 3: 21.1, 4: 23.5, 7: 29.9, 8: 31.8, 12: 39.1}
"""Chi-square that is exceeded once in ten thousand, by degrees of freedom."""


def assert_shares(counts: np.ndarray, shares: list[float]) -> None:
    expected = np.array(shares) / sum(shares) * counts.sum()
    assert counts.sum() > 1000
    assert ((counts - expected) ** 2 / expected).sum() < CRITICAL[len(counts) - 1]


def begun(**settings: object) -> tuple[Cage2VecEnv, StepBuffers]:
    env = Cage2VecEnv(NUM, **settings)
    out = StepBuffers.allocate(env.env_spec, NUM)
    env.start(123, out)
    return env, out


def asleep() -> np.ndarray:
    return np.zeros(NUM, np.int64)


def force(env: Cage2VecEnv, out: StepBuffers, kind: int, host: str, **more: int) -> None:
    choices = Choices(red_action=kind, red_target=s.HOST_NAMES.index(host), **more)
    replay_step(env, asleep(), choices, out)


def test_b_line_draws_its_user_host_uniformly() -> None:
    env, out = begun(red="bline")
    for _ in range(2):
        env.step_into(asleep(), out)
    assert_shares(np.bincount(env.truth().red_target, minlength=13)[9:], [1, 1, 1, 1])


def test_b_line_keeps_its_user_host() -> None:
    env, out = begun(red="bline")
    hosts = []
    for _ in range(4):
        env.step_into(asleep(), out)
        hosts.append(env.truth().red_target)
    # The third step exploits it, whether that succeeded or not.
    np.testing.assert_array_equal(hosts[1], hosts[2])


def test_meander_draws_the_host_to_scan_uniformly() -> None:
    env, out = begun(red="meander")
    for _ in range(2):
        env.step_into(asleep(), out)
    truth = env.truth()
    assert (truth.red_action == 2).all()
    assert_shares(np.bincount(truth.red_target, minlength=13)[8:], [1] * 5)


def test_meander_draws_the_host_to_escalate_and_to_exploit_uniformly() -> None:
    env, out = begun(red="meander")
    for _ in range(6):
        env.step_into(asleep(), out)
    everywhere = 0b11111 << 8
    for field, kind in ((k.KNOWN_HOST, 4), (k.ESCALATED, 3)):
        env._i16[:, field] = everywhere
        state = env.get_state()
        env.step_into(asleep(), out)
        truth = env.truth()
        assert (truth.red_action == kind).all()
        assert_shares(np.bincount(truth.red_target, minlength=13)[8:], [1] * 5)
        env.set_state(state)


@pytest.mark.parametrize(
    ("host", "weights"),
    [
        ("User1", {"FTPDirectoryTraversal": 3, "SSHBruteForce": 1}),
        (
            "Enterprise1",
            {"HTTPSRFI": 12, "EternalBlue": 1, "BlueKeep": 1, "HTTPRFI": 1, "SSHBruteForce": 1},
        ),
        (
            "User4",
            {"HarakaRCE": 12, "SQLInjection": 1, "HTTPSRFI": 1, "HTTPRFI": 1, "SSHBruteForce": 1},
        ),
        ("Enterprise0", {"SSHBruteForce": 1}),
    ],
)
def test_red_takes_its_favorite_exploit_three_times_in_four(
    host: str, weights: dict[str, float]
) -> None:
    env, out = begun(red="sleep")
    force(env, out, 2, host)
    force(env, out, 3, host)
    counts = np.bincount(env.truth().red_exploit, minlength=8)
    chosen = [s.EXPLOIT_NAMES.index(name) for name in weights]
    assert counts[chosen].sum() == NUM
    if len(chosen) > 1:
        assert_shares(counts[chosen], list(weights.values()))


def test_a_shell_is_detected_nineteen_times_in_twenty() -> None:
    env, out = begun(red="sleep")
    force(env, out, 2, "User1")
    force(env, out, 3, "User1", red_exploit=7)
    assert_shares(np.bincount(env.truth().detected), [1, 19])


def test_an_escalation_takes_any_session_with_equal_probability() -> None:
    env, out = begun(red="sleep")
    force(env, out, 2, "Enterprise1")
    for detected in (1, 0, 0):
        force(env, out, 3, "Enterprise1", red_exploit=2, detected=detected)
    force(env, out, 4, "Enterprise1")
    truth = env.truth()
    assert (truth.esc_options == 3).all()
    assert_shares(np.bincount(truth.esc_pick), [2, 1])


def test_the_green_user_scans_every_second_step_any_of_its_hosts() -> None:
    env, out = begun(red="sleep", green=True)
    env.step_into(asleep(), out)
    targets = env.truth().green_target
    shares = np.bincount(targets + 1, minlength=14)
    hosts = [1 + s.HOST_NAMES.index(name) for name in s.GREEN_TARGETS]
    assert shares[[0, *hosts]].sum() == NUM
    assert_shares(shares[[0, *hosts]], [8] + [1] * 8)


@pytest.mark.parametrize("weights", [(1, 1, 1), (3, 2, 1), (1, 4, 0)])
def test_a_mixed_attacker_is_drawn_by_its_weights(weights: tuple[int, int, int]) -> None:
    env, _ = begun(red="mixed", red_weights=weights)
    counts = np.bincount(env.truth().red_agent, minlength=3)
    members = [at for at in range(3) if weights[at]]
    assert counts[members].sum() == NUM
    assert_shares(counts[members], [weights[at] for at in members])


def test_a_new_episode_draws_its_attacker_anew() -> None:
    env, out = begun(red="mixed", length=1)
    before = env.truth().red_agent
    env.step_into(asleep(), out)
    pairs = np.bincount(3 * before + env.truth().red_agent, minlength=9)
    assert_shares(pairs, [1] * 9)
