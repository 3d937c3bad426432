"""Ready-made hooks for `train(config, hooks=[...])`: evaluate, stop at a score, log numbers.

A hook is any function of one argument, the `RunRecorder` of the run: it is called between
iterations, with `recorder.trainer.counters` for progress, `recorder.recent` for the last episodes
of training, `recorder.log_values` for numbers of your own and `recorder.stop` to end the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from briskrl.algos.registry import ALGOS
from briskrl.core.phase import Phase
from briskrl.core.registry import load_object
from briskrl.training.evaluate import Agent, EvalResult, evaluate_agent

if TYPE_CHECKING:
    from briskrl.training.recorder import RunRecorder


class Every:
    """Whether another `steps` transitions have been collected since it was last asked."""

    def __init__(self, steps: int) -> None:
        if steps < 1:
            raise ValueError(f"steps must be 1 or more, not {steps}.")
        self._steps = steps

    def is_due(self, recorder: RunRecorder) -> bool:
        """Whether a multiple of `steps` lies in the last iteration."""
        trainer = recorder.trainer
        now = trainer.counters.env_steps
        return now // self._steps > (now - trainer.last_collected) // self._steps


class EvaluateEvery:
    """Evaluates the policy every `steps` transitions, on new episodes without exploration.

    Logs `eval_score` and `eval_return` to metrics.jsonl. Training is the same with and without it.

    Args:
        steps: Transitions between two evaluations.
        episodes: Episodes of one evaluation.
        seed: Their seed; the same episodes each time.
        stop_at: Score at which the run ends.
    """

    def __init__(
        self, steps: int, *, episodes: int = 20, seed: int = 0, stop_at: float | None = None
    ) -> None:
        self._every = Every(steps)
        self._episodes, self._seed, self._stop_at = episodes, seed, stop_at
        self.results: list[tuple[int, EvalResult]] = []
        """Transitions collected at every evaluation, and its result."""

    def __call__(self, recorder: RunRecorder) -> None:
        """Evaluate if it is time."""
        if not self._every.is_due(recorder):
            return
        with recorder.trainer.timer[Phase.EVAL]:
            agent = agent_of(recorder)
            result = evaluate_agent(agent, episodes=self._episodes, seed=self._seed)
        self.results.append((recorder.trainer.counters.env_steps, result))
        recorder.log_values(eval_score=result.mean_score, eval_return=result.mean_return)
        if self._stop_at is not None and result.mean_score >= self._stop_at:
            recorder.stop()


class StopAtScore:
    """Ends the run once the mean score of recent training episodes, with exploration, is reached.

    Args:
        score: The mean score to reach.
        episodes: Episodes that must have ended since training began; the mean is over the last
            1000 at most.
    """

    def __init__(self, score: float, *, episodes: int = 100) -> None:
        self._score, self._episodes = score, episodes

    def __call__(self, recorder: RunRecorder) -> None:
        """Stop if the score is reached."""
        recent = recorder.recent
        mean = recent.mean_score if recent.total >= self._episodes else None
        if mean is not None and mean >= self._score:
            recorder.stop()


def agent_of(recorder: RunRecorder) -> Agent:
    """The policy as it is now, with its environment.

    Raises:
        ConfigError: Later, when it plays, if the environment was passed in from Python.
    """
    trainer = recorder.trainer
    config, spec = trainer.config, trainer.env.env_spec
    arrays = trainer.algo.state()["model"].arrays
    build: Any = load_object(ALGOS.get(config.algo).policy)
    policy = build(config.algo_config, spec.obs, spec.action, arrays)
    return Agent(policy, config.env, config.env_config)
