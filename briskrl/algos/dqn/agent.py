"""DQN and all extensions of Rainbow, as options of one algorithm.

Where to find the steps of the algorithm:

- TD targets and loss: `torch_engine.py` with `briskrl.algos.losses` in torch,
  `kernels/td_update.py` compiled.
- Epsilon-greedy actions: `exploration.py`, `kernels/act.py`.
- Replay: `briskrl.memory.replay`, `briskrl.memory.prioritized`.
- How many updates are done and when: `briskrl.training.update_schedule`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from briskrl.algos.components import BuildContext, OffPolicyComponents, Pretraining
from briskrl.algos.dqn.compiled_updates import DQNCompiledUpdates
from briskrl.algos.dqn.config import DQNConfig
from briskrl.algos.dqn.engine import DQNEngine, DQNModel
from briskrl.algos.dqn.exploration import EpsilonGreedy, SubsetEpsilonGreedy, epsilon_of
from briskrl.algos.dqn.fused_engine import FusedDQNEngine
from briskrl.algos.dqn.input_statistics import InputStatistics
from briskrl.algos.dqn.policy import num_actions, num_taken, value_network
from briskrl.algos.dqn.replicas import part_of, replication
from briskrl.algos.dqn.support_monitor import SupportMonitor
from briskrl.algos.dqn.torch_engine import TorchDQNEngine
from briskrl.algos.dqn.value_range import ValueRange, first_support, is_automatic
from briskrl.algos.engines import Engines
from briskrl.algos.flops import Flops, value_flops
from briskrl.core.counters import Counters
from briskrl.core.errors import ConfigError
from briskrl.core.rng import Streams, derive_seed
from briskrl.core.spec import EnvSpec
from briskrl.core.state_checks import invalid_state, whole
from briskrl.core.types import Array, Batch, Bools, Decision, Floats, State
from briskrl.memory.available import announce_memory
from briskrl.memory.base import ReplayMemory
from briskrl.memory.prioritized import PrioritizedReplay
from briskrl.memory.replay import ReplayBuffer
from briskrl.nets.bodies import MLPBody
from briskrl.nets.compute import Compute
from briskrl.nets.flat_parameters import FlatParameters, load_parameters, parameters_of
from briskrl.nets.replica_group import ReplicaGroup, own_stream
from briskrl.nets.safe_adam import SafeAdam


class DQN:
    """Deep Q-learning (Mnih 2015) with the extensions of Rainbow as options.

    The extensions, each a field of DQNConfig; Rainbow (Hessel 2018,
    https://arxiv.org/abs/1710.02298) is all of them together:

    - `double`: the online network chooses the next action (van Hasselt 2016,
      https://arxiv.org/abs/1509.06461).
    - `dueling`: separate value and advantage heads (Wang 2016, https://arxiv.org/abs/1511.06581).
    - `prioritized`: prioritized experience replay (Schaul 2016, https://arxiv.org/abs/1511.05952).
    - `n_step`: n-step returns (Sutton 1988).
    - `noisy`: noisy layers instead of epsilon (Fortunato 2018, https://arxiv.org/abs/1706.10295).
    - `atoms`: a distribution of returns, C51 (Bellemare 2017, https://arxiv.org/abs/1707.06887), or
      with `distribution="quantile"` QR-DQN (Dabney 2018, https://arxiv.org/abs/1710.10044).

    This class holds what does not depend on the engine: networks, optimizer, the schedules of
    epsilon and of the target network, and the saved state.

    Args:
        config: Settings.
        spec: Observations and actions of the environments.
        streams: Random streams; uses "explore", and derives weights and noise from the seed.
        compute: Device, precision, threads and the engine asked for.
    """

    def __init__(
        self, config: DQNConfig, spec: EnvSpec, streams: Streams, compute: Compute
    ) -> None:
        self.config = config
        self.model = _build_model(config, spec, streams, compute)
        explore = _explorer(spec, streams, compute.replicas)
        self._explore, self._compute = explore, compute
        self._inputs = spec.obs.size
        self._cloning_engine: DQNEngine | None = None
        self._compiled_updates: DQNCompiledUpdates | None = None
        self.engines: Engines[DQNEngine] = Engines(
            compute,
            torch=lambda: TorchDQNEngine(self.model, explore, compute),
            fused=self._build_fused,
            refusal=_fused_refusal(self.model),
        )
        self.support_monitor = SupportMonitor(self.model, compute)
        self._statistics = _input_statistics(self.model, spec, compute)
        self._value_range = _value_range(self.model, compute)
        self.updates = 0
        """Gradient updates done so far."""
        self._last_sync_step = 0

    def _build_fused(self) -> FusedDQNEngine:
        compute = self._compute
        engine = FusedDQNEngine(
            self.model,
            self._explore,
            self._inputs,
            threads=compute.threads,
            overlap=compute.overlap,
        )
        self._compiled_updates = DQNCompiledUpdates(self, engine)
        return engine

    def act(self, obs: Array, mask: Bools | None, counters: Counters, out: Decision) -> None:
        """Write epsilon-greedy (or noisy greedy) actions for N environments."""
        if self._statistics is not None:
            self._statistics.add(obs)
            # With overlap, updates may be under way; then `Overlap.begin` asks for it.
            if not self._compute.overlap:
                self.renew_statistics()
        self.engines.now.act(obs, mask, self.epsilon(counters), out.action)

    def epsilon(self, counters: Counters) -> float:
        """The current probability of a random action."""
        return epsilon_of(self.config, counters)

    def update(self, batch: Batch, updates: int, counters: Counters) -> Floats:
        """See OffPolicyAlgorithm.update."""
        self.before_updates(batch, updates, counters)
        engine = self._cloning_engine or self.engines.now
        errors = engine.update(batch, updates, self.updates)
        self.after_updates(batch, updates)
        return errors

    @property
    def compiled_updates(self) -> DQNCompiledUpdates | None:
        """The updates of the fused engine; None while torch computes, as in behavior cloning."""
        if self._cloning_engine is not None or self.engines.name != "fused":
            return None
        return self._compiled_updates

    @contextmanager
    def behavior_cloning(self) -> Iterator[None]:
        """Imitate the actions in the memory while entered, with torch on the same networks."""
        self._cloning_engine = TorchDQNEngine(
            self.model, self._explore, self._compute, imitates=True
        )
        try:
            yield
        finally:
            self._cloning_engine = None
            self.engines.now.refresh()

    def flops(self, num_envs: int) -> Flops:
        """See Algorithm.flops."""
        return value_flops(self.config, self.model.online)

    def progress(self, counters: Counters) -> dict[str, float]:
        """Mean loss and gradient norm since the last call, and the current epsilon."""
        engine = self._cloning_engine or self.engines.now
        figures = {"epsilon": self.epsilon(counters), **engine.drain()}
        return {**figures, **self.support_monitor.drain(), **self.model.optimizer.drain()}

    def after_average(self) -> None:
        """Continue with networks that are the means over all replicas."""
        if self._statistics is not None:
            self._statistics.renew()
        if self._value_range is not None:
            self._value_range.widen()
        self.engines.now.refresh()

    def renew_statistics(self) -> bool:
        """Normalize by all observations so far if that is due, while nothing is under way."""
        return self._statistics is not None and self._statistics.renew_if_due()

    def before_updates(self, batch: Batch, updates: int, counters: Counters) -> None:
        """What precedes the first `updates` updates of a batch on every engine."""
        self.refresh_target_by_steps(counters)
        self.support_monitor.see(batch)
        if self._statistics is not None and self._statistics.is_empty:
            # A teacher has acted so far.
            self._statistics.add(batch.obs[:updates].reshape(-1, *batch.obs.shape[2:]))
            self._statistics.renew_if_due()
        self.model.optimizer.adam.lr = self._lr(counters)

    def after_updates(self, batch: Batch, updates: int) -> bool:
        """What follows the first `updates` updates of a batch on every engine.

        Returns:
            Whether targets computed before are no longer right.
        """
        self.updates += updates
        return self._value_range is not None and self._value_range.see(batch, updates)

    def _lr(self, counters: Counters) -> float:
        """The learning rate of the next updates.

        It follows the updates, not the transitions: with overlap, updates are done beside or after
        the collection of more transitions, and the result must be the same. Those of pretraining
        do not count.
        """
        config, total = self.config, counters.total_steps
        if config.lr_schedule == "constant" or not total or self._cloning_engine is not None:
            return config.lr
        expected = max(1.0, (total - config.learning_starts) * config.ratio)
        return config.lr * max(0.0, 1 - counters.updates / expected)

    def refresh_target_by_steps(self, counters: Counters) -> None:
        """Move the target network if `target_unit` is "steps" and it is due."""
        if self.config.target_unit != "steps":
            return
        period, env_steps = self.config.target_every, counters.env_steps
        if env_steps // period > self._last_sync_step // period:
            self.model.move_target()
            self.engines.now.refresh_target()
        self._last_sync_step = env_steps

    def state(self) -> dict[str, State]:
        """Networks, optimizer, noise and counters."""
        model = self.model
        optim = model.optimizer.state()
        optim.arrays |= parameters_of(model.target, prefix="target.")
        optim.arrays["noise"] = model.noise.get_state().numpy().copy()
        optim.arrays["acting_noise"] = model.acting_noise.get_state().numpy().copy()
        optim.scalars |= {"updates": self.updates, "last_sync_step": self._last_sync_step}
        arrays = parameters_of(model.online)
        if self._statistics is not None:
            arrays |= self._statistics.used()
            optim.arrays |= self._statistics.recent()
        if self._value_range is not None:
            arrays |= self._value_range.used()
            optim.arrays |= self._value_range.rewards()
        return {"model": State(arrays), "optim": optim}

    def load_state(self, state: dict[str, State]) -> None:
        """Continue from saved networks, optimizer, noise and counters.

        Raises:
            InvalidStateError: They are of another network, or impossible.
        """
        model, optim = self.model, state["optim"]
        load_parameters(model.online, state["model"].arrays)
        load_parameters(model.target, optim.arrays, prefix="target.")
        model.optimizer.load_state(optim)
        if self._statistics is not None:
            self._statistics.load(state["model"].arrays, optim.arrays)
        if self._value_range is not None:
            self._value_range.load(state["model"].arrays, optim.arrays)
        for name, generator in (("noise", model.noise), ("acting_noise", model.acting_noise)):
            with invalid_state(f"the random generator {name}"):
                generator.set_state(torch.from_numpy(optim.arrays[name].copy()))
        self.updates = whole(optim.scalars, "updates")
        self._last_sync_step = whole(optim.scalars, "last_sync_step")
        self.engines.now.refresh()
        self.engines.now.drain()


def build_components(config: DQNConfig, context: BuildContext) -> OffPolicyComponents:
    """A DQN with its replay buffer and update schedule."""
    algo = DQN(config, context.spec, context.streams, context.compute)
    group, replicas = context.compute.replicas, context.compute.num_replicas
    part = part_of(config, replicas)
    # The first batch needs complete n-step windows, whatever learning_starts says.
    fillable = (part.batch_size + context.num_envs * config.n_step) * replicas
    pretraining = None
    if config.pretrain_from is not None:
        pretraining = Pretraining(
            teacher=config.pretrain_from,
            updates=config.pretrain_steps,
            loss="loss",
            behavior_cloning=algo.behavior_cloning,
        )
    return OffPolicyComponents(
        algo=algo,
        memory=_build_memory(part, context),
        batch_size=part.batch_size,
        updates_per_step=config.ratio,
        learning_starts=max(config.learning_starts, fillable),
        exploration_steps=_exploration_steps(config),
        update_every=config.update_every,
        n_step=config.n_step,
        pretraining=pretraining,
        pretrain_transitions=min(config.pretrain_transitions, config.buffer_size),
        replication=(None if group is None else replication(algo.model, group, algo.after_average)),
    )


def _exploration_steps(config: DQNConfig) -> int:
    """Transitions over which epsilon decays; 0 if that is a share of the budget."""
    decays = config.epsilon_end < config.epsilon_start
    return (config.epsilon_steps or 0) if decays else 0


def _build_memory(config: DQNConfig, context: BuildContext) -> ReplayMemory:
    announce_memory(
        context.spec,
        config.buffer_size,
        "--buffer-size",
        context.note,
        coded=context.codec is not None,
    )
    shape = {
        "capacity": config.buffer_size,
        "num_envs": context.num_envs,
        "n_step": config.n_step,
    }
    if not config.prioritized:
        return ReplayBuffer(spec=context.spec, gamma=config.gamma, codec=context.codec, **shape)
    return PrioritizedReplay(
        spec=context.spec,
        gamma=config.gamma,
        codec=context.codec,
        alpha=config.priority_alpha,
        beta=config.priority_beta,
        beta_steps=config.priority_beta_steps,
        **shape,
    )


def _explorer(spec: EnvSpec, streams: Streams, group: ReplicaGroup | None) -> EpsilonGreedy:
    actions, taken = num_actions(spec.action), num_taken(spec.action)
    rng = streams[own_stream("explore", group)]
    return (
        EpsilonGreedy(actions, rng) if taken is None else SubsetEpsilonGreedy(actions, taken, rng)
    )


def _build_model(config: DQNConfig, spec: EnvSpec, streams: Streams, compute: Compute) -> DQNModel:
    device, actions = compute.device, num_actions(spec.action)
    if config.atoms > 1 and num_taken(spec.action) is not None:
        raise ConfigError(
            "A distribution of returns (--atoms, which c51, qr-dqn and rainbow set) is learned for "
            "single actions, but this environment takes several at once. Use --atoms 1."
        )
    init = torch.Generator().manual_seed(derive_seed(streams.seed, "init"))
    online = value_network(config, spec.obs, actions, init).to(device)
    target = value_network(config, spec.obs, actions, init).to(device)
    online_flat, target_flat = FlatParameters(online), FlatParameters(target)
    target.requires_grad_(False)
    optimizer = SafeAdam(
        online_flat, compute, lr=config.lr, eps=config.adam_eps, max_norm=config.max_grad_norm
    )
    noise, acting_noise = (
        torch.Generator(device).manual_seed(
            derive_seed(streams.seed, own_stream(name, compute.replicas))
        )
        for name in ("noise", "acting noise")
    )
    model = DQNModel(
        config=config,
        online=online,
        target=target,
        online_flat=online_flat,
        target_flat=target_flat,
        optimizer=optimizer,
        noise=noise,
        acting_noise=acting_noise,
        support=first_support(config, device),
        taken=num_taken(spec.action),
    )
    model.copy_to_target()
    return model


def _input_statistics(model: DQNModel, spec: EnvSpec, compute: Compute) -> InputStatistics | None:
    """The statistics of observations; None if they are not normalized."""
    if not model.config.normalize_obs:
        return None
    return InputStatistics(
        spec.obs.size, (model.online.inputs, model.target.inputs), compute.replicas
    )


def _value_range(model: DQNModel, compute: Compute) -> ValueRange | None:
    """What widens the support of the return distribution; None if it is fixed."""
    if model.support is None or not is_automatic(model.config):
        return None
    return ValueRange(model.config, model.support, compute.replicas)


def _fused_refusal(model: DQNModel) -> str | None:
    """Why the fused engine cannot compute these networks; None if it can."""
    if not isinstance(model.online.body, MLPBody):
        return "the network's body is convolutional"
    if model.taken is not None:
        return "several actions of one set are taken"
    return None
