"""Plants impossible values in checkpoints, signs them again, and continues from them.

Every planted checkpoint is loaded and stepped in a process of its own, forked from one that has
everything compiled, so that a crash in compiled code is seen as a signal and costs nothing else.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from briskrl.core.errors import BriskError
from briskrl.training.loop import train
from briskrl.training.recorder import RunRecorder
from briskrl.training.reporter import SilentReporter
from briskrl.training.resolve import load_config
from briskrl.training.storage.atomic_files import measure
from briskrl.training.storage.checkpoint import list_checkpoints
from briskrl.training.storage.manifest import FILE_NAME, Manifest, read_manifest
from briskrl.training.storage.run_dir import RunDir
from briskrl.training.storage.safetensors_io import read_tensors
from briskrl.training.trainer import Trainer
from briskrl.training.warmup import warm_up
from tests.training.runs import small_config

SMALL_WILDFIRE = {
    "height": 6,
    "width": 7,
    "landscapes": 3,
    "n_weather": 2,
    "n_fires": 4,
    "obs_fires": 8,
    "budget_frac": 0.3,
}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "snake": ("snake", {"obs": "flood", "masks": True, "mirror": True}),
    "snake-grid": ("snake", {"obs": "grid", "height": 6, "width": 6, "grid_reachable": True}),
    "cartpole": ("cartpole", {}),
    "cage2": (
        "cage2",
        {
            "length": 30,
            "frames": 3,
            "green": True,
            "scan_memory": True,
            "decoy_memory": "count",
            "event_memory": True,
            "restore_memory": True,
            "mask": "useful",
            "actions": "reduced",
        },
    ),
    "cage2-full": ("cage2", {"length": 30, "edition": "competition", "mask": "useful"}),
    "wildfire": ("wildfire", SMALL_WILDFIRE),
    "gym-compiled": ("gym:CartPole-v1", {"backend": "compiled"}),
    "gym-sync": ("gym:CartPole-v1", {"backend": "sync"}),
}
ALGOS = ("dqn", "per-dqn", "rainbow", "ppo")
RAN, REFUSED, TRACEBACK, SECONDS = 0, 2, 3, 300
"""Exit codes of a process that continued, and how long it may take, on a busy machine, too."""


@dataclass(frozen=True)
class Plant:
    """Bytes to overwrite in an array of a checkpoint's file."""

    file: str
    array: str
    offset: int | None
    """Where in the array's bytes; None to fill the whole array."""
    data: bytes
    is_float: bool
    what: str


def make_run(folder: Path, family: str, algo: str) -> Path:
    """A short run with one checkpoint."""
    env, settings = FAMILIES[family]
    config = small_config(
        folder,
        algo,
        env=env,
        env_config=settings,
        steps=960,
        num_envs=16,
        # A process with threads cannot be forked.
        threads=1,
        keep_checkpoints=1,
        warmup=False,
        algo_config={"buffer_size": 512, "learning_starts": 128} if algo != "ppo" else {},
    )
    train(config)
    return folder


def resign(checkpoint: Path) -> None:
    """Write a manifest that fits the files as they are now."""
    manifest = read_manifest(checkpoint)
    files = {name: measure(checkpoint / name) for name in manifest.files}
    signed = Manifest(manifest.step, manifest.states, manifest.chunks, files)
    (checkpoint / FILE_NAME).write_bytes(signed.encode())


def values_of(array: np.ndarray, *, native: bool) -> list[np.generic]:
    """Values that hardly any array may hold."""
    if native:
        # Memory of compiled environments holds numbers of several types.
        shorts = [np.int16(v) for v in (-1, -32768, 32767, 4096)]
        ints = [np.int32(v) for v in (-1, 1_000_000, -(2**31), 2**31 - 1)]
        return [*shorts, *ints, np.float64(np.nan), np.uint64(2**64 - 1)]
    if array.dtype == np.bool_:
        return [np.uint8(255)]
    if np.issubdtype(array.dtype, np.floating):
        return [array.dtype.type(v) for v in (np.nan, np.inf, -np.inf, -1, 1e30)]
    limits = np.iinfo(array.dtype)
    values = [-1, 1_000_000, limits.min, limits.max]
    return [array.dtype.type(v) for v in values if limits.min <= v <= limits.max]


def plants_of(checkpoint: Path, rng: random.Random, positions: int) -> Iterator[Plant]:
    """Every value at `positions` random places of every array of a checkpoint, and everywhere."""
    for path in sorted(checkpoint.rglob("*.safetensors")):
        name = str(path.relative_to(checkpoint))
        for key, array in sorted(read_tensors(path).items()):
            native = array.dtype == np.uint64
            for value in values_of(array, native=native):
                size = value.dtype.itemsize
                data, is_float = value.tobytes(), array.dtype.kind == "f"
                yield Plant(name, key, None, data, is_float, f"{key}[:] = {value!r}")
                for _ in range(positions if array.nbytes else 0):
                    at = rng.randrange(array.nbytes // size) * size
                    what = f"{key}[byte {at}] = {value!r}"
                    yield Plant(name, key, at, data, is_float, what)


def plant(checkpoint: Path, planted: Plant) -> None:
    """Overwrite the bytes and sign the checkpoint."""
    path = checkpoint / planted.file
    arrays = read_tensors(path)
    raw = arrays[planted.array].reshape(-1).view(np.uint8)
    data = np.frombuffer(planted.data, np.uint8)
    if planted.offset is None:
        raw[: len(raw) // len(data) * len(data)] = np.tile(data, len(raw) // len(data))
    else:
        raw[planted.offset : planted.offset + len(data)] = data
    path.write_bytes(save(arrays))
    resign(checkpoint)


class Continuer:
    """Continues from changed copies of one run, each in a forked process."""

    def __init__(self, run: Path) -> None:
        self.run = run
        # More than enough for another rollout and the updates on it.
        config = load_config(run / "config.toml")
        self.config = replace(config, steps=config.steps + 208)
        self.trainer = Trainer(self.config)
        warm_up(self.trainer, choose=False)

    def checkpoint(self, copy: Path) -> Path:
        """A copy of the run at `copy`; returns its only checkpoint."""
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.run, copy)
        return list_checkpoints(copy / "checkpoints")[0]

    def go_on(self, copy: Path) -> tuple[int, str]:
        """Continue the run; returns the exit status (negative: signal) and the last line."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            signal.alarm(SECONDS)
            os._exit(self._in_child(copy, write))
        os.close(write)
        with os.fdopen(read) as pipe:
            text = pipe.read()
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status), text

    def _in_child(self, copy: Path, write: int) -> int:
        try:
            with RunDir.open(copy) as folder:
                recorder = RunRecorder(self.trainer, folder, SilentReporter())
                recorder.load()
                while self.trainer.counters.env_steps < self.config.steps:
                    recorder.record(self.trainer.iterate())
            return RAN
        except BriskError as error:
            os.write(write, str(error).encode()[:2000])
            return REFUSED
        except BaseException:
            os.write(write, traceback.format_exc().encode()[-4000:])
            return TRACEBACK


def try_all(folder: Path, family: str, algo: str, positions: int, limit: int, seed: int) -> dict:
    """Plant values in a run and continue; returns counts and failures."""
    rng = random.Random(f"{family}-{algo}-{seed}")
    run = make_run(folder / "run", family, algo)
    continuer = Continuer(run)
    copy = folder / "copy"
    continuer.checkpoint(copy)
    code, text = continuer.go_on(copy)
    found = {"ran": 0, "refused": 0, "failures": []}
    if code != RAN:
        found["failures"].append(f"unchanged: exit {code}: {text}")
        return found
    plants = list(plants_of(list_checkpoints(run / "checkpoints")[0], rng, positions))
    if 0 < limit < len(plants):
        # First those that are most likely to become a wrong index.
        rng.shuffle(plants)
        plants.sort(key=lambda planted: (planted.offset is not None) + planted.is_float)
        plants = plants[: limit * 2 // 3] + rng.sample(plants[limit * 2 // 3 :], -(-limit // 3))
    for planted in plants:
        plant(continuer.checkpoint(copy), planted)
        code, text = continuer.go_on(copy)
        found["ran"] += code == RAN
        found["refused"] += code == REFUSED
        if code not in (RAN, REFUSED):
            found["failures"].append(f"{planted.what} in {planted.file}: exit {code}: {text}")
    shutil.rmtree(folder, ignore_errors=True)
    return found


def main() -> None:
    """Arguments: folder, positions per value, limit of plants, seed, then family/algo pairs."""
    folder, positions, limit, seed = Path(sys.argv[1]), *map(int, sys.argv[2:5])
    for pair in sys.argv[5:]:
        family, algo = pair.split("/")
        found = try_all(folder / family / algo, family, algo, positions, limit, seed)
        sys.stdout.write(json.dumps({"pair": pair, **found}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
