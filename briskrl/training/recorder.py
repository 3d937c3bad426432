"""Records a running trainer in its run folder: logs, checkpoints, policy and status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from time import process_time
from typing import TYPE_CHECKING

from briskrl.core.config import to_dict
from briskrl.core.errors import DivergedError, InvalidStateError, StorageError
from briskrl.core.phase import Phase
from briskrl.core.processes import resident_mb
from briskrl.core.spec import action_to_dict, obs_to_dict
from briskrl.core.state_checks import check_not_diverged, mapping
from briskrl.core.types import JSON, EpisodeStats, State
from briskrl.training.expectations import warnings
from briskrl.training.health import HealthCheck
from briskrl.training.periodic_evaluation import EVALUATION, Evaluation, PeriodicEvaluation
from briskrl.training.progress_meter import ProgressMeter
from briskrl.training.recent_episodes import RecentEpisodes
from briskrl.training.reporter import Reporter, RunInfo, RunResult, StopReason
from briskrl.training.sinks.factory import make_sinks
from briskrl.training.storage.atomic_files import storage_errors
from briskrl.training.storage.checkpoint import (
    Checkpointer,
    RunState,
    SavedRun,
    list_checkpoints,
)
from briskrl.training.storage.metrics import MetricLog, check_offsets
from briskrl.training.storage.policy_io import DESCRIPTION, MODEL
from briskrl.training.storage.run_dir import RunDir
from briskrl.training.storage.safetensors_io import write_tensors
from briskrl.training.storage.tensorboard import TensorBoardSink
from briskrl.training.trainer import Trainer
from briskrl.training.write_failures import WriteFailures

if TYPE_CHECKING:
    from briskrl.training.replicas.whole_run import WholeRun

_NOTHING, _PRETRAINING = -1, -2
"""Marks instead of the last saved step: no checkpoint, and one of unfinished pretraining."""


class RunRecorder:
    """Writes everything that a run writes."""

    def __init__(
        self, trainer: Trainer, folder: RunDir, reporter: Reporter, whole: WholeRun | None = None
    ) -> None:
        """Set up the records.

        Args:
            trainer: What is recorded.
            folder: The run folder, locked.
            reporter: Receives progress.
            whole: The state of the run, if the trainer's is only a part of it.
        """
        self.trainer = trainer
        self._whole: Trainer | WholeRun = whole or trainer
        self.folder = folder
        self.reporter = reporter
        config = trainer.config
        self.checkpointer = Checkpointer(folder.checkpoints, config.keep_checkpoints)
        self._sinks = make_sinks(config, folder, reporter.on_note)
        files = [TensorBoardSink(folder.tensorboard)] if config.tensorboard else []
        self._failures = WriteFailures(reporter.on_note)
        self.evaluation = PeriodicEvaluation(config)
        self.log = MetricLog(
            folder.path,
            flush_s=config.log_seconds,
            with_evaluations=self.evaluation.is_on,
            sinks=[*files, *self._sinks],
            on_error=self._failures.report,
        )
        self.recent = RecentEpisodes()
        self.stop_requested = False
        """Whether a hook has asked for the end of the run."""
        self._own_values: dict[str, float] = {}
        self._health = HealthCheck()
        self._stage = 0
        self._saved = _NOTHING
        """Step of the newest checkpoint, or one of the two marks."""
        cpu_s = process_time if whole is None else whole.cpu_s
        self._meter = ProgressMeter(trainer, self.recent, cpu_s)

    @property
    def saved_step(self) -> int | None:
        """Transitions collected at the newest checkpoint; None before the first one."""
        return None if self._saved < 0 else self._saved

    def load(self) -> None:
        """Continue from the newest valid checkpoint, or from the beginning if there is none."""
        if not list_checkpoints(self.folder.checkpoints):
            self.reporter.on_note("There is no checkpoint yet: the run starts from the beginning.")
            self.log.truncate_to({})
            return
        saved = self.checkpointer.load(self._restore)
        for note in saved.notes:
            self.reporter.on_note(note)
        if not self.trainer.collector.is_exact:
            self.trainer.restart_envs()
            self.reporter.on_note(
                "not bit-exact: the state of these environments cannot be saved, so new episodes "
                "begin"
            )
        self.log.truncate_to(saved.states["logs"].scalars["offsets"])
        with self._failures.tolerated():
            # Without it, evaluation finds the policy in the checkpoint.
            self.folder.repair_policy(saved, self._policy_description())
            self._write_best()
        step = self.trainer.counters.env_steps
        self._saved = step if self.trainer.pretraining is None else _PRETRAINING
        self.reporter.on_note(f"continuing from step {step:,}")

    def _restore(self, saved: SavedRun) -> None:
        """Put a checkpoint into effect; changes no file.

        Raises:
            InvalidStateError: The checkpoint holds impossible values.
        """
        self._whole.load_state(saved.states, saved.counters)
        if self.trainer.counters.env_steps != saved.step:
            raise InvalidStateError(f"its counters are those of another step than {saved.step}")
        logs = saved.states["logs"]
        self.recent.load_state(State(logs.arrays, mapping(logs.scalars, "recent")))
        check_offsets(mapping(logs.scalars, "offsets"))
        self.evaluation.load_state(saved.states.get(EVALUATION))
        # Last, because later checkpoints share the chunks of a checkpoint whose memory was loaded.
        self.checkpointer.load_memory(saved, self._whole.memory)

    def report_start(self, *, resumed: bool) -> None:
        """Describe the run to the reporter before it starts."""
        config = self.trainer.config
        self.reporter.on_start(
            RunInfo(
                run_dir=str(self.folder.path),
                env=config.env,
                algo=config.algo,
                device=str(self.trainer.device),
                threads=config.num_threads,
                overlap=config.overlap,
                num_envs=config.num_envs,
                replicas=config.replicas,
                total_steps=config.budget.steps,
                resumed=resumed,
            )
        )
        for note in self.trainer.env.notes:
            self.reporter.on_note(note)
        if not resumed:
            for warning in warnings(self.trainer.components, config.budget.steps):
                self.reporter.on_note(f"warning: {warning}")
        if self.trainer.memory_note is not None:
            self.reporter.on_note(self.trainer.memory_note)
        if config.curriculum:
            self.reporter.on_note(f"curriculum: {self.trainer.curriculum.describe()}")

    def calibrate(self) -> float:
        """Measure the speed of this machine unless it is known; returns the seconds it took."""
        return self._meter.calibrate()

    def begin(self, warmup_s: float) -> None:
        """Record that training begins, and start measuring time."""
        config = self.trainer.config
        exact = self.trainer.collector.is_exact
        self.folder.begin_session(
            seed=config.seed,
            threads=config.num_threads,
            exactness="bit-exact" if exact else "not bit-exact: env",
            config=to_dict(config),
        )
        self._stage = self.trainer.curriculum.stage
        self.trainer.timer.reset()
        self._meter.begin(warmup_s)

    def record(self, ended: EpisodeStats) -> None:
        """Log ended episodes and changes of the curriculum stage."""
        self.record_all([(self.trainer.counters.env_steps, ended)])

    def record_all(self, ended: Sequence[tuple[int, EpisodeStats]]) -> None:
        """Log episodes with the transitions at which they ended, and changes of the stage."""
        with self.trainer.timer[Phase.LOG]:
            for env_steps, stats in ended:
                if stats.count:
                    self.recent.add(stats)
                    self.log.episodes(env_steps, stats)
            self.log.tick()
            self._report_stage()

    def _report_stage(self) -> None:
        """Report that a stage of the curriculum has ended."""
        curriculum = self.trainer.curriculum
        if curriculum.stage != self._stage:
            self._stage = curriculum.stage
            self.recent = RecentEpisodes()
            at = f"after {self.trainer.counters.env_steps:,} steps"
            self.reporter.on_note(f"stage {self._stage} passed {at}; now {curriculum.describe()}")

    def stop(self) -> None:
        """End the run after this iteration; it is saved and can be resumed."""
        self.stop_requested = True

    def log_values(self, **values: float) -> None:
        """Add numbers of your own to the next row of metrics.jsonl."""
        self._own_values |= {name: float(value) for name, value in values.items()}

    def report(self) -> None:
        """Write a row of metrics and the status file, and report progress."""
        extras = self.trainer.algo.progress(self.trainer.counters)
        progress = self._meter.progress(extras)
        row = asdict(progress)
        phases = row.pop("phases")
        if self.trainer.config.curriculum:
            extras["stage"] = self.trainer.curriculum.stage + 1
        memory = {"memory_mb": round(resident_mb(), 1)}
        self.log.metrics({**row, **extras, **memory, **self._own_values})
        self._own_values.clear()
        self.log.phases({"env_steps": progress.env_steps, **phases})
        with self._failures.tolerated():
            self.folder.write_status({"state": "running", **row})
        self.reporter.on_progress(progress)
        for finding in self._health.observe(extras):
            self.reporter.on_note(finding)

    def evaluate(self) -> None:
        """Evaluate the present policy, log the result, and keep the policy if it is the best."""
        found = self.evaluation.evaluate(self.trainer)
        self.log.evaluation(found.as_json())
        is_best = self.evaluation.best is found
        self.reporter.on_note(_describe_evaluation(found, is_best=is_best))
        if is_best:
            with self._failures.tolerated():
                self._write_best()
        if self.evaluation.is_target_reached:
            self.reporter.on_note(f"{self.trainer.config.stop_at} is reached: training ends")

    def _write_best(self) -> None:
        """Replace the best policy on disk by the one that is known; there may be none."""
        best, model = self.evaluation.best, self.evaluation.best_model
        if best is None or model is None:
            self.folder.remove_best_policy()
            return
        description = self._policy_description()
        description |= {"env_steps": best.env_steps, "evaluation": best.as_json()}
        self.folder.save_best_policy(model, description)

    def save(self, pretraining: RunState | None = None) -> None:
        """Write a checkpoint and the policy, unless this step is saved already.

        A failure is reported; what was saved before is intact, and the next save tries again.

        Args:
            pretraining: The state of pretraining under way, which is always saved.
        """
        with self._failures.tolerated():
            self._save(pretraining)

    def save_last(self, pretraining: RunState | None = None) -> None:
        """Save at the end of the run, or a state of pretraining that is stopped.

        Raises:
            StorageError: It could not be saved; the message names the newest checkpoint.
        """
        step = self.trainer.counters.env_steps
        try:
            self._save(pretraining)
        except StorageError as error:
            if self._saved == (step if pretraining is None else _PRETRAINING):
                # Evaluation finds the policy in the checkpoint.
                self._failures.report(error)
                return
            raise StorageError(
                f"The last state of the run is not saved ({step:,} steps). {error} "
                f"Then continue with: brisk resume {self.folder.path}"
            ) from error

    def _save(self, pretraining: RunState | None) -> None:
        step = self.trainer.counters.env_steps
        if pretraining is not None:
            self._saved = _NOTHING
            self._save_state(pretraining.counters["env_steps"], pretraining, _PRETRAINING)
        elif step != self._saved:
            self._save_state(step, self._whole.state(), step)

    def _save_state(self, step: int, state: RunState, mark: int) -> None:
        """Save; `mark` is in `_saved` as soon as the checkpoint is written."""
        for name, part in state.states.items():
            check_not_diverged(name, part.arrays)
        recent = self.recent.state()
        state.states["logs"] = State(
            recent.arrays, {"recent": recent.scalars, "offsets": self.log.offsets()}
        )
        # The checkpoint contains the whole policy, so that one rename commits both.
        if self.evaluation.is_on or self.evaluation.best is not None:
            state.states[EVALUATION] = self.evaluation.state()
        description = self._policy_description()
        state.states[DESCRIPTION] = State({}, description)
        path = self.checkpointer.save(step, state)
        self._saved = mark
        self.folder.save_policy(state.states[MODEL], description)
        if not self.log.unwritten:
            self._failures.end(path.name, self.log.dropped)

    def dump_diverged(self, error: DivergedError) -> DivergedError:
        """Save the batch that training diverged on; returns the error with its path added."""
        path = self.folder.path / "diverged_batch.safetensors"
        batch = self.trainer.learner.batch
        arrays = {name: array for name, array in asdict(batch).items() if array is not None}
        try:
            with storage_errors(f"write the batch to {path}"):
                path.unlink(missing_ok=True)
                write_tensors(path, arrays)
        except StorageError as failure:
            return DivergedError(f"{error} {failure} The last checkpoint is intact.")
        return DivergedError(f"{error} The batch is in {path}; the last checkpoint is intact.")

    def finish(self, stopped: StopReason) -> RunResult:
        """Write the final status and the last rows of the logs, and return the result.

        Raises:
            StorageError: Not everything could be written.
        """
        result = self._meter.result(str(self.folder.path), stopped, self.evaluation.best)
        row = {name: value for name, value in asdict(result).items() if name != "phases"}
        dropped = self.log.dropped
        facts: dict[str, JSON] = {"dropped_log_rows": dropped} if dropped else {}
        try:
            self.folder.write_status(
                {"state": stopped, "total_steps": self.trainer.config.budget.steps, **row}
            )
            self.folder.end_session(stopped, **facts)
            self.log.flush()
            self._finish_sinks(result)
            if self.log.unwritten:
                raise StorageError(f"{self.log.unwritten:,} rows of the logs are not written.")
        except StorageError as error:
            raise StorageError(
                f"Training has ended, but the records of the run are incomplete. {error}"
            ) from error
        return result

    def _finish_sinks(self, result: RunResult) -> None:
        """Send the result, a final evaluation and a game to the sinks that want them."""
        sinks = [sink for sink in self._sinks if sink.takes_results and not sink.is_off]
        if not sinks or result.stopped != "finished":
            return
        summary = {f"final/{name}": value for name, value in _summary(result).items()}
        video = None
        if self.trainer.config.env != "given":
            try:
                played, video = self.evaluation.play_final(self.trainer)
                summary |= {f"final/eval_{name}": value for name, value in played.items()}
            except Exception as error:
                # The run itself has ended well.
                self.reporter.on_note(f"The final evaluation for --log failed: {error}")
        for sink in sinks:
            with self._failures.tolerated():
                sink.finish(summary, video)

    def close(self) -> None:
        """Write buffered log rows; trainer and folder are closed by the caller."""
        self.evaluation.close()
        self.log.close()

    def _policy_description(self) -> dict[str, JSON]:
        config, spec = self.trainer.config, self.trainer.env.env_spec
        return {
            "algo": config.algo,
            "algo_config": to_dict(config.algo_config),
            "env": config.env,
            "env_config": to_dict(config.env_config),
            "env_steps": self.trainer.counters.env_steps,
            "seed": config.seed,
            "obs": obs_to_dict(spec.obs),
            "action": action_to_dict(spec.action),
        }


def _describe_evaluation(found: Evaluation, *, is_best: bool) -> str:
    margin = 1.96 * found.std_score / found.episodes**0.5
    return (
        f"evaluation after {found.env_steps:,} steps: score {found.mean_score:.2f} +- {margin:.2f} "
        f"over {found.episodes:,} episodes" + (", the best so far" if is_best else "")
    )


def _summary(result: RunResult) -> dict[str, float]:
    names = ("env_steps", "episodes", "updates", "wall_s", "cpu_s", "mean_return", "mean_score")
    values = {name: getattr(result, name) for name in names}
    return {name: float(value) for name, value in values.items() if value is not None}
