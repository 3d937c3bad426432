from __future__ import annotations

from collections import Counter
from itertools import combinations, permutations, product

import numpy as np
import pytest

from briskrl.core.types import MINIBATCH_FIELDS, Minibatch
from briskrl.memory.kernels.shuffle import assign_minibatches, shuffle
from briskrl.memory.rollout import RECORDED, RolloutBuffer
from tests.memory.allocation import allocated
from tests.memory.reference import Feed, make_box_spec, make_spec

N, T = 5, 4
SPECS = {"mask": make_spec(), "planes": make_spec((2, 3, 3), np.uint8), "box": make_box_spec()}


def make(spec=None, *, num_envs=N, steps=T, reuse=0) -> RolloutBuffer:
    return RolloutBuffer(spec=spec or make_spec(), num_envs=num_envs, steps=steps, reuse=reuse)


def random_step(feed: Feed):
    before, decision, after = feed.step()
    decision.log_prob = feed.rng.normal(size=feed.num_envs).astype(np.float32)
    return before, decision, after


def play_rows(memory: RolloutBuffer, steps) -> None:
    """Write steps as an environment does: into the slots of the buffer."""
    for before, decision, after in steps:
        row = memory.next_slot()
        np.testing.assert_array_equal(row.before.obs, before.obs)
        row.decision.action[:] = decision.action
        row.decision.log_prob[:] = decision.log_prob
        for name in ("obs", "reward", "terminated", "truncated", "final_obs", "mask"):
            if getattr(row.after, name) is not None:
                getattr(row.after, name)[:] = getattr(after, name)
        memory.advance()


def begin(memory: RolloutBuffer, steps) -> None:
    first = steps[0][0]
    memory.next_slot().before.obs[:] = first.obs
    if first.mask is not None:
        memory.next_slot().before.mask[:] = first.mask


def recorded(memory: RolloutBuffer) -> list[dict[str, np.ndarray]]:
    found = []
    for rollout in memory.rollouts():
        arrays = {name: getattr(rollout, name) for name in RECORDED.values()}
        ended = rollout.terminated | rollout.truncated
        kept = {name: array.copy() for name, array in arrays.items() if array is not None}
        found.append({**kept, "final_obs": rollout.final_obs[ended].copy()})
    return found


def assert_same(one, other) -> None:
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        for name in a:
            np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def test_step_slots_are_views_of_the_rollout():
    memory = make()
    rows = []
    for _ in range(T):
        rows.append(memory.next_slot())
        memory.advance()
    rollout = memory.rollouts()[0]
    for t, row in enumerate(rows):
        for view, home in [
            (row.before.obs, rollout.obs[t]),
            (row.after.obs, rollout.obs[t + 1]),
            (row.after.mask, rollout.mask[t + 1]),
            (row.after.reward, rollout.reward[t]),
            (row.after.terminated, rollout.terminated[t]),
            (row.after.truncated, rollout.truncated[t]),
            (row.after.final_obs, rollout.final_obs[t]),
            (row.decision.action, rollout.action[t]),
            (row.decision.log_prob, rollout.behavior_log_prob[t]),
        ]:
            assert view.__array_interface__["data"] == home.__array_interface__["data"]
            assert view.shape == home.shape


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_asynchronous_writes_give_the_same_rollout_as_step_slots(spec):
    feed = Feed(spec, N, seed=1)
    steps = [random_step(feed) for _ in range(T)]
    together, apart = make(spec), make(spec)
    begin(together, steps)
    play_rows(together, steps)
    rng = np.random.default_rng(2)
    done = np.zeros(N, np.int64)
    while (done < T).any():
        ids = rng.permutation(np.flatnonzero(done < T))[: rng.integers(1, N + 1)]
        apart.write(*pick(spec, steps, done, ids), ids)
        done[ids] += 1
        np.testing.assert_array_equal(apart.has_room, done < T)
    assert not together.has_room.any()
    assert not apart.has_room.any()
    # In row T only observations and masks have a meaning.
    for a, b in zip(recorded(together), recorded(apart), strict=True):
        for name in a:
            rows = slice(None) if name in ("obs", "mask", "final_obs") else slice(T)
            np.testing.assert_array_equal(a[name][rows], b[name][rows], err_msg=name)


def pick(spec, steps, done, ids):
    """Buffers whose first rows are the next steps of the envs `ids`."""
    feed = Feed(spec, N, seed=9)
    before, decision, after = random_step(feed)
    for j, env in enumerate(ids):
        source = steps[done[env]]
        for target, origin in zip((before, decision, after), source, strict=True):
            for name in target.__slots__:
                value = getattr(origin, name)
                if value is not None:
                    getattr(target, name)[j] = value[env]
    return before, decision, after


def test_writes_past_the_end_of_a_rollout_are_refused():
    memory, feed = make(), Feed(make_spec(), N, seed=0)
    ids = np.array([2])
    for _ in range(T):
        memory.write(*random_step(feed), ids)
    with pytest.raises(ValueError, match="more steps"):
        memory.write(*random_step(feed), ids)
    assert memory.has_room.any()
    full = make()
    for _ in range(T):
        full.advance()
    with pytest.raises(ValueError, match="full"):
        full.next_slot()


@pytest.mark.parametrize("parts", [1, 3, 4, 7])
@pytest.mark.parametrize("reuse", [0, 2])
def test_minibatches_hold_every_step_exactly_once(parts, reuse):
    spec = make_spec()
    memory, feed = make(spec, reuse=reuse), Feed(spec, N, seed=3)
    for number in range(4):
        steps = [random_step(feed) for _ in range(T)]
        if number == 0:
            begin(memory, steps)
        play_rows(memory, steps)
        rollouts = memory.rollouts()
        for rollout in rollouts:
            for name in ("old_log_prob", "weight", "value", "advantage", "returns"):
                getattr(rollout, name)[:] = feed.rng.normal(size=(T + 1, N))
        expected = sorted(
            step_of(rollout, t, n) for rollout in rollouts for t in range(T) for n in range(N)
        )
        memory.shuffle(np.random.default_rng(number), parts)
        found, sizes = [], []
        for k in range(parts):
            part = memory.minibatch(k)
            sizes.append(part.size)
            found += [step_of(part, i) for i in part.indices]
            assert (np.diff(part.indices) > 0).all()
        assert sorted(found) == expected
        assert max(sizes) - min(sizes) <= 1
        memory.next_rollout()


def step_of(record, *at) -> tuple[float, ...]:
    values = [np.ravel(getattr(record, name)[at]) for name in MINIBATCH_FIELDS]
    return tuple(float(value) for value in np.concatenate(values))


def test_all_permutations_are_equally_likely():
    found = set()
    for last, middle in product((1 / 6, 3 / 6, 5 / 6), (1 / 4, 3 / 4)):
        order = np.array([7, 8, 9, 0])
        shuffle(order, np.array([0.0, middle, last]))
        assert order[3] == 0
        found.add(tuple(order[:3].tolist()))
    assert found == set(permutations((7, 8, 9)))


def test_all_assignments_to_minibatches_are_equally_likely():
    """Four steps in two minibatches: six assignments, each from equally many orders of draws."""
    counts = Counter()
    for draws in product((1 / 8, 3 / 8, 5 / 8, 7 / 8), (1 / 6, 3 / 6, 5 / 6), (1 / 4, 3 / 4)):
        last, middle, first = draws
        order = np.zeros(4, np.int64)
        room = np.zeros(4, np.int32), np.zeros(2, np.int64)
        drawn = np.array([0.0, first, middle, last])
        assign_minibatches(drawn, np.array([7, 8, 9, 10]), np.array([0, 2, 4]), *room, order)
        assert sorted(order) == [7, 8, 9, 10]
        counts[tuple(order[:2].tolist())] += 1
    assert counts == dict.fromkeys(combinations((7, 8, 9, 10), 2), 4)


def test_minibatches_depend_only_on_the_random_generator():
    memory = make()
    for t in range(T):
        memory.next_slot().decision.log_prob[:] = np.arange(N) + t * N
        memory.advance()
    memory.rollouts()[0].value[:] = np.arange((T + 1) * N).reshape(T + 1, N)
    minibatches = []
    for seed in (0, 1, 0):
        memory.shuffle(np.random.default_rng(seed), 2)
        minibatches.append(memory.minibatch(0).gathered().value.tolist())
    assert minibatches[0] == minibatches[2] != minibatches[1]


def test_the_next_rollout_begins_where_the_last_one_ended_and_old_ones_age():
    spec = make_spec()
    memory, feed = make(spec, reuse=2), Feed(spec, N, seed=4)
    history = []
    for number in range(5):
        steps = [random_step(feed) for _ in range(T)]
        if number == 0:
            begin(memory, steps)
        play_rows(memory, steps)
        history.append([step[2].reward for step in steps])
        found = memory.rollouts()
        assert [rollout.age for rollout in found] == list(range(min(number + 1, 3)))
        for age, rollout in enumerate(found):
            np.testing.assert_array_equal(rollout.reward[:T], history[-1 - age])
        memory.next_rollout()
        np.testing.assert_array_equal(memory.next_slot().before.obs, steps[-1][2].obs)
        np.testing.assert_array_equal(memory.next_slot().before.mask, steps[-1][2].mask)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@pytest.mark.parametrize("steps_done", [0, 2, 5, 11])
def test_a_restored_buffer_continues_like_the_saved_one(spec, steps_done):
    feed = Feed(spec, N, seed=5)
    steps = [random_step(feed) for _ in range(16)]
    memory = make(spec, reuse=1)
    begin(memory, steps)

    def play(target: RolloutBuffer, some) -> None:
        for step in some:
            play_rows(target, [step])
            if not target.has_room.any():
                target.next_rollout()

    play(memory, steps[:steps_done])
    copy = make(spec, reuse=1)
    saved = memory.state()
    chunks = {
        name: {key: np.array(array) for key, array in memory.read_chunk(name).items()}
        for name in memory.chunk_versions()
    }
    copy.load_state(saved)
    for name, arrays in chunks.items():
        copy.load_chunk(name, arrays)
    assert copy.chunk_versions() == memory.chunk_versions()
    for target in (memory, copy):
        play(target, steps[steps_done:])
    assert_same(recorded(memory), recorded(copy))


def test_chunk_versions_grow_with_every_change():
    spec = make_spec()
    memory, feed = make(spec, reuse=1), Feed(spec, N, seed=6)
    seen: dict[str, int] = {}
    for k in range(3 * T):
        step = random_step(feed)
        if k == 0:
            begin(memory, [step])
        play_rows(memory, [step])
        versions = memory.chunk_versions()
        current = f"rollout_{k // T % 2}"
        assert versions[current] > seen.get(current, -1)
        assert all(versions[name] == seen[name] for name in versions if name != current)
        seen = dict(versions)
        if not memory.has_room.any():
            memory.next_rollout()
            seen |= memory.chunk_versions()


def test_array_names_of_chunk_files_never_change():
    memory = make(make_spec())
    assert list(memory.read_chunk("rollout_0")) == [
        "obs",
        "action",
        "log_prob",
        "reward",
        "terminated",
        "truncated",
        "mask",
        "ended",
        "final_obs",
    ]


def test_a_cleared_buffer_behaves_like_a_new_one():
    spec = make_spec()
    memory, feed = make(spec, reuse=1), Feed(spec, N, seed=7)
    for _ in range(2):
        for _ in range(T):
            memory.write(*random_step(feed))
        memory.next_rollout()
    memory.clear()
    new = make(spec, reuse=1)
    assert memory.chunk_versions() == new.chunk_versions()
    assert len(memory.rollouts()) == 1
    assert memory.has_room.all()
    steps = [random_step(feed) for _ in range(T)]
    for target in (memory, new):
        begin(target, steps)
        play_rows(target, steps)
    for name in ("obs", "mask"):
        ours, theirs = (getattr(target.rollouts()[0], name) for target in (memory, new))
        np.testing.assert_array_equal(ours, theirs)


def test_versions_that_were_read_never_come_again_after_clearing():
    spec = make_spec()
    memory, feed = make(spec, reuse=1), Feed(spec, N, seed=7)
    seen = set()
    for _ in range(3):
        for _ in range(T):
            memory.write(*random_step(feed))
            versions = set(memory.chunk_versions().values())
            assert max(versions) not in seen
            seen |= versions
        memory.clear()


@pytest.mark.parametrize("part", ["rows", "shuffle", "gather"])
def test_nothing_that_scales_is_allocated_per_call(part):
    spec, num_envs = make_spec(), 16_384
    memory = make(spec, num_envs=num_envs, steps=64)
    out = Minibatch.allocate(spec, 8 * num_envs)
    rng = np.random.default_rng(0)

    def rows() -> None:
        memory.next_slot().after.reward.fill(1.0)
        memory.advance()

    def gather() -> None:
        memory.minibatch(3).gathered(out)

    def shuffle() -> None:
        memory.shuffle(rng, 8)

    shuffle()
    call = {"rows": rows, "shuffle": shuffle, "gather": gather}[part]
    kept, peak = allocated(call)
    assert peak < 16_384
    assert kept < 4096
