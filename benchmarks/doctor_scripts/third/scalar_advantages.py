"""PPO on CartPole whose advantages are computed number by number with tensors.

`--fixed` computes them for all environments at once in NumPy.
"""

import gymnasium as gym
import numpy as np
import torch
from started import finish, parse
from torch import nn

ENVS, LENGTH, GAMMA, LAMBDA = 8, 128, 0.99, 0.95


def advantages_by_number(rewards, values, ends):
    found = torch.zeros(LENGTH, ENVS)
    for env in range(ENVS):
        carried = torch.tensor(0.0)
        for t in reversed(range(LENGTH)):
            alive = 1.0 - ends[t, env].float()
            error = rewards[t, env] + GAMMA * values[t + 1, env] * alive - values[t, env]
            carried = error + GAMMA * LAMBDA * alive * carried
            found[t, env] = carried
    return found


def advantages_at_once(rewards, values, ends):
    rewards, values, alive = rewards.numpy(), values.numpy(), 1.0 - ends.float().numpy()
    found, carried = np.zeros((LENGTH, ENVS), np.float32), np.zeros(ENVS, np.float32)
    for t in reversed(range(LENGTH)):
        error = rewards[t] + GAMMA * values[t + 1] * alive[t] - values[t]
        carried = found[t] = error + GAMMA * LAMBDA * alive[t] * carried
    return torch.from_numpy(found)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
        self.critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))

    def value(self, obs):
        return self.critic(obs)[..., 0]


def main():
    args, begin = parse(steps=60_000)
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    envs = gym.make_vec("CartPole-v1", ENVS, vectorization_mode="vector_entry_point")
    agent = ActorCritic()
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-3)
    estimate = advantages_at_once if args.fixed else advantages_by_number
    obs = torch.from_numpy(envs.reset(seed=args.seed)[0])
    rounds = args.steps // (ENVS * LENGTH)
    for _ in range(rounds):
        seen = torch.zeros(LENGTH + 1, ENVS, 4)
        chosen = torch.zeros(LENGTH, ENVS, dtype=torch.long)
        rewards, ends = torch.zeros(LENGTH, ENVS), torch.zeros(LENGTH, ENVS, dtype=torch.bool)
        for t in range(LENGTH):
            seen[t] = obs
            with torch.no_grad():
                chosen[t] = torch.multinomial(agent.actor(obs).softmax(1), 1)[:, 0]
            following, reward, ended, _, _ = envs.step(chosen[t].numpy())
            rewards[t], ends[t] = torch.from_numpy(reward), torch.from_numpy(ended)
            obs = torch.from_numpy(following)
        seen[LENGTH] = obs
        with torch.no_grad():
            values = agent.value(seen)
            advantages = estimate(rewards, values, ends)
            old = agent.actor(seen[:-1]).log_softmax(2).gather(2, chosen[..., None]).flatten()
        returns = (advantages + values[:-1]).flatten()
        advantages = advantages.flatten()
        inputs, actions = seen[:-1].flatten(0, 1), chosen.flatten()
        for _ in range(4):
            for rows in torch.randperm(ENVS * LENGTH).split(256):
                log_probs = agent.actor(inputs[rows]).log_softmax(1)
                ratio = (log_probs.gather(1, actions[rows, None])[:, 0] - old[rows]).exp()
                weight = advantages[rows]
                gain = torch.minimum(ratio * weight, ratio.clamp(0.8, 1.2) * weight).mean()
                loss = (agent.value(inputs[rows]) - returns[rows]).square().mean() - gain
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    finish(rounds * ENVS * LENGTH, begin)


if __name__ == "__main__":
    main()
