"""A checkpoint whose manifest fits its malformed files counts as damaged, like one that does not.

Manifests can be signed again by anybody, so the loader must not rely on them for the form of what
it reads.
"""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from briskrl.core.errors import InvalidStateError, RunFolderError
from briskrl.training.storage import manifest as manifest_module
from briskrl.training.storage.atomic_files import hash_bytes, json_bytes, measure
from briskrl.training.storage.checkpoint import LATEST, Checkpointer, read_newest
from briskrl.training.storage.manifest import FILE_NAME, read_manifest
from tests.training.planted import resign
from tests.training.storage.fake_memory import ChunkMemory, check_consistent, state_at

DEEP = 200_000


@pytest.fixture
def newest(tmp_path: Path) -> Path:
    """The newest of two checkpoints, whose states are those of `fake_memory`."""
    checkpointer, memory = Checkpointer(tmp_path, keep=2), ChunkMemory()
    checkpointer.save(1, state_at(1, memory))
    return checkpointer.save(2, state_at(2, memory))


def check_falls_back(newest: Path) -> None:
    """The damage is reported, and the older checkpoint is complete."""
    memory = ChunkMemory()
    checkpointer = Checkpointer(newest.parent, keep=2)
    saved = checkpointer.load(lambda found: checkpointer.load_memory(found, memory))
    assert saved.step == 1
    assert f"{newest.name} is damaged" in saved.notes[0]
    check_consistent(saved, memory)


def sign(folder: Path, changes: dict[str, Any]) -> None:
    """Replace entries of the manifest, with a hash that fits."""
    body = json.loads((folder / FILE_NAME).read_bytes())
    body.pop("blake2b")
    body.update(changes)
    body["blake2b"] = manifest_module._digest(body)
    (folder / FILE_NAME).write_bytes(json_bytes(body))


def overwrite(path: Path, data: bytes) -> None:
    # A new file: chunks may be hard links to those of other checkpoints.
    path.unlink()
    path.write_bytes(data)


def tensors(header: Any, body: bytes = b"", size: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + body


def entry(dtype: str, shape: list[Any], offsets: list[Any]) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


STATES: dict[str, bytes] = {
    "deep lists": b"[" * DEEP + b"]" * DEEP,
    "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "a list": b"[]",
    "a number": b"1",
    "nothing": b"",
    "not a text": b"\xff\xfe\x00",
    "no counters": b'{"parts": {"model": {}, "optim": {}}}',
    "counters as a list": b'{"clock": [1], "parts": {"model": {}, "optim": {}}}',
    "a counter as a text": b'{"clock": {"env_steps": "2"}, "parts": {"model": {}, "optim": {}}}',
    "a negative counter": b'{"clock": {"env_steps": -2}, "parts": {"model": {}, "optim": {}}}',
    "a huge counter": b'{"clock": {"env_steps": 1' + b"0" * 4000 + b'}, "parts": {}}',
    "a part as a list": b'{"clock": {"env_steps": 2}, "parts": {"model": [], "optim": {}}}',
    "a part missing": b'{"clock": {"env_steps": 2}, "parts": {"model": {}}}',
    "a name twice": b'{"clock": {}, "clock": {"env_steps": 2}, "parts": {"model":{}, "optim":{}}}',
    "NaN": b'{"clock": {"env_steps": NaN}, "parts": {"model": {}, "optim": {}}}',
}
ARRAYS: dict[str, bytes] = {
    "nothing": b"",
    "a short header": tensors({}, size=1 << 20),
    "a header of terabytes": tensors({}, size=1 << 42),
    "a header of negative size": tensors({}, size=2**64 - 1),
    "a deep header": tensors(b"[" * DEEP + b"]" * DEEP),
    "a list as header": tensors([]),
    "an entry as a number": tensors({"w": 1}),
    "an unknown dtype": tensors({"w": entry("Q8", [1], [0, 8])}, bytes(8)),
    "a dtype without a NumPy type": tensors({"w": entry("F8_E4M3", [8], [0, 8])}, bytes(8)),
    "terabytes": tensors({"w": entry("F32", [1 << 40], [0, 1 << 42])}, bytes(8)),
    "an overflow": tensors({"w": entry("F32", [1 << 33, 1 << 33], [0, 8])}, bytes(8)),
    "a negative shape": tensors({"w": entry("F32", [-2], [0, 8])}, bytes(8)),
    "a fractional shape": tensors({"w": entry("F32", [2.5], [0, 8])}, bytes(8)),
    "too many axes": tensors({"w": entry("F32", [1] * 100 + [2], [0, 8])}, bytes(8)),
    "offsets beyond the file": tensors({"w": entry("F32", [2], [8, 16])}, bytes(8)),
    "offsets backwards": tensors({"w": entry("F32", [2], [8, 0])}, bytes(8)),
    "overlapping arrays": tensors(
        {"w": entry("F32", [2], [0, 8]), "v": entry("F32", [2], [4, 12])}, bytes(12)
    ),
    "a hole": tensors(
        {"w": entry("F32", [2], [0, 8]), "v": entry("F32", [2], [16, 24])}, bytes(24)
    ),
    "no array": tensors({}),
}
MANIFESTS: dict[str, dict[str, Any]] = {
    "step as a text": {"step": "2"},
    "step as a float": {"step": 2.0},
    "step as a bool": {"step": True},
    "a negative step": {"step": -2},
    "another step": {"step": 3},
    "no format": {"format": None},
    "parts as a text": {"parts": "model"},
    "parts as numbers": {"parts": [1, 2]},
    "a part that is not there": {"parts": ["model", "optim", "more"]},
    "chunks as a list": {"chunks": ["chunk_0"]},
    "a version as a text": {"chunks": {"chunk_0": "1"}},
    "no chunks": {"chunks": {}},
    "a chunk more": {"chunks": {f"chunk_{i}": 1 for i in range(5)}},
    "a chunk outside": {"chunks": {"../../secret": 1}},
    "files as a list": {"files": []},
    "no files": {"files": {}},
    "a file outside": {"files": {"../2.json": {"size": 1, "blake2b": ""}}},
    "an absolute file": {"files": {"/etc/passwd": {"size": 1, "blake2b": ""}}},
    "a file as a number": {"files": {"state.json": 1}},
    "a size as a text": {"files": {"state.json": {"size": "1", "blake2b": ""}}},
    "a negative size": {"files": {"state.json": {"size": -1, "blake2b": ""}}},
    "a size of terabytes": {"files": {"state.json": {"size": 1 << 42, "blake2b": ""}}},
    "no hash": {"files": {"state.json": {"size": 1}}},
}


def cases(table: dict[str, Any]) -> Any:
    return pytest.mark.parametrize("case", table.values(), ids=table)


@cases(STATES)
def test_a_malformed_state_file_is_damage(newest: Path, case: bytes):
    overwrite(newest / "state.json", case)
    resign(newest)
    check_falls_back(newest)


@cases(ARRAYS)
@pytest.mark.parametrize("file", ["optim.safetensors", "memory/chunk_1.safetensors"])
def test_a_malformed_array_file_is_damage(newest: Path, file: str, case: bytes):
    overwrite(newest / file, case)
    resign(newest)

    def restore(saved: Any) -> None:
        # As in a run: the parts and the memory take what they need out of the arrays.
        saved.states["optim"].arrays["m"].reshape(5)
        checkpointer.load_memory(saved, memory)
        if not all("obs" in arrays for arrays in memory.arrays.values()):
            raise InvalidStateError("obs is missing")

    checkpointer, memory = Checkpointer(newest.parent, keep=2), ChunkMemory()
    saved = checkpointer.load(restore)
    assert saved.step == 1
    check_consistent(saved, memory)


@cases(MANIFESTS)
def test_a_malformed_manifest_is_damage(newest: Path, case: dict[str, Any]):
    sign(newest, case)
    check_falls_back(newest)


@pytest.mark.parametrize("text", [b"[" * DEEP, b'{"a":' * DEEP + b"1" + b"}" * DEEP, b"[]", b"1"])
def test_a_manifest_that_is_no_object_is_damage(newest: Path, text: bytes):
    (newest / FILE_NAME).write_bytes(text)
    check_falls_back(newest)


def test_a_checkpoint_under_the_name_of_another_step_is_damage(newest: Path):
    moved = newest.rename(newest.with_name("step_000000000009"))
    (newest.parent / LATEST).write_text(moved.name + "\n")
    check_falls_back(moved)


@pytest.mark.parametrize("file", [FILE_NAME, "state.json", "model.safetensors"])
def test_a_pipe_instead_of_a_file_is_damage_and_does_not_hang(newest: Path, file: str):
    (newest / file).unlink()
    os.mkfifo(newest / file)
    if file != FILE_NAME:
        empty = {"size": 0, "blake2b": hash_bytes(b"")}
        files = json.loads((newest / FILE_NAME).read_bytes())["files"]
        sign(newest, {"files": {**files, file: empty}})
    check_falls_back(newest)


def test_an_array_that_is_refused_falls_back_to_the_older_checkpoint(newest: Path):
    def restore(saved: Any) -> None:
        tried.append(saved.step)
        if saved.step == 2:
            raise InvalidStateError("cursor holds 1000000 at [0, 3], outside 0 to 9")

    tried: list[int] = []
    saved = read_newest(newest.parent, restore)
    assert tried == [2, 1]
    assert saved.step == 1
    assert saved.notes == (
        f"The checkpoint {newest.name} is damaged: cursor holds 1000000 at [0, 3], outside 0 to 9.",
        "The checkpoint step_000000000001 is used instead.",
    )


def test_without_an_older_checkpoint_the_error_names_the_array(newest: Path):
    def restore(saved: Any) -> None:
        raise InvalidStateError("flags holds 255 at [0], outside 0 to 3")

    with pytest.raises(RunFolderError, match=r"flags holds 255 at \[0\], outside 0 to 3") as found:
        read_newest(newest.parent, restore)
    assert "start a new run" in str(found.value)


def test_an_error_of_a_library_counts_as_damage_too(newest: Path):
    def restore(saved: Any) -> None:
        if saved.step == 2:
            np.zeros(3)[saved.states["model"].scalars["step"] + 5] = 1

    assert read_newest(newest.parent, restore).step == 1


def test_signing_again_makes_a_valid_manifest(newest: Path):
    resign(newest)
    assert read_newest(newest.parent).step == 2
    assert read_manifest(newest).files["state.json"] == measure(newest / "state.json")
