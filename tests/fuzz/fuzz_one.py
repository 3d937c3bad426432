"""Fuzz one reader: python -m tests.fuzz.fuzz_one READER RUN CORPUS [options of libFuzzer]."""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import suppress
from inspect import isclass, isfunction
from pathlib import Path

import atheris

from tests.fuzz.audit import Guard
from tests.fuzz.readers import make_readers

# Not whole packages while they are imported: Numba cannot compile instrumented kernels.
INSTRUMENTED = (
    "briskrl.bench.ratio",
    "briskrl.cluster.run_job",
    "briskrl.cluster.run_scores",
    "briskrl.cluster.sweep.folder",
    "briskrl.cluster.sweep.ledger",
    "briskrl.cluster.sweep.outcome",
    "briskrl.cluster.sweep.run",
    "briskrl.cluster.sweep.settings",
    "briskrl.core.config",
    "briskrl.core.config_file",
    "briskrl.core.spec",
    "briskrl.core.state_checks",
    "briskrl.doctor.py_spy",
    "briskrl.envs.cage2.recording",
    "briskrl.envs.cage2.replay",
    "briskrl.envs.cage2.state_check",
    "briskrl.envs.cartpole.state_check",
    "briskrl.envs.gym.snapshot",
    "briskrl.envs.snake.state_check",
    "briskrl.envs.wildfire.files",
    "briskrl.envs.wildfire.landscape",
    "briskrl.envs.wildfire.state_check",
    "briskrl.memory.chunks",
    "briskrl.memory.rollout",
    "briskrl.memory.state_check",
    "briskrl.plots.learning",
    "briskrl.training.evaluate",
    "briskrl.training.machine_profile",
    "briskrl.training.resolve",
    "briskrl.training.storage.checkpoint",
    "briskrl.training.storage.line_files",
    "briskrl.training.storage.lock",
    "briskrl.training.storage.manifest",
    "briskrl.training.storage.policy_io",
    "briskrl.training.storage.run_dir",
    "briskrl.training.storage.safetensors_io",
    "briskrl.training.storage.strict_json",
    "briskrl.tuning.cache",
    "safetensors.numpy",
    "tomllib._parser",
    "yaml.composer",
    "yaml.constructor",
    "yaml.parser",
    "yaml.resolver",
    "yaml.scanner",
)


def instrument(name: str) -> None:
    """Let the fuzzer see which branches of a module are taken."""
    module = sys.modules.get(name)
    places = [] if module is None else [module, *filter(isclass, vars(module).values())]
    for place in places:
        for member in list(vars(place).values()):
            if isfunction(member) and member.__module__ == name:
                atheris.instrument_func(member)


def main() -> None:
    """Fuzz until libFuzzer stops the process."""
    name, run, corpus, *options = sys.argv[1:]
    # In memory where possible: a reader reads a file in every execution.
    root = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(dir=root))
    reader = make_readers(folder, Path(run), [name])[name]
    for number, seed in enumerate(reader.seeds):
        (Path(corpus) / f"seed-{number}").write_bytes(seed)
        with suppress(*reader.refusals):
            reader.read(seed)
    for module in INSTRUMENTED:
        instrument(module)
    guard = Guard(folder)

    def test_one(data: bytes) -> None:
        with guard.watched(), suppress(*reader.refusals):
            reader.read(data)

    atheris.Setup([sys.argv[0], corpus, *options], test_one)
    print(f"started after {time.process_time():.2f} s of the CPU", flush=True)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
