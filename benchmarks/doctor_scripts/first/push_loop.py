"""DQN on 64 CartPoles that stores transitions one by one. `--fixed`: one write per vector step."""

import time

import torch
from arguments import parse_args
from cartpoles import make_cartpoles
from dqn import DQNAgent
from replay import ReplayBuffer


def store(buffer, obs, actions, rewards, next_obs, dones):
    for i in range(len(actions)):
        buffer.push(
            obs[i].cpu().numpy(),
            actions[i].item(),
            rewards[i].item(),
            next_obs[i].cpu().numpy(),
            dones[i].item(),
        )


def store_batch(buffer, *columns):
    buffer.push_batch(*(column.cpu().numpy() for column in columns))


def main():
    args = parse_args(__doc__, steps=400_000)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    num_envs = 64
    envs = make_cartpoles(num_envs)
    agent, buffer = DQNAgent(4, 2), ReplayBuffer(50_000, 4)
    put = store_batch if args.fixed else store
    obs = torch.from_numpy(envs.reset(seed=args.seed)[0])
    start = time.time()
    for step in range(0, args.steps, num_envs):
        actions = agent.act(obs)
        next_obs, rewards, terminated, truncated, _ = envs.step(actions.numpy())
        next_obs = torch.from_numpy(next_obs.copy())
        put(buffer, obs, actions, torch.tensor(rewards), next_obs, torch.tensor(terminated))
        obs = next_obs
        if step > 1000:
            agent.update(*buffer.sample(128))
    print(f"{args.steps} steps in {time.time() - start:.2f} s")


if __name__ == "__main__":
    main()
