"""DQN on 16 CartPoles that samples from a long deque of tuples. `--fixed`: from arrays."""

import random
import time

import torch
from arguments import parse_args
from cartpoles import make_cartpoles
from dqn import DQNAgent
from replay import DequeBuffer, ReplayBuffer

CAPACITY, WARM_UP = 100_000, 60_000


def main():
    args = parse_args(__doc__, steps=100_000)
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    envs = make_cartpoles(16)
    agent = DQNAgent(4, 2)
    buffer = ReplayBuffer(CAPACITY, 4) if args.fixed else DequeBuffer(CAPACITY)
    obs, _ = envs.reset(seed=args.seed)
    start, counted = time.time(), 0
    for step in range(0, WARM_UP + args.steps, 16):
        actions = agent.act(torch.from_numpy(obs)).numpy()
        next_obs, rewards, terminated, truncated, _ = envs.step(actions)
        if args.fixed:
            buffer.push_batch(obs, actions, rewards, next_obs, terminated)
        else:
            for row in zip(obs, actions, rewards, next_obs.copy(), terminated, strict=True):
                buffer.push(*row)
        obs = next_obs.copy()
        if step == WARM_UP:
            start = time.time()
        if step >= WARM_UP:
            agent.update(*buffer.sample(128))
            counted += 16
    print(f"{counted} steps in {time.time() - start:.2f} s")


if __name__ == "__main__":
    main()
