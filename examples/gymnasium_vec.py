"""Use the compiled environments in a trainer of your own, through Gymnasium's vector interface.

A small REINFORCE in NumPy learns CartPole: 256 environments step in one compiled call.
Run it with: python examples/gymnasium_vec.py
"""

from __future__ import annotations

import gymnasium
import numpy as np

import briskrl


def main(iterations: int = 150, num_envs: int = 256, horizon: int = 64) -> float:
    """Train a linear softmax policy; returns the mean episode length at the end."""
    briskrl.register_envs()
    envs = gymnasium.make_vec("briskrl/CartPole-v1", num_envs=num_envs)
    rng = np.random.default_rng(0)
    weights = np.zeros((5, 2))
    obs, _ = envs.reset(seed=0)
    lengths: list[float] = []
    for iteration in range(iterations):
        inputs = np.empty((horizon, num_envs, 5))
        grads = np.empty((horizon, num_envs, 2))
        ended = np.empty((horizon, num_envs), bool)
        for t in range(horizon):
            inputs[t, :, :4], inputs[t, :, 4] = obs, 1.0
            logits = inputs[t] @ weights
            probs = np.exp(logits - logits.max(1, keepdims=True))
            probs /= probs.sum(1, keepdims=True)
            actions = (rng.random(num_envs) < probs[:, 1]).astype(np.int64)
            grads[t] = -probs
            grads[t, np.arange(num_envs), actions] += 1.0
            obs, _, terminated, truncated, infos = envs.step(actions)
            ended[t] = terminated | truncated
            if ended[t].any():
                lengths += infos["episode_steps"][ended[t]].tolist()
        returns = _returns(ended)
        advantages = (returns - returns.mean()) / (returns.std() + 1e-8)
        weights += (
            2.0 * np.einsum("tni,tna->ia", inputs, grads * advantages[..., None]) / returns.size
        )
        if iteration % 25 == 24:
            print(f"iteration {iteration + 1}: {np.mean(lengths[-200:]):.0f} steps per episode")
    envs.close()
    return float(np.mean(lengths[-200:]))


def _returns(ended: np.ndarray, gamma: float = 0.97) -> np.ndarray:
    """Discounted returns of a reward of 1 per step, up to the end of the episode or the rollout."""
    returns = np.ones(ended.shape)
    for t in reversed(range(len(ended) - 1)):
        returns[t] += gamma * np.where(ended[t], 0.0, returns[t + 1])
    return returns


if __name__ == "__main__":
    main()
