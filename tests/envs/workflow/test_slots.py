"""Which workflow an environment follows, and how the policy sees it."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from briskrl import ConfigError
from briskrl.core.errors import InvalidStateError
from briskrl.core.types import StepBuffers
from briskrl.envs.workflow.env import WorkflowVecEnv
from briskrl.envs.workflow.kernels import layout as k
from briskrl.envs.workflow.kernels.orders import order_ids
from briskrl.envs.workflow.kernels.tracker import set_orders
from briskrl.envs.workflow.slots import pack_orders, unpack_orders
from briskrl.orders.encoding import ENCODINGS, decode, encode
from tests.envs.workflow.scripted import Script, scripted


def uneventful(steps: int, envs: int, m: int, *, every: int) -> Script:
    """Episodes of `every` steps without incidents."""
    ends = np.zeros((steps, envs), np.bool_)
    ends[every - 1 :: every] = True
    zeros = np.zeros((steps, envs), np.float32)
    return Script(np.zeros((steps + 1, envs, m), np.bool_), zeros, ends & False, ends)


def run(env: WorkflowVecEnv, out: StepBuffers, steps: int) -> np.ndarray:
    """Workflow ids (steps, N) after each step."""
    ids = []
    for _ in range(steps):
        env.step_into(np.full(env.num_envs, env.space.m), out)
        ids.append(env.workflow_ids)
    return np.array(ids)


@pytest.mark.parametrize("m", range(2, 7))
def test_packed_orders_keep_their_ids(m: int) -> None:
    orders = np.array(list(permutations(range(m))))
    packed = pack_orders(orders)
    np.testing.assert_array_equal(unpack_orders(packed, m), orders)
    ids = np.zeros(len(orders), np.int64)
    order_ids(packed, m, ids)
    np.testing.assert_array_equal(ids, np.arange(len(orders)))


@pytest.mark.parametrize("kind", ENCODINGS)
@pytest.mark.parametrize("m", [2, 3, 5])
def test_kernels_encode_as_the_tables_do(kind: str, m: int) -> None:
    orders = np.array(list(permutations(range(m))))
    env, _ = scripted(uneventful(1, len(orders), m, every=1), encoding=kind)
    set_orders(env._slots.packed, np.arange(len(orders)), pack_orders(orders))
    np.testing.assert_array_equal(env.encodings, encode(orders, kind))  # type: ignore[arg-type]


def test_the_encoding_follows_the_observation() -> None:
    env, out = scripted(uneventful(4, 6, 3, every=4))
    assert env.env_spec.obs.shape == (2 + 9,)
    ids = env.workflow_ids
    for step in range(1, 4):
        np.testing.assert_array_equal(out.obs[:, 1], np.arange(6))
        orders = decode(out.obs[:, 2:], 3, "position")
        assert [env.space.workflow(order).id for order in orders] == ids.tolist()
        run(env, out, 1)
        assert (out.obs[:, 0] == step).all()


def test_open_categories_are_not_observed() -> None:
    rng = np.random.default_rng(0)
    quiet, busy = (Script.random(rng, 50, 8, 3) for _ in range(2))
    busy.terminated, busy.truncated, busy.reward = quiet.terminated, quiet.truncated, quiet.reward
    (one, seen), (other, also) = scripted(quiet), scripted(busy)
    for _ in range(50):
        actions = rng.integers(4, size=8)
        one.step_into(actions, seen)
        other.step_into(actions, also)
        np.testing.assert_array_equal(seen.obs, also.obs)


def test_an_assigned_workflow_waits_for_the_end_of_the_episode() -> None:
    env, out = scripted(uneventful(20, 4, 3, every=5), workflow="a>b>c")
    run(env, out, 2)
    env.assign([1, 3], [5, 2])
    assert (run(env, out, 2) == 0).all()
    old = out.obs[:, 2:].copy()
    assert run(env, out, 1)[0].tolist() == [0, 5, 0, 2]
    np.testing.assert_array_equal(out.final_obs[:, 2:], old)
    assert not np.array_equal(out.obs[:, 2:], old)
    assert env.drain_compliance().workflow_id.tolist() == [0, 0, 0, 0]
    assert (run(env, out, 5)[:-1] == [0, 5, 0, 2]).all(), "it stays"
    assert env.drain_compliance().workflow_id.tolist() == [0, 5, 0, 2]


def test_a_workflow_assigned_before_the_start_holds_from_the_first_step() -> None:
    env, out = scripted(uneventful(2, 3, 3, every=2), workflow="a>b>c")
    env.assign(range(3), 4)
    env.start(1, out)
    assert env.workflow_ids.tolist() == [4, 4, 4]


def test_an_unknown_or_forbidden_workflow_is_refused() -> None:
    env, _ = scripted(uneventful(2, 3, 3, every=2), require=("a>b",))
    with pytest.raises(ConfigError, match="no workflow 6"):
        env.assign([0], [6])
    with pytest.raises(ConfigError, match="constraints"):
        env.assign([0], [5])
    with pytest.raises(ConfigError, match="constraints"):
        scripted(uneventful(2, 3, 3, every=2), require=("a>b",), workflow="b>a>c")


def test_drawn_workflows_are_uniform_over_the_constrained_space() -> None:
    env, out = scripted(uneventful(500, 40, 4, every=1), require=("b>a",))
    ids = run(env, out, 500)
    kinds, counts = np.unique(ids, return_counts=True)
    assert len(kinds) == env.space.size == 12
    expected = ids.size / 12
    assert ((counts - expected) ** 2 / expected).sum() < 31.3, "chi square, 11 degrees, 0.1 %"


def test_workflows_in_focus_are_drawn_more_often() -> None:
    env, out = scripted(uneventful(400, 50, 4, every=1))
    env.draw_from([3, 17], share=0.5)
    ids = run(env, out, 400)
    shares = np.bincount(ids.ravel(), minlength=24) / ids.size
    np.testing.assert_allclose(shares[[3, 17]], 0.25 + 0.5 / 24, atol=0.02)
    np.testing.assert_allclose(np.delete(shares, [3, 17]), 0.5 / 24, atol=0.01)


@pytest.mark.parametrize("m", [8, 12])
def test_spaces_that_are_not_listed_are_drawn_from_too(m: int) -> None:
    env, out = scripted(uneventful(40, 30, m, every=2), require=("c>b>a",))
    ids = run(env, out, 40)
    assert len(np.unique(ids)) > 0.9 * 30 * 20
    assert all(env.space.from_id(int(number)) in env.space for number in ids[-1])
    orders = decode(out.obs[:, 2:], m, "position")
    assert [env.space.workflow(order).id for order in orders] == ids[-1].tolist()


def test_env_i_draws_the_same_workflows_in_any_batch() -> None:
    (many, a), (few, b) = (scripted(uneventful(30, n, 4, every=3)) for n in (8, 3))
    many.start(100, a)
    few.start(105, b)
    np.testing.assert_array_equal(run(many, a, 30)[:, 5:], run(few, b, 30))


@pytest.mark.parametrize(
    ("column", "number", "match"),
    [
        (k.ORDER, 0, "not an order"),
        (k.ORDER, 1 << 40 | 0x10, "not an order"),
        (k.PENDING, 0x11, "not an order"),
        (k.OPEN, 8, "open"),
        (k.JUDGED, -1, "counters"),
        (k.ORDER_ID, 6, "id"),
    ],
)
def test_an_impossible_state_is_refused(column: int, number: int, match: str) -> None:
    env, _ = scripted(uneventful(4, 2, 3, every=2))
    state = dict(env.get_state())
    state["workflow.slots"][1, column] = number
    with pytest.raises(InvalidStateError, match=match):
        env.set_state(state)


def test_a_state_without_workflows_is_refused() -> None:
    env, _ = scripted(uneventful(4, 2, 3, every=2))
    with pytest.raises(InvalidStateError, match="missing"):
        env.set_state(env.inner.get_state())


def test_a_restored_batch_goes_on_with_its_focus_and_pending_workflows() -> None:
    (one, a), (other, b) = (scripted(uneventful(60, 6, 4, every=3)) for _ in range(2))
    one.draw_from([2, 5, 7], share=0.9)
    run(one, a, 4)
    one.assign([0, 1], [11, 12])
    state = one.get_state()
    expected = run(one, a, 40)
    other.set_state(state)
    np.testing.assert_array_equal(run(other, b, 40), expected)
