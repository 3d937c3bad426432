"""The main program of a worker process, which steps environments as the trainer queues them.

`worker_process` starts it with file descriptors of the socket to the trainer, the shared block, and
the trainer's wake pipe. It imports neither torch nor numba, so that it starts fast. It ignores
interrupts, which are the trainer's, and ends when the trainer does (see `briskrl.core.lifeline`).
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import time
import traceback
from contextlib import suppress
from typing import Any

import gymnasium

from briskrl.core.errors import BriskError, ConfigError, EnvStepError
from briskrl.envs.gym.env_factory import import_registering_modules
from briskrl.envs.gym.env_group import EnvGroup
from briskrl.envs.gym.known_packages import import_known_package
from briskrl.envs.gym.workers import protocol
from briskrl.envs.gym.workers.shared_memory import SharedBlock, fence
from briskrl.parallel.backoff import SpinBackoff

IDLE_CHECK_MS = 2000
"""How often an idle worker checks that the trainer is still its parent."""


def main(control: int, block: int, wake: int) -> None:
    """Serve the trainer until it sends "stop" or ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Not SIG_IGN, which programs started by environments would inherit.
        signal.signal(number, _ignore_signal)
    try:
        start = protocol.read(control)
        if os.getppid() != start.trainer_pid:
            return
        _serve(start, control, block, wake)
    except (EOFError, BrokenPipeError, ConnectionError):
        return


def _ignore_signal(number: int, frame: object) -> None:
    """The trainer gets the same signal and decides what to do."""


def _serve(start: protocol.StartMessage, control: int, block: int, wake: int) -> None:
    try:
        worker = Worker(start, control, block, wake)
    except Exception as error:
        protocol.write(control, _failure(error))
        return
    try:
        protocol.write(control, True)
        worker.run()
    finally:
        worker.group.close()


class Worker:
    """The envs low..high-1 of a batch and the loop that steps them."""

    def __init__(self, start: protocol.StartMessage, control: int, block: int, wake: int) -> None:
        self._control, self._wake, self._index = control, wake, start.index
        self._trainer_pid, self._backoff = start.trainer_pid, SpinBackoff(start.spin_s)
        low, high = start.plan.bounds()[start.index]
        _register_env(start)
        self._block = shared = SharedBlock(start.plan, block)
        shared.close()
        self.group = EnvGroup(
            start.factory,
            low,
            shared.rows(low, high),
            shared.episode_rows(low, high),
            exact=start.plan.spec.exact_state,
            report_progress=self._report_progress,
        )
        self._queue = shared.queue[low:high].data
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)

    def run(self) -> None:
        """Step queued envs and execute commands until "stop"."""
        pushed, index = self._block.pushed, self._index
        while True:
            if pushed[index] != self._block.finished[index]:
                self._step_queued()
            elif not self._spin():
                message = self._sleep()
                if message is not None and message.name == "stop":
                    return
                if message is not None:
                    self._execute(message)

    def _report_progress(self) -> None:
        self._block.progress[self._index] += 1

    def _step_queued(self) -> None:
        """Step queued envs one by one, publishing each, until the queue is empty."""
        block, group, queue = self._block, self.group, self._queue
        pushed, finished, asleep = block.pushed, block.finished, block.asleep
        actions, index, first, count = block.actions, self._index, group.first, group.count
        tail = finished[index]
        while tail != pushed[index]:
            fence()
            env = queue[tail % count]
            try:
                group.step(env - first, actions[env])
            except Exception as error:
                protocol.write(self._control, _failure(error, env))
                if not self._await_replacement():
                    os._exit(0)
            tail += 1
            fence()
            finished[index] = tail
            fence()
            if asleep[-1] and sum(finished) >= block.target[0]:
                self._wake_trainer()

    def _wake_trainer(self) -> None:
        self._block.asleep[-1] = 0
        # A full pipe wakes the trainer as well.
        with suppress(BlockingIOError):
            os.write(self._wake, b"\0")

    def _spin(self) -> bool:
        """Spin until an env is queued, for a moment: waking up can take longer than a step."""
        spin_s = self._backoff.spin_s()
        if not spin_s:
            return False
        pushed, index, clock = self._block.pushed, self._index, time.perf_counter
        tail = self._block.finished[index]
        begin = now = clock()
        while pushed[index] == tail and now - begin < spin_s:
            os.sched_yield()
            now = clock()
        found = pushed[index] != tail
        self._backoff.judge(now - begin, found=found)
        return found

    def _sleep(self) -> Any:
        """Sleep until an env is queued or a message arrives; returns the message."""
        block, index = self._block, self._index
        block.asleep[index] = 1
        fence()
        message = None
        if block.pushed[index] == block.finished[index]:
            if self._poll.poll(IDLE_CHECK_MS):
                message = protocol.read(self._control)
            elif os.getppid() != self._trainer_pid:
                raise EOFError
        block.asleep[index] = 0
        return message

    def _execute(self, command: protocol.Command) -> bool:
        """Execute a command and send the result; returns whether it succeeded."""
        try:
            answer = getattr(self.group, command.name)(*command.arguments)
        except Exception as error:
            answer = _failure(error)
        protocol.write(self._control, answer)
        return not isinstance(answer, protocol.Failure)

    def _await_replacement(self) -> bool:
        """Wait until the env that failed has been replaced; False if "stop" came instead."""
        while True:
            command = protocol.read(self._control)
            if command is None:
                continue
            if command.name == "stop":
                return False
            if self._execute(command) and command.name == "replace_env":
                return True


def _register_env(start: protocol.StartMessage) -> None:
    """Register the environment as in the trainer, unless its packages do."""
    # The factory imports them as well and reports the error.
    with suppress(ConfigError):
        import_registering_modules(start.factory.config)
        import_known_package(start.factory.id)
    if start.registration is not None:
        entry = pickle.loads(start.registration)
        gymnasium.registry.setdefault(entry.id, entry)


def _failure(error: Exception, index: int = -1) -> protocol.Failure:
    if isinstance(error, EnvStepError):
        index = error.index
    message = str(error) if isinstance(error, BriskError) else f"{type(error).__name__}: {error}"
    trace = "".join(traceback.format_exception(error))
    return protocol.Failure(message, trace, index, isinstance(error, ConfigError))
