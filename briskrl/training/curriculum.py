"""Curriculum stages: which one a run is in, and when it ends."""

from __future__ import annotations

from collections.abc import Sequence

from briskrl.core.errors import ConfigError
from briskrl.core.state_checks import mapping, whole
from briskrl.core.types import EpisodeStats, State
from briskrl.envs.make import make_env
from briskrl.training.config import Stage, TrainConfig
from briskrl.training.recent_episodes import RecentEpisodes
from briskrl.training.resolve import stage_env_config


def check_stages(config: TrainConfig) -> None:
    """Check that one network fits all stages and the task itself.

    Raises:
        ConfigError: The observations or actions of a stage differ from those of the task.
    """
    if not config.curriculum:
        return
    task = _layout(config, None)
    for number, stage in enumerate(config.curriculum, 1):
        found = _layout(config, stage)
        if found != task:
            raise ConfigError(
                f"Stage {number} of the curriculum has other observations or actions than the task "
                f"itself ({found} instead of {task}), so one network cannot play both. "
                "Do not change the settings that they depend on."
            )


def _layout(config: TrainConfig, stage: Stage | None) -> str:
    env = make_env(config.env, 1, config=stage_env_config(config.env_config, stage))
    spec = env.env_spec
    env.close()
    masks = ", masks" if spec.has_mask else ""
    return f"{spec.obs.dtype}{list(spec.obs.shape)}, {spec.action}{masks}"


class Curriculum:
    """Decides when the next stage begins; after the last stage comes the task itself."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = stages
        self.stage = 0
        """Index of the stage; the number of stages once all are passed."""
        self._begin()

    @property
    def current(self) -> Stage | None:
        """The current stage; None for the task itself."""
        return self._stages[self.stage] if self.stage < len(self._stages) else None

    def describe(self) -> str:
        """The stage in words."""
        stage = self.current
        if stage is None:
            return "the task itself"
        settings = ", ".join(f"{name} {value}" for name, value in stage.env.items())
        goal = {"score": "mean score", "success": "success rate", "steps": "steps"}[stage.until]
        return (
            f"stage {self.stage + 1} of {len(self._stages)} ({settings}) "
            f"until {goal} {stage.value:g}"
        )

    def observe(self, collected: int, ended: EpisodeStats) -> bool:
        """Count an iteration of the current stage; returns whether the stage is passed."""
        stage = self.current
        if stage is None:
            return False
        self._steps += collected
        self._recent.add(ended)
        return self._is_passed(stage)

    def promote(self) -> None:
        """Begin the next stage, counting from zero."""
        self.stage += 1
        self._begin()

    def state(self) -> State:
        """The stage and the counts that decide its end."""
        recent = self._recent.state()
        counts = {"stage": self.stage, "steps": self._steps, "recent": recent.scalars}
        return State(recent.arrays, counts)

    def load_state(self, state: State) -> None:
        """Continue in the saved stage.

        Raises:
            InvalidStateError: There is no such stage, or a number is impossible.
        """
        self.stage = whole(state.scalars, "stage", len(self._stages))
        self._begin()
        self._steps = whole(state.scalars, "steps")
        self._recent.load_state(State(state.arrays, mapping(state.scalars, "recent")))

    def _begin(self) -> None:
        self._steps = 0
        stage = self.current
        self._recent = RecentEpisodes(1 if stage is None else stage.window)

    def _is_passed(self, stage: Stage) -> bool:
        if stage.until == "steps":
            return self._steps >= stage.value
        if self._recent.total < stage.window:
            return False
        reached = self._recent.mean_score if stage.until == "score" else self._recent.win_rate
        return reached is not None and reached >= stage.value
