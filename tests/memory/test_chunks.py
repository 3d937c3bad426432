from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

from briskrl.core.errors import DivergedError, InvalidStateError
from briskrl.core.types import Batch, State
from briskrl.memory import chunks
from briskrl.memory.prioritized import PrioritizedReplay
from briskrl.memory.replay import ReplayBuffer
from tests.memory.reference import Feed, make_spec, same_batch

PLANES = make_spec((2, 2, 2), np.uint8, mask=True)
VECTOR = make_spec((3,), np.float32, mask=False)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(chunks, "MAX_BYTES", 200)


def build(spec, *, prioritized, num_envs=3, capacity=60, n_step=2):
    shape = {"spec": spec, "num_envs": num_envs, "capacity": capacity, "n_step": n_step}
    if prioritized:
        return PrioritizedReplay(**shape, gamma=0.9, alpha=0.6, beta=0.4, beta_steps=500)
    return ReplayBuffer(**shape, gamma=0.9)


class Store:
    """A checkpoint in memory: bytes of chunks, replaced only where the version changed."""

    def __init__(self) -> None:
        self.versions: dict[str, int] = {}
        self.chunks: dict[str, bytes] = {}
        self.rewritten: set[str] = set()

    def save(self, memory) -> None:
        versions = dict(memory.chunk_versions())
        self.rewritten = {k for k, v in versions.items() if self.versions.get(k) != v}
        for name in self.rewritten:
            arrays = memory.read_chunk(name)
            self.chunks[name] = save({k: np.ascontiguousarray(v) for k, v in arrays.items()})
        self.chunks = {name: self.chunks[name] for name in versions}
        self.versions = versions
        state = memory.state()
        self.arrays, self.scalars = save(state.arrays), json.dumps(state.scalars)

    def restore(self, memory) -> None:
        memory.load_state(State(arrays=load(self.arrays), scalars=json.loads(self.scalars)))
        for name, data in self.chunks.items():
            memory.load_chunk(name, load(data))


def advance(memories, feed, turns, *, partial):
    """Write, sample and set priorities alike in all memories; all must return the same."""
    outs = [Batch.allocate(feed.spec, 2, 6) for _ in memories]
    for _ in range(turns):
        ids = feed.some_ids() if partial else None
        step = feed.step(ids)
        seed = int(feed.rng.integers(2**32))
        errors = (10 * feed.rng.random((2, 6))).astype(np.float32)
        for memory, out in zip(memories, outs, strict=True):
            memory.write(*step, ids)
            if memory.size:
                memory.sample(np.random.default_rng(seed), 2, out)
                memory.feedback(out, 2, errors)
        assert len({memory.size for memory in memories}) == 1
        assert all(same_batch(outs[0], out) for out in outs)


@settings(max_examples=50, deadline=None)
@given(
    spec=st.sampled_from([PLANES, VECTOR]),
    prioritized=st.booleans(),
    num_envs=st.integers(1, 4),
    capacity=st.integers(1, 80),
    partial=st.booleans(),
    legs=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    seed=st.integers(0, 2**32),
)
def test_a_restored_memory_continues_bit_for_bit(
    spec, prioritized, num_envs, capacity, partial, legs, seed
):
    shape = {"prioritized": prioritized, "num_envs": num_envs, "capacity": capacity}
    memory = build(spec, **shape)
    feed = Feed(spec, num_envs, seed)
    store = Store()
    for turns in legs:
        advance([memory], feed, turns, partial=partial)
        store.save(memory)
    restored = build(spec, **shape)
    store.restore(restored)
    assert restored.chunk_versions() == memory.chunk_versions()
    advance([memory, restored], feed, 50, partial=partial)
    assert restored.chunk_versions() == memory.chunk_versions()


@pytest.mark.parametrize("prioritized", [False, True])
def test_a_state_and_its_chunks_may_be_loaded_over_old_data(prioritized):
    memory, other = (build(PLANES, prioritized=prioritized) for _ in range(2))
    feed = Feed(PLANES, 3, seed=1)
    advance([memory], feed, 31, partial=True)
    advance([other], Feed(PLANES, 3, seed=2), 77, partial=False)
    other.load_state(memory.state())
    for name in memory.chunk_versions():
        other.load_chunk(name, {k: v.copy() for k, v in memory.read_chunk(name).items()})
    assert other.size == memory.size > 0
    advance([memory, other], feed, 50, partial=True)
    assert other.size == memory.size


def test_only_chunks_written_to_are_saved_again():
    memory = build(VECTOR, prioritized=False, num_envs=3, capacity=96, n_step=1)
    feed = Feed(VECTOR, 3, seed=0)
    # A row is 3 envs of 12 + 4 + 4 + 1 bytes, so 200 bytes hold 3 rows, rounded down to 2.
    store = Store()
    for _ in range(32):
        memory.write(*feed.step())
    store.save(memory)
    assert len(store.rewritten) == len(store.chunks) == 16
    store.save(memory)
    assert store.rewritten == set()
    for _ in range(3):
        memory.write(*feed.step())
    store.save(memory)
    assert store.rewritten == {"chunk_00000", "chunk_00001"}


def test_chunks_hold_only_rows_with_data_and_final_observations_of_truncated_ones():
    memory = build(PLANES, prioritized=False, num_envs=2, capacity=60)
    feed = Feed(PLANES, 2, seed=3, ends=0.5)
    truncated, final_obs, written = [], [], []
    for row in range(5):
        before, decision, after = feed.step()
        memory.write(before, decision, after)
        written.append(before.obs.reshape(2, 8))
        for env in range(2):
            if after.truncated[env] and not after.terminated[env]:
                truncated.append(row * 2 + env)
                final_obs.append(after.final_obs[env].ravel())
    parts = [memory.read_chunk(name) for name in memory.chunk_versions()]
    assert np.array_equal(np.concatenate([p["obs"] for p in parts]), np.concatenate(written))
    sparse = [p for p in parts if "final_slot" in p]
    assert 0 < len(sparse) < len(parts)
    assert np.concatenate([p["final_slot"] for p in sparse]).tolist() == truncated
    assert np.array_equal(np.concatenate([p["final_obs"] for p in sparse]), final_obs)
    assert np.shares_memory(parts[0]["obs"], memory.ring.obs)


def test_versions_grow_on_every_write_and_survive_a_clear_once_seen():
    memory = build(VECTOR, prioritized=False)
    feed = Feed(VECTOR, 3, seed=0)
    memory.write(*feed.step())
    memory.clear()
    assert memory.chunk_versions() == {}
    memory.write(*feed.step())
    first = dict(memory.chunk_versions())
    memory.write(*feed.step(np.array([1])), np.array([1]))
    second = dict(memory.chunk_versions())
    assert first["chunk_00000"] < second["chunk_00000"]
    memory.clear()
    memory.write(*feed.step())
    assert memory.chunk_versions()["chunk_00000"] > second["chunk_00000"]


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize(("before", "after"), [(200, 1600), (1600, 200), (10**9, 200)])
def test_a_memory_saved_in_chunks_of_another_size_continues_bit_for_bit(
    monkeypatch, prioritized, before, after
):
    monkeypatch.setattr(chunks, "MAX_BYTES", before)
    memory = build(PLANES, prioritized=prioritized)
    feed = Feed(PLANES, 3, seed=4)
    store = Store()
    advance([memory], feed, 31, partial=True)
    store.save(memory)
    monkeypatch.setattr(chunks, "MAX_BYTES", after)
    other = build(PLANES, prioritized=prioritized)
    assert other.state().scalars["chunk_rows"] != memory.state().scalars["chunk_rows"]
    store.restore(other)
    assert other.chunk_versions() == memory.chunk_versions()
    advance([memory, other], feed, 50, partial=True)
    assert other.chunk_versions() == memory.chunk_versions()


@pytest.mark.parametrize("rows", [0, -1, 2.0, None, True])
def test_an_impossible_size_of_chunks_is_refused(rows):
    memory = build(VECTOR, prioritized=False)
    state = memory.state()
    with pytest.raises(InvalidStateError):
        memory.load_state(State(state.arrays, {**state.scalars, "chunk_rows": rows}))


@pytest.mark.parametrize(
    ("capacity", "chunk", "number"),
    [
        # Rows of 64 transitions of 509 bytes: 8 rows are 261 KB, just under 256 KiB.
        (1_000, 8, 2),
        (40_000, 8, 79),
        # From 64 MiB on at least 256 chunks.
        (200_000, 8, 391),
        (280_000, 16, 274),
    ],
)
def test_large_memories_have_a_few_hundred_chunks(monkeypatch, capacity, chunk, number):
    monkeypatch.undo()
    spec = make_spec((5, 10, 10), np.uint8, mask=False)
    memory = build(spec, prioritized=False, num_envs=64, capacity=capacity, n_step=1)
    state = memory.state()
    assert state.scalars["chunk_rows"] == chunk
    assert len(state.arrays["version_base"]) == number


def test_a_chunk_holds_its_rows(monkeypatch):
    monkeypatch.undo()
    spec = make_spec((5, 10, 10), np.uint8, mask=False)
    memory = build(spec, prioritized=False, num_envs=64, capacity=1_000)
    step = Feed(spec, 64, seed=0).step()
    for _ in range(13):
        memory.write(*step)
    dense = [memory.read_chunk(n)["reward"].size for n in memory.chunk_versions()]
    assert dense == [8 * 64, 5 * 64]


def test_chunks_and_states_of_another_shape_are_refused():
    memory = build(VECTOR, prioritized=True)
    advance([memory], Feed(VECTOR, 3, seed=0), 30, partial=False)
    name = next(iter(memory.chunk_versions()))
    arrays = {k: v.copy() for k, v in memory.read_chunk(name).items()}
    other = build(VECTOR, prioritized=True, num_envs=4)
    with pytest.raises(ValueError, match="cannot continue"):
        other.load_state(memory.state())
    for wrong in ("chunk_99999", "chunk_", "rows_00000", "chunk_-1"):
        with pytest.raises(ValueError, match="no chunk"):
            memory.load_chunk(wrong, arrays)
    with pytest.raises(InvalidStateError, match="the array obs is"):
        memory.load_chunk(name, {**arrays, "obs": arrays["obs"][:, :2]})
    with pytest.raises(InvalidStateError, match="does not hold up to"):
        memory.load_chunk(name, {k: v for k, v in arrays.items() if k != "reward"})
    outside = {"final_slot": np.array([10_000]), "final_obs": np.zeros((1, 3), np.float32)}
    dense = {k: v for k, v in arrays.items() if not k.startswith("final")}
    with pytest.raises(InvalidStateError, match="final_slot"):
        memory.load_chunk(name, {**dense, **outside})


IMPOSSIBLE = {
    "cursor": [-1, 1_000_000, 2**62],
    "version_base": [-1],
    "priorities": [-1.0, np.nan, np.inf, 0.0],
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_an_impossible_state_is_refused_by_name(name: str):
    memory = build(VECTOR, prioritized=True)
    advance([memory], Feed(VECTOR, 3, seed=0), 30, partial=False)
    other = build(VECTOR, prioritized=True)
    for value in IMPOSSIBLE[name]:
        saved = memory.state()
        flat = saved.arrays[name].reshape(-1)
        flat[np.argmax(flat)] = value
        with pytest.raises(InvalidStateError, match=name):
            other.load_state(saved)
        assert other.size == 0


IMPOSSIBLE_CHUNKS = [
    ("action", -1, "action"),
    ("action", 1_000_000, "action"),
    ("flags", 4, "flags"),
    ("reward", np.nan, "reward"),
    ("obs", np.inf, "obs"),
]


@pytest.mark.parametrize(("name", "value", "message"), IMPOSSIBLE_CHUNKS)
def test_an_impossible_chunk_is_refused_by_name(name: str, value: float, message: str):
    memory = build(VECTOR, prioritized=False)
    advance([memory], Feed(VECTOR, 3, seed=0), 30, partial=False)
    chunk = next(iter(memory.chunk_versions()))
    arrays = {k: v.copy() for k, v in memory.read_chunk(chunk).items()}
    arrays[name].reshape(-1)[5] = value
    other = build(VECTOR, prioritized=False)
    other.load_state(memory.state())
    with pytest.raises(InvalidStateError, match=message):
        other.load_chunk(chunk, arrays)
    assert not other.ring.reward.any()


@pytest.mark.parametrize("name", ["reward", "obs"])
def test_a_number_that_is_not_finite_is_not_saved(name: str):
    memory = build(VECTOR, prioritized=False)
    advance([memory], Feed(VECTOR, 3, seed=0), 30, partial=False)
    getattr(memory.ring, name).reshape(-1)[5] = np.nan
    with pytest.raises(DivergedError, match=f"replay buffer .*{name}"):
        memory.read_chunk(next(iter(memory.chunk_versions())))
