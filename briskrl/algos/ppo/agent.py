"""PPO, and as special cases of it A2C and REINFORCE: learning from what the policy just did.

An iteration collects a rollout with `act`, derives what it is worth in `digest`, and learns from it
in shuffled minibatches with `update`. Older rollouts may take part: they are weighted by how likely
the policy still is to act as it did then, and every step of the policy is clipped around the policy
that learning starts from, whatever policy the data is from (Espeholt 2018; Queeney 2021).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch

from briskrl.algos.components import BuildContext, OnPolicyComponents, Pretraining
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
from briskrl.algos.ppo.torch_engine import TorchPPOEngine
from briskrl.core.counters import Counters
from briskrl.core.rng import Streams, derive_seed
from briskrl.core.spec import EnvSpec
from briskrl.core.types import Array, Bools, Decision, Floats, Minibatch, Rollout, State
from briskrl.memory.rollout import RolloutBuffer
from briskrl.nets.bodies import MLPBody
from briskrl.nets.compute import Compute
from briskrl.nets.flat_parameters import FlatParameters, load_parameters, parameters_of
from briskrl.nets.safe_adam import SafeAdam


def build_components(config: PPOConfig, context: BuildContext) -> OnPolicyComponents:
    """A PPO with its rollout buffer and update schedule."""
    algo = PPO(config, context.spec, context.streams, context.compute)
    num_envs, pretraining = context.num_envs, None
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
        minibatches=config.minibatches(num_envs),
        reuse=config.reuse,
        pretraining=pretraining,
    )


class PPO:
    """Policy and value learning from fresh rollouts; see PPOConfig for the options."""

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
        self._rng = streams["explore"]
        self._estimator = AdvantageEstimator(gamma=config.gamma, gae_lambda=config.gae_lambda)
        self._moments = RunningMoments(spec.obs.size) if config.normalize_obs else None
        self._reward_scale = RewardScale(config.gamma) if config.normalize_reward else None
        self._moments_changed = False
        self._advantage = np.zeros(0, np.float32)
        self._explained_variance: float | None = None

    def act(self, obs: Array, mask: Bools | None, counters: Counters, out: Decision) -> None:
        """Sampled actions and their log probabilities, for any number of environments."""
        if self._moments_changed:
            self._use_moments()
        self.engines.now.act(obs, mask, self._rng, out)

    def compute_advantages(self, rollouts: Sequence[Rollout], counters: Counters) -> None:
        """See OnPolicyAlgorithm.compute_advantages.

        Observation statistics take in the newest rollout here but are used only once acting starts
        again: whatever is learnt from a rollout is learnt under the statistics it was collected
        with, so that chances move because of learning alone.
        """
        newest = rollouts[0]
        if self._reward_scale is not None:
            self._reward_scale.add(newest)
            self._estimator.scale_rewards(self._reward_scale.factor, RewardScale.LIMIT)
        for rollout in rollouts:
            self._estimator.estimate(rollout, self._cloning_engine or self.engines.now)
            if self.config.baseline == "peers":
                np.subtract(
                    rollout.returns,
                    rollout.returns.mean(axis=1, keepdims=True),
                    out=rollout.advantage,
                )
        self._explained_variance = explained_variance(newest)
        if self._moments is not None:
            steps = newest.obs[:-1]
            self._moments.add(steps.reshape(-1, *steps.shape[2:]))
            self._moments_changed = True
            if self._cloning_engine is not None:
                self._use_moments()

    def update(self, batch: Minibatch, counters: Counters) -> bool:
        """See OnPolicyAlgorithm.update."""
        if self._cloning_engine is not None:
            self._cloning_engine.compute(batch, np.ones(batch.size, batch.advantage.dtype))
            self._cloning_engine.step(self.config.pretrain_lr)
            return True
        engine, target_kl = self.engines.now, self.config.target_kl
        engine.compute(batch, self._advantages(batch))
        if target_kl > 0 and engine.divergence() > target_kl:
            return False
        engine.step(self._lr(counters))
        return True

    @contextmanager
    def behavior_cloning(self) -> Iterator[None]:
        """Imitate the actions in the memory while entered.

        The plain policy gradient with an advantage of 1 everywhere is the gradient of the cross
        entropy, so the same engine does it; values learn the teacher's returns. The optimizer is
        another one: what it knows of the steepness here would mislead it later.
        """
        config = replace(
            self.config, clip=0.0, clip_value=0.0, entropy_coef=self.config.pretrain_entropy_coef
        )
        model = replace(
            self.model,
            config=config,
            optimizer=_build_optimizer(config, self.model.flat, self._compute),
        )
        if self.engines.name == "fused":
            self._cloning_engine = FusedPPOEngine(model, self._inputs, self._compute.threads)
        else:
            self._cloning_engine = TorchPPOEngine(model, self._compute)
        try:
            yield
        finally:
            self._cloning_engine = None
            self.engines.now.refresh()

    def _advantages(self, batch: Minibatch) -> Floats:
        size, found = batch.size, batch.advantage
        if len(self._advantage) < size:
            self._advantage = np.zeros(size, np.float32)
        room = self._advantage[:size]
        if batch.indices is not None:
            found = np.take(found, batch.indices, out=room, mode="clip")
        if self.config.normalize_advantage:
            standardize(found, room)
            return room
        return found

    def _lr(self, counters: Counters) -> float:
        if self.config.lr_schedule == "constant":
            return self.config.lr
        return self.config.lr * (1 - counters.fraction)

    def flops(self, num_envs: int) -> Flops:
        """See Algorithm.flops."""
        return policy_flops(self.config, self.model.network, num_envs)

    def progress(self, counters: Counters) -> dict[str, float]:
        """Means of the loss's terms since the last call, and the current step size."""
        engine = self._cloning_engine or self.engines.now
        figures = {"lr": self._lr(counters), **engine.drain()}
        figures |= self.model.optimizer.drain()
        if self._explained_variance is not None:
            figures["explained_variance"] = self._explained_variance
        return figures

    def state(self) -> dict[str, State]:
        """Networks, optimizer and statistics, as they are between two iterations."""
        arrays = parameters_of(self.model.network)
        optim = self.model.optimizer.state()
        if self._moments is not None:
            arrays |= self._moments.arrays()
        if self._reward_scale is not None:
            optim.arrays |= self._reward_scale.arrays()
        return {"model": State(arrays), "optim": optim}

    def load_state(self, state: dict[str, State]) -> None:
        """Continue from saved networks, optimizer and statistics."""
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
        self._explained_variance = None

    def _use_moments(self) -> None:
        assert self._moments is not None
        self.model.network.inputs.set_moments(self._moments.mean, self._moments.deviation)
        self._moments_changed = False


def _build_model(config: PPOConfig, spec: EnvSpec, streams: Streams, compute: Compute) -> PPOModel:
    distribution = distribution_of(spec.action)
    init = torch.Generator().manual_seed(derive_seed(streams.seed, "init"))
    network = policy_network(config, spec.obs, distribution, init).to(compute.device)
    flat = FlatParameters(network)
    return PPOModel(config, network, flat, _build_optimizer(config, flat, compute), distribution)


def _build_optimizer(config: PPOConfig, flat: FlatParameters, compute: Compute) -> SafeAdam:
    return SafeAdam(flat, compute, lr=config.lr, eps=config.adam_eps, max_norm=config.max_grad_norm)


def _fused_refusal(model: PPOModel) -> str | None:
    """Why the fused engine cannot compute this network; None if it can."""
    if not isinstance(model.network.policy_body, MLPBody):
        return "the network's body is convolutional"
    if not isinstance(model.distribution, Categorical):
        continuous = model.distribution.continuous
        return "actions are continuous" if continuous else "several actions of one set are taken"
    return None
