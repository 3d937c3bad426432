"""An actor-critic in NumPy for 32 pendulums that are simulated together."""

import argparse
import time

import numpy as np


class Pendulums:
    """Swing up by three torques; the observation is (cos, sin, speed)."""

    def __init__(self, num_envs, rng):
        self.num_envs, self.rng = num_envs, rng

    def reset(self):
        self.angle = self.rng.uniform(-np.pi, np.pi, self.num_envs)
        self.speed = self.rng.uniform(-1, 1, self.num_envs)
        self.age = self.rng.integers(0, 200, self.num_envs)
        return self.observe()

    def step(self, actions):
        torque = 2.0 * (actions - 1)
        cost = self.angle**2 + 0.1 * self.speed**2 + 0.001 * torque**2
        self.speed = np.clip(self.speed + 0.05 * (15 * np.sin(self.angle) + 3 * torque), -8, 8)
        self.angle = (self.angle + 0.05 * self.speed + np.pi) % (2 * np.pi) - np.pi
        self.age += 1
        over = self.age >= 200
        if over.any():
            self.angle[over] = self.rng.uniform(-np.pi, np.pi, over.sum())
            self.speed[over] = 0
            self.age[over] = 0
        return self.observe(), -0.1 * cost, over

    def observe(self):
        return np.stack([np.cos(self.angle), np.sin(self.angle), self.speed / 8], axis=1)


class ActorCritic:
    """One hidden layer, a head for the policy and one for the value; plain gradient steps."""

    def __init__(self, rng, inputs=3, hidden=128, actions=3):
        self.w1 = rng.normal(0, 0.5, (inputs, hidden))
        self.b1 = np.zeros(hidden)
        self.policy = rng.normal(0, 0.01, (hidden, actions))
        self.value = np.zeros(hidden)

    def forward(self, obs):
        hidden = np.tanh(obs @ self.w1 + self.b1)
        logits = hidden @ self.policy
        probs = np.exp(logits - logits.max(1, keepdims=True))
        return hidden, probs / probs.sum(1, keepdims=True), hidden @ self.value

    def update(self, obs, actions, returns, lr):
        hidden, probs, values = self.forward(obs)
        advantage = returns - values
        d_logits = probs.copy()
        d_logits[np.arange(len(obs)), actions] -= 1
        d_logits *= advantage[:, None] / len(obs)
        d_values = -advantage / len(obs)
        d_hidden = d_logits @ self.policy.T + d_values[:, None] * self.value
        d_hidden *= 1 - hidden**2
        self.policy -= lr * hidden.T @ d_logits
        self.value -= lr * hidden.T @ d_values
        self.w1 -= lr * obs.T @ d_hidden
        self.b1 -= lr * d_hidden.sum(0)


def train(steps, seed, num_envs=32, horizon=16, gamma=0.97, lr=0.02):
    rng = np.random.default_rng(seed)
    envs, model = Pendulums(num_envs, rng), ActorCritic(rng)
    start = time.perf_counter()
    obs = envs.reset()
    done_steps, recent = 0, -1.0
    while done_steps < steps:
        seen, taken, earned = [], [], []
        for _ in range(horizon):
            _, probs, _ = model.forward(obs)
            actions = (probs.cumsum(1) < rng.random((num_envs, 1))).sum(1).clip(max=2)
            seen.append(obs)
            taken.append(actions)
            obs, rewards, _ = envs.step(actions)
            earned.append(rewards)
            done_steps += num_envs
        returns = model.forward(obs)[2]
        targets = []
        for rewards in reversed(earned):
            returns = rewards + gamma * returns
            targets.append(returns)
        targets.reverse()
        model.update(np.concatenate(seen), np.concatenate(taken), np.concatenate(targets), lr)
        recent = 0.99 * recent + 0.01 * float(np.mean(earned))
    seconds = time.perf_counter() - start
    print(f"mean reward {recent:.3f}")
    print(f"{done_steps} steps in {seconds:.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3_000_000)
    parser.add_argument("--seed", type=int, default=0)
    train(**vars(parser.parse_args()))
