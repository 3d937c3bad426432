"""Our training loop in turns, so that it can take turns with another."""

from __future__ import annotations

from pathlib import Path
from time import process_time

from briskrl.core.config import to_toml
from briskrl.training.config import TrainConfig
from briskrl.training.hooks import CheckpointHook, Hook, ReportHook
from briskrl.training.recent_episodes import RecentEpisodes
from briskrl.training.recorder import RunRecorder
from briskrl.training.reporter import SilentReporter
from briskrl.training.resolve import complete
from briskrl.training.storage.run_dir import RunDir
from briskrl.training.trainer import Trainer
from briskrl.training.warmup import warm_up


class BenchTrainLoop:
    """What `brisk train` does between warm-up and the end, logs included.

    Args:
        config: What to train.
        folder: The run folder to make.
        saves: Write checkpoints when they are due.
    """

    def __init__(self, config: TrainConfig, folder: Path, *, saves: bool = False) -> None:
        config = complete(config)
        self.trainer = Trainer(config)
        run_dir = RunDir.create(
            folder,
            env=config.env,
            algo=config.algo,
            seed=config.seed,
            config_toml=to_toml(config),
        )
        self.run = RunRecorder(self.trainer, run_dir, SilentReporter())
        self.hooks: list[Hook] = [ReportHook(config.log_seconds)]
        if saves:
            steps, seconds = config.checkpoint_steps, config.checkpoint_seconds
            self.hooks.append(CheckpointHook(steps=steps, seconds=seconds))

    @property
    def recent(self) -> RecentEpisodes:
        """The newest episodes."""
        return self.run.recent

    @property
    def engine(self) -> str:
        """Who computes the networks."""
        return str(self.trainer.algo.engines.name)

    def iterate(self) -> None:
        """One iteration with all that comes between two."""
        self.run.record(self.trainer.iterate())
        for hook in self.hooks:
            hook(self.run)

    def prepare(self, from_step: int = 0) -> None:
        """Warm up, then train until updates are being done and `from_step` is reached."""
        warm_up(self.trainer)
        self.run.begin(0.0)
        counters = self.trainer.counters
        while counters.updates == 0 or counters.env_steps < from_step:
            self.iterate()

    def turn(self, cpu_s: float) -> float:
        """Train for about `cpu_s` CPU seconds; returns steps per CPU second."""
        counters = self.trainer.counters
        first, begin = counters.env_steps, process_time()
        now = begin
        while now - begin < cpu_s:
            self.iterate()
            now = process_time()
        return (counters.env_steps - first) / (now - begin)

    def advance(self, rounds: int) -> float:
        """Train until something has been learnt so many times; returns steps per CPU second."""
        counters = self.trainer.counters
        first, begin = counters.env_steps, process_time()
        for _ in range(rounds):
            updates = counters.updates
            while counters.updates == updates:
                self.iterate()
        return (counters.env_steps - first) / (process_time() - begin)

    def close(self) -> None:
        """Write what waits and release everything."""
        self.run.close()
        self.run.folder.close()
        self.trainer.close()
