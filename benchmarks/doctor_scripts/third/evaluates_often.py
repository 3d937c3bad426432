"""DQN on Acrobot that plays a whole test episode every 100 steps.

`--fixed` tests it every 5,000 steps.
"""

import gymnasium as gym
import numpy as np
import torch
from started import finish, parse
from torch import nn


def greedy(network, obs):
    with torch.no_grad():
        return network(torch.from_numpy(obs)).argmax(-1).numpy()


def evaluate(network, seed):
    """Return of one episode, played greedily."""
    env = gym.make("Acrobot-v1")
    obs, _ = env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        obs, reward, terminated, truncated, _ = env.step(int(greedy(network, obs)))
        total += float(reward)
        over = terminated or truncated
    return total


def main():
    args, begin = parse(steps=4_000)
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    env = gym.make("Acrobot-v1")
    network, target = (
        nn.Sequential(nn.Linear(6, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(),
                      nn.Linear(128, 3))
        for _ in range(2)
    )  # fmt: skip
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    obs_ring, next_ring = np.zeros((2, 10_000, 6), np.float32)
    rest_ring = np.zeros((10_000, 3), np.float32)
    best, period = -500.0, 5_000 if args.fixed else 100
    obs, _ = env.reset(seed=args.seed)
    for step in range(args.steps):
        action = int(greedy(network, obs)) if rng.random() > 0.1 else int(rng.integers(3))
        following, reward, terminated, truncated, _ = env.step(action)
        at = step % 10_000
        obs_ring[at], next_ring[at], rest_ring[at] = obs, following, (action, reward, terminated)
        obs = env.reset()[0] if terminated or truncated else following
        if step > 200 and step % 4 == 0:
            rows = rng.integers(0, min(step, 10_000), 64)
            rest = torch.from_numpy(rest_ring[rows])
            with torch.no_grad():
                future = target(torch.from_numpy(next_ring[rows])).max(1).values
                goal = rest[:, 1] + 0.99 * future * (1 - rest[:, 2])
            values = network(torch.from_numpy(obs_ring[rows]))
            loss = nn.functional.mse_loss(values.gather(1, rest[:, :1].long())[:, 0], goal)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % 500 == 0:
            target.load_state_dict(network.state_dict())
        if step % period == period - 1:
            best = max(best, evaluate(network, step))
    print(f"best return {best}")
    finish(args.steps, begin)


if __name__ == "__main__":
    main()
