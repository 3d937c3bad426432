"""Evaluate a policy: greedy episodes with seeds that training never uses."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from briskrl.algos.base import Policy
from briskrl.algos.registry import ALGOS
from briskrl.core.config import build, completed_record, settings
from briskrl.core.errors import ConfigError, RunFolderError, nearest
from briskrl.core.registry import load_object
from briskrl.core.rng import derive_seed
from briskrl.core.spec import ActionSpec, ArraySpec, action_from_dict, obs_from_dict
from briskrl.core.state_checks import MALFORMED, short
from briskrl.core.types import JSON, State, StepBuffers
from briskrl.envs.base import VecEnv
from briskrl.envs.evaluation_suites import Games, Report, Suite
from briskrl.envs.external import adapt, build_like
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.make import make_env
from briskrl.envs.registry import ENVS
from briskrl.training.resolve import algo_config_class, env_config
from briskrl.training.storage.run_dir import RunDir
from briskrl.training.trust import check_trusted, modules_of, modules_of_algo

MAX_ENVS = 256
"""Episodes played side by side."""


@runtime_checkable
class HasEvaluationSettings(Protocol):
    """An environment config that differs between training and evaluation."""

    def for_evaluation(self) -> Any:
        """The config to evaluate with."""
        ...


@dataclass(frozen=True, slots=True)
class EvalResult:
    """Statistics over independent episodes."""

    episodes: int
    mean_return: float
    std_return: float
    mean_score: float
    std_score: float
    max_score: float
    win_rate: float
    mean_steps: float
    seed: int

    def as_json(self) -> dict[str, JSON]:
        """The record as a JSON object."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Agent:
    """A policy and the environment that it plays in."""

    policy: Policy
    env: str
    env_config: object


@dataclass(frozen=True, slots=True)
class TrainedAgent:
    """The agent of a run, with the spaces and the moment of its policy."""

    agent: Agent
    obs: ArraySpec
    action: ActionSpec
    about: dict[str, JSON]
    """The description of the policy: settings and steps of training."""


def load_policy(run_dir: str | Path, *, best: bool = False, trust: bool = False) -> Agent:
    """The newest policy of a run, with its environment; see `load_trained`."""
    return load_trained(run_dir, best=best, trust=trust).agent


def load_trained(run_dir: str | Path, *, best: bool = False, trust: bool = False) -> TrainedAgent:
    """Load the newest policy of a run, with the environment that it was trained in.

    Args:
        run_dir: The run folder.
        best: The policy with the best evaluation during training instead of the newest.
        trust: Import the modules that the run names even if other users can change its folder.

    Raises:
        RunFolderError: There is no run, or it has not saved a policy yet.
        ConfigError: The run names modules to import, others can change it, and `trust` is False.
    """
    folder = RunDir.open(Path(run_dir))
    state, about = folder.load_best_policy_files() if best else folder.load_policy_files()
    return build_trained(folder.path, state, about, trust=trust)


def build_trained(
    folder: Path, state: State, about: dict[str, JSON], *, trust: bool = False
) -> TrainedAgent:
    """The agent of a policy that was read from a run folder.

    Args:
        folder: The run folder.
        state: Arrays and scalars of the network.
        about: The description of the policy.
        trust: See `load_trained`.

    Raises:
        RunFolderError: The policy does not fit its description.
        ConfigError: The run names modules to import, others can change it, and `trust` is False.
    """
    try:
        algo, obs_spec = str(about["algo"]), obs_from_dict(about["obs"])
        action = action_from_dict(about["action"])
        config_class = algo_config_class(algo)
        recorded = completed_record(config_class, about["algo_config"])
        algo_config: Any = build(config_class, settings(recorded))
        # Before the network is built, which imports a body of the user.
        check_trusted(
            chain([folder], folder.rglob("*")),
            modules_of_algo(algo_config),
            trust=trust,
        )
        policy: Policy = load_object(ALGOS.get(algo).policy)(
            algo_config, obs_spec, action, state.arrays
        )
        env = str(about["env"])
        agent = Agent(policy, env, env_config(env, **about["env_config"]))
    except MALFORMED as error:
        raise RunFolderError(
            f"The policy of {folder} does not fit the network that its settings describe: "
            f"{short(str(error))}. Another version of briskrl may have written it."
        ) from error
    check_trusted(
        chain([folder], folder.rglob("*")),
        modules_of(agent.env, agent.env_config),
        trust=trust,
    )
    return TrainedAgent(agent, obs_spec, action, about)


def evaluate(
    run_dir: str | Path,
    *,
    env: Any = None,
    episodes: int = 100,
    seed: int = 0,
    best: bool = False,
    trust: bool = False,
) -> EvalResult:
    """Evaluate the newest policy of a run, greedily; see `load_policy` and `play_games`.

    Args:
        run_dir: The run folder.
        env: What to play instead of the environment of the run, as in `train`. Vector environments
            are not closed.
        episodes: Number of episodes.
        seed: Their seed; equal seeds give equal episodes.
        best: Evaluate the policy with the best evaluation during training, not the newest.
        trust: See `load_policy`.
    """
    agent = load_policy(run_dir, best=best, trust=trust)
    if env is None:
        return evaluate_agent(agent, episodes=episodes, seed=seed)
    given = adapt(env)
    if given is not None:
        return evaluate_agent(agent, episodes=episodes, seed=seed, env=given)
    config = agent.env_config if isinstance(agent.env_config, GymConfig) else GymConfig()
    config = replace(config, env_args={}, packages=(), env_files=()).for_evaluation()
    made = build_like(env, min(episodes, MAX_ENVS), config)
    with closing(made):
        return evaluate_agent(agent, episodes=episodes, seed=seed, env=made)


def evaluate_agent(
    agent: Agent, *, episodes: int, seed: int, env: VecEnv | None = None
) -> EvalResult:
    """Statistics over `episodes` episodes; see `play_games`."""
    games = play_games(agent, episodes=episodes, seed=seed, env=env)
    return EvalResult(
        episodes=episodes,
        mean_return=float(games.returns.mean()),
        std_return=float(games.returns.std()),
        mean_score=float(games.score.mean()),
        std_score=float(games.score.std()),
        max_score=float(games.score.max()),
        win_rate=float(games.won.mean()),
        mean_steps=float(games.steps.mean()),
        seed=seed,
    )


def play_games(
    agent: Agent,
    *,
    episodes: int,
    seed: int,
    env: VecEnv | None = None,
    after_step: Callable[[], None] = lambda: None,
) -> Games:
    """Play `episodes` episodes, each with its own seed, and return the result of every one.

    Episode k depends on `seed` and k alone. Each environment contributes its first episode only,
    because taking the episodes that end first would favor short ones. `after_step` is called after
    every step of all environments. `env` is played instead of the agent's environment, and stays
    open.
    """
    if env is None:
        with closing(open_env(agent.env, agent.env_config, episodes)) as made:
            return play_games(agent, episodes=episodes, seed=seed, env=made, after_step=after_step)
    base = derive_seed(seed, "evaluate")
    policy = agent.policy.fitted(env.env_spec)
    with one_thread():
        waves = [
            _first_episodes(policy, env, base + first, after_step)[: episodes - first]
            for first in range(0, episodes, env.num_envs)
        ]
    return Games(*np.concatenate(waves).T)


def open_env(env: str, env_config: Any, episodes: int) -> VecEnv:
    """Environments to play `episodes` episodes in; the caller closes them."""
    if isinstance(env_config, HasEvaluationSettings):
        env_config = env_config.for_evaluation()
    return make_env(env, min(episodes, MAX_ENVS), config=env_config)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch to one thread, because more are slower for small batches."""
    # Not imported for hand-written players, because the import takes longer than their episodes.
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else 1
    if torch:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if torch:
            torch.set_num_threads(before)


def _first_episodes(
    policy: Policy, env: VecEnv, seed: int, after_step: Callable[[], None]
) -> NDArray[np.float64]:
    """(N, 4): return, score, steps and win of the first episode of every environment."""
    buffers = StepBuffers.allocate(env.env_spec, env.num_envs)
    env.start(seed, buffers)
    env.drain_stats()
    games = np.full((env.num_envs, 4), np.nan)
    missing = env.num_envs
    restart = policy.restart
    if restart:
        restart(np.ones(env.num_envs, np.bool_))
    while missing:
        env.step_into(policy.act(buffers.obs, buffers.mask), buffers)
        if restart:
            restart(buffers.terminated | buffers.truncated)
        ended = env.drain_stats()
        new = np.isnan(games[ended.env, 0])
        columns = (ended.returns, ended.score, ended.steps, ended.won)
        games[ended.env[new]] = np.stack([column[new] for column in columns], axis=1)
        missing -= int(new.sum())
        after_step()
    return games


def find_suite(env: str, name: str) -> Suite:
    """The evaluation suite of this name of an environment.

    Raises:
        ConfigError: The environment has no such suite.
    """
    suites = ENVS.get(env).suites
    if name not in suites:
        known = nearest(name, suites) if suites else "It has none."
        raise ConfigError(f"The environment {env!r} has no suite {name!r}. {known}")
    found: Suite = load_object(suites[name])
    return found


def run_suite(agent: Agent, name: str, *, episodes: int | None = None, seed: int = 0) -> Report:
    """Run a suite for an agent; `episodes` overrides the number that the suite prescribes."""
    family = ENVS.get(agent.env)

    def play(config: Any, *, episodes: int, seed: int, player: str | None = None) -> Games:
        playing = replace(agent, env_config=config)
        if player is not None:
            chosen = family.players[player]
            playing = Agent(chosen.policy(), agent.env, replace(config, **chosen.needs))
        return play_games(playing, episodes=episodes, seed=seed)

    return find_suite(agent.env, name)(play, agent.env_config, episodes=episodes, seed=seed)
