from __future__ import annotations

import csv
import errno
import json
import os
import subprocess
import sys
from itertools import accumulate, chain
from pathlib import Path

import numpy as np
import pytest

from briskrl.core.errors import ConfigError, StorageError
from briskrl.core.types import EpisodeStats
from briskrl.training.recent_episodes import RecentEpisodes
from briskrl.training.storage.line_files import read_jsonl
from briskrl.training.storage.metrics import MetricLog
from briskrl.training.storage.tensorboard import TensorBoardSink

REPO = Path(__file__).resolve().parents[3]
FILES = ["episodes.csv", "metrics.jsonl", "phases.jsonl"]


class ManualClock:
    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def stats_of(count: int, first: int = 0) -> EpisodeStats:
    number = np.arange(first, first + count)
    return EpisodeStats(
        env=(number % 7).astype(np.int32),
        steps=(number + 1).astype(np.int32),
        returns=(number / 2).astype(np.float32),
        score=number.astype(np.float32),
        won=number % 2 == 0,
        cause=(number % 3).astype(np.uint8),
    )


@pytest.fixture
def writes(monkeypatch):
    """Every write the log makes, as (number of lines, whole)."""
    seen: list[tuple[int, bool]] = []
    real = os.write

    def counted(descriptor: int, data) -> int:
        text = bytes(data)
        seen.append((text.count(b"\n"), text.endswith(b"\n")))
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", counted)
    return seen


def steps_in(folder: Path, name: str = "metrics.jsonl") -> list[int]:
    return [row["env_steps"] for row in read_jsonl(folder / name)]


def test_rows_are_written_a_hundred_at_a_time_in_whole_lines(tmp_path, writes):
    log = MetricLog(tmp_path, flush_s=1e9)
    writes.clear()
    for step in range(1050):
        log.metrics({"env_steps": step, "loss": step / 3})
        log.tick()
    assert writes == [(100, True)] * 10
    log.close()
    assert writes[10:] == [(50, True)]
    assert list(read_jsonl(tmp_path / "metrics.jsonl")) == [
        {"env_steps": step, "loss": step / 3} for step in range(1050)
    ]


def test_many_episodes_are_written_at_once(tmp_path, writes):
    log = MetricLog(tmp_path, flush_s=1e9)
    writes.clear()
    for step in range(10):
        log.episodes(step * 256, stats_of(60, first=60 * step))
    assert writes == [(120, True)] * 5
    log.episodes(9999, stats_of(5000))
    assert writes[5:] == [(5000, True)]
    log.close()
    assert len(writes) == 6


def test_episodes_are_readable_as_csv(tmp_path):
    with MetricLog(tmp_path, flush_s=1e9) as log:
        log.episodes(512, stats_of(3))
        log.episodes(768, stats_of(0))
        log.episodes(1024, stats_of(2, first=3))
    with (tmp_path / "episodes.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["env_steps", "env", "steps", "return", "score", "won", "cause"]
    assert [row["env_steps"] for row in rows] == ["512"] * 3 + ["1024"] * 2
    assert [float(row["return"]) for row in rows] == [0, 0.5, 1, 1.5, 2]
    assert [row["won"] for row in rows] == ["1", "0", "1", "0", "1"]
    assert [(row["env"], row["steps"], row["score"], row["cause"]) for row in rows][4] == (
        "4", "5", "4", "1",
    )  # fmt: skip


def test_buffered_rows_are_written_after_flush_s(tmp_path):
    clock = ManualClock()
    log = MetricLog(tmp_path, flush_s=2.0, now=clock)
    log.metrics({"env_steps": 1})
    log.phases({"env_steps": 1, "act": 0.5})
    log.episodes(1, stats_of(1))
    clock.time += 1.9
    log.tick()
    assert steps_in(tmp_path) == []
    clock.time += 0.2
    log.tick()
    assert steps_in(tmp_path) == [1]
    assert list(read_jsonl(tmp_path / "phases.jsonl")) == [{"env_steps": 1, "act": 0.5}]
    assert (tmp_path / "episodes.csv").read_bytes().count(b"\n") == 2
    log.metrics({"env_steps": 2})
    clock.time += 1.9
    log.tick()
    assert steps_in(tmp_path) == [1]
    clock.time += 0.2
    log.tick()
    assert steps_in(tmp_path) == [1, 2]
    log.close()


def test_nan_and_infinity_are_written_as_null(tmp_path):
    with MetricLog(tmp_path, flush_s=1) as log:
        log.metrics({"env_steps": np.int64(3), "loss": np.float32("nan"), "deep": {"x": -np.inf}})
    assert list(read_jsonl(tmp_path / "metrics.jsonl")) == [
        {"env_steps": 3, "loss": None, "deep": {"x": None}}
    ]


def test_closing_twice_is_harmless(tmp_path):
    log = MetricLog(tmp_path, flush_s=1)
    log.metrics({"env_steps": 1})
    log.close()
    log.close()
    assert steps_in(tmp_path) == [1]


def test_an_incomplete_last_line_is_skipped_by_readers_and_removed_by_writers(tmp_path):
    with MetricLog(tmp_path, flush_s=1) as log:
        log.metrics({"env_steps": 1})
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"env_steps": 2, "lo')
    assert steps_in(tmp_path) == [1]
    with MetricLog(tmp_path, flush_s=1) as log:
        log.metrics({"env_steps": 3})
    assert steps_in(tmp_path) == [1, 3]


def test_a_broken_line_in_the_middle_is_an_error(tmp_path):
    (tmp_path / "rows").write_text('{"a": 1}\n{"a":\n{"a": 3}\n')
    with pytest.raises(ValueError, match="line 2"):
        list(read_jsonl(tmp_path / "rows"))


def test_a_resume_continues_the_files_without_gap_or_repetition(tmp_path):
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    for folder in (straight, broken):
        folder.mkdir()

    def log_rows(log: MetricLog, steps: range) -> None:
        for step in steps:
            log.metrics({"env_steps": step})
            log.phases({"env_steps": step})
            log.episodes(step, stats_of(3, first=step))

    with MetricLog(straight, flush_s=1e9) as log:
        log_rows(log, range(250))
    with MetricLog(broken, flush_s=1e9) as log:
        log_rows(log, range(120))
        offsets = json.loads(json.dumps(log.offsets()))
        log_rows(log, range(120, 240))
    assert sorted(offsets) == [*FILES[:1], "last_step", *FILES[1:]]
    with MetricLog(broken, flush_s=1e9) as log:
        log.truncate_to(offsets)
        log_rows(log, range(120, 250))
    for name in FILES:
        assert (broken / name).read_bytes() == (straight / name).read_bytes()


def test_truncating_to_zero_keeps_the_header(tmp_path):
    with MetricLog(tmp_path, flush_s=1) as log:
        log.episodes(1, stats_of(2))
        log.metrics({"env_steps": 1})
        log.flush()
        log.truncate_to({})
    assert (tmp_path / "episodes.csv").read_text().startswith("env_steps,env,")
    assert (tmp_path / "episodes.csv").read_bytes().count(b"\n") == 1
    assert (tmp_path / "metrics.jsonl").read_bytes() == b""


def test_a_file_shorter_than_its_offset_is_kept(tmp_path):
    with MetricLog(tmp_path, flush_s=1) as log:
        log.metrics({"env_steps": 1})
    with MetricLog(tmp_path, flush_s=1) as log:
        log.truncate_to({"metrics.jsonl": 10_000})
        log.metrics({"env_steps": 2})
    assert steps_in(tmp_path) == [1, 2]


class TornWrites:
    """A disk that takes half of every write and fails the rest; it may also refuse to truncate."""

    def __init__(self, monkeypatch) -> None:
        self.real_write, self.real_truncate = os.write, os.ftruncate
        self.full = self.stuck = False
        monkeypatch.setattr(os, "write", self.write)
        monkeypatch.setattr(os, "ftruncate", self.truncate)

    def write(self, descriptor: int, data) -> int:
        if not self.full:
            return self.real_write(descriptor, data)
        if len(data) < 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.real_write(descriptor, data[: len(data) // 2])

    def truncate(self, descriptor: int, size: int) -> None:
        if self.stuck:
            raise OSError(errno.EIO, "Input/output error")
        self.real_truncate(descriptor, size)


def test_a_failed_write_leaves_no_partial_line_and_is_repeated(tmp_path, monkeypatch):
    disk = TornWrites(monkeypatch)
    log = MetricLog(tmp_path, flush_s=1e9)
    log.metrics({"env_steps": 1})
    log.flush()
    disk.full = True
    log.metrics({"env_steps": 2})
    with pytest.raises(StorageError, match=r"metrics\.jsonl: No space left on device"):
        log.flush()
    assert (tmp_path / "metrics.jsonl").read_bytes() == b'{"env_steps":1}\n'
    disk.full = False
    log.metrics({"env_steps": 3})
    log.close()
    assert steps_in(tmp_path) == [1, 2, 3]


def test_a_torn_line_that_cannot_be_removed_at_once_is_removed_before_the_next_write(
    tmp_path, monkeypatch
):
    disk = TornWrites(monkeypatch)
    log = MetricLog(tmp_path, flush_s=1e9, on_error=lambda error: None)
    log.metrics({"env_steps": 1})
    log.flush()
    disk.full = disk.stuck = True
    for step in (2, 3):
        log.metrics({"env_steps": step})
        log.flush()
    assert not (tmp_path / "metrics.jsonl").read_bytes().endswith(b"\n")
    disk.full = False
    log.flush()
    assert steps_in(tmp_path) == [1]
    disk.stuck = False
    log.close()
    assert steps_in(tmp_path) == [1, 2, 3]


@pytest.mark.parametrize("name", FILES)
def test_a_last_line_torn_at_any_byte_is_removed_on_resume(tmp_path, name):
    offsets = {}
    with MetricLog(tmp_path, flush_s=1) as log:
        for step in (1, 2, 3):
            log.metrics({"env_steps": step})
            log.phases({"env_steps": step, "act": 1.0})
            log.episodes(step, stats_of(1, first=step))
            offsets = log.offsets() if step == 2 else offsets
    file = tmp_path / name
    whole = file.read_bytes()
    lines = whole.splitlines(keepends=True)
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        with MetricLog(tmp_path, flush_s=1) as log:
            log.metrics({"env_steps": 3})
            log.phases({"env_steps": 3, "act": 1.0})
            log.episodes(3, stats_of(1, first=3))
        kept = [end for end in accumulate(map(len, lines)) if end <= length]
        header = len(lines[0]) if name == "episodes.csv" else 0
        assert file.read_bytes() == whole[: max([header, *kept])] + lines[-1]
    file.write_bytes(whole[:-3])
    with MetricLog(tmp_path, flush_s=1) as log:
        log.truncate_to(offsets)
    assert file.read_bytes() == b"".join(lines[:-1])


def test_buffered_memory_does_not_grow_with_the_number_of_rows(tmp_path):
    log = MetricLog(tmp_path, flush_s=1e9)
    most = 0
    for step in range(5000):
        log.metrics({"env_steps": step})
        log.episodes(step, stats_of(3))
        most = max(most, *(len(stream.buffered) for stream in log._streams), len(log._rows))
    log.close()
    assert most < 100


def test_additional_sinks_receive_batches_and_are_closed(tmp_path):
    class Listener:
        def __init__(self) -> None:
            self.batches: list[list[int]] = []
            self.closed = 0

        def rewind(self, step) -> None:
            self.batches = [[old for old in batch if old < step] for batch in self.batches]

        def write(self, rows) -> None:
            self.batches.append([row["env_steps"] for row in rows])

        def close(self) -> None:
            self.closed += 1

    listener = Listener()
    log = MetricLog(tmp_path, flush_s=1e9, sinks=[listener])
    for step in range(250):
        log.metrics({"env_steps": step})
    log.close()
    log.close()
    assert [len(batch) for batch in listener.batches] == [100, 100, 50]
    assert list(chain(*listener.batches)) == list(range(250))
    assert listener.closed == 1


def test_tensorboard_shows_one_curve_across_a_resume(tmp_path):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    ).EventAccumulator
    folder = tmp_path / "tensorboard"

    def log_rows(log: MetricLog, steps: range, trainer: int) -> None:
        for step in steps:
            log.metrics({"env_steps": step, "loss": trainer + step / 4, "phases": {"act": 1.5}})

    with MetricLog(tmp_path, flush_s=1e9, sinks=[TensorBoardSink(folder)]) as log:
        log_rows(log, range(0, 40, 10), 1)
        offsets = log.offsets()
        log_rows(log, range(40, 90, 10), 1)
    with MetricLog(tmp_path, flush_s=1e9, sinks=[TensorBoardSink(folder)]) as log:
        log.truncate_to(offsets)
        log_rows(log, range(45, 70, 10), 2)
    events = accumulator(str(folder))
    events.Reload()
    wanted = {step: 1 + step / 4 for step in range(0, 40, 10)}
    wanted |= {step: 2 + step / 4 for step in range(45, 70, 10)}
    assert {event.step: event.value for event in events.Scalars("loss")} == wanted
    assert {event.value for event in events.Scalars("phases/act")} == {1.5}
    assert events.Tags()["scalars"] == ["loss", "phases/act"]
    assert steps_in(tmp_path) == list(wanted)


def test_tensorboard_shows_every_row_after_the_disk_was_full(tmp_path, monkeypatch):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    ).EventAccumulator
    disk, errors = TornWrites(monkeypatch), []
    sink = TensorBoardSink(tmp_path / "tensorboard")
    log = MetricLog(tmp_path, flush_s=1e9, sinks=[sink], on_error=errors.append)
    for step in range(30):
        disk.full = 10 <= step < 20
        disk.stuck = 12 <= step < 15
        log.metrics({"env_steps": step, "loss": step / 4})
        log.flush()
    log.close()
    # Two files fail, the rows and the events.
    assert len(errors) == 20
    events = accumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    wanted = {step: step / 4 for step in range(30)}
    assert {event.step: event.value for event in events.Scalars("loss")} == wanted
    assert steps_in(tmp_path) == list(wanted)


def test_a_missing_extra_raises_with_the_install_command(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ConfigError, match=r"pip install .briskrl\[tensorboard\]"):
        TensorBoardSink(tmp_path)


@pytest.mark.parametrize("extra", ["", "; TensorBoardSink(Path(sys.argv[1])).close()"])
def test_logs_and_checkpoints_import_neither_torch_nor_numba(tmp_path, extra):
    code = (
        "import sys; from pathlib import Path\n"
        "import briskrl.training.storage.checkpoint, briskrl.training.storage.run_dir\n"
        "import briskrl.training.hooks\n"
        f"from briskrl.training.storage.tensorboard import TensorBoardSink{extra}\n"
        "assert not {'torch', 'numba', 'gymnasium'} & set(sys.modules), 'heavy'\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    result = subprocess.run(command, cwd=REPO, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("batches", [[1], [3, 0, 4], [10], [7, 7, 7], [25], [9, 30, 2]])
def test_recent_means_are_those_of_the_last_episodes(batches):
    recent = RecentEpisodes(size=10)
    assert recent.mean_return is None
    assert recent.mean_score is None
    first = 0
    for count in batches:
        recent.add(stats_of(count, first))
        first += count
    last = range(max(0, first - 10), first)
    assert recent.total == first
    assert recent.count == len(last)
    assert recent.mean_score == pytest.approx(np.mean(last))
    assert recent.mean_return == pytest.approx(np.mean(last) / 2)
    assert recent.mean_steps == pytest.approx(np.mean(last) + 1)
    assert recent.win_rate == pytest.approx(np.mean([n % 2 == 0 for n in last]))


def test_recent_episodes_continue_from_a_saved_state():
    straight, broken, resumed = (RecentEpisodes(size=10) for _ in range(3))
    for recent in (straight, broken):
        recent.add(stats_of(13))
    saved = broken.state()
    broken.add(stats_of(5, first=99))
    resumed.load_state(saved)
    for recent in (straight, resumed):
        recent.add(stats_of(4, first=13))
    assert resumed.mean_return == straight.mean_return
    assert resumed.mean_score == straight.mean_score
    assert resumed.total == straight.total == 17
