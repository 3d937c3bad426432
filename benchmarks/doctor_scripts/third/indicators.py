"""Actor-critic on a price series whose indicators are computed anew from all prices at every step.

`--fixed` keeps running averages.
"""

import math
import random

import torch
from started import finish, parse
from torch import nn

RATES = (0.5, 0.1, 0.02)


class Exchange:
    """A price that never ends; observations are averages over the past and the last changes."""

    def __init__(self, seed, fixed):
        self.random, self.fixed = random.Random(seed), fixed
        self.prices = [100.0]
        self.averages = [100.0] * len(RATES)
        self.position = 0

    def smooth(self, rate):
        """Exponential average over the whole history."""
        mean = self.prices[0]
        for price in self.prices:
            mean += rate * (price - mean)
        return mean

    def observe(self):
        last = self.prices[-1]
        if self.fixed:
            for at, rate in enumerate(RATES):
                self.averages[at] += rate * (last - self.averages[at])
            means = self.averages
        else:
            means = [self.smooth(rate) for rate in RATES]
        return [(last - mean) / 10 for mean in means] + [float(self.position)]

    def step(self, action):
        pull = 0.02 * (100 - self.prices[-1]) + math.sin(len(self.prices) / 20)
        before = self.prices[-1]
        self.prices.append(before + pull + self.random.gauss(0, 0.5))
        self.position = action - 1
        reward = self.position * (self.prices[-1] - before)
        return self.observe(), reward, False, len(self.prices) % 500 == 0, {}


def main():
    args, begin = parse(steps=12_000)
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    market = Exchange(args.seed, args.fixed)
    body = nn.Sequential(nn.Linear(4, 48), nn.Tanh())
    policy, value = nn.Linear(48, 3), nn.Linear(48, 1)
    parameters = [p for module in (body, policy, value) for p in module.parameters()]
    optimizer = torch.optim.RMSprop(parameters, lr=1e-3)
    obs, steps = market.observe(), []
    for step in range(args.steps):
        x = torch.tensor(obs)
        with torch.no_grad():
            action = int(torch.multinomial(policy(body(x)).softmax(0), 1))
        obs, reward, _, _, _ = market.step(action)
        steps.append((x, action, reward))
        if step % 16 == 15:
            seen = torch.stack([x for x, _, _ in steps])
            hidden = body(torch.cat([seen, torch.tensor([obs])]))
            values = value(hidden)[:, 0]
            goal, goals = values[-1].detach(), []
            for _, _, earned in reversed(steps):
                goal = earned + 0.95 * goal
                goals.append(goal)
            gap = torch.stack(goals[::-1]) - values[:-1]
            log_probs = policy(hidden[:-1]).log_softmax(1)
            chosen = log_probs[torch.arange(16), torch.tensor([a for _, a, _ in steps])]
            optimizer.zero_grad()
            (gap.square() - gap.detach() * chosen).mean().backward()
            optimizer.step()
            steps.clear()
    finish(args.steps, begin)


if __name__ == "__main__":
    main()
