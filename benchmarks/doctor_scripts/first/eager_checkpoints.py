"""DQN on 8 CartPoles that saves network, optimizer and replay buffer whenever a game ends.

`--fixed`: every 20,000 steps.
"""

import tempfile
import time
from pathlib import Path

import torch
from arguments import parse_args
from cartpoles import make_cartpoles
from dqn import DQNAgent
from replay import ReplayBuffer


def save_checkpoint(path, agent, buffer, step):
    state = {
        "q_net": agent.q_net.state_dict(),
        "optimizer": agent.optimizer.state_dict(),
        "obs": buffer.obs,
        "next_obs": buffer.next_obs,
        "step": step,
    }
    torch.save(state, path)


def main():
    args = parse_args(__doc__, steps=30_000)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    envs = make_cartpoles(8)
    agent, buffer = DQNAgent(4, 2), ReplayBuffer(40_000, 4)
    obs, _ = envs.reset(seed=args.seed)
    with tempfile.TemporaryDirectory() as folder:
        path, start = Path(folder) / "checkpoint.pt", time.time()
        for step in range(0, args.steps, 8):
            actions = agent.act(torch.from_numpy(obs), epsilon=0.5).numpy()
            next_obs, rewards, terminated, truncated, _ = envs.step(actions)
            buffer.push_batch(obs, actions, rewards, next_obs, terminated)
            obs = next_obs.copy()
            if step >= 800:
                agent.update(*buffer.sample(64))
            if step % 20_000 == 0 if args.fixed else terminated.any():
                save_checkpoint(path, agent, buffer, step)
        seconds = time.time() - start
    print(f"{args.steps} steps in {seconds:.2f} s")


if __name__ == "__main__":
    main()
