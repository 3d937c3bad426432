"""Outcomes of fuzzed configs: read and parsed, or started for a few steps of training."""

from __future__ import annotations

import shutil
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from briskrl.cli.train import parse_args
from briskrl.core.errors import BriskError
from briskrl.training.config import TrainConfig
from briskrl.training.loop import train
from briskrl.training.resolve import complete, load_config
from tests.chaos.config_fuzzer import ConfigFuzzer

DEADLINE_S = 600
"""Compiling a family of kernels takes a minute of CPU."""
GOOD = {"accepted", "refused", "help"}
"""Outcomes that are not a bug."""


@contextmanager
def deadline() -> Iterator[None]:
    """Fail if the block takes longer than DEADLINE_S."""

    def expire(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, expire)
    signal.alarm(DEADLINE_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcome(work: Callable[..., object], *arguments: Any) -> str:
    """`accepted`, `refused`, or the traceback of anything else."""
    try:
        with deadline():
            work(*arguments)
    except BriskError as error:
        return "refused" if str(error) else "an error without a message"
    except SystemExit:
        return "help"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return "".join(traceback.format_exception(error)[-4:])
    return "accepted"


def parse_files(count: int, folder: Path, seed: int = 1) -> Counter[str]:
    """Outcomes of reading and resolving fuzzed config files."""
    fuzzer, found = ConfigFuzzer(seed), Counter[str]()
    for _ in range(count):
        suffix, data = fuzzer.file()
        path = folder / f"fuzzed{suffix}"
        path.write_bytes(data)
        found[outcome(load_config, path)] += 1
    return found


def parse_lines(count: int, seed: int = 2) -> Counter[str]:
    """Outcomes of parsing fuzzed command lines."""
    fuzzer, found = ConfigFuzzer(seed), Counter[str]()
    for _ in range(count):
        found[outcome(parse_args, fuzzer.words())] += 1
    return found


def check(values: dict[str, Any]) -> None:
    complete(TrainConfig(**values))


def start(values: dict[str, Any], folder: Path) -> None:
    train(TrainConfig(**values, run_dir=str(folder)))
    shutil.rmtree(folder)


def accepted(fuzzer: ConfigFuzzer, engine: str = "") -> dict[str, Any]:
    """The next drawn settings that the parser accepts, with this engine if it is given."""
    while True:
        values = fuzzer.startable()
        values["engine"] = engine or values["engine"]
        if outcome(check, values) == "accepted":
            return values


def start_accepted(
    count: int, folder: Path, seed: int = 3, engine: str = ""
) -> tuple[Counter[str], list[Any]]:
    """Outcomes of a few training steps with accepted settings, and the settings that failed."""
    fuzzer, found, failed = ConfigFuzzer(seed), Counter[str](), []
    for number in range(count):
        values = accepted(fuzzer, engine)
        result = outcome(start, values, folder / str(number))
        found[result] += 1
        if result not in GOOD:
            failed.append((values, result))
    return found, failed
