"""PPO, and A2C and REINFORCE as special cases of it.

Where to find the steps of the algorithm:

- The loss: `briskrl.algos.losses` in torch, `kernels/loss.py` compiled.
- GAE: `gae.py`, with the recursion in `kernels/gae.py`.
- The gradient of a minibatch: `torch_engine.py` in torch, `fused_engine.py` and `kernels/update.py`
  compiled.
- Epochs and minibatches: `briskrl.training.learner.OnPolicyLearner`.
- All of it on one page of plain torch: `examples/ppo_single_file.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch

from briskrl.algos.components import BuildContext, OnPolicyComponents, Pretraining, Replication
from briskrl.algos.distributions import Categorical, distribution_of
from briskrl.algos.engines import Engines
from briskrl.algos.flops import Flops, policy_flops
from briskrl.algos.kernels.moments import standardize
from briskrl.algos.normalize import RewardScale, RunningMoments
from briskrl.algos.ppo.config import PPOConfig
from briskrl.algos.ppo.engine import PPOEngine, PPOModel
from briskrl.algos.ppo.fused_engine import FusedPPOEngine
from briskrl.algos.ppo.gae import AdvantageEstimator, explained_variance
from briskrl.algos.ppo.policy import policy_network
from briskrl.algos.ppo.replicas import PPOReplicas
from briskrl.algos.ppo.torch_engine import TorchPPOEngine
from briskrl.core.counters import Counters
from briskrl.core.errors import ConfigError
from briskrl.core.rng import ReplicaGenerator, Streams, derive_seed
from briskrl.core.spec import EnvSpec
from briskrl.core.types import Array, Bools, Decision, Floats, Minibatch, Rollout, State
from briskrl.memory.available import announce_memory
from briskrl.memory.rollout import RolloutBuffer
from briskrl.nets.bodies import MLPBody
from briskrl.nets.compute import Compute
from briskrl.nets.flat_parameters import FlatParameters, load_parameters, parameters_of
from briskrl.nets.safe_adam import SafeAdam


class PPO:
    """Proximal policy optimization (Schulman 2017, https://arxiv.org/abs/1707.06347).

    An iteration collects a rollout of T steps in N environments with `act`, computes advantages by
    GAE (Schulman 2016, https://arxiv.org/abs/1506.02438) in `compute_advantages`, and does several
    epochs of minibatch updates on the clipped surrogate loss with `update`.

    Options of PPOConfig include value clipping (`clip_value`), a limit on the KL divergence
    (`target_kl`), normalization of advantages, observations and rewards, and a shared body for
    policy and value. `clip=0` is the plain policy gradient: with one epoch it is A2C (Mnih 2016,
    https://arxiv.org/abs/1602.01783), with `gae_lambda=1` REINFORCE with a learned baseline
    (Williams 1992).

    With `reuse`, past rollouts take part in the updates (Queeney 2021,
    https://arxiv.org/abs/2111.00072): their steps have truncated importance weights as in V-trace
    (Espeholt 2018, https://arxiv.org/abs/1802.01561), and the ratio is clipped around the policy at
    the start of the iteration, whichever policy collected the data.

    Args:
        config: Settings.
        spec: Observations and actions of the environments.
        streams: Random streams; uses "explore", and derives the initial weights from the seed.
        compute: Device, precision, threads and the engine asked for.
    """

    def __init__(
        self, config: PPOConfig, spec: EnvSpec, streams: Streams, compute: Compute
    ) -> None:
        self.config = config
        self._compute, self._inputs = compute, spec.obs.size
        self.model = model = _build_model(config, spec, streams, compute)
        self.engines: Engines[PPOEngine] = Engines(
            compute,
            torch=lambda: TorchPPOEngine(model, compute),
            fused=lambda: FusedPPOEngine(model, spec.obs.size, compute.threads),
            refusal=_fused_refusal(model),
        )
        self._cloning_engine: PPOEngine | None = None
        self._cloning_optimizer: SafeAdam | None = None
        self._loaded_optimizer: SafeAdam | None = None
        """The optimizer of behavior cloning that was stopped."""
        self._rng = streams["explore"]
        group = compute.replicas
        self.replicas: PPOReplicas | None = None
        """What the replicas of a run exchange; None if there is one process only."""
        if group is not None:
            self._rng = ReplicaGenerator(self._rng, group.rank, group.size)
            self.replicas = PPOReplicas(model.flat, group)
        self._estimator = AdvantageEstimator(gamma=config.gamma, gae_lambda=config.gae_lambda)
        self._moments = RunningMoments(spec.obs.size, group) if config.normalize_obs else None
        self._reward_scale = RewardScale(config.gamma, group) if config.normalize_reward else None
        self._moments_changed = False
        self._advantage = np.zeros(0, np.float32)
        self._explained_variance: float | None = None

    def act(self, obs: Array, mask: Bools | None, counters: Counters, out: Decision) -> None:
        """Write sampled actions and their log probabilities for N environments."""
        if self._moments_changed:
            self._use_moments()
        self.engines.now.act(obs, mask, self._rng, out)

    def compute_advantages(self, rollouts: Sequence[Rollout], counters: Counters) -> None:
        """See OnPolicyAlgorithm.compute_advantages.

        The newest rollout is added to the observation statistics here, but the network uses them
        only from the next `act` on. Updates then see the statistics that the rollout was collected
        with, so that only updates change the log probabilities.
        """
        newest = rollouts[0]
        if self._reward_scale is not None:
            self._reward_scale.add(newest)
            self._estimator.scale_rewards(self._reward_scale.factor, RewardScale.LIMIT)
        for rollout in rollouts:
            self._estimator.estimate(rollout, self._cloning_engine or self.engines.now)
            if self.config.baseline == "peers":
                np.subtract(rollout.returns, self._peers(rollout.returns), out=rollout.advantage)
        self._explained_variance = explained_variance(newest)
        if self._moments is not None:
            steps = newest.obs[:-1]
            self._moments.add(steps.reshape(-1, *steps.shape[2:]))
            self._moments_changed = True
            if self._cloning_engine is not None:
                self._use_moments()

    def _peers(self, returns: Floats) -> Floats:
        """The mean return (T + 1, 1) of all environments at every step."""
        if self.replicas is not None:
            return self.replicas.mean_over_envs(returns)[:, None]
        mean: Floats = returns.mean(axis=1, keepdims=True)
        return mean

    def update(self, batch: Minibatch, counters: Counters) -> bool:
        """See OnPolicyAlgorithm.update."""
        if self._cloning_engine is not None:
            self._cloning_engine.compute(batch, np.ones(batch.size, batch.advantage.dtype))
            self._cloning_engine.step(self.config.pretrain_lr)
            return True
        engine, target_kl = self.engines.now, self.config.target_kl
        engine.compute(batch, self._advantages(batch))
        divergence = engine.divergence() if target_kl > 0 else 0.0
        if self.replicas is not None:
            divergence = self.replicas.average_gradient(engine, divergence)
        if divergence > target_kl > 0:
            return False
        engine.step(self._lr(counters))
        return True

    @contextmanager
    def behavior_cloning(self) -> Iterator[None]:
        """Imitate the actions in the memory while entered.

        The plain policy gradient with an advantage of 1 everywhere is the gradient of the cross
        entropy, so the same engine computes it; values learn the teacher's returns. The optimizer
        is a separate one, because its moments would be wrong for the PPO loss afterwards.
        """
        config = replace(
            self.config, clip=0.0, clip_value=0.0, entropy_coef=self.config.pretrain_entropy_coef
        )
        optimizer = self._loaded_optimizer
        if optimizer is None:
            optimizer = _build_optimizer(config, self.model.flat, self._compute)
        self._cloning_optimizer, self._loaded_optimizer = optimizer, None
        model = replace(self.model, config=config, optimizer=self._cloning_optimizer)
        if self.engines.name == "fused":
            self._cloning_engine = FusedPPOEngine(model, self._inputs, self._compute.threads)
        else:
            self._cloning_engine = TorchPPOEngine(model, self._compute)
        try:
            yield
        finally:
            self._cloning_engine = self._cloning_optimizer = None
            self.engines.now.refresh()

    def _advantages(self, batch: Minibatch) -> Floats:
        """The advantages (B,) of a minibatch, normalized if the config says so."""
        size, advantage = batch.size, batch.advantage
        if len(self._advantage) < size:
            self._advantage = np.zeros(size, np.float32)
        out = self._advantage[:size]
        if batch.indices is not None:
            advantage = np.take(advantage, batch.indices, out=out, mode="clip")
        if self.config.normalize_advantage:
            if self.replicas is None:
                standardize(advantage, out)
            else:
                self.replicas.standardize(advantage, out)
            return out
        return advantage

    def _lr(self, counters: Counters) -> float:
        if self.config.lr_schedule == "constant":
            return self.config.lr
        return self.config.lr * (1 - counters.fraction)

    def flops(self, num_envs: int) -> Flops:
        """See Algorithm.flops."""
        return policy_flops(self.config, self.model.network, num_envs)

    def progress(self, counters: Counters) -> dict[str, float]:
        """Means of the loss's terms since the last call, and the current learning rate.

        The explained variance is that of the newest rollout, once: it is not saved, so that rows
        without an update would differ after a resume.
        """
        engine = self._cloning_engine or self.engines.now
        figures = {"lr": self._lr(counters), **engine.drain()}
        figures |= self.model.optimizer.drain()
        if self._explained_variance is not None:
            figures["explained_variance"] = self._explained_variance
            self._explained_variance = None
        return figures

    def state(self) -> dict[str, State]:
        """Network, optimizer and statistics, between two iterations."""
        arrays = parameters_of(self.model.network)
        optim = self.model.optimizer.state()
        if self._moments is not None:
            arrays |= self._moments.arrays()
        if self._reward_scale is not None:
            optim.arrays |= self._reward_scale.arrays()
        states = {"model": State(arrays), "optim": optim}
        if self._cloning_optimizer is not None:
            states["cloning"] = self._cloning_optimizer.state()
        return states

    def load_state(self, state: dict[str, State]) -> None:
        """Continue from a saved network, optimizer and statistics."""
        arrays, optim = state["model"].arrays, state["optim"]
        load_parameters(self.model.network, arrays)
        self.model.optimizer.load_state(optim)
        self._loaded_optimizer = None
        if "cloning" in state:
            self._loaded_optimizer = _build_optimizer(self.config, self.model.flat, self._compute)
            self._loaded_optimizer.load_state(state["cloning"])
        if self._moments is not None:
            self._moments.load(arrays)
            self._use_moments()
        if self._reward_scale is not None:
            self._reward_scale.load(optim.arrays)
        self.engines.now.refresh()
        self.engines.now.drain()
        self._explained_variance = None

    def _use_moments(self) -> None:
        assert self._moments is not None
        self.model.network.inputs.set_moments(self._moments.mean, self._moments.deviation)
        self._moments_changed = False


def build_components(config: PPOConfig, context: BuildContext) -> OnPolicyComponents:
    """A PPO with its rollout buffer and update schedule."""
    algo = PPO(config, context.spec, context.streams, context.compute)
    num_envs, pretraining = context.num_envs, None
    replicas = context.compute.num_replicas
    if config.minibatch_size < replicas:
        raise ConfigError(
            f"Each of {replicas} replicas needs a step of every minibatch, but minibatch_size is "
            f"{config.minibatch_size}."
        )
    steps = (config.update_steps + 1) * num_envs * (config.reuse + 1)
    # Rollouts hold whole stacks of frames.
    whole = replace(context.spec, frame_stack=1)
    announce_memory(whole, steps, "--num-envs or --update-steps", context.note, coded=False)
    if config.pretrain_from is not None:
        pretraining = Pretraining(
            teacher=config.pretrain_from,
            updates=config.pretrain_steps,
            loss="policy_loss",
            behavior_cloning=algo.behavior_cloning,
        )
    return OnPolicyComponents(
        algo=algo,
        memory=RolloutBuffer(
            spec=context.spec, num_envs=num_envs, steps=config.update_steps, reuse=config.reuse
        ),
        rollout_steps=config.update_steps * num_envs,
        epochs=config.epochs,
        minibatches=config.minibatches(num_envs * replicas),
        reuse=config.reuse,
        pretraining=pretraining,
        replication=_replication(algo),
    )


def _replication(algo: PPO) -> Replication | None:
    replicas = algo.replicas
    if replicas is None:
        return None
    plan = replicas.plan if algo.config.normalize_advantage else None
    return Replication(digest=replicas.digest, plan=plan)


def _build_model(config: PPOConfig, spec: EnvSpec, streams: Streams, compute: Compute) -> PPOModel:
    distribution = distribution_of(spec.action)
    init = torch.Generator().manual_seed(derive_seed(streams.seed, "init"))
    network = policy_network(config, spec.obs, distribution, init).to(compute.device)
    flat = FlatParameters(network)
    return PPOModel(config, network, flat, _build_optimizer(config, flat, compute), distribution)


def _build_optimizer(config: PPOConfig, flat: FlatParameters, compute: Compute) -> SafeAdam:
    return SafeAdam(
        flat,
        compute,
        lr=config.lr,
        eps=config.adam_eps,
        max_norm=config.max_grad_norm,
        beta2=config.adam_beta2,
    )


def _fused_refusal(model: PPOModel) -> str | None:
    """Why the fused engine cannot compute this network; None if it can."""
    if not isinstance(model.network.policy_body, MLPBody):
        return "the network's body is convolutional"
    if not isinstance(model.distribution, Categorical):
        continuous = model.distribution.continuous
        return "actions are continuous" if continuous else "several actions of one set are taken"
    return None
