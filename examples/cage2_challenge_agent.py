"""Put a trained defender behind the agent interface of the original CAGE-2 challenge.

    brisk train cage2 --algo ppo --actions reduced --scan-memory --decoy-memory full \
        --run-dir runs/defender
    brisk export runs/defender --to bundle --output defender

The challenge's evaluation calls `get_action(observation, action_space)` with the 52 bits of its
wrapper and expects the index of one of 145 actions, and calls `end_episode` between episodes. What
the network was trained to remember, the policy rebuilds itself. Copy the class and the bundle into
the challenge's folder of agents; it needs briskrl and NumPy, but neither torch nor a GPU.
"""

from __future__ import annotations

import sys

import numpy as np

from briskrl.export.runtime import load_bundle


class TrainedDefender:
    """A blue agent with the methods of the challenge's BaseAgent."""

    def __init__(self, bundle: str) -> None:
        self.policy = load_bundle(bundle)

    def get_action(self, observation, action_space=None) -> int:
        """The index of the next action for the 52 bits of the challenge's wrapper."""
        return self.policy.act(observation)

    def end_episode(self) -> None:
        """Forget the episode."""
        self.policy.reset()

    def set_initial_values(self, action_space, observation=None) -> None:
        """Begin anew; called before the first episode."""
        self.policy.reset()

    def train(self, results) -> None:
        """Do nothing: the defender is trained already."""


def main(bundle: str, steps: int = 5) -> list[int]:
    """Show the first actions on a quiet network."""
    agent = TrainedDefender(bundle)
    actions = [agent.get_action(np.zeros(52)) for _ in range(steps)]
    agent.end_episode()
    print(actions)
    return actions


if __name__ == "__main__":
    main(sys.argv[1])
