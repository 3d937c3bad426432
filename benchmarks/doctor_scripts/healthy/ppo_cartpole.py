"""PPO on CartPole in one file: eight environments, rollouts of 128 steps, minibatches of 256."""

import argparse
import time

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical

NUM_STEPS, MINIBATCH, EPOCHS = 128, 256, 4
GAMMA, GAE_LAMBDA, CLIP = 0.99, 0.95, 0.2


def layer_init(layer, std=np.sqrt(2)):
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, 0.0)
    return layer


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(
            layer_init(nn.Linear(4, 64)), nn.Tanh(),
            layer_init(nn.Linear(64, 64)), nn.Tanh(),
            layer_init(nn.Linear(64, 1), std=1.0),
        )  # fmt: skip
        self.actor = nn.Sequential(
            layer_init(nn.Linear(4, 64)), nn.Tanh(),
            layer_init(nn.Linear(64, 64)), nn.Tanh(),
            layer_init(nn.Linear(64, 2), std=0.01),
        )  # fmt: skip

    def get_value(self, x):
        return self.critic(x).flatten()

    def get_action_and_value(self, x, action=None):
        distribution = Categorical(logits=self.actor(x))
        if action is None:
            action = distribution.sample()
        return action, distribution.log_prob(action), distribution.entropy(), self.get_value(x)


def advantages_of(rewards, values, ends, last_value):
    advantages = torch.zeros_like(rewards)
    carried = torch.zeros_like(last_value)
    for t in reversed(range(len(rewards))):
        going = 1.0 - ends[t]
        next_value = last_value if t == len(rewards) - 1 else values[t + 1]
        delta = rewards[t] + GAMMA * next_value * going - values[t]
        carried = delta + GAMMA * GAE_LAMBDA * going * carried
        advantages[t] = carried
    return advantages


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--num-envs", type=int, default=8)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    envs = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(args.num_envs)])
    agent = Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)

    shape = (NUM_STEPS, args.num_envs)
    obs = torch.zeros((*shape, 4))
    actions = torch.zeros(shape)
    logprobs, rewards, ends, values = (torch.zeros(shape) for _ in range(4))

    start_time = time.time()
    next_obs = torch.Tensor(envs.reset(seed=args.seed)[0])
    global_step = episodes = 0
    for iteration in range(1, args.steps // (NUM_STEPS * args.num_envs) + 1):
        for t in range(NUM_STEPS):
            obs[t] = next_obs
            with torch.no_grad():
                action, logprobs[t], _, values[t] = agent.get_action_and_value(next_obs)
            actions[t] = action
            step_obs, reward, terminations, truncations, infos = envs.step(action.numpy())
            rewards[t] = torch.from_numpy(reward)
            # A lost game and one at its time limit: only the first has no future reward.
            ends[t] = torch.from_numpy(terminations)
            episodes += int((terminations | truncations).sum())
            next_obs = torch.Tensor(step_obs)
            global_step += args.num_envs

        with torch.no_grad():
            advantages = advantages_of(rewards, values, ends, agent.get_value(next_obs))
        b_obs, b_actions = obs.reshape(-1, 4), actions.flatten()
        b_logprobs, b_advantages = logprobs.flatten(), advantages.flatten()
        b_returns = (advantages + values).flatten()

        for _ in range(EPOCHS):
            for index in torch.randperm(len(b_obs)).split(MINIBATCH):
                _, logprob, entropy, value = agent.get_action_and_value(
                    b_obs[index], b_actions[index]
                )
                ratio = (logprob - b_logprobs[index]).exp()
                advantage = b_advantages[index]
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
                policy_loss = -torch.min(advantage * ratio, advantage * clipped).mean()
                value_loss = 0.5 * (value - b_returns[index]).square().mean()
                loss = policy_loss - 0.01 * entropy.mean() + 0.5 * value_loss
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()

        if iteration % 10 == 0:
            speed = global_step / (time.time() - start_time)
            print(f"global_step={global_step}, episodes={episodes}, SPS={speed:.0f}")

    envs.close()
    print(f"{global_step} steps in {time.time() - start_time:.2f} s")


if __name__ == "__main__":
    main()
