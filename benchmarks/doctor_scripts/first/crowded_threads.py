"""DQN on 16 CartPoles with sixteen threads for small matrices. `--fixed`: one thread."""

import time

import torch
from arguments import parse_args
from cartpoles import make_cartpoles
from dqn import DQNAgent
from replay import ReplayBuffer


def train(args):
    torch.manual_seed(args.seed)
    torch.set_num_threads(1 if args.fixed else 16)
    envs = make_cartpoles(16)
    agent, buffer = DQNAgent(4, 2, hidden=(256, 256)), ReplayBuffer(50_000, 4)
    obs, _ = envs.reset(seed=args.seed)
    start = time.time()
    for step in range(0, args.steps, 16):
        actions = agent.act(torch.from_numpy(obs)).numpy()
        next_obs, rewards, terminated, truncated, _ = envs.step(actions)
        buffer.push_batch(obs, actions, rewards, next_obs, terminated)
        obs = next_obs.copy()
        if step > 1_000:
            agent.update(*buffer.sample(256))
    print(f"{args.steps} steps in {time.time() - start:.2f} s")


if __name__ == "__main__":
    train(parse_args(__doc__, steps=40_000))
