"""PPO on CartPole as one compiled JAX program: games, rollout, advantages, epochs and Adam.

This is how the fastest JAX trainers work: a round never returns to Python. Games end as Gymnasium's
do. As usual in such trainers, truncated games count as terminated in the advantages, which is
cheaper than evaluating their last observation.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from runner_protocol import serve, settings

SETTINGS = settings()
Params = Any
"""A list of (weights, biases) per network."""


class Games(NamedTuple):
    """N games: states (N, 4) and steps (N,) of their episodes."""

    state: jax.Array
    steps: jax.Array


def begin_games(key: jax.Array, num_envs: int) -> Games:
    """New games: carts near the center with almost upright poles."""
    state = jax.random.uniform(key, (num_envs, 4), minval=-0.05, maxval=0.05)
    return Games(state, jnp.zeros(num_envs, jnp.int32))


def step_games(games: Games, action: jax.Array, fresh: jax.Array) -> tuple[Games, jax.Array]:
    """Step all games, replacing ended ones by `fresh` (N, 4); also returns which ended (N,)."""
    _, speed, angle, spin = games.state.T
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    force = jnp.where(action == 1, 10.0, -10.0)
    thrust = (force + 0.05 * spin**2 * sine) / 1.1
    turn = (9.8 * sine - cosine * thrust) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
    pull = thrust - 0.05 * turn * cosine / 1.1
    changes = jnp.stack([speed, pull, spin, turn], axis=1)
    state, steps = games.state + 0.02 * changes, games.steps + 1
    limits = (jnp.abs(state[:, 0]) > 2.4) | (jnp.abs(state[:, 2]) > 12 * jnp.pi / 180)
    ended = limits | (steps >= SETTINGS["max_steps"])
    return Games(jnp.where(ended[:, None], fresh, state), jnp.where(ended, 0, steps)), ended


def build_network(key: jax.Array, widths: list[int], last: float) -> Params:
    """Dense layers with orthogonal weights; `last` is the gain of the last layer."""
    gains = [2**0.5] * (len(widths) - 2) + [last]
    keys = jax.random.split(key, len(gains))
    return [
        (jax.nn.initializers.orthogonal(gain)(k, (rows, columns)), jnp.zeros(columns))
        for k, gain, rows, columns in zip(keys, gains, widths[:-1], widths[1:], strict=True)
    ]


def outputs(network: Params, obs: jax.Array) -> jax.Array:
    """Outputs of a network for observations (M, 4)."""
    activation = {"tanh": jnp.tanh, "relu": jax.nn.relu}[SETTINGS["activation"]]
    for weights, biases in network[:-1]:
        obs = activation(obs @ weights + biases)
    weights, biases = network[-1]
    return obs @ weights + biases


def log_prob_of(log_probs: jax.Array, action: jax.Array) -> jax.Array:
    """Log-probabilities (M,) of the actions; a masked sum compiles better than a lookup."""
    return (log_probs * jax.nn.one_hot(action, log_probs.shape[-1])).sum(-1)


def loss(params: Params, batch: tuple[jax.Array, ...]) -> jax.Array:
    """PPO's clipped loss with value loss and entropy bonus."""
    obs, action, old_log_prob, advantage, target = batch
    if SETTINGS["normalize_advantage"]:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    log_probs = jax.nn.log_softmax(outputs(params["policy"], obs))
    ratio = jnp.exp(log_prob_of(log_probs, action) - old_log_prob)
    clip = SETTINGS["clip"]
    surrogate = jnp.minimum(
        ratio * advantage, jnp.clip(ratio, 1 - clip, 1 + clip) * advantage
    ).mean()
    values = outputs(params["values"], obs)[:, 0]
    entropy = -(jnp.exp(log_probs) * log_probs).sum(-1).mean()
    value_loss = jnp.square(values - target).mean()
    return SETTINGS["value_coef"] * value_loss - surrogate - SETTINGS["entropy_coef"] * entropy


class Adam(NamedTuple):
    """Adam's running means and number of steps."""

    mean: Params
    square: Params
    count: jax.Array


def adam_step(params: Params, adam: Adam, gradient: Params) -> tuple[Params, Adam]:
    """One step of Adam with the clipped gradient."""
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(gradient)))
    scale = jnp.minimum(1.0, SETTINGS["max_grad_norm"] / (norm + 1e-6))
    gradient = jax.tree.map(lambda g: g * scale, gradient)
    count = adam.count + 1
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, adam.mean, gradient)
    square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, adam.square, gradient)
    rate = SETTINGS["lr"] * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
    # Equals bias correction of both means with the usual eps.
    eps = SETTINGS["adam_eps"] * jnp.sqrt(1 - 0.999**count)
    params = jax.tree.map(lambda p, m, s: p - rate * m / (jnp.sqrt(s) + eps), params, mean, square)
    return params, Adam(mean, square, count)


def collect(params: Params, games: Games, key: jax.Array) -> Any:
    """The games after a rollout, and its steps (T, N, ...)."""
    num_envs, steps = SETTINGS["num_envs"], SETTINGS["update_steps"]

    def one(games: Games, key: jax.Array) -> tuple[Games, Any]:
        act, begin = jax.random.split(key)
        log_probs = jax.nn.log_softmax(outputs(params["policy"], games.state))
        action = (jax.random.uniform(act, (num_envs,)) > jnp.exp(log_probs[:, 0])).astype(jnp.int32)
        values = outputs(params["values"], games.state)[:, 0]
        fresh = begin_games(begin, num_envs).state
        after, ended = step_games(games, action, fresh)
        length = jnp.where(ended, games.steps + 1, 0)
        step = (games.state, action, log_prob_of(log_probs, action), values, ended, length)
        return after, step

    return jax.lax.scan(one, games, jax.random.split(key, steps))


def advantages(values: jax.Array, ended: jax.Array, last: jax.Array) -> jax.Array:
    """Generalized advantages (T, N) of rewards that are all 1."""
    gamma, decay = SETTINGS["gamma"], SETTINGS["gamma"] * SETTINGS["gae_lambda"]

    def one(carry: Any, step: Any) -> tuple[Any, jax.Array]:
        advantage, next_value = carry
        value, done = step
        not_done = 1.0 - done
        advantage = 1.0 + gamma * next_value * not_done - value + decay * not_done * advantage
        return (advantage, value), advantage

    first = (jnp.zeros_like(last), last)
    _, found = jax.lax.scan(one, first, (values, ended.astype(jnp.float32)), reverse=True)
    return found


def one_round(carry: Any, _: None) -> tuple[Any, Any]:
    """Collect a rollout and learn from it."""
    params, adam, games, key = carry
    key, playing, shuffling = jax.random.split(key, 3)
    games, (obs, action, log_prob, values, ended, length) = collect(params, games, playing)
    last = outputs(params["values"], games.state)[:, 0]
    advantage = advantages(values, ended, last)
    size = SETTINGS["num_envs"] * SETTINGS["update_steps"]
    parts = size // SETTINGS["minibatch_size"]
    steps = (obs, action, log_prob, advantage, advantage + values)
    flat = jax.tree.map(lambda a: a.reshape(size, *a.shape[2:]), steps)

    def minibatch(carry: Any, indices: jax.Array) -> tuple[Any, None]:
        params, adam = carry
        gradient = jax.grad(loss)(params, jax.tree.map(lambda a: a[indices], flat))
        return adam_step(params, adam, gradient), None

    def epoch(carry: Any, key: jax.Array) -> Any:
        order = jax.random.permutation(key, size).reshape(parts, -1)
        return jax.lax.scan(minibatch, carry, order)

    keys = jax.random.split(shuffling, SETTINGS["epochs"])
    (params, adam), _ = jax.lax.scan(epoch, (params, adam), keys)
    return (params, adam, games, key), (length.sum(), ended.sum())


@partial(jax.jit, donate_argnums=0)
def train_round(carry: Any) -> tuple[Any, Any]:
    """One round in one compiled call."""
    return one_round(carry, None)


class Training:
    """The state of a run between two rounds."""

    def __init__(self) -> None:
        policy, values, games, key = jax.random.split(jax.random.key(SETTINGS["seed"]), 4)
        hidden = list(SETTINGS["net"])
        params = {
            "policy": build_network(policy, [4, *hidden, 2], 0.01),
            "values": build_network(values, [4, *hidden, 1], 1.0),
        }
        mean, square = (jax.tree.map(jnp.zeros_like, params) for _ in range(2))
        adam = Adam(mean, square, jnp.float32(0))
        self._carry = (params, adam, begin_games(games, SETTINGS["num_envs"]), key)

    def train(self, rounds: int) -> float | None:
        """Train a number of rounds; returns the mean return of ended episodes."""
        results = []
        for _ in range(rounds):
            self._carry, ended = train_round(self._carry)
            results.append(ended)
        # JAX computes rounds asynchronously; reading their results waits for them.
        steps, episodes = (
            sum(float(part) for part in column) for column in zip(*results, strict=True)
        )
        jax.block_until_ready(self._carry)
        return steps / episodes if episodes else None


if __name__ == "__main__":
    serve(
        f"jax {jax.__version__}",
        Training().train,
        rollout=SETTINGS["num_envs"] * SETTINGS["update_steps"],
    )
