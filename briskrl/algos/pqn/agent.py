"""PQN: Q-learning from rollouts of many environments.

Where to find the steps of the algorithm:

- The returns: `lambda_returns.py`.
- The loss: `briskrl.algos.losses.squared_td_error` in torch, `kernels/update.py` compiled.
- Epsilon-greedy actions: `briskrl.algos.dqn.exploration`.
- Epochs and minibatches: `briskrl.training.learner.OnPolicyLearner`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from briskrl.algos.components import BuildContext, OnPolicyComponents
from briskrl.algos.dqn.exploration import EpsilonGreedy, epsilon_of
from briskrl.algos.dqn.policy import num_actions, num_taken
from briskrl.algos.engines import Engines
from briskrl.algos.flops import Flops, pqn_flops
from briskrl.algos.normalize import RewardScale, RunningMoments
from briskrl.algos.pqn.config import PQNConfig
from briskrl.algos.pqn.engine import PQNEngine, PQNModel
from briskrl.algos.pqn.fused_engine import FusedPQNEngine
from briskrl.algos.pqn.lambda_returns import LambdaReturns
from briskrl.algos.pqn.policy import pqn_network
from briskrl.algos.pqn.torch_engine import TorchPQNEngine
from briskrl.core.counters import Counters
from briskrl.core.errors import ConfigError
from briskrl.core.rng import Streams, derive_seed
from briskrl.core.spec import EnvSpec
from briskrl.core.types import Array, Bools, Decision, Minibatch, Rollout, State
from briskrl.memory.rollout import RolloutBuffer
from briskrl.nets.bodies import MLPBody
from briskrl.nets.compute import Compute
from briskrl.nets.flat_parameters import FlatParameters, load_parameters, parameters_of
from briskrl.nets.safe_adam import SafeAdam


class PQN:
    """Parallelized Q-network (Gallici 2025, https://arxiv.org/abs/2407.04811).

    An iteration collects a rollout of T steps in N environments with epsilon-greedy actions,
    computes lambda-returns, and does several epochs of minibatch updates of the Q-values of the
    taken actions towards them. There is no replay buffer, so the data is that of the current
    policy; there is no target network, because layer normalization keeps the updates stable.

    Args:
        config: Settings.
        spec: Observations and actions of the environments.
        streams: Random streams; uses "explore", and derives the initial weights from the seed.
        compute: Device, precision, threads and the engine asked for.
    """

    def __init__(
        self, config: PQNConfig, spec: EnvSpec, streams: Streams, compute: Compute
    ) -> None:
        self.config = config
        self.model = model = _build_model(config, spec, streams, compute)
        explore = EpsilonGreedy(num_actions(spec.action), streams["explore"])
        self.engines: Engines[PQNEngine] = Engines(
            compute,
            torch=lambda: TorchPQNEngine(model, explore, compute),
            fused=lambda: FusedPQNEngine(model, explore, spec.obs.size, compute.threads),
            refusal=_fused_refusal(model),
        )
        self._returns = LambdaReturns(gamma=config.gamma, q_lambda=config.q_lambda)
        self._moments = RunningMoments(spec.obs.size) if config.normalize_obs else None
        self._reward_scale = RewardScale(config.gamma) if config.normalize_reward else None
        self._moments_changed = False

    def act(self, obs: Array, mask: Bools | None, counters: Counters, out: Decision) -> None:
        """Write epsilon-greedy actions for N environments."""
        if self._moments_changed:
            self._use_moments()
        self.engines.now.act(obs, mask, self.epsilon(counters), out.action)
        out.log_prob.fill(0)

    def epsilon(self, counters: Counters) -> float:
        """The current probability of a random action."""
        return epsilon_of(self.config, counters)

    def compute_advantages(self, rollouts: Sequence[Rollout], counters: Counters) -> None:
        """Fill in the returns of the newest rollout; see OnPolicyAlgorithm.

        As in PPO, new observation statistics are used only from the next `act` on.
        """
        newest = rollouts[0]
        if self._reward_scale is not None:
            self._reward_scale.add(newest)
            self._returns.scale_rewards(self._reward_scale.factor, RewardScale.LIMIT)
        self._returns.compute(newest, self.engines.now)
        if self._moments is not None:
            steps = newest.obs[:-1]
            self._moments.add(steps.reshape(-1, *steps.shape[2:]))
            self._moments_changed = True

    def update(self, batch: Minibatch, counters: Counters) -> bool:
        """See OnPolicyAlgorithm.update."""
        engine = self.engines.now
        engine.compute(batch)
        engine.step(self._lr(counters))
        return True

    def _lr(self, counters: Counters) -> float:
        if self.config.lr_schedule == "constant":
            return self.config.lr
        return self.config.lr * (1 - counters.fraction)

    def flops(self, num_envs: int) -> Flops:
        """See Algorithm.flops."""
        return pqn_flops(self.config, self.model.network, num_envs)

    def progress(self, counters: Counters) -> dict[str, float]:
        """Mean loss, Q-value and gradient norm since the last call, epsilon and learning rate."""
        figures = {"epsilon": self.epsilon(counters), "lr": self._lr(counters)}
        return {**figures, **self.engines.now.drain(), **self.model.optimizer.drain()}

    def state(self) -> dict[str, State]:
        """Network, optimizer and statistics, between two iterations."""
        arrays = parameters_of(self.model.network)
        optim = self.model.optimizer.state()
        if self._moments is not None:
            arrays |= self._moments.arrays()
        if self._reward_scale is not None:
            optim.arrays |= self._reward_scale.arrays()
        return {"model": State(arrays), "optim": optim}

    def load_state(self, state: dict[str, State]) -> None:
        """Continue from a saved network, optimizer and statistics."""
        arrays, optim = state["model"].arrays, state["optim"]
        load_parameters(self.model.network, arrays)
        self.model.optimizer.load_state(optim)
        if self._moments is not None:
            self._moments.load(arrays)
            self._use_moments()
        if self._reward_scale is not None:
            self._reward_scale.load(optim.arrays)
        self.engines.now.refresh()
        self.engines.now.drain()

    def _use_moments(self) -> None:
        assert self._moments is not None
        self.model.network.inputs.set_moments(self._moments.mean, self._moments.deviation)
        self._moments_changed = False


def build_components(config: PQNConfig, context: BuildContext) -> OnPolicyComponents:
    """A PQN with its rollout buffer and update schedule."""
    num_envs = context.num_envs
    return OnPolicyComponents(
        algo=PQN(config, context.spec, context.streams, context.compute),
        memory=RolloutBuffer(
            spec=context.spec,
            num_envs=num_envs,
            steps=config.update_steps,
            reuse=0,
            final_masks=True,
        ),
        rollout_steps=config.update_steps * num_envs,
        epochs=config.epochs,
        minibatches=config.minibatches(num_envs),
    )


def _build_model(config: PQNConfig, spec: EnvSpec, streams: Streams, compute: Compute) -> PQNModel:
    actions = num_actions(spec.action)
    if num_taken(spec.action) is not None:
        raise ConfigError(
            "PQN takes one action at a time, but this environment takes several at once. Use "
            "--algo dqn or ppo."
        )
    init = torch.Generator().manual_seed(derive_seed(streams.seed, "init"))
    network = pqn_network(config, spec.obs, actions, init).to(compute.device)
    flat = FlatParameters(network)
    optimizer = SafeAdam(
        flat, compute, lr=config.lr, eps=config.adam_eps, max_norm=config.max_grad_norm
    )
    return PQNModel(config, network, flat, optimizer)


def _fused_refusal(model: PQNModel) -> str | None:
    """Why the fused engine cannot compute this network; None if it can."""
    if not isinstance(model.network.body, MLPBody):
        return "the network's body is convolutional"
    return None
