"""Fitted Q on a fridge controller whose experience is appended to an array with `np.concatenate`.

Every row copies all earlier ones. `--fixed` writes into an array of the final size.
"""

import numpy as np
import torch
from options import Stopwatch, from_command_line
from torch import nn


class Fridge:
    """Keep six compartments cold with one compressor, while doors open at random."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.warmth = self.rng.uniform(2, 8, 6)
        self.on, self.minutes = 0, 0
        return self._measure()

    def step(self, action):
        switched = action != self.on
        self.on = action
        self.warmth += 0.05 * (20 - self.warmth) / 10 - 0.3 * self.on
        self.warmth[self.rng.random(6) < 0.02] += 1.5
        self.minutes += 1
        cost = np.abs(self.warmth - 5).mean() + 0.2 * self.on + 0.5 * switched
        return self._measure(), -float(cost), False, self.minutes >= 600, {}

    def _measure(self):
        return np.append(self.warmth / 10, self.on).astype(np.float32)


class Experience:
    """Rows of (state, action, reward, next state)."""

    def __init__(self, room):
        self.rows = np.zeros((room, 16), np.float32)
        self.count = 0

    def extend(self, row):
        if self.count == len(self.rows):
            self.rows = np.concatenate([self.rows, row[None]])
        else:
            self.rows[self.count] = row
        self.count += 1


def main():
    options = from_command_line(steps=15_000)
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    fridge = Fridge(options.seed)
    experience = Experience(room=options.steps if options.fixed else 0)
    model = nn.Sequential(nn.Linear(7, 64), nn.SiLU(), nn.Linear(64, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    state, watch = fridge.reset(), Stopwatch()
    for step in range(options.steps):
        with torch.inference_mode():
            action = int(model(torch.from_numpy(state)).argmax())
        if rng.random() < 0.1:
            action = int(rng.integers(2))
        following, reward, _, over, _ = fridge.step(action)
        experience.extend(np.concatenate([state, following, (action, reward)], dtype=np.float32))
        state = fridge.reset() if over else following
        if step % 20 == 19:
            rows = torch.from_numpy(experience.rows[rng.integers(0, experience.count, 256)])
            with torch.no_grad():
                goal = rows[:, 15] + 0.95 * model(rows[:, 7:14]).amax(1)
            guess = model(rows[:, :7]).gather(1, rows[:, 14:15].long())
            loss = torch.nn.functional.l1_loss(guess, goal[:, None])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    watch.report(options.steps)


if __name__ == "__main__":
    main()
