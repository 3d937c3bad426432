"""What options add to observations, the reduced action set, and masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from briskrl.core.types import StepBuffers
from briskrl.envs.cage2 import scenario as s
from briskrl.envs.cage2.config import Cage2Config
from briskrl.envs.cage2.env import Cage2VecEnv
from briskrl.envs.cage2.layout import Layout
from briskrl.envs.cage2.players import activity
from tests.envs.cage2.driver import Network

MEMORIES: dict[str, Any] = {
    "frames": 3,
    "scan_memory": True,
    "decoy_memory": "full",
    "event_memory": True,
    "restore_memory": True,
    "clock": True,
}


def part(net: Network, name: str) -> np.ndarray:
    row: np.ndarray = net.out.obs[0, net.env.layout.parts()[name]]
    return row


def played(num: int, steps: int, **settings: Any) -> tuple[Cage2VecEnv, np.ndarray, np.ndarray]:
    """Random play; the environment, its observations (T, N, obs) and its actions (T, N)."""
    env = Cage2VecEnv(num, red="mixed", length=steps, autoreset_mode="Disabled", **settings)
    out = StepBuffers.allocate(env.env_spec, num)
    env.start(6, out)
    rng = np.random.default_rng(0)
    actions = rng.integers(env.env_spec.action.n, size=(steps, num))
    seen = [out.obs.copy()]
    for row in actions:
        env.step_into(row, out)
        seen.append(out.obs.copy())
    return env, np.stack(seen), actions


def test_observations_without_options_have_52_bits() -> None:
    assert Layout(Cage2Config()).parts() == {"frames": slice(0, 52)}


def test_parts_lie_one_behind_the_other() -> None:
    parts = Layout(Cage2Config(**MEMORIES)).parts()
    assert list(parts) == ["frames", "scans", "decoys", "events", "restores", "clock"]
    sizes = [places.stop - places.start for places in parts.values()]
    assert sizes == [156, 13, 104, 13, 13, 1]
    starts = [places.start for places in parts.values()]
    assert starts == np.cumsum([0, *sizes[:-1]]).tolist()


@pytest.mark.parametrize("name", ["table", "wrapper2"])
def test_options_only_add_to_the_52_bits(name: str) -> None:
    _, plain, _ = played(40, 60, view=name)
    _, rich, _ = played(40, 60, view=name, **MEMORIES)
    np.testing.assert_array_equal(plain, rich[:, :, :52])


def test_frames_are_the_observations_before_the_newest_first() -> None:
    _, seen, _ = played(40, 60, frames=4)
    for back in range(4):
        older = seen[:, :, 52 * back : 52 * (back + 1)]
        np.testing.assert_array_equal(older[back:], seen[: len(seen) - back, :, :52])
        assert not older[:back].any()


def test_scan_memory_marks_scanned_hosts_and_the_last_one() -> None:
    net = Network(scan_memory=True)
    assert not part(net, "scans").any()
    net.step(red="scan User1")
    net.step(red="scan Enterprise1")
    net.step()
    expected = np.zeros(13)
    expected[[s.HOST_NAMES.index("User1"), s.HOST_NAMES.index("Enterprise1")]] = 0.5, 1.0
    np.testing.assert_array_equal(part(net, "scans"), expected)


@pytest.mark.parametrize("hosts", [("User1", "Enterprise1"), ("User4", "User2")])
def test_scan_memory_does_not_reveal_which_of_two_scans_was_the_attackers(
    hosts: tuple[str, str],
) -> None:
    seen = []
    for red, green in (hosts, hosts[::-1]):
        net = Network(scan_memory=True, event_memory=True)
        net.step(red="scan User3")
        net.step(red=f"scan {red}", green=green)
        net.step()
        seen.append(net.out.obs[0].copy())
        expected = np.zeros(13)
        expected[[s.HOST_NAMES.index(host) for host in ("User3", *hosts)]] = 0.5, 1.0, 1.0
        np.testing.assert_array_equal(part(net, "scans"), expected)
    np.testing.assert_array_equal(seen[0], seen[1])


def test_an_exploit_beside_a_scan_is_not_the_last_scan() -> None:
    net = Network(scan_memory=True)
    net.take("User4", "SQLInjection", green="User1")
    expected = np.zeros(13)
    expected[[s.HOST_NAMES.index("User4"), s.HOST_NAMES.index("User1")]] = 0.5, 1.0
    np.testing.assert_array_equal(part(net, "scans"), expected)


def test_decoy_memory_marks_the_decoys_that_are_up() -> None:
    env, seen, _ = played(50, 80, decoy_memory="full")
    up = env.truth().decoys > 0
    places = env.layout.parts()["decoys"]
    np.testing.assert_array_equal(seen[-1][:, places].reshape(50, 13, 8), up)
    assert up.any()


def test_decoy_counts_are_fractions_of_the_decoys_that_fit() -> None:
    net = Network(decoy_memory="count")
    net.step("DecoyFemitter Enterprise1")
    net.step("DecoyApache Op_Host0")
    net.step("DecoyTomcat Op_Host0")
    net.step("DecoySmss Op_Host0")
    shares = dict(zip(s.HOST_NAMES, part(net, "decoys"), strict=True))
    assert shares["Enterprise1"] == 1.0
    assert shares["Op_Host0"] == 0.5
    assert shares["User1"] == 0.0
    net.step("Restore Op_Host0")
    assert part(net, "decoys")[s.HOST_NAMES.index("Op_Host0")] == 0.0


def test_event_memory_fades_with_the_steps_since() -> None:
    env, seen, _ = played(40, 60, event_memory=True)
    places = env.layout.parts()["events"]
    last = np.zeros((40, 13))
    for step in range(1, len(seen)):
        last = np.where(activity(seen[step]) > 0, step, last)
        fresh = np.where(last > 0, 1 / (1 + step - last), 0)
        np.testing.assert_allclose(seen[step][:, places], fresh, rtol=1e-6)
    assert last.any()


def test_restore_memory_and_clock_record_restores_and_steps() -> None:
    env, seen, actions = played(40, 60, restore_memory=True, clock=True)
    parts = env.layout.parts()
    restored = np.zeros((40, 13))
    for step, row in enumerate(actions, 1):
        which = row >= 132
        restored[which, row[which] - 132] = 1
        np.testing.assert_array_equal(seen[step][:, parts["restores"]], restored)
        np.testing.assert_allclose(seen[step][:, parts["clock"]], step / 100, rtol=1e-6)


def test_the_clock_does_not_reveal_the_length() -> None:
    for length in (30, 150):
        env, seen, _ = played(2, length, clock=True)
        clock = seen[:, 0, env.layout.parts()["clock"]][:, 0]
        steps = np.arange(length + 1)
        np.testing.assert_allclose(clock, np.minimum(steps / 100, 1), rtol=1e-6)


def test_a_new_episode_remembers_nothing() -> None:
    env = Cage2VecEnv(20, length=30, **MEMORIES)
    env.reset(seed=0)
    rng = np.random.default_rng(3)
    for _ in range(30):
        obs, _, _, truncated, _ = env.step(rng.integers(145, size=20))
    assert truncated.all()
    assert not obs.any()


def test_reduced_actions_are_the_actions_they_are_named_after() -> None:
    assert len(s.REDUCED_NAMES) == 37
    env = Cage2VecEnv(37, actions="reduced", red="sleep")
    env.reset(seed=0)
    env.step(np.arange(37))
    done = [s.ACTION_NAMES[action] for action in env.truth().blue_action]
    for wanted, name in zip(s.REDUCED_NAMES, done, strict=True):
        kind, _, host = wanted.partition(" ")
        if kind == "Decoy":
            assert name == f"Decoy{s.BEST_DECOYS[host][0]} {host}"
        else:
            assert name == wanted
    assert (env.truth().blue_success[1:] == 1).all()


@pytest.mark.parametrize("host", s.REDUCED_HOSTS)
def test_the_next_best_decoy_comes_in_order_and_then_none(host: str) -> None:
    env = Cage2VecEnv(1, actions="reduced", red="sleep", length=50)
    env.reset(seed=0)
    action = np.array([s.REDUCED_NAMES.index(f"Decoy {host}")])
    placed = []
    for _ in range(6):
        env.step(action)
        truth = env.truth()
        assert truth.blue_success[0] == 1
        placed.append(s.ACTION_NAMES[truth.blue_action[0]])
    wanted = [f"Decoy{decoy} {host}" for decoy in s.BEST_DECOYS[host]]
    assert placed == wanted + ["Monitor"] * (6 - len(wanted))
    env.step(np.array([s.REDUCED_NAMES.index(f"Restore {host}")]))
    env.step(action)
    assert s.ACTION_NAMES[env.truth().blue_action[0]] == wanted[0]


def test_a_useful_mask_hides_exactly_the_decoys_that_would_fail() -> None:
    env = Cage2VecEnv(145, mask="useful", red="sleep", length=60)
    rng = np.random.default_rng(1)
    env.reset(seed=0)
    for _ in range(12):
        env.step(np.full(145, rng.integers(28, 145)))
        mask = env.action_masks()
        assert (mask == mask[0]).all()
        state = env.get_state()
        env.step(np.arange(145))
        succeeded = env.truth().blue_success != 0
        np.testing.assert_array_equal(mask[0], succeeded)
        env.set_state(state)


def test_a_legal_mask_hides_the_decoys_that_never_fit() -> None:
    env = Cage2VecEnv(145, mask="legal", red="sleep")
    env.reset(seed=0)
    mask = env.action_masks()[0]
    env.step(np.arange(145))
    np.testing.assert_array_equal(mask, env.truth().blue_success != 0)
    np.testing.assert_array_equal(env.action_masks(), np.tile(mask, (145, 1)))


def test_masks_of_the_reduced_set_hide_spent_decoys() -> None:
    env = Cage2VecEnv(1, mask="useful", actions="reduced", red="sleep")
    env.reset(seed=0)
    assert env.action_masks().all()
    spent = s.REDUCED_NAMES.index("Decoy Enterprise1")
    env.step(np.array([spent]))
    mask = env.action_masks()[0]
    assert not mask[spent]
    assert mask.sum() == 36


def test_an_ended_episode_keeps_its_last_mask() -> None:
    env = Cage2VecEnv(8, mask="useful", length=10, red="mixed")
    held = Cage2VecEnv(8, mask="useful", length=10, red="mixed", autoreset_mode="Disabled")
    rng = np.random.default_rng(0)
    outs = [StepBuffers.allocate(env.env_spec, 8) for _ in range(2)]
    for one, out in zip((env, held), outs, strict=True):
        one.start(4, out)
    for _ in range(10):
        row = rng.integers(28, 132, size=8)
        for one, out in zip((env, held), outs, strict=True):
            one.step_into(row, out)
    assert outs[0].truncated.all()
    np.testing.assert_array_equal(outs[0].final_mask, held.action_masks())
    assert (outs[0].mask == Cage2VecEnv(8, mask="useful").action_masks()).all()
