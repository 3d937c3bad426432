"""Command line and stopwatch of the scripts in this folder."""

import sys
import time
from dataclasses import dataclass


@dataclass
class Options:
    steps: int
    seed: int = 0
    fixed: bool = False


def from_command_line(**defaults):
    """Reads `--steps N --seed N --fixed`."""
    options = Options(**defaults)
    words = iter(sys.argv[1:])
    for word in words:
        name = word.lstrip("-")
        if name == "fixed":
            options.fixed = True
        elif name in ("steps", "seed"):
            setattr(options, name, int(next(words)))
        else:
            sys.exit(f"Unknown option {word}; there are --steps, --seed and --fixed.")
    return options


class Stopwatch:
    def __init__(self):
        self.began = time.perf_counter()

    def report(self, steps):
        print(f"{steps} steps in {time.perf_counter() - self.began:.2f} s")
