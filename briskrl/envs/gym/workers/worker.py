"""A worker process: some environments, stepped as the trainer queues them.

Started by `worker_process` with descriptors of the shared block, of the socket to the
trainer and of a pipe whose other end only the trainer holds. Imports neither torch nor numba
itself, so that it starts fast. Leaves interrupts to the trainer and ends with it, however it ends.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import threading
import time
import traceback
from contextlib import suppress
from importlib import import_module
from typing import Any

import gymnasium

from briskrl.core.errors import BriskError, ConfigError, EnvStepError
from briskrl.envs.gym.env_group import Host
from briskrl.envs.gym.patience import Patience
from briskrl.envs.gym.workers import protocol as wire
from briskrl.envs.gym.workers.shared_memory import SharedBlock, fence

IDLE_CHECK_MS = 2000
"""How often an idle worker looks whether its trainer is still its parent."""


def main(control: int, block: int, lifeline: int, wake: int) -> None:
    """Serve a trainer until it says so or is gone."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # A function and not SIG_IGN, which programs that environments start would inherit.
        signal.signal(number, _leave_to_trainer)
    _die_with(lifeline)
    try:
        boot = wire.read(control)
        if os.getppid() != boot.trainer_pid:
            return
        _serve(boot, control, block, wake)
    except (EOFError, BrokenPipeError, ConnectionError):
        return


def _leave_to_trainer(number: int, frame: object) -> None:
    """The trainer gets the same signal and decides."""


def _die_with(lifeline: int) -> None:
    """End this process as soon as the other end of the pipe is closed, whatever it is doing."""
    try:
        import fcntl

        # The kernel itself kills the process, be it in a loop, asleep or inside a library.
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, int(signal.SIGKILL))
        flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC)
    except (ImportError, AttributeError, OSError):
        threading.Thread(target=_watch, args=(lifeline,), daemon=True).start()
        return
    # Closed already, before the kernel was asked?
    if select.select([lifeline], [], [], 0)[0]:
        os._exit(1)


def _watch(lifeline: int) -> None:
    os.read(lifeline, 1)
    os._exit(1)


def _serve(boot: wire.Boot, control: int, block: int, wake: int) -> None:
    try:
        worker = Worker(boot, control, block, wake)
    except Exception as error:
        wire.write(control, _failure(error))
        return
    try:
        wire.write(control, True)
        worker.run()
    finally:
        worker.host.close()


class Worker:
    """The envs low..high-1 of a batch and the loop that steps them."""

    def __init__(self, boot: wire.Boot, control: int, block: int, wake: int) -> None:
        self._control, self._wake, self._index = control, wake, boot.index
        self._trainer_pid, self._patience = boot.trainer_pid, Patience(boot.spin_s)
        low, high = boot.plan.bounds()[boot.index]
        _learn_id(boot)
        self._block = shared = SharedBlock(boot.plan, block)
        shared.close()
        self.host = Host(
            boot.recipe,
            low,
            shared.rows(low, high),
            shared.episode_rows(low, high),
            exact=boot.plan.spec.exact_state,
        )
        self._queue = shared.queue[low:high].data
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)

    def run(self) -> None:
        """Step what is queued and answer commands until told to stop."""
        pushed, index = self._block.pushed, self._index
        while True:
            if pushed[index] != self._block.finished[index]:
                self._step_queued()
            elif not self._look():
                message = self._sleep()
                if message is not None and message.name == "stop":
                    return
                if message is not None:
                    self._obey(message)

    def _step_queued(self) -> None:
        """Step queued envs one by one, publishing each, until the queue is empty."""
        block, host, queue = self._block, self.host, self._queue
        pushed, finished, asleep = block.pushed, block.finished, block.asleep
        actions, index, first, count = block.actions, self._index, host.first, host.count
        tail = finished[index]
        while tail != pushed[index]:
            fence()
            env = queue[tail % count]
            try:
                host.step(env - first, actions[env])
            except Exception as error:
                wire.write(self._control, _failure(error, env))
                if not self._await_revival():
                    os._exit(0)
            tail += 1
            fence()
            finished[index] = tail
            fence()
            if asleep[-1] and sum(finished) >= block.target[0]:
                self._wake_trainer()

    def _wake_trainer(self) -> None:
        self._block.asleep[-1] = 0
        # A full pipe wakes it too.
        with suppress(BlockingIOError):
            os.write(self._wake, b"\0")

    def _look(self) -> bool:
        """Look for work for a moment; waking a sleeper can take longer than a step."""
        spin_s = self._patience.spin_s()
        if not spin_s:
            return False
        pushed, index, clock = self._block.pushed, self._index, time.perf_counter
        tail = self._block.finished[index]
        begin = now = clock()
        while pushed[index] == tail and now - begin < spin_s:
            os.sched_yield()
            now = clock()
        found = pushed[index] != tail
        self._patience.learn(now - begin, found=found)
        return found

    def _sleep(self) -> Any:
        """Sleep until there is work or a message; the message, if one came."""
        block, index = self._block, self._index
        block.asleep[index] = 1
        fence()
        message = None
        if block.pushed[index] == block.finished[index]:
            if self._poll.poll(IDLE_CHECK_MS):
                message = wire.read(self._control)
            elif os.getppid() != self._trainer_pid:
                raise EOFError
        block.asleep[index] = 0
        return message

    def _obey(self, command: wire.Command) -> bool:
        """Answer one command; whether it went well."""
        try:
            answer = getattr(self.host, command.name)(*command.arguments)
        except Exception as error:
            answer = _failure(error)
        wire.write(self._control, answer)
        return not isinstance(answer, wire.Failure)

    def _await_revival(self) -> bool:
        """Wait until the env that failed has been replaced; False if told to stop instead."""
        while True:
            command = wire.read(self._control)
            if command is None:
                continue
            if command.name == "stop":
                return False
            if self._obey(command) and command.name == "revive":
                return True


def _learn_id(boot: wire.Boot) -> None:
    """Register the environment as the trainer has it, unless its packages do."""
    for package in boot.recipe.config.packages:
        # The recipe imports them as well and tells what is wrong.
        with suppress(ImportError):
            import_module(package)
    if boot.registration is not None:
        entry = pickle.loads(boot.registration)
        gymnasium.registry.setdefault(entry.id, entry)


def _failure(error: Exception, index: int = -1) -> wire.Failure:
    if isinstance(error, EnvStepError):
        index = error.index
    message = str(error) if isinstance(error, BriskError) else f"{type(error).__name__}: {error}"
    told = "".join(traceback.format_exception(error))
    return wire.Failure(message, told, index, isinstance(error, ConfigError))
