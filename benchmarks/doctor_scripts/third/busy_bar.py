"""Q-learning with a table on FrozenLake under a progress bar that is redrawn at every step.

`--fixed` redraws it every 1,000 steps.
"""

import sys

import gymnasium as gym
import numpy as np
from started import finish, parse


class Bar:
    """A progress bar with the figures of the run."""

    def __init__(self, total):
        self.total, self.done = total, 0

    def advance(self, **figures):
        self.done += 1
        filled = "#" * (40 * self.done // self.total)
        text = ", ".join(f"{name}={value:.4f}" for name, value in figures.items())
        sys.stderr.write(f"\r[{filled:<40}] {100 * self.done / self.total:5.1f}% {text}")
        sys.stderr.flush()


def main():
    args, begin = parse(steps=300_000)
    rng = np.random.default_rng(args.seed)
    env = gym.make("FrozenLake-v1", map_name="8x8")
    table = np.zeros((64, 4))
    bar = Bar(args.steps // 1000 if args.fixed else args.steps)
    state, _ = env.reset(seed=args.seed)
    wins, episodes, error = 0, 1, 0.0
    for step in range(args.steps):
        row = table[state]
        action = int(rng.integers(4)) if rng.random() < 0.2 else int(row.argmax())
        following, reward, terminated, truncated, _ = env.step(action)
        error = reward + 0.99 * table[following].max() * (not terminated) - row[action]
        row[action] += 0.1 * error
        state = following
        if terminated or truncated:
            wins, episodes = wins + int(reward > 0), episodes + 1
            state, _ = env.reset()
        if not args.fixed or step % 1000 == 999:
            bar.advance(wins=wins / episodes, error=error)
    print(file=sys.stderr)
    finish(args.steps, begin)


if __name__ == "__main__":
    main()
