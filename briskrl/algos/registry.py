"""The algorithms by name; importing this imports none of them.

A new algorithm needs three things: a settings dataclass, a function `build_components(config,
context)` (see `briskrl.algos.components`) and a policy class. It becomes available to `train`,
`resume`, `evaluate` and the command line with

    ALGOS.add("my-algo", AlgoEntry(summary=..., config="my.module:MyConfig", ...))

or, for an installed package, through the entry-point group `briskrl.algorithms`, whose entries are
addresses of AlgoEntry objects. `tests/training/toy_algorithm.py` is a complete example.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from briskrl.algos.dqn.config import DQN_PRESETS
from briskrl.algos.ppo.config import PPO_IN_PYTHON, PPO_PRESETS
from briskrl.core.errors import ConfigError
from briskrl.core.registry import Registry


@dataclass(frozen=True, slots=True)
class AlgoEntry:
    """One preset: a settings class, the settings it changes, and the code that runs it."""

    summary: str
    """One line for listings."""
    config: str
    """Address "module:Class" of the settings dataclass; importing it must be cheap."""
    build: str
    """Address of the function build_components(config, context) -> Components."""
    policy: str
    """Address of the Policy class: policy(config, obs, action, arrays)."""
    preset: dict[str, object] = field(default_factory=dict)
    """Settings of the algorithm that differ from the class's defaults."""
    run_preset: dict[str, object] = field(default_factory=dict)
    """Settings of the run that differ from the run's own defaults."""
    python_preset: dict[str, object] = field(default_factory=dict)
    """Further settings of the algorithm where environments are stepped in Python."""
    python_run_preset: dict[str, object] = field(default_factory=dict)
    """Further settings of the run where environments are stepped in Python."""
    round_steps: str | None = None
    """The setting that says how many steps every environment takes between updates, if there is
    one."""
    divide: str | None = None
    """Address of the function divide(states, replicas, seed) that divides the saved states of the
    replicas of a run among another number of them; None if there are no replicas."""

    def algo_defaults(self, *, in_python: bool) -> dict[str, object]:
        """Settings of the algorithm that the preset changes."""
        return self.preset | (self.python_preset if in_python else {})

    def run_defaults(self, *, in_python: bool) -> dict[str, object]:
        """Settings of the run that the preset changes."""
        return self.run_preset | (self.python_run_preset if in_python else {})


class AlgoRegistry(Registry[AlgoEntry]):
    """The algorithms by name; well-known ones that are missing say what there is instead."""

    def get(self, name: str) -> AlgoEntry:
        """The algorithm of a name.

        Raises:
            ConfigError: It is unknown.
        """
        if name in _NOT_AVAILABLE and name not in self:
            raise ConfigError(f"{name} is not available. {_NOT_AVAILABLE[name]}")
        return super().get(name)


_CONTINUOUS = "For continuous actions there are ppo, a2c and reinforce."
_NOT_AVAILABLE = {
    **dict.fromkeys(("sac", "td3", "ddpg", "tqc", "crossq", "trpo"), _CONTINUOUS),
    "recurrent-ppo": "Networks have no memory; stack observations (--frame-stack) and use ppo.",
    "maskable-ppo": "ppo uses the action masks of an environment by itself.",
}
"""Algorithms of other libraries, and what to use."""

ALGOS = AlgoRegistry("algorithm")

_DQN_SUMMARIES = {
    "dqn": "Deep Q-learning with a replay buffer and a target network",
    "double-dqn": "DQN with double Q-learning targets",
    "dueling-dqn": "DQN with separate value and advantage heads",
    "per-dqn": "Double DQN with prioritized experience replay",
    "nstep-dqn": "DQN with 3-step returns",
    "noisy-dqn": "DQN that explores with noisy layers",
    "c51": "Categorical DQN: learns the distribution of returns",
    "qr-dqn": "Quantile regression DQN: learns quantiles of the returns, without a fixed range",
    "rainbow": "All of the above extensions of DQN together, with the distribution of c51",
}

for _name, _preset in DQN_PRESETS.items():
    ALGOS.add(
        _name,
        AlgoEntry(
            summary=_DQN_SUMMARIES[_name],
            config="briskrl.algos.dqn.config:DQNConfig",
            build="briskrl.algos.dqn.agent:build_components",
            policy="briskrl.algos.dqn.policy:QPolicy",
            preset=_preset,
            run_preset={"num_envs": 16},
            round_steps="update_every",
            divide="briskrl.algos.dqn.division:divide_states",
        ),
    )

ALGOS.add(
    "pqn",
    AlgoEntry(
        summary="Parallelized Q-network: learns from rollouts, without replay or target network",
        config="briskrl.algos.pqn.config:PQNConfig",
        build="briskrl.algos.pqn.agent:build_components",
        policy="briskrl.algos.pqn.policy:PQNPolicy",
        run_preset={"num_envs": 128},
        round_steps="update_steps",
    ),
)

_ON_POLICY_SUMMARIES = {
    "ppo": "Proximal policy optimization: several clipped passes over every rollout",
    "a2c": "Advantage actor-critic: one update per short rollout",
    "reinforce": "Policy gradient on Monte Carlo returns, with a learned baseline",
}

for _name, _preset in PPO_PRESETS.items():
    ALGOS.add(
        _name,
        AlgoEntry(
            summary=_ON_POLICY_SUMMARIES[_name],
            config="briskrl.algos.ppo.config:PPOConfig",
            build="briskrl.algos.ppo.agent:build_components",
            policy="briskrl.algos.ppo.policy:StochasticPolicy",
            preset=_preset,
            # PPO does few large updates, which many environments make less noisy; the others do
            # many small ones.
            run_preset={"num_envs": 1024 if _name == "ppo" else 64},
            # Where steps are expensive, few environments with long rollouts learn from fewer of
            # them (`benchmarks/policy_study.py`).
            python_preset=PPO_IN_PYTHON if _name == "ppo" else {},
            python_run_preset={"num_envs": 16} if _name == "ppo" else {},
            round_steps="update_steps",
            divide="briskrl.algos.ppo.division:divide_states",
        ),
    )
