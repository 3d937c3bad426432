from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load_file

from briskrl.core.errors import RunFolderError
from briskrl.core.types import State
from briskrl.training.storage.checkpoint import (
    Checkpointer,
    RunState,
    list_checkpoints,
    read_newest,
)
from tests.training.storage.fake_memory import ChunkMemory, check_consistent, state_at

DTYPES = [np.bool_, np.uint8, np.int32, np.int64, np.uint64, np.float16, np.float32, np.float64]
ARRAYS = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0))
)
SCALARS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**130), 2**130) | st.text(max_size=5)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)  # fmt: skip


def inodes(path: Path) -> dict[str, int]:
    return {file.stem: file.stat().st_ino for file in (path / "memory").iterdir()}


def save_steps(folder: Path, steps: range, keep: int = 2) -> Checkpointer:
    checkpointer, memory = Checkpointer(folder, keep), ChunkMemory()
    for step in steps:
        checkpointer.save(step, state_at(step, memory))
    return checkpointer


@settings(max_examples=40, deadline=None)
@given(
    arrays=st.dictionaries(st.text(min_size=1, max_size=8), ARRAYS, max_size=4),
    scalars=st.dictionaries(st.text(max_size=4), SCALARS, max_size=3),
)
def test_arrays_and_scalars_are_restored_exactly(tmp_path_factory, arrays, scalars):
    folder = tmp_path_factory.mktemp("checkpoints")
    Checkpointer(folder, 1).save(3, RunState({"part": State(arrays, scalars)}, {"env_steps": 3}))
    saved = Checkpointer(folder, 1).load()
    part = saved.states["part"]
    assert part.scalars == scalars
    assert part.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        assert part.arrays[name].dtype == array.dtype
        assert part.arrays[name].shape == array.shape
        assert part.arrays[name].tobytes() == array.tobytes()
        assert part.arrays[name].flags.writeable


@pytest.mark.parametrize("view", ["strided", "transposed", "reversed", "big_endian"])
def test_arrays_that_are_not_contiguous_are_saved_by_value(tmp_path, view):
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    array = {
        "strided": base[:, ::2],
        "transposed": base.T,
        "reversed": base[::-1],
        "big_endian": base.astype(">f4"),
    }[view]
    path = Checkpointer(tmp_path, 1).save(1, RunState({"p": State({"a": array})}, {}))
    assert np.array_equal(read_newest(tmp_path).states["p"].arrays["a"], array)
    assert np.array_equal(load_file(path / "p.safetensors")["a"], array)


def test_states_of_random_generators_are_restored(tmp_path):
    rng = np.random.Generator(np.random.PCG64(5))
    rng.random(17)
    state = RunState({"rng": State({}, {"main": rng.bit_generator.state})}, {})
    Checkpointer(tmp_path, 1).save(1, state)
    other = np.random.Generator(np.random.PCG64(0))
    other.bit_generator.state = read_newest(tmp_path).states["rng"].scalars["main"]
    assert np.array_equal(rng.random(10), other.random(10))


@pytest.mark.parametrize(
    ("part", "error"),
    [
        (State({}, {"loss": math.nan}), ValueError),
        (State({}, {"loss": math.inf}), ValueError),
        (State({"a": np.array(["text"])}), TypeError),
    ],
)
def test_values_that_cannot_be_saved_exactly_raise_and_leave_no_files(tmp_path, part, error):
    save_steps(tmp_path, range(1, 2))
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(error):
        Checkpointer(tmp_path, 2).save(2, RunState({"part": part}, {}))
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("name", ["../model", "a/b", "", ".hidden"])
def test_names_cannot_escape_the_folder(tmp_path, name):
    folder = tmp_path / "checkpoints"
    with pytest.raises(ValueError, match="cannot be the name"):
        Checkpointer(folder, 1).save(1, RunState({name: State({"a": np.zeros(1)})}, {}))
    assert os.listdir(tmp_path) == ["checkpoints"]
    assert os.listdir(folder) == []


def test_the_newest_are_kept_and_latest_names_the_last(tmp_path):
    save_steps(tmp_path, range(1, 7), keep=3)
    names = [path.name for path in list_checkpoints(tmp_path)]
    assert names == ["step_000000000006", "step_000000000005", "step_000000000004"]
    assert sorted(os.listdir(tmp_path)) == ["LATEST", *reversed(names)]
    assert (tmp_path / "LATEST").read_text().strip() == names[0]


def test_a_second_checkpoint_of_the_same_step_is_the_newer_one(tmp_path):
    checkpointer = Checkpointer(tmp_path, 2)
    for value in range(12):
        checkpointer.save(5, RunState({"p": State({}, {"value": value})}, {}))
        assert read_newest(tmp_path).states["p"].scalars == {"value": value}
    assert len(list_checkpoints(tmp_path)) == 2


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_the_memory_is_restored_chunk_by_chunk(tmp_path, keep):
    save_steps(tmp_path, range(1, 8), keep)
    checkpointer, memory = Checkpointer(tmp_path, keep), ChunkMemory()
    saved = checkpointer.load()
    checkpointer.load_memory(saved, memory)
    assert saved.step == 7
    assert saved.notes == ()
    check_consistent(saved, memory)


def test_unchanged_chunks_are_hard_links_and_changed_ones_are_not(tmp_path):
    checkpointer, memory = Checkpointer(tmp_path, 2), ChunkMemory()
    paths = [checkpointer.save(step, state_at(step, memory)) for step in (1, 2)]
    old = [inodes(path) for path in paths]
    memory.reads.clear()
    new = inodes(checkpointer.save(3, state_at(3, memory)))
    # Steps 2 and 3 wrote the chunks 2 and 3 since step 1 was saved.
    assert new["chunk_0"] == old[0]["chunk_0"]
    assert new["chunk_1"] == old[0]["chunk_1"]
    assert not {new["chunk_2"], new["chunk_3"]} & {*old[0].values(), *old[1].values()}
    assert memory.reads == ["chunk_2", "chunk_3"]


def test_consecutive_checkpoints_share_no_file(tmp_path):
    checkpointer, memory = Checkpointer(tmp_path, 2), ChunkMemory()
    for step in range(1, 9):
        checkpointer.save(step, state_at(step, memory))
        found = [set(inodes(path).values()) for path in list_checkpoints(tmp_path)]
        assert len(set().union(*found)) == sum(map(len, found))


def test_a_single_kept_checkpoint_links_to_the_one_it_replaces(tmp_path):
    checkpointer, memory = Checkpointer(tmp_path, 1), ChunkMemory()
    old = inodes(checkpointer.save(1, state_at(1, memory)))
    new = inodes(checkpointer.save(2, state_at(2, memory)))
    assert {name for name in new if new[name] == old[name]} == {"chunk_0", "chunk_1", "chunk_3"}


def test_links_after_a_resume_follow_what_was_loaded(tmp_path):
    save_steps(tmp_path, range(1, 6))
    checkpointer, memory = Checkpointer(tmp_path, 2), ChunkMemory()
    loaded = checkpointer.load()
    checkpointer.load_memory(loaded, memory)
    before = inodes(loaded.path)
    checkpointer.save(6, state_at(6, memory))
    after = inodes(checkpointer.save(7, state_at(7, memory)))
    assert {name for name in after if after[name] == before[name]} == {"chunk_0", "chunk_1"}
    saved = read_newest(tmp_path)
    checkpointer.load_memory(saved, memory)
    check_consistent(saved, memory)


def test_where_links_fail_chunks_are_written_again(tmp_path, monkeypatch):
    def fail(*_: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", fail)
    checkpointer = save_steps(tmp_path, range(1, 6))
    saved, memory = checkpointer.load(), ChunkMemory()
    checkpointer.load_memory(saved, memory)
    check_consistent(saved, memory)
    links = [
        f.stat().st_nlink for p in list_checkpoints(tmp_path) for f in (p / "memory").iterdir()
    ]
    assert set(links) == {1}


def test_leftovers_of_killed_writers_are_removed(tmp_path):
    save_steps(tmp_path, range(1, 3))
    leftover = tmp_path / ".tmp-step_000000000003"
    (leftover / "memory").mkdir(parents=True)
    (leftover / "model.safetensors").write_bytes(b"half")
    (tmp_path / ".tmp-LATEST").write_text("x")
    Checkpointer(tmp_path, 2)
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".tmp-")]
    assert read_newest(tmp_path).step == 2


FILES = [
    "MANIFEST.json",
    "state.json",
    "model.safetensors",
    "optim.safetensors",
    *(f"memory/chunk_{i}.safetensors" for i in range(4)),
]


def test_the_list_of_files_below_is_complete(tmp_path):
    save_steps(tmp_path, range(1, 7))
    newest = list_checkpoints(tmp_path)[0]
    found = {str(f.relative_to(newest)) for f in newest.rglob("*") if f.is_file()}
    assert found == set(FILES)


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


DAMAGES = {
    "flip": flip,
    "truncate": lambda file: os.truncate(file, file.stat().st_size - 3),
    "empty": lambda file: os.truncate(file, 0),
    "delete": lambda file: file.unlink(),
}


@pytest.fixture(scope="module")
def six_steps(tmp_path_factory):
    folder = tmp_path_factory.mktemp("six")
    save_steps(folder, range(1, 7))
    return folder


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_damage_to_any_file_falls_back_to_the_previous_checkpoint(
    tmp_path, six_steps, name, damage
):
    # Copied with its hard links, of which `-a` keeps those inside the folder.
    subprocess.run(["cp", "-a", f"{six_steps}/.", str(tmp_path)], check=True)
    newest, previous = list_checkpoints(tmp_path)
    DAMAGES[damage](newest / name)
    checkpointer, memory = Checkpointer(tmp_path, 2), ChunkMemory()
    saved = checkpointer.load()
    checkpointer.load_memory(saved, memory)
    assert saved.path == previous
    assert newest.name in saved.notes[0]
    assert name in saved.notes[0]
    assert previous.name in saved.notes[1]
    check_consistent(saved, memory)
    # The run continues from there; the damaged checkpoint is removed after the next save.
    for step in (6, 7):
        checkpointer.save(step, state_at(step, memory))
    saved = read_newest(tmp_path)
    assert (saved.step, saved.notes) == (7, ())
    assert len(list_checkpoints(tmp_path)) == 2
    checkpointer.load_memory(saved, memory)
    check_consistent(saved, memory)


def test_any_flipped_byte_of_the_manifest_is_detected(tmp_path):
    save_steps(tmp_path, range(1, 3))
    file = list_checkpoints(tmp_path)[0] / "MANIFEST.json"
    good = file.read_bytes()
    for place in range(0, len(good), 7):
        for bit in (0, 3, 5):
            bad = bytearray(good)
            bad[place] ^= 1 << bit
            file.write_bytes(bad)
            assert read_newest(tmp_path).step == 1, (place, bit)


def test_a_newest_checkpoint_that_is_gone_is_an_error_until_latest_is_deleted(tmp_path):
    save_steps(tmp_path, range(1, 3))
    os.rename(list_checkpoints(tmp_path)[0], tmp_path / "elsewhere")
    with pytest.raises(RunFolderError, match=r"step_000000000002, is gone.*LATEST to go back"):
        read_newest(tmp_path)
    (tmp_path / "LATEST").unlink()
    assert read_newest(tmp_path).step == 1


def test_a_latest_older_than_the_newest_checkpoint_is_ignored(tmp_path):
    save_steps(tmp_path, range(1, 4))
    (tmp_path / "LATEST").write_text("step_000000000001\n")
    assert read_newest(tmp_path).step == 3


def test_without_a_valid_checkpoint_the_error_says_what_to_do(tmp_path):
    with pytest.raises(RunFolderError, match=r"There is none.*new run"):
        read_newest(tmp_path / "nothing")
    save_steps(tmp_path, range(1, 3))
    for path in list_checkpoints(tmp_path):
        (path / "model.safetensors").unlink()
    with pytest.raises(RunFolderError) as caught:
        Checkpointer(tmp_path, 2).load()
    text = str(caught.value)
    assert text.count("model.safetensors is missing") == 2
    assert "new run" in text
    assert len(list_checkpoints(tmp_path)) == 2


def test_a_newer_format_raises_with_an_explanation(tmp_path, monkeypatch):
    save_steps(tmp_path, range(1, 2))
    monkeypatch.setattr("briskrl.training.storage.manifest.FORMAT", 2)
    save_steps(tmp_path, range(2, 3))
    monkeypatch.undo()
    manifest = json.loads((list_checkpoints(tmp_path)[0] / "MANIFEST.json").read_text())
    assert manifest["format"] == 2
    with pytest.raises(RunFolderError, match=r"format 2.*Upgrade briskrl"):
        read_newest(tmp_path)
