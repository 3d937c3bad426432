"""Small training scripts for tests; they need nothing but the standard library."""

from __future__ import annotations

import textwrap
from pathlib import Path

WORLD = """
class World:
    def __init__(self):
        self.at = 0

    def step(self, action):
        self.at += 1
        total = 0
        for cell in range(300):
            total += cell * action
        return self.at, 1.0, self.at % 10 == 0
"""


def write(folder: Path, text: str, name: str = "train.py") -> Path:
    """Write a script that begins with a small environment."""
    path = folder / name
    path.write_text(textwrap.dedent(WORLD) + textwrap.dedent(text))
    return path


LOOP = """
import sys, time

def choose(obs):
    return sum(range(100)) % 2

def main(seconds):
    world, obs, steps = World(), 0, 0
    end = time.time() + seconds
    while time.time() < end:
        obs, reward, done = world.step(choose(obs))
        steps += 1
    print("steps", steps, flush=True)

if __name__ == "__main__":
    main(float(sys.argv[1]))
    sys.exit(int(sys.argv[2]))
"""
"""Steps for some seconds, prints the number of steps, ends with an exit code."""
