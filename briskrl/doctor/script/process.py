"""Run a script with the watcher loaded, send it ticks, and read what it records."""

from __future__ import annotations

import json
import mmap
import os
import random
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread
from time import perf_counter
from typing import Any

import psutil

from briskrl.core.errors import ConfigError
from briskrl.doctor.script.command import Command
from briskrl.doctor.script.cores_in_use import LOOK_S as LOOK_AT_CORES_S
from briskrl.doctor.script.cores_in_use import CoresInUse
from briskrl.doctor.script.recording import Mark, Recording
from briskrl.doctor.watcher import watch_variables
from briskrl.doctor.watcher.channel import CONTROL, PAGE, RATES, RECORDS
from briskrl.doctor.watcher.start import TICK_S

READ_S = 0.1
"""Time between two looks at the records."""
LOOK_S = 0.5
"""Time between two looks at the processes of a script that sends no records."""
STOPPING_S = 1.0
"""Seconds for the script to end after each request, which get more severe."""


class ScriptProcess:
    """A running script.

    Args:
        command: What to start.
        stdout: File descriptor for its output; None to share ours.
        variables: Additional environment variables.
    """

    def __init__(
        self,
        command: Command,
        *,
        stdout: int | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.command = command
        self.recording = Recording()
        self.lock = Lock()
        """Held while the recording changes."""
        self.stopped = False
        """Whether the doctor ended the script."""
        self.threads = self.workers = 0
        """Most threads of the script, and most processes started by it, at a time."""
        self._memory_mb = 0.0
        self._folder = Path(tempfile.mkdtemp(prefix="brisk-doctor-"))
        self._control = _make_control(self._folder / CONTROL)
        self._sent = 0
        self._read = 0
        self._rest = b""
        self._changing = False
        self._quiet_until = 0.0
        self._cores: CoresInUse | None = None
        self._rates = [0, 0]
        self._done = Event()
        environment = {**os.environ, **(variables or {})}
        environment |= watch_variables(str(self._folder), environment)
        try:
            self._popen = subprocess.Popen(command.argv, env=environment, stdout=stdout)
        except OSError as error:
            self._release()
            reason = error.strerror or str(error)
            raise ConfigError(f"Cannot start {command.argv[0]}: {reason}.") from None
        self._thread = Thread(target=self._follow, name="doctor-ticks", daemon=True)
        self._thread.start()

    @property
    def exit_code(self) -> int | None:
        """The script's exit code; None while it runs."""
        return self._popen.poll()

    @property
    def is_watched(self) -> bool:
        """Whether the watcher has reported from the script."""
        return self.recording.hello is not None

    @property
    def failure(self) -> str:
        """Why the watcher could not start; empty if it could."""
        path = self._folder / "failure"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def wait(self, seconds: float) -> bool:
        """Let the script run on; true if it has ended."""
        return self._done.wait(max(0.0, seconds))

    def switch(self, name: str, value: Any = None) -> int:
        """Change a setting at the next boundary; returns the number of the mark that will follow.

        An empty name changes everything back.
        """
        self._sent += 1
        self._changing = True
        text = json.dumps({"id": self._sent, "switch": name, "value": value}).encode()
        self._control[4:8] = len(text).to_bytes(4, "little")
        self._control[8 : 8 + len(text)] = text
        self._control[0] = self._sent % 256
        return self._sent

    def switched(self, name: str, value: Any, seconds: float) -> Mark | None:
        """Change a setting and wait until the script has; None if it does not in time."""
        number, end = self.switch(name, value), perf_counter() + seconds
        while perf_counter() < end:
            with self.lock:
                marks = self.recording.marks
                found = next((mark for mark in reversed(marks) if mark.number == number), None)
            if found is not None:
                return found
            if self.wait(0.01):
                return None
        return None

    def be_quiet(self, seconds: float) -> None:
        """Send no ticks for a while."""
        self._quiet_until = perf_counter() + seconds

    def end_turns(self) -> None:
        """From now on windows count as unchanged again."""
        self._changing = False

    def stop(self) -> None:
        """End the script, its workers too: as Ctrl-C does first, by force at last."""
        if self.exit_code is None:
            self.stopped = True
            workers = self._workers()
            self._ask_to_end()
            _, alive = psutil.wait_procs(workers, timeout=0.5)
            for worker in alive:
                with suppress(psutil.Error):
                    worker.kill()
        self._popen.wait()
        self._thread.join()

    def _ask_to_end(self) -> None:
        # The watcher raises KeyboardInterrupt in the script, without a traceback at the end.
        self.switch("stop")
        if self.wait(STOPPING_S):
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            self._popen.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(STOPPING_S)
                return
        self._popen.kill()

    def close(self) -> None:
        """End the script and remove what was recorded."""
        self.stop()
        self._release()

    def _release(self) -> None:
        self._control.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _workers(self) -> list[psutil.Process]:
        with suppress(psutil.Error):
            return psutil.Process(self._popen.pid).children(recursive=True)
        return []

    def _follow(self) -> None:
        """Send ticks and read records until the script ends."""
        next_read = next_look = 0.0
        jitter = random.Random(0)
        while self._popen.poll() is None:
            # Even steps would always meet a loop at the same place.
            self._done.wait(TICK_S * jitter.uniform(0.5, 1.5) - LOOK_AT_CORES_S)
            self._look_at_cores()
            now = perf_counter()
            if now > self._quiet_until:
                self._send_tick()
            if now > next_read:
                self._read_records()
                next_read = now + READ_S
            if now > next_look:
                self._rss_mb()
                next_look = now + LOOK_S
        self._read_records()
        self._done.set()

    def _look_at_cores(self) -> None:
        """Note for the watcher how many cores the script uses just before a tick."""
        if self._cores is None:
            self._done.wait(LOOK_AT_CORES_S)
            return
        self._cores.begin()
        self._done.wait(LOOK_AT_CORES_S)
        cores = self._cores.end()
        if cores is not None:
            self._rates[0] += round(1000 * cores)
            self._rates[1] += 1
            data = b"".join(number.to_bytes(8, "little") for number in self._rates)
            self._control[RATES : RATES + 16] = data

    def _send_tick(self) -> None:
        hello = self.recording.hello
        if hello is None or self.recording.has_ended:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.kill(hello["hello"], signal.SIGPROF)

    def _read_records(self) -> None:
        path = self._folder / RECORDS
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        self._read += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        if not lines:
            return
        rss_mb = self._rss_mb()
        with self.lock:
            for line in lines:
                self.recording.take(json.loads(line), rss_mb=rss_mb, changed=self._changing)
            if self._cores is None and self.recording.hello is not None:
                self._cores = CoresInUse(self.recording.hello["hello"])

    def _rss_mb(self) -> float:
        """Memory of the script; the last known figure once it has ended."""
        with suppress(psutil.Error):
            process = psutil.Process(self._popen.pid)
            self._memory_mb = process.memory_info().rss / 2**20 or self._memory_mb
            self.threads = max(self.threads, process.num_threads())
            self.workers = max(self.workers, len(process.children(recursive=True)))
        return self._memory_mb


def _make_control(path: Path) -> mmap.mmap:
    path.write_bytes(bytes(PAGE))
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), PAGE)
