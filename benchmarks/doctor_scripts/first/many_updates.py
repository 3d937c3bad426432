"""DQN on 32 CartPoles with an update per four environments after every vector step.

`--fixed`: one update per vector step.
"""

import time

import torch
from arguments import parse_args
from cartpoles import make_cartpoles
from dqn import DQNAgent
from replay import ReplayBuffer

args = parse_args(__doc__, steps=50_000)
torch.manual_seed(args.seed)
torch.set_num_threads(1)
num_envs = 32
envs = make_cartpoles(num_envs)
agent = DQNAgent(4, 2, hidden=(128, 128))
buffer = ReplayBuffer(20_000, 4)
obs, _ = envs.reset(seed=args.seed)
losses = []
start = time.time()
for step in range(0, args.steps, num_envs):
    actions = agent.act(torch.from_numpy(obs)).numpy()
    next_obs, rewards, terminated, truncated, _ = envs.step(actions)
    buffer.push_batch(obs, actions, rewards, next_obs, terminated)
    obs = next_obs.copy()
    if buffer.size < 500:
        continue
    num_updates = 1 if args.fixed else max(1, num_envs // 4)
    for _ in range(num_updates):
        loss = agent.update(*buffer.sample(64))
    losses.append(loss.item())
print(f"loss {sum(losses[-50:]) / 50:.4f}")
print(f"{args.steps} steps in {time.time() - start:.2f} s")
