"""Sarsa with eligibility traces over tile features and a step size per weight, in torch.

The second moments of unvisited features fade below the smallest normal number and stay there.
`--fixed` flushes denormals.
"""

import math

import torch
from options import Stopwatch, from_command_line

TILINGS, CELLS, ACTIONS = 16, 24, 3


class Hill:
    """A car in a valley; an episode ends at the top, or is cut after 500 steps."""

    def __init__(self, generator):
        self.generator = generator

    def reset(self):
        self.place = -0.6 + 0.2 * float(torch.rand(1, generator=self.generator))
        self.speed, self.age = 0.0, 0
        return self.place, self.speed

    def step(self, action):
        self.speed += 0.001 * (action - 1) - 0.0025 * math.cos(3 * self.place)
        self.speed = min(0.07, max(-0.07, self.speed))
        self.place = max(-1.2, self.place + self.speed)
        self.age += 1
        return (self.place, self.speed), -1.0, self.place >= 0.5, self.age >= 500


def tiles(state):
    """Index of the active cell of every tiling."""
    x = (state[0] + 1.2) / 1.8 * (CELLS - 2)
    v = (state[1] + 0.07) / 0.14 * (CELLS - 2)
    return [
        (k * CELLS + min(CELLS - 1, int(x + k / TILINGS))) * CELLS
        + min(CELLS - 1, int(v + k / TILINGS))
        for k in range(TILINGS)
    ]


def main():
    options = from_command_line(steps=60_000)
    torch.set_num_threads(1)
    if options.fixed:
        torch.set_flush_denormal(True)
    generator = torch.Generator().manual_seed(options.seed)
    hill = Hill(generator)
    size = TILINGS * CELLS * CELLS
    weights = torch.zeros(ACTIONS, size)
    traces, moments = torch.zeros(ACTIONS, size), torch.full((ACTIONS, size), 1e-4)
    watch, episodes = Stopwatch(), 0
    state = hill.reset()
    active = tiles(state)
    action = 2
    for _ in range(options.steps):
        following, reward, ended, cut = hill.step(action)
        next_active = tiles(following)
        values = weights[:, next_active].sum(1)
        best = int(values.argmax())
        if float(torch.rand(1, generator=generator)) < 0.1:
            best = int(torch.randint(ACTIONS, (1,), generator=generator))
        error = (
            reward + (0.0 if ended else float(values[best])) - float(weights[action, active].sum())
        )
        traces.mul_(0.9)
        traces[action, active] = 1.0
        gradient = error * traces
        moments.mul_(0.95).addcmul_(gradient, gradient, value=0.05)
        weights.addcdiv_(gradient, moments.sqrt().add_(1e-3), value=0.02 / TILINGS)
        if ended or cut:
            episodes += 1
            following = hill.reset()
            next_active = tiles(following)
        active, action = next_active, best
    print(f"{episodes} episodes")
    watch.report(options.steps)


if __name__ == "__main__":
    main()
