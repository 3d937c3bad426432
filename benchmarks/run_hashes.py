"""Compare the training results of two versions bit by bit.

Trains a set of short runs with one installed version and records hashes of everything they leave
behind: policy, checkpoint arrays, metrics (without times) and episodes. Then trains the same runs
with another version and compares.

    python benchmarks/run_hashes.py record OLD/.venv/bin/brisk hashes.json
    python benchmarks/run_hashes.py compare NEW/.venv/bin/brisk hashes.json
    python benchmarks/run_hashes.py compare NEW/.venv/bin/brisk hashes.json c51-gym-fused

Results depend on the processor and on the versions of torch, NumPy and Numba, so both commands must
run on the same machine. Compiled kernels are cached; the first run of a version takes longer.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from safetensors.numpy import load_file

Hashes = dict[str, str]

SEED = 5
TIME_COLUMNS = {
    "wall_s",
    "cpu_s",
    "steps_per_s",
    "achieved_gflops",
    "machine_fraction",
    "machine_gflops",
    "eta_s",
}
CHECKPOINT_PARTS = ("model", "optim", "collector", "memory")

CONFIGS = {
    "curriculum": """
env = "snake"
algo = "ppo"
steps = 200_000
num_envs = 128
[env_config]
obs = "extended"
[[curriculum]]
env = { height = 5, width = 5 }
until = "steps"
value = 60_000
[[curriculum]]
env = { height = 7, width = 7 }
until = "score"
value = 2.0
window = 100
""",
    "wildfire": """
env = "wildfire"
algo = "ppo"
num_envs = 16
steps = 3_000
[env_config]
landscapes = 8
height = 12
width = 12
obs_channels = ["treated", "legal", "budget", "rate", "burn_prob", "downstream"]
obs_fires = 32
n_fires = 8
teacher_fires = 32
[algo_config]
pretrain_from = "dpv-iterative"
pretrain_steps = 40
update_steps = 20
minibatch_size = 80
epochs = 2
body = "fcn"
shared = true
""",
}
"""Config files, for settings that have no flag."""

_SNAKE = "snake --num-envs 64 --steps 60000"
_WILDFIRE = "wildfire --algo double-dqn --height 10 --width 10"
RUNS = {
    "dqn-snake-fused": f"{_SNAKE} --algo dqn --engine fused",
    "dqn-snake-torch": f"{_SNAKE} --algo dqn --engine torch",
    "double-snake-fused-overlap": f"{_SNAKE} --algo double-dqn --engine fused --overlap",
    "dqn-snake-fused-overlap": (
        f"{_SNAKE} --algo dqn --engine fused --overlap --train-steps-ratio 0.125"
    ),
    "per-cartpole-fused": "cartpole --algo per-dqn --engine fused --steps 60000 --num-envs 64",
    "per-snake-overlap": f"{_SNAKE} --algo per-dqn --engine fused --overlap",
    "per-snake-torch": f"{_SNAKE} --algo per-dqn --engine torch --steps 30000",
    "noisy-cage2-fused": "cage2 --algo noisy-dqn --engine fused --steps 40000 --num-envs 64",
    "c51-gym-fused": "gym:CartPole-v1 --algo c51 --engine fused --steps 30000 --num-envs 16",
    "c51-snake-torch": f"{_SNAKE} --algo c51 --engine torch --steps 25000",
    "rainbow-snake-fused": f"{_SNAKE} --algo rainbow --obs flood --engine fused",
    "rainbow-snake-torch": f"{_SNAKE} --algo rainbow --obs flood --engine torch --steps 20000",
    "rainbow-overlap-cage2": (
        "cage2 --algo rainbow --engine fused --overlap --steps 40000 --num-envs 64"
    ),
    "dueling-nstep": (
        "cartpole --algo nstep-dqn --dueling --double --engine fused --steps 60000 --num-envs 64"
    ),
    "dqn-grid-cnn": (
        "snake --obs grid --algo double-dqn --height 6 --width 6 --steps 12000 --num-envs 32 "
        "--learning-starts 2000"
    ),
    "ppo-snake-fused-1": "snake --algo ppo --engine fused --steps 300000 --num-envs 128",
    "ppo-snake-fused-2": (
        "snake --algo ppo --engine fused --steps 300000 --num-envs 128 --threads 2"
    ),
    "ppo-snake-torch": "snake --algo ppo --engine torch --steps 150000 --num-envs 128",
    "ppo-gym-fused": "gym:CartPole-v1 --algo ppo --engine fused --steps 200000 --num-envs 64",
    "ppo-gym-process": (
        "gym:CartPole-v1 --algo ppo --engine fused --steps 30000 --num-envs 8 --backend process"
    ),
    "ppo-gym-pendulum": ("gym:Pendulum-v1 --algo ppo --steps 30000 --num-envs 16 --normalize-obs"),
    "ppo-cage2-masks": (
        "cage2 --algo ppo --engine fused --steps 200000 --num-envs 128 --threads 2"
    ),
    "ppo-wildfire-fcn-pretrain": "--config {wildfire}",
    "dqn-wildfire": f"{_WILDFIRE} --steps 12000 --num-envs 32 --learning-starts 2000",
    "a2c-cartpole-fused": "cartpole --algo a2c --engine fused --steps 60000 --num-envs 64",
    "a2c-snake-torch-2": (
        "snake --algo a2c --engine torch --steps 30000 --num-envs 64 --threads 2"
    ),
    "reinforce-cartpole": "cartpole --algo reinforce --engine fused --steps 100000 --num-envs 64",
    "reinforce-snake-torch": "snake --algo reinforce --engine torch --steps 40000 --num-envs 64",
    "ppo-reuse-fused": ("snake --algo ppo --engine fused --reuse 2 --steps 300000 --num-envs 128"),
    "ppo-reuse-torch": (
        "cartpole --algo ppo --engine torch --reuse 2 --steps 150000 --num-envs 128"
    ),
    "curriculum": "--config {curriculum}",
    "dqn-pretrain": (
        f"{_WILDFIRE} --steps 6000 --num-envs 16 --learning-starts 1000 "
        "--pretrain-from dpv-iterative --pretrain-transitions 1000 --pretrain-steps 60"
    ),
    "dqn-snake-2threads": f"{_SNAKE} --algo dqn --engine fused --threads 2",
    "snake-mirror-masks": f"{_SNAKE} --algo dqn --engine fused --masks --mirror",
    "ppo-cage2-green": (
        "cage2 --algo ppo --engine fused --steps 100000 --num-envs 64 --green --scan-memory "
        "--edition competition"
    ),
}
"""Arguments of `brisk train` by name; a flag given twice takes its last value."""


def hash_bytes(data: bytes) -> str:
    """A short hash."""
    return hashlib.blake2b(data, digest_size=12).hexdigest()


def hash_arrays(path: Path) -> str:
    """Hash of all arrays of a safetensors file by type, shape and content, whatever their names."""
    rows = sorted(
        (str(array.dtype), str(array.shape), hash_bytes(array.tobytes()))
        for array in load_file(path).values()
    )
    return hash_bytes(json.dumps(rows).encode())


def hash_metrics(path: Path) -> str:
    """Hash of a metrics file without its time columns."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [{key: row[key] for key in row if key not in TIME_COLUMNS} for row in rows]
    return hash_bytes(json.dumps(kept, sort_keys=True).encode())


def hash_run(folder: Path) -> Hashes:
    """Hashes of a finished run folder."""
    hashes = {"model": hash_bytes((folder / "policy" / "model.safetensors").read_bytes())}
    checkpoints = folder / "checkpoints"
    latest = checkpoints / (checkpoints / "LATEST").read_text().strip()
    for part in CHECKPOINT_PARTS:
        path = latest / f"{part}.safetensors"
        if path.exists():
            hashes[f"ckpt_{part}"] = hash_arrays(path)
    hashes["metrics"] = hash_metrics(folder / "metrics.jsonl")
    hashes["episodes"] = hash_bytes((folder / "episodes.csv").read_bytes())
    return hashes


def train(brisk: str, arguments: str) -> Hashes:
    """Train one run; returns its hashes, or the error message under "error"."""
    with TemporaryDirectory(prefix="run-hashes-") as name:
        root = Path(name)
        paths = {config: root / f"{config}.toml" for config in CONFIGS}
        for config, path in paths.items():
            path.write_text(CONFIGS[config])
        command = [brisk, "train", *arguments.format(**paths).split(), "--seed", str(SEED)]
        # Rows of metrics are written by time, so only the last one is comparable.
        command += ["--run-dir", str(root / "run"), "--log-seconds", "100000", "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return {"error": done.stderr[-600:]}
        return hash_run(root / "run")


def record(brisk: str, file: Path, names: list[str]) -> int:
    """Train the runs and write their hashes; returns the exit code."""
    hashes = json.loads(file.read_text()) if file.exists() else {}
    for name in names:
        hashes[name] = train(brisk, RUNS[name])
        file.write_text(json.dumps(hashes, indent=1))
        print(name, hashes[name].get("error", "recorded"), flush=True)
    return int(any("error" in hashes[name] for name in names))


def compare(brisk: str, file: Path, names: list[str]) -> int:
    """Train the runs and compare their hashes; returns the exit code."""
    expected = json.loads(file.read_text())
    identical = 0
    for name in names:
        found = train(brisk, RUNS[name])
        different = [key for key in expected[name] if found.get(key) != expected[name][key]]
        identical += not different
        result = f"DIFFERENT: {', '.join(different)}" if different else "identical"
        print(name, result, found.get("error", ""), flush=True)
    print(f"{identical} of {len(names)} identical")
    return int(identical < len(names))


def main() -> int:
    """Parse the arguments and run one of the two commands."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("record", "compare"))
    parser.add_argument("brisk", metavar="BRISK", help="the brisk executable of a version")
    parser.add_argument("file", metavar="FILE", type=Path, help="JSON file with the hashes")
    parser.add_argument("names", metavar="RUN", nargs="*", help=f"runs: {', '.join(RUNS)}")
    args = parser.parse_args()
    unknown = sorted(set(args.names) - set(RUNS))
    if unknown:
        parser.error(f"unknown run {unknown[0]!r}")
    if args.command == "record":
        return record(args.brisk, args.file, args.names or list(RUNS))
    known = json.loads(args.file.read_text())
    return compare(args.brisk, args.file, args.names or [name for name in RUNS if name in known])


if __name__ == "__main__":
    sys.exit(main())
