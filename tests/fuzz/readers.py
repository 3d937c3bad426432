"""Every reader of files, as a function of the file's bytes, with files to start from.

A reader may refuse a file with one of the errors it documents; anything else is a finding.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from briskrl.core.config_file import read_file
from briskrl.core.errors import BriskError
from briskrl.core.spec import ArraySpec, DiscreteSpec, EnvSpec
from briskrl.core.types import Batch, StepBuffers
from briskrl.envs.cage2.recording import check_recording
from briskrl.envs.gym.snapshot import EnvState, unpack_states
from briskrl.envs.make import make_env
from briskrl.envs.wildfire.files import read_landscape
from briskrl.memory.prioritized import PrioritizedReplay
from briskrl.memory.rollout import RolloutBuffer
from briskrl.plots.learning import _read_run
from briskrl.training.evaluate import load_policy
from briskrl.training.resolve import load_config
from briskrl.training.storage import manifest as manifests
from briskrl.training.storage.atomic_files import hash_bytes, json_bytes, measure
from briskrl.training.storage.checkpoint import read_newest
from briskrl.training.storage.line_files import read_jsonl
from briskrl.training.storage.lock import FolderLock
from briskrl.training.storage.manifest import DamagedError, Manifest, read_manifest
from briskrl.training.storage.run_dir import RunDir
from briskrl.training.storage.safetensors_io import parse_tensors

Read = Callable[[bytes], object]


@dataclass(frozen=True)
class Reader:
    """A reader and what it may raise."""

    read: Read
    refusals: tuple[type[Exception], ...] = (BriskError,)
    seeds: tuple[bytes, ...] = field(default=())
    """Files to start from."""


def make_readers(folder: Path, run: Path, names: Collection[str]) -> dict[str, Reader]:
    """The readers of these names, which use files in `folder`.

    Args:
        folder: An empty folder.
        run: A finished run of PPO on CartPole, which is copied.
        names: Members of NAMES.
    """
    readers: dict[str, Reader] = {}
    for group, make in GROUPS.items():
        # Building a group takes seconds, because of what it imports and compiles.
        if not set(group).isdisjoint(names):
            readers |= make(folder, run)
    return {name: readers[name] for name in NAMES if name in names}


def _put(path: Path) -> Callable[[bytes], Path]:
    def put(data: bytes) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    return put


def _checkpoint_readers(folder: Path, run: Path) -> dict[str, Reader]:
    checkpoint = next((run / "checkpoints").glob("step_*"))
    name, file = checkpoint.name, manifests.FILE_NAME
    put_manifest = _put(folder / "manifest" / file)
    for copy in ("signed", "latest"):
        shutil.copytree(checkpoint, folder / copy / name)
    step, good = read_manifest(checkpoint).step, (checkpoint / file).read_bytes()

    def signed(data: bytes) -> object:
        body = json.loads(data)
        body.pop("blake2b", None)
        body["blake2b"] = manifests._digest(body)
        _put(folder / "signed" / name / file)(json_bytes(body))
        return read_newest(folder / "signed")

    def state(data: bytes) -> object:
        path = _put(folder / "state" / name / "state.json")(data)
        files = {"state.json": measure(path)}
        signed = Manifest(step, ("bookkeeping", "curriculum"), {}, files)
        _put(path.with_name(file))(signed.encode())
        return read_newest(folder / "state")

    def latest(data: bytes) -> object:
        _put(folder / "latest" / "LATEST")(data)
        return read_newest(folder / "latest")

    saved = (checkpoint / "state.json").read_bytes()
    names = (name.encode() + b"\n", b"../..", b"")
    # What is not JSON cannot be signed.
    unsigned = (BriskError, ValueError, TypeError, AttributeError, RecursionError)
    return {
        "manifest": Reader(
            lambda data: read_manifest(put_manifest(data).parent),
            (BriskError, DamagedError),
            (good,),
        ),
        "manifest-signed": Reader(signed, unsigned, (good,)),
        "state": Reader(state, seeds=(saved,)),
        "latest": Reader(latest, seeds=names),
    }


def _array_readers(folder: Path, run: Path) -> dict[str, Reader]:
    spec = EnvSpec(ArraySpec.of((3,), "float32", -1, 1), DiscreteSpec(4), None, True, False)
    size = {"spec": spec, "num_envs": 2}

    def chunk(data: bytes) -> object:
        memory = PrioritizedReplay(capacity=16, n_step=2, gamma=0.9, alpha=0.6, **size)
        memory.load_chunk("chunk_00000", parse_tensors(data))
        memory._replay.cursor[:] = [[0, 0], [8, 8]]
        memory._replay._size = 12
        memory.priorities[:] = 1.0
        out = Batch.allocate(spec, 2, 8)
        return memory.sample(np.random.default_rng(1), 2, out)

    def rollout(data: bytes) -> object:
        memory = RolloutBuffer(steps=4, reuse=0, **size)
        memory.load_chunk("rollout_0", parse_tensors(data))
        memory.shuffle(np.random.default_rng(1), 2)
        return memory.minibatch(1).gathered()

    replay = PrioritizedReplay(capacity=16, n_step=2, gamma=0.9, alpha=0.6, **size)
    replay._replay.cursor[1] = 8
    chunks = [
        replay.read_chunk("chunk_00000"),
        RolloutBuffer(steps=4, reuse=0, **size).read_chunk("rollout_0"),
    ]
    seeds = [_tensor_bytes(arrays) for arrays in chunks]
    return {
        "safetensors": Reader(parse_tensors, (ValueError,), tuple(seeds)),
        "replay-chunk": Reader(chunk, (ValueError,), (seeds[0],)),
        "rollout-chunk": Reader(rollout, (ValueError,), (seeds[1],)),
    }


def _env_reader(name: str) -> dict[str, Reader]:
    small = {"height": 6, "width": 7, "landscapes": 3, "n_weather": 2, "n_fires": 4, "obs_fires": 8}
    config: Any = None
    if name == "wildfire":
        from briskrl.envs.wildfire.config import WildfireConfig

        config = WildfireConfig(**small)
    env = make_env(name, 4, config=config)
    out = StepBuffers.allocate(env.env_spec, 4)
    env.start(1, out)
    good = env.get_state()[name]
    actions = np.zeros(4, np.int64)

    def read(data: bytes) -> None:
        rows = np.frombuffer(data[: good.nbytes].ljust(good.nbytes, b"\0"), np.uint64)
        env.set_state({name: rows.reshape(good.shape).copy()})
        for action in (0, 1, 0):
            actions.fill(action)
            env.step_into(actions, out)

    return {f"env-{name}": Reader(read, seeds=(good.tobytes(),))}


def _run_readers(folder: Path, run: Path) -> dict[str, Reader]:
    own = folder / "run"
    toml = (run / "config.toml").read_bytes()
    _put(own / "config.toml")(toml)
    model = (run / "policy" / "model.safetensors").read_bytes()
    described = json.loads((run / "policy" / "policy.json").read_bytes())
    folder_of = RunDir(own)

    def policy(data: bytes) -> object:
        content = json.loads(data)
        content["model_blake2b"] = hash_bytes(model)
        _put(own / "policy" / "model.safetensors")(model)
        _put(own / "policy" / "policy.json")(json_bytes(content))
        return load_policy(own)

    def weights(data: bytes) -> object:
        _put(own / "policy" / "model.safetensors")(data)
        content = {**described, "model_blake2b": hash_bytes(data)}
        _put(own / "policy" / "policy.json")(json_bytes(content))
        return load_policy(own)

    def status(data: bytes) -> object:
        _put(own / "status.json")(data)
        _put(own / "meta.json")(data)
        return folder_of.read_status(), folder_of.read_meta()

    def metrics(data: bytes) -> object:
        return list(read_jsonl(_put(own / "metrics.jsonl")(data)))

    def episodes(data: bytes) -> object:
        _put(own / "episodes.csv")(data)
        return _read_run(own, "env_steps")

    def lock(data: bytes) -> object:
        lock = FolderLock(_put(own / "lock")(data))
        lock.acquire()
        return lock.release()

    held = json.dumps({"pid": 1, "host": "here"}).encode()
    # What is not JSON cannot be signed.
    unsigned = (BriskError, ValueError, TypeError, RecursionError)
    return {
        "policy": Reader(policy, unsigned, (json.dumps(described).encode(),)),
        "policy-weights": Reader(weights, seeds=(model,)),
        "status": Reader(status, seeds=((run / "status.json").read_bytes(),)),
        "metrics": Reader(metrics, (ValueError,), ((run / "metrics.jsonl").read_bytes(),)),
        "episodes": Reader(episodes, seeds=((run / "episodes.csv").read_bytes()[:2000],)),
        "lock": Reader(lock, seeds=(held,)),
    }


def _config_readers(folder: Path, run: Path) -> dict[str, Reader]:
    toml = (run / "config.toml").read_bytes()
    plain = b'{"env": "snake", "algo": "dqn", "algo_config": {"lr": 1e-3}}'
    yaml = b"env: snake\nalgo: dqn\nalgo_config:\n  lr: 1e-3\n"

    def reader(suffix: str, seed: bytes) -> Reader:
        put = _put(folder / f"config{suffix}")

        def read(data: bytes) -> object:
            path = put(data)
            read_file(path)
            return load_config(path)

        return Reader(read, seeds=(seed,))

    return {
        "config-toml": reader(".toml", toml),
        "config-json": reader(".json", plain),
        "config-yaml": reader(".yaml", yaml),
    }


def _other_readers(folder: Path, run: Path) -> dict[str, Reader]:
    from briskrl.bench.ratio import read_runs
    from briskrl.doctor.py_spy import frames

    env = make_env("gym:CartPole-v1", 1)
    out = StepBuffers.allocate(env.env_spec, 1)
    env.start(1, out)
    packed = env.get_state()["envs"]
    env.close()

    def snapshot(data: bytes) -> object:
        texts = unpack_states({"envs": np.frombuffer(data, np.uint8)}, 1)
        return [EnvState.from_text(text) for text in texts]

    def landscape(suffix: str) -> Read:
        put = _put(folder / f"landscape{suffix}")
        return lambda data: read_landscape(put(data))

    def recording(data: bytes) -> object:
        return check_recording(parse_tensors(data))

    grid = b"ncols 3\nnrows 3\nxllcorner 0\nyllcorner 0\ncellsize 30\n" + b"101 102 1\n" * 3
    npz = folder / "seed.npz"
    np.savez(npz, fuel=np.full((3, 3), 101, np.int16), cell_m=np.array(30.0))
    profile = {
        "shared": {"frames": [{"name": "f", "file": "x.py", "line": 1}]},
        "profiles": [{"samples": [[0]], "weights": [0.1]}],
    }
    ratio_run = _put(folder / "runs.jsonl")
    malformed = (BriskError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
    return {
        "snapshot": Reader(snapshot, seeds=(packed.tobytes(),)),
        "landscape-npz": Reader(landscape(".npz"), seeds=(npz.read_bytes(),)),
        "landscape-asc": Reader(landscape(".asc"), seeds=(grid,)),
        "cage2-recording": Reader(recording, (KeyError, ValueError), (_recording(),)),
        # The caller turns these errors into a message.
        "py-spy": Reader(
            lambda data: list(frames(json.loads(data))), malformed, (json.dumps(profile).encode(),)
        ),
        "bench-ratio": Reader(lambda data: read_runs(ratio_run(data)), seeds=(b"{}\n",)),
    }


def _cache_readers(folder: Path, run: Path) -> dict[str, Reader]:
    from briskrl.training import machine_profile
    from briskrl.tuning import cache

    tuned, machine = folder / "tune.json", folder / "machine.json"
    # Their own paths lie in the user's cache folder.
    cache.tune_file = lambda: tuned
    machine_profile.profile_path = lambda: machine
    found = {"values": {"num_envs": 64}, "ratio": 1.5, "low": 1.2, "high": 1.9, "pairs": 5}
    seed = json.dumps({"0123456789abcdef": {**found, "measured_at": "2026-01-01"}}).encode()
    put_tuned, put_machine = _put(tuned), _put(machine)

    def read_tuned(data: bytes) -> object:
        put_tuned(data)
        return cache.load("0123456789abcdef")

    def read_machine(data: bytes) -> object:
        put_machine(data)
        return machine_profile.load_profile()

    return {
        "tune-cache": Reader(read_tuned, (), (seed,)),
        "machine-profile": Reader(read_machine, (), (b'{"fingerprint": "", "cpu": "x"}',)),
    }


def _sweep_readers(folder: Path, run: Path) -> dict[str, Reader]:
    from briskrl.cli.sweep_summary import summary
    from briskrl.cluster.run_scores import read_scores
    from briskrl.cluster.sweep.folder import read_sweep
    from briskrl.cluster.sweep.run import read_result

    own, ended = folder / "sweep", folder / "ended"
    shutil.copytree(run, ended)
    toml = (
        run / "config.toml"
    ).read_bytes() + b'[sweep]\nseeds = 2\n[sweep.grid]\nlr = "1e-3,1e-4"\n'
    put_sweep, put_ledger = _put(own / "sweep.toml"), _put(own / "trials.jsonl")
    put_result = _put(ended / "result.json")

    def sweep(data: bytes) -> object:
        put_sweep(data)
        info = read_sweep(own)
        return info.seeds, info.keys, info.goal, info.runs

    def ledger(data: bytes) -> object:
        put_sweep(toml)
        put_ledger(data)
        result = read_result(own)
        return summary(result), json.dumps(result.as_json())

    def job_result(data: bytes) -> object:
        put_result(data)
        return read_scores(ended, "score")

    result = {"env_steps": 1, "score": 2.5, "return": 2.5, "cpu_s": 0.1, "eval_episodes": 4}
    runs = [[seed, f"runs/000-seed{seed}"] for seed in range(2)]
    trial = {"event": "trial", "trial": 0, "values": {"lr": 1e-3}, "runs": runs, "confirms": False}
    events = [
        {"event": "begin", "time": "2026-01-01", "briskrl": "0.1.0"},
        trial,
        {"event": "running", "name": runs[0][1], "attempt": 1, "node": "here"},
        {"event": "done", "name": runs[0][1], "result": result},
        {"event": "failed", "name": runs[1][1], "cause": "broken"},
        {"event": "end", "reason": "finished"},
    ]
    lines = b"".join(json.dumps(event).encode() + b"\n" for event in events)
    ending = json.dumps({"job": "0123", "result": result}).encode()
    return {
        "sweep": Reader(sweep, seeds=(toml,)),
        "ledger": Reader(ledger, seeds=(lines, lines.replace(b"failed", b"done"))),
        "job-result": Reader(job_result, seeds=(ending,)),
    }


def _recording() -> bytes:
    count, slots = 2, 3
    choices = ("red_action", "red_target", "red_exploit", "detected", "esc_pick", "green_target")
    arrays = {name: np.full((count, slots), -2, np.int8) for name in choices}
    arrays |= {
        "length": np.full(count, slots, np.int64),
        "red_agent": np.zeros(count, np.int64),
        "blue_action": np.ones((count, slots), np.int64),
        "obs": np.zeros((count, slots + 1, 52), np.float32),
        "reward": np.zeros((count, slots), np.float32),
    }
    return _tensor_bytes(arrays)


def _tensor_bytes(arrays: Any) -> bytes:
    from safetensors.numpy import save

    return save({name: np.ascontiguousarray(array) for name, array in arrays.items()})


Make = Callable[[Path, Path], dict[str, Reader]]
GROUPS: dict[tuple[str, ...], Make] = {
    ("manifest", "manifest-signed", "state", "latest"): _checkpoint_readers,
    ("safetensors", "replay-chunk", "rollout-chunk"): _array_readers,
    ("env-snake",): lambda folder, run: _env_reader("snake"),
    ("env-cage2",): lambda folder, run: _env_reader("cage2"),
    ("env-cartpole",): lambda folder, run: _env_reader("cartpole"),
    ("env-wildfire",): lambda folder, run: _env_reader("wildfire"),
    ("policy", "policy-weights", "status", "metrics", "episodes", "lock"): _run_readers,
    ("config-toml", "config-json", "config-yaml"): _config_readers,
    (
        "snapshot",
        "landscape-npz",
        "landscape-asc",
        "cage2-recording",
        "py-spy",
        "bench-ratio",
    ): _other_readers,
    ("tune-cache", "machine-profile"): _cache_readers,
    ("sweep", "ledger", "job-result"): _sweep_readers,
}
NAMES = tuple(name for group in GROUPS for name in group)
"""All readers."""
EXPOSED = (
    *("manifest-signed", "state", "safetensors", "policy", "policy-weights", "manifest"),
    *("config-toml", "config-json", "config-yaml", "replay-chunk", "rollout-chunk", "latest"),
)
BY_EXPOSURE = (*EXPOSED, *(name for name in NAMES if name not in EXPOSED))
"""First those of files that are passed around: checkpoints, policies and configs."""
