"""Evaluation during training: the same greedy episodes every time, the best policy kept.

Evaluation reads the parameters and plays in environments of its own, so it changes nothing in
training. What it found is part of every checkpoint, so a resumed run keeps the same best policy
and stops at the same step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from briskrl.algos.base import Policy
from briskrl.algos.registry import ALGOS
from briskrl.core.errors import InvalidStateError
from briskrl.core.registry import load_object
from briskrl.core.rng import derive_seed
from briskrl.core.state_checks import mapping, whole
from briskrl.core.types import JSON, State
from briskrl.envs.base import VecEnv
from briskrl.training.config import STOP_MEASURES, StopTarget, TrainConfig
from briskrl.training.evaluate import Agent, EvalResult, evaluate_agent, open_env
from briskrl.training.game_video import game_gif
from briskrl.training.storage.policy_io import MODEL
from briskrl.training.trainer import Trainer

EVALUATION = "evaluation"
"""Name of the state in a checkpoint."""
_FIELDS = ("mean_score", "std_score", "max_score", "mean_return", "std_return", "win_rate")


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of one evaluation."""

    env_steps: int
    episodes: int
    mean_score: float
    std_score: float
    max_score: float
    mean_return: float
    std_return: float
    win_rate: float

    def reaches(self, target: StopTarget) -> bool:
        """Whether it is at least as good as a target."""
        return float(getattr(self, STOP_MEASURES[target.measure])) >= target.value

    def as_json(self) -> dict[str, JSON]:
        """The record as a JSON object."""
        return {
            "env_steps": self.env_steps,
            "episodes": self.episodes,
            **{name: getattr(self, name) for name in _FIELDS},
        }


class PeriodicEvaluation:
    """Evaluates the policy of a trainer whenever `eval_every` transitions have been collected.

    Args:
        config: The complete settings of the run.
    """

    def __init__(self, config: TrainConfig) -> None:
        self._config = config
        self._seed = derive_seed(config.seed, "evaluation during training")
        self._target = None if config.stop_at is None else StopTarget.parse(config.stop_at)
        self._env: VecEnv | None = None
        self.last: Evaluation | None = None
        self.best: Evaluation | None = None
        """The first one with the highest score."""
        self.best_model: State | None = None
        """Parameters of the best policy."""

    @property
    def is_on(self) -> bool:
        """Whether there are evaluations."""
        return self._config.eval_every > 0

    @property
    def stops(self) -> bool:
        """Whether an evaluation may end the run."""
        return self._target is not None

    @property
    def is_target_reached(self) -> bool:
        """Whether the last evaluation reached `stop_at`."""
        if self._target is None or self.last is None:
            return False
        return self.last.reaches(self._target)

    def is_due(self, trainer: Trainer) -> bool:
        """Whether a multiple of `eval_every` was reached in the last iteration."""
        every, now = self._config.eval_every, trainer.counters.env_steps
        return every > 0 and now // every > (now - trainer.last_collected) // every

    def evaluate(self, trainer: Trainer) -> Evaluation:
        """Evaluate the present policy; updates `last`, `best` and `best_model`."""
        model = trainer.algo.state()[MODEL]
        result = self._play(self._policy(trainer, model))
        found = {name: getattr(result, name) for name in _FIELDS}
        evaluation = Evaluation(trainer.counters.env_steps, result.episodes, **found)
        self.last = evaluation
        if self.best is None or evaluation.mean_score > self.best.mean_score:
            self.best, self.best_model = evaluation, model
        return evaluation

    def play_final(self, trainer: Trainer) -> tuple[dict[str, float], bytes | None]:
        """The final policy on fresh episodes, and its first game as a GIF if it can be drawn."""
        config = self._config
        policy = self._policy(trainer, trainer.algo.state()[MODEL])
        agent = Agent(policy, config.env, config.env_config)
        result = evaluate_agent(agent, episodes=config.eval_episodes, seed=0)
        return {name: getattr(result, name) for name in _FIELDS}, game_gif(agent, seed=0, episode=0)

    def state(self) -> State:
        """For a checkpoint: the last and the best evaluation, and the best parameters."""
        scalars: dict[str, JSON] = {}
        for name, evaluation in (("last", self.last), ("best", self.best)):
            scalars[name] = None if evaluation is None else evaluation.as_json()
        model = self.best_model
        scalars["model"] = {} if model is None else model.scalars
        return State({} if model is None else dict(model.arrays), scalars)

    def load_state(self, state: State | None) -> None:
        """Continue with what `state` returned; None if the run had no evaluations by then.

        Raises:
            InvalidStateError: It is impossible.
        """
        self.last = self.best = self.best_model = None
        if state is None:
            return
        self.last = _loaded(state.scalars.get("last"))
        self.best = _loaded(state.scalars.get("best"))
        if self.best is not None:
            self.best_model = State(state.arrays, mapping(state.scalars, "model"))

    def close(self) -> None:
        """Close the environments."""
        if self._env is not None:
            self._env.close()
            self._env = None

    def _policy(self, trainer: Trainer, model: State) -> Policy:
        spec, config = trainer.env.env_spec, self._config
        build: Any = load_object(ALGOS.get(config.algo).policy)
        policy: Policy = build(config.algo_config, spec.obs, spec.action, model.arrays)
        return policy

    def _play(self, policy: Policy) -> EvalResult:
        config = self._config
        if self._env is None:
            self._env = open_env(config.env, config.env_config, config.eval_episodes)
        agent = Agent(policy, config.env, config.env_config)
        return evaluate_agent(agent, episodes=config.eval_episodes, seed=self._seed, env=self._env)


def _loaded(data: JSON) -> Evaluation | None:
    if data is None:
        return None
    if not isinstance(data, dict) or not all(isinstance(data.get(n), float) for n in _FIELDS):
        raise InvalidStateError("an evaluation has no numbers")
    counts = whole(data, "env_steps"), whole(data, "episodes")
    return Evaluation(*counts, **{name: data[name] for name in _FIELDS})
