"""Train PPO on an environment of your own, evaluate it, and watch one episode.

Run it with: python examples/custom_env.py
The same environment from the command line:
PYTHONPATH=examples brisk train gym:custom_env:Elevator-v0 --algo ppo --num-envs 16
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from briskrl import GymConfig, TrainConfig, evaluate, load_policy, train


class Elevator(gymnasium.Env):
    """Bring a passenger to a floor.

    Observation: own floor, passenger's floor and destination, each divided by the top floor, and
    whether the passenger is inside; float32 (4,).
    Action: 0 down, 1 up, 2 open the door.
    Reward: 1 on arrival, -0.02 per step.
    The episode terminates on arrival and is truncated after 100 steps.
    """

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, floors: int = 6) -> None:
        self.top = floors - 1
        self.floor = self.passenger = self.destination = 0
        self.inside = False

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        """Place the elevator and a passenger on random floors."""
        super().reset(seed=seed)  # seeds self.np_random
        self.floor = int(self.np_random.integers(self.top + 1))
        self.passenger, self.destination = (
            int(floor) for floor in self.np_random.choice(self.top + 1, 2, replace=False)
        )
        self.inside = False
        return self._observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Move by one floor, or let the passenger in or out."""
        arrived = False
        if action == 2:
            arrived = self.inside and self.floor == self.destination
            self.inside = self.inside or self.floor == self.passenger
        else:
            self.floor = min(self.top, max(0, self.floor + (1 if action == 1 else -1)))
        reward = 1.0 if arrived else -0.02
        return self._observe(), reward, arrived, False, {"is_success": arrived}

    def _observe(self) -> np.ndarray:
        floors = np.array([self.floor, self.passenger, self.destination]) / self.top
        return np.append(floors, self.inside).astype(np.float32)


gymnasium.register("Elevator-v0", Elevator, max_episode_steps=100)


def main(steps: int = 200_000, episodes: int = 200) -> float:
    """Train, evaluate and show an episode; returns the share of passengers that arrived."""
    result = train(
        TrainConfig(
            env="gym:Elevator-v0",
            algo="ppo",
            steps=steps,
            num_envs=16,
            env_config=GymConfig(backend="sync"),
            algo_config={"update_steps": 64, "minibatch_size": 256, "lr": 1e-3},
        )
    )
    measured = evaluate(result.run_dir, episodes=episodes)
    print(f"arrived {measured.win_rate:.0%}, {measured.mean_steps:.1f} steps per passenger")

    policy = load_policy(result.run_dir)
    env = gymnasium.make("Elevator-v0")
    obs, _ = env.reset(seed=1)
    ended = False
    while not ended:
        action = policy.act(obs)
        obs, _, terminated, truncated, _ = env.step(action)
        ended = terminated or truncated
        print(("down", "up", "door")[action], end=" ")
    print("-> arrived" if terminated else "-> gave up")
    return measured.win_rate


if __name__ == "__main__":
    main()
