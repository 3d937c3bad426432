"""DQN and everything Rainbow adds to it, as options of one algorithm.

What is here does not depend on who computes: the networks, the optimizer, when the target network
is refreshed, how much is explored, and the state. The engines compute.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from briskrl.algos.dqn.config import DQNConfig
from briskrl.algos.dqn.engine import DQNEngine, DQNModel
from briskrl.algos.dqn.exploration import EpsilonGreedy, SubsetEpsilonGreedy, linear
from briskrl.algos.dqn.fused_engine import FusedDQNEngine, PackedTask, UpdateLoop
from briskrl.algos.dqn.policy import num_actions, num_taken, value_network
from briskrl.algos.dqn.torch_engine import TorchDQNEngine
from briskrl.algos.engines import Engines
from briskrl.algos.flops import Flops, value_flops
from briskrl.core.counters import Counters
from briskrl.core.errors import ConfigError
from briskrl.core.rng import Streams, derive_seed
from briskrl.core.spec import EnvSpec
from briskrl.core.types import Array, Batch, Bools, Decision, Floats, State
from briskrl.nets.bodies import MLPBody
from briskrl.nets.compute import Compute
from briskrl.nets.flat_parameters import FlatParameters, load_parameters, parameters_of
from briskrl.nets.safe_adam import SafeAdam


class DQN:
    """Value learning from replayed transitions; see DQNConfig for the options."""

    def __init__(
        self, config: DQNConfig, spec: EnvSpec, streams: Streams, compute: Compute
    ) -> None:
        self.config = config
        self.parts = _build_parts(config, spec, streams, compute)
        explore = _explorer(spec, streams)
        self._explore, self._compute = explore, compute
        self._cloning_engine: DQNEngine | None = None
        self.engines: Engines[DQNEngine] = Engines(
            compute,
            torch=lambda: TorchDQNEngine(self.parts, explore, compute),
            fused=lambda: FusedDQNEngine(
                self.parts,
                explore,
                spec.obs.size,
                threads=compute.threads,
                overlap=compute.overlap,
            ),
            refusal=_fused_refusal(self.parts),
        )
        self._updates = 0
        self._last_sync_step = 0

    def act(self, obs: Array, mask: Bools | None, counters: Counters, out: Decision) -> None:
        """Epsilon-greedy (or noisy greedy) actions for N environments."""
        self.engines.now.act(obs, mask, self.epsilon(counters), out.action)

    def epsilon(self, counters: Counters) -> float:
        """Share of random actions now."""
        config = self.config
        return linear(
            config.epsilon_start, config.epsilon_end, config.epsilon_steps, counters.env_steps
        )

    def update(self, batch: Batch, updates: int, counters: Counters) -> Floats:
        """See OffPolicy.update."""
        if self.config.target_unit == "steps":
            self._sync_by_steps(counters.env_steps)
        engine = self._cloning_engine or self.engines.now
        errors = engine.update(batch, updates, self._updates)
        self._updates += updates
        return errors

    def update_by(self, loop: UpdateLoop, batch: Batch, updates: int, counters: Counters) -> None:
        """Do what `update` does with a compiled loop of the caller's; see `takes_loops`."""
        loop(self.prepare(batch, updates, counters))
        self.conclude(batch, updates)

    def prepare(self, batch: Batch, updates: int, counters: Counters) -> PackedTask:
        """What compiled code needs to do updates; `conclude` follows these. See `takes_loops`."""
        if self.config.target_unit == "steps":
            self._sync_by_steps(counters.env_steps)
        return self._compiled.prepare(batch, updates, self._updates)

    def conclude(self, batch: Batch, updates: int) -> None:
        """Those updates are done."""
        self._compiled.conclude(batch)
        self._updates += updates

    @property
    def _compiled(self) -> FusedDQNEngine:
        engine = self.engines.now
        assert isinstance(engine, FusedDQNEngine)
        return engine

    @property
    def updates(self) -> int:
        """How many have been done."""
        return self._updates

    @property
    def takes_loops(self) -> bool:
        """Whether updates are compiled, so that compiled code can do something between them."""
        return self._cloning_engine is None and isinstance(self.engines.now, FusedDQNEngine)

    @contextmanager
    def behavior_cloning(self) -> Iterator[None]:
        """See Algorithm.imitating; torch computes, on the same networks and optimizer."""
        self._cloning_engine = TorchDQNEngine(
            self.parts, self._explore, self._compute, imitates=True
        )
        try:
            yield
        finally:
            self._cloning_engine = None
            self.engines.now.refresh()

    def flops(self, num_envs: int) -> Flops:
        """See Algorithm.flops."""
        return value_flops(self.config, self.parts.online)

    def progress(self, counters: Counters) -> dict[str, float]:
        """Mean loss and gradient norm since the last call, and the current epsilon."""
        engine = self._cloning_engine or self.engines.now
        figures = {"epsilon": self.epsilon(counters), **engine.drain()}
        return {**figures, **self.parts.guard.drain()}

    def _sync_by_steps(self, env_steps: int) -> None:
        period = self.config.target_every
        if env_steps // period > self._last_sync_step // period:
            self.parts.copy_to_target()
            self.engines.now.refresh_target()
        self._last_sync_step = env_steps

    def state(self) -> dict[str, State]:
        """Networks, optimizer, noise and counters."""
        parts = self.parts
        optim = parts.guard.state()
        optim.arrays |= parameters_of(parts.target, prefix="target.")
        optim.arrays["noise"] = parts.noise.get_state().numpy().copy()
        optim.arrays["acting_noise"] = parts.acting_noise.get_state().numpy().copy()
        optim.scalars |= {"updates": self._updates, "last_sync_step": self._last_sync_step}
        return {"model": State(parameters_of(parts.online)), "optim": optim}

    def load_state(self, state: dict[str, State]) -> None:
        """Continue from saved networks, optimizer, noise and counters."""
        parts, optim = self.parts, state["optim"]
        load_parameters(parts.online, state["model"].arrays)
        load_parameters(parts.target, optim.arrays, prefix="target.")
        parts.guard.load_state(optim)
        parts.noise.set_state(torch.from_numpy(optim.arrays["noise"].copy()))
        parts.acting_noise.set_state(torch.from_numpy(optim.arrays["acting_noise"].copy()))
        self._updates = optim.scalars["updates"]
        self._last_sync_step = optim.scalars["last_sync_step"]
        self.engines.now.refresh()
        self.engines.now.drain()


def _explorer(spec: EnvSpec, streams: Streams) -> EpsilonGreedy:
    actions, taken, rng = num_actions(spec.action), num_taken(spec.action), streams["explore"]
    return (
        EpsilonGreedy(actions, rng) if taken is None else SubsetEpsilonGreedy(actions, taken, rng)
    )


def _build_parts(config: DQNConfig, spec: EnvSpec, streams: Streams, compute: Compute) -> DQNModel:
    device, actions = compute.device, num_actions(spec.action)
    if config.atoms > 1 and num_taken(spec.action) is not None:
        raise ConfigError(
            "A distribution of returns (--atoms, which c51 and rainbow set) is learnt for single "
            "actions, but this environment takes several at once. Use --atoms 1."
        )
    init = torch.Generator().manual_seed(derive_seed(streams.seed, "init"))
    online = value_network(config, spec.obs, actions, init).to(device)
    target = value_network(config, spec.obs, actions, init).to(device)
    online_flat, target_flat = FlatParameters(online), FlatParameters(target)
    target.requires_grad_(False)
    guard = SafeAdam(
        online_flat, compute, lr=config.lr, eps=config.adam_eps, max_norm=config.max_grad_norm
    )
    parts = DQNModel(
        config=config,
        online=online,
        target=target,
        online_flat=online_flat,
        target_flat=target_flat,
        guard=guard,
        noise=torch.Generator(device).manual_seed(derive_seed(streams.seed, "noise")),
        acting_noise=torch.Generator(device).manual_seed(derive_seed(streams.seed, "acting noise")),
        taken=num_taken(spec.action),
    )
    parts.copy_to_target()
    return parts


def _fused_refusal(parts: DQNModel) -> str | None:
    """Why the fused engine cannot compute these networks; None if it can."""
    if not isinstance(parts.online.body, MLPBody):
        return "the network's body is convolutional"
    if parts.taken is not None:
        return "several actions of one set are taken"
    return None
