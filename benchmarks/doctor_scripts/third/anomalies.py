"""REINFORCE on CartPole with the anomaly detection of autograd left on.

`--fixed` leaves it off.
"""

import gymnasium as gym
import torch
from started import finish, parse
from torch import nn

NUM_ENVS, LENGTH = 16, 32


def rollout(envs, policy, obs):
    log_probs, rewards, alive = [], [], []
    for _ in range(LENGTH):
        scores = policy(obs).log_softmax(1)
        actions = torch.multinomial(scores.detach().exp(), 1)
        log_probs.append(scores.gather(1, actions)[:, 0])
        following, reward, ended, _, _ = envs.step(actions[:, 0].numpy())
        rewards.append(torch.from_numpy(reward).float())
        alive.append(1 - torch.from_numpy(ended).float())
        obs = torch.from_numpy(following)
    return obs, log_probs, rewards, alive


def main():
    args, begin = parse(steps=50_000)
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    if not args.fixed:
        torch.autograd.set_detect_anomaly(True)
    envs = gym.make_vec("CartPole-v1", NUM_ENVS, vectorization_mode="vector_entry_point")
    policy = nn.Sequential(
        nn.Linear(4, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 64), nn.GELU(),
        nn.Linear(64, 2),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3)
    obs = torch.from_numpy(envs.reset(seed=args.seed)[0])
    rounds = args.steps // (NUM_ENVS * LENGTH)
    for _ in range(rounds):
        obs, log_probs, rewards, alive = rollout(envs, policy, obs)
        carried, loss = torch.zeros(NUM_ENVS), torch.zeros(())
        for log_prob, reward, on in zip(*map(reversed, (log_probs, rewards, alive)), strict=True):
            carried = reward + 0.98 * carried * on
            loss = loss - (log_prob * (carried - carried.mean())).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    finish(rounds * NUM_ENVS * LENGTH, begin)


if __name__ == "__main__":
    main()
