"""The algorithms by name; importing this imports none of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from briskrl.algos.dqn.config import DQN_PRESETS
from briskrl.algos.ppo.config import PPO_PRESETS
from briskrl.core.registry import Registry


@dataclass(frozen=True, slots=True)
class AlgoEntry:
    """One preset: a config class, what it switches on there, and the code that runs it."""

    summary: str
    config: str
    """Address of the settings class."""
    factory: str
    """Address of the Algorithm: factory(config, spec, streams, compute)."""
    policy: str
    """Address of the Policy: policy(config, obs, action, arrays)."""
    preset: dict[str, object] = field(default_factory=dict)
    """Settings of the algorithm that differ from the class's defaults."""
    run_preset: dict[str, object] = field(default_factory=dict)
    """Settings of the run that suit it better than the run's own defaults."""


ALGOS: Registry[AlgoEntry] = Registry("algorithm")

_DQN_SUMMARIES = {
    "dqn": "Deep Q-learning with a replay memory and a target network",
    "double-dqn": "DQN whose targets do not overestimate",
    "dueling-dqn": "DQN with separate value and advantage",
    "per-dqn": "Double DQN that replays surprising transitions more often",
    "nstep-dqn": "DQN with 3-step returns",
    "noisy-dqn": "DQN that explores by learnt noise",
    "c51": "DQN that learns the distribution of returns",
    "rainbow": "All of the DQN family's improvements together",
}

for _name, _preset in DQN_PRESETS.items():
    ALGOS.add(
        _name,
        AlgoEntry(
            summary=_DQN_SUMMARIES[_name],
            config="briskrl.algos.dqn.config:DQNConfig",
            factory="briskrl.algos.dqn.agent:DQN",
            policy="briskrl.algos.dqn.policy:QPolicy",
            preset=_preset,
        ),
    )

_ON_POLICY_SUMMARIES = {
    "ppo": "Proximal policy optimization: several cautious passes over every rollout",
    "a2c": "Advantage actor-critic: one step per short rollout",
    "reinforce": "Policy gradient on whole returns, with a learnt baseline",
}

for _name, _preset in PPO_PRESETS.items():
    ALGOS.add(
        _name,
        AlgoEntry(
            summary=_ON_POLICY_SUMMARIES[_name],
            config="briskrl.algos.ppo.config:PPOConfig",
            factory="briskrl.algos.ppo.agent:PPO",
            policy="briskrl.algos.ppo.policy:StochasticPolicy",
            preset=_preset,
            # PPO takes few large steps, which many games steady; the others take many small ones.
            run_preset={"num_envs": 1024 if _name == "ppo" else 64},
        ),
    )
