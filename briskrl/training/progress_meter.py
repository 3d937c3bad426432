"""Speed, machine share, progress and result of a running trainer."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

from briskrl.training.periodic_evaluation import Evaluation
from briskrl.training.recent_episodes import RecentEpisodes
from briskrl.training.reporter import Progress, RunResult, StopReason
from briskrl.training.trainer import Trainer
from briskrl.training.utilization import Utilization, UtilizationMeter


class _Mark(NamedTuple):
    """The times and counters at one moment."""

    wall_s: float
    cpu_s: float
    env_steps: int
    updates: int
    fraction: float


class ProgressMeter:
    """Measures a trainer from the end of its warm-up on.

    Args:
        trainer: What is measured.
        recent: Its most recent episodes.
        cpu_s: CPU seconds of all processes that take part, since any moment.
    """

    def __init__(
        self, trainer: Trainer, recent: RecentEpisodes, cpu_s: Callable[[], float]
    ) -> None:
        self._trainer, self._recent, self._cpu_s = trainer, recent, cpu_s
        self._meter = UtilizationMeter(
            trainer.algo.flops(trainer.config.num_envs), on_cpu=trainer.device.type == "cpu"
        )
        self._first = self._last = _Mark(0.0, 0.0, 0, 0, 0.0)
        self._warmup_s = self._wall_begin = self._cpu_begin = 0.0

    def calibrate(self) -> float:
        """Measure the speed of this machine unless it is known; returns the seconds it took."""
        return self._meter.calibrate()

    def begin(self, warmup_s: float) -> None:
        """Start measuring; the warm-up has taken `warmup_s`."""
        self._warmup_s = warmup_s
        self._wall_begin = perf_counter()
        self._cpu_begin = self._cpu_s()
        self._first = self._last = self._mark()._replace(wall_s=0.0, cpu_s=0.0)

    def progress(self, extras: dict[str, float]) -> Progress:
        """Progress so far, with the speed since the last call.

        Args:
            extras: The algorithm's own figures.
        """
        counters = self._trainer.counters
        last, now = self._last, self._mark()
        self._last = now
        seconds = max(1e-9, now.wall_s - last.wall_s)
        speed = (now.fraction - last.fraction) / seconds
        use = self._utilization(last, now)
        return Progress(
            env_steps=counters.env_steps,
            total_steps=counters.total_steps,
            fraction=counters.fraction,
            eta_s=(1 - counters.fraction) / speed if speed > 0 else None,
            episodes=counters.episodes,
            updates=counters.updates,
            wall_s=now.wall_s,
            cpu_s=now.cpu_s,
            steps_per_s=(now.env_steps - last.env_steps) / seconds,
            achieved_gflops=use.achieved_gflops,
            machine_fraction=use.machine_fraction,
            mean_return=self._recent.mean_return,
            mean_score=self._recent.mean_score,
            epsilon=extras.get("epsilon"),
            loss=extras.get("loss"),
            phases=self._trainer.timer.seconds(),
        )

    def result(self, run_dir: str, stopped: StopReason, best: Evaluation | None) -> RunResult:
        """The result of the session that began with `begin`."""
        trainer, counters = self._trainer, self._trainer.counters
        now = self._mark()
        use = self._utilization(self._first, now)
        return RunResult(
            run_dir=run_dir,
            algo=trainer.config.algo,
            env=trainer.config.env,
            seed=trainer.config.seed,
            env_steps=counters.env_steps,
            episodes=counters.episodes,
            steps_per_episode=counters.env_steps / counters.episodes if counters.episodes else None,
            updates=counters.updates,
            updates_per_transition=counters.updates / max(1, trainer.schedule.counted_steps),
            learning_starts=trainer.schedule.learning_starts,
            wall_s=now.wall_s,
            cpu_s=now.cpu_s,
            warmup_s=self._warmup_s,
            steps_per_s=(now.env_steps - self._first.env_steps) / max(1e-9, now.wall_s),
            flops_per_step=use.flops_per_step,
            achieved_gflops=use.achieved_gflops,
            machine_gflops=use.machine_gflops,
            machine_fraction=use.machine_fraction,
            phases=trainer.timer.seconds(),
            mean_return=self._recent.mean_return,
            mean_score=self._recent.mean_score,
            exact_resume=trainer.collector.is_exact,
            stopped=stopped,
            best_evaluation=None if best is None else best.as_json(),
        )

    def _mark(self) -> _Mark:
        counters = self._trainer.counters
        return _Mark(
            wall_s=perf_counter() - self._wall_begin,
            cpu_s=self._cpu_s() - self._cpu_begin,
            env_steps=counters.env_steps,
            updates=counters.updates,
            fraction=counters.fraction,
        )

    def _utilization(self, begin: _Mark, end: _Mark) -> Utilization:
        return self._meter.measure(
            steps=end.env_steps - begin.env_steps,
            updates=end.updates - begin.updates,
            cpu_s=end.cpu_s - begin.cpu_s,
        )
