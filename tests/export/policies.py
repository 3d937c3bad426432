"""Policies with random weights, for every network and action space, without a training run."""

from __future__ import annotations

import numpy as np
import torch

from briskrl.algos.distributions import distribution_of
from briskrl.algos.dqn.config import DQN_PRESETS, DQNConfig
from briskrl.algos.dqn.policy import QPolicy, num_actions, value_network
from briskrl.algos.dqn.value_range import is_automatic
from briskrl.algos.ppo.config import PPO_PRESETS, PPOConfig
from briskrl.algos.ppo.policy import StochasticPolicy, policy_network
from briskrl.algos.pqn.config import PQNConfig
from briskrl.algos.pqn.policy import PQNPolicy, pqn_network
from briskrl.core.config import to_dict
from briskrl.core.spec import ArraySpec, BoxSpec, DiscreteSpec, MultiDiscreteSpec, SubsetSpec
from briskrl.envs.cartpole.config import CartPoleConfig
from briskrl.export.verify import Observations
from briskrl.training.evaluate import Agent, TrainedAgent

VECTOR = ArraySpec.of((7,), "float32", -np.inf, np.inf)
BYTES = ArraySpec.of((3, 5, 6), "uint8", 0, 255)
PLANES = ArraySpec.of((3, 5, 6), "float32", 0, 1)
DISCRETE, SEVERAL = DiscreteSpec(4), MultiDiscreteSpec((3, 2, 4))
CELLS, SUBSET = DiscreteSpec(30), SubsetSpec(30, 5)
SHORT = SubsetSpec(3, 5)
BOX = BoxSpec((2,), -0.5, 0.75)
SMALL = {"net": (16, 8)}

CASES = {
    **{name: (name, VECTOR, DISCRETE, {}) for name in (*DQN_PRESETS, *PPO_PRESETS)},
    **{f"{name} cnn": (name, BYTES, DISCRETE, {}) for name in ("rainbow", "dqn", "ppo")},
    **{f"{name} fcn": (name, PLANES, CELLS, {}) for name in ("rainbow", "dueling-dqn", "ppo")},
    "noisy-dqn fcn of wider blocks": ("noisy-dqn", BYTES, CELLS, {"channels": (4, 4, 6)}),
    "qr-dqn fcn": ("qr-dqn", PLANES, CELLS, {"dueling": True}),
    "layer norm": ("double-dqn", VECTOR, DISCRETE, {"layer_norm": True}),
    "layer norm cnn": ("qr-dqn", BYTES, DISCRETE, {"layer_norm": True}),
    "dqn normalized": ("dqn", VECTOR, DISCRETE, {"normalize_obs": True}),
    "c51 of a fixed range": ("c51", VECTOR, DISCRETE, {"v_min": -3.0, "v_max": 8.0}),
    "pqn": ("pqn", VECTOR, DISCRETE, {"normalize_obs": True}),
    "pqn cnn": ("pqn", BYTES, DISCRETE, {}),
    "pqn cnn without statistics": ("pqn", BYTES, DISCRETE, {"normalize_obs": False}),
    "ppo several": ("ppo", VECTOR, SEVERAL, {}),
    "ppo subset": ("ppo", PLANES, SUBSET, {}),
    "dqn subset": ("dqn", PLANES, SUBSET, {}),
    "c51 small subset": ("c51", VECTOR, SHORT, {}),
    "ppo continuous": ("ppo", VECTOR, BOX, {"normalize_obs": True}),
    "a2c tanh": ("a2c", VECTOR, DISCRETE, {"activation": "tanh", "shared": True}),
    "ppo flat": ("ppo", BYTES, DISCRETE, {"body": "mlp", "normalize_obs": True}),
}
"""Preset, observations, actions and settings of policies, by a name for the test."""


def random_policy(name: str, seed: int = 0) -> TrainedAgent:
    """The agent of a case; its environment is not the one that the observations come from."""
    preset, obs, action, options = CASES[name]
    generator = torch.Generator().manual_seed(seed)
    rng = np.random.default_rng(seed)
    found: dict[str, np.ndarray] = {}
    if preset in DQN_PRESETS:
        config = DQNConfig(**{**SMALL, **DQN_PRESETS[preset], **options})
        network = value_network(config, obs, num_actions(action), generator)
        build = QPolicy
        if is_automatic(config):
            found["range.ends"] = np.array([-20.0, 60.0])
    elif preset == "pqn":
        config = PQNConfig(**SMALL, **options)
        network = pqn_network(config, obs, num_actions(action), generator)
        build = PQNPolicy
    else:
        config = PPOConfig(**{**SMALL, **PPO_PRESETS[preset], **options})
        network = policy_network(config, obs, distribution_of(action), generator)
        build = StochasticPolicy
    arrays = {
        # Larger than at the start of training, so that probabilities are far from equal.
        key: (2 * rng.standard_normal(tensor.shape) / max(1, tensor[0].numel()) ** 0.5).astype("f4")
        for key, tensor in network.named_parameters()
    } | found
    if getattr(config, "normalize_obs", False):
        arrays["obs.count"] = np.array(100.0)
        arrays["obs.mean"] = rng.uniform(-1, 1, obs.size)
        arrays["obs.squares"] = rng.uniform(1, 400, obs.size)
    policy = build(config, obs, action, arrays)
    about = {
        "algo": preset,
        "algo_config": to_dict(config),
        "env": "cartpole",
        "env_config": to_dict(CartPoleConfig()),
        "env_steps": 100,
        "seed": seed,
    }
    return TrainedAgent(Agent(policy, "cartpole", CartPoleConfig()), obs, action, about)


def random_observations(
    trained: TrainedAgent, count: int, *, masked: bool, seed: int = 0
) -> Observations:
    """Observations within the bounds; in the first row nothing is legal, then ever more."""
    rng = np.random.default_rng(seed)
    obs, action = trained.obs, trained.action
    low, high = max(obs.low, -3), min(obs.high, 255 if obs.dtype == np.uint8 else 3)
    numbers = rng.uniform(low, high, (count, *obs.shape)).astype(obs.dtype)
    width = sum(action.nvec) if isinstance(action, MultiDiscreteSpec) else getattr(action, "n", 0)
    mask = None
    if masked and width:
        mask = rng.random((count, width)) < np.linspace(0, 1, count)[:, None]
        mask[0] = False
    return Observations(numbers, mask, "random observations")
