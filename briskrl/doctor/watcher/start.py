"""Start the watcher in this process; everything it does happens at the doctor's ticks."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
from _thread import get_ident
from time import perf_counter
from types import FrameType
from typing import TYPE_CHECKING, Any

from . import watch_variables
from .allocations import Allocations
from .channel import Channel
from .clocks import read_clocks
from .counts import Counts
from .discovery import Discovery
from .env_steps import EnvSteps
from .forward_passes import ForwardPasses
from .patches import Patches
from .stacks import Stacks
from .switches import debugging_modes
from .thread_ticks import ThreadTicks
from .turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable

_execve = os.execve
TICK_S = 0.005
"""Mean time between two ticks; the doctor sends them."""
FLUSH_S = 0.2
MOST_OPTIMIZERS = 16


class Watcher:
    """Everything the watcher knows about this process.

    Args:
        folder: The folder that the doctor has prepared.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._channel = channel = Channel(folder)
        self._counts = Counts()
        self._stacks = Stacks()
        self._forward = ForwardPasses()
        self._env_steps = EnvSteps(self._counts)
        self._discovery = Discovery(self._counts, self._stacks, self._env_steps, self._forward)
        allocations = Allocations(self._stacks.is_own_file, channel.send)
        self._turns = Turns(self._counts, self._env_steps, channel.send, allocations)
        self._patches = Patches()
        self._thread_ticks = ThreadTicks(self._tick_in_thread, TICK_S)
        self._pid = os.getpid()
        self._thread = get_ident()
        self._busy = self._is_to_end = False
        self._last = self._flushed = perf_counter()
        self._started_learning = False
        self._spent_s = 0.0
        self._hook_s = self._env_steps.cost_s()

    def begin(self) -> None:
        """Take ticks from now on."""
        signal.signal(signal.SIGPROF, self._tick)
        signal.siginterrupt(signal.SIGPROF, False)
        gc.callbacks.append(self._see_collection)
        atexit.register(self.end)
        self._patches.wrap(threading.Thread, "start", self._starting_thread)
        self._patches.wrap(os, "_exit", self._ending)
        self._patches.wrap(os, "execv", self._replacing)
        self._patches.wrap(os, "execve", self._replacing)
        self._patches.wrap(signal, "signal", self._watching_handlers)
        hello = {"hello": self._pid, "python": sys.version.split()[0], "exe": sys.executable}
        self._channel.send([{**hello, "argv": sys.argv, **read_clocks()}])
        self._channel.cores_in_use()

    def end(self) -> None:
        """Ignore further ticks and write what is left."""
        if os.getpid() != self._pid or self._pid == 0:
            return
        pid, self._pid = self._pid, 0
        signal.signal(signal.SIGPROF, signal.SIG_IGN)
        self._turns.revert()
        self._flush(perf_counter())
        self._channel.send([{"bye": pid, **read_clocks()}])

    def leave(self) -> None:
        """Stop in a process that goes on, as a notebook does, and remove all hooks."""
        self.end()
        self._patches.restore()
        self._env_steps.restore()
        self._discovery.restore()
        gc.callbacks.remove(self._see_collection)
        atexit.unregister(self.end)

    def _tick(self, signum: int, frame: FrameType | None) -> None:
        if self._busy or os.getpid() != self._pid:
            return
        if self._is_to_end and not _is_in_callback(frame):
            self._is_to_end = False
            _interrupt_quietly()
        self._busy = True
        try:
            self._sample(frame)
        except Exception as error:  # The script must not see an error of the watcher.
            self._channel.send([{"error": repr(error)}])
        finally:
            self._busy = False

    def _starting_thread(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`Thread.start`: the loop may be in the new thread while the main thread waits for it."""

        def start_thread(*args: Any, **options: Any) -> Any:
            if os.getpid() == self._pid:
                self._discovery.look()
                self._thread_ticks.begin()
            return original(*args, **options)

        return start_thread

    def _tick_in_thread(self) -> bool | None:
        """A tick if the main thread waits for the loop; None when the watching is over."""
        if os.getpid() != self._pid:
            return None
        if perf_counter() - self._last < 2 * TICK_S or self._busy:
            return False
        self._busy = True
        try:
            if self._counts.step_thread == 0:
                self._discovery.look()
                return False
            if self._counts.step_thread != self._thread:
                self._sample(None)
                return True
        except Exception as error:  # The script must not see an error of the watcher.
            self._channel.send([{"error": repr(error)}])
        finally:
            self._busy = False
        return False

    def _sample(self, frame: FrameType | None) -> None:
        now = perf_counter()
        # A call of C code that lasts longer than a tick gets the ticks that it missed.
        missed = (now - self._last) / TICK_S
        self._last = now
        weight = 1 if missed < 2 else int(missed + 0.5)
        self._stacks.add(self._of_loop(frame), weight, self._channel.cores_in_use())
        self._discovery.look()
        if self._channel.control[0] != self._channel.seen:
            self._obey(self._channel.receive())
        self._turns.check(now)
        started = self._counts.steps > 0
        if now - self._flushed > FLUSH_S or started != self._started_learning:
            self._started_learning = started
            self._forward.look(now)
            self._flush(now)
        self._spent_s += perf_counter() - now

    def _of_loop(self, frame: FrameType | None) -> FrameType | None:
        """Where the loop is: in this thread, or in that which takes the environment steps."""
        thread = self._counts.step_thread
        if thread in (0, self._thread):
            return frame
        return sys._current_frames().get(thread, frame)

    def _obey(self, command: dict[str, Any]) -> None:
        if command["switch"] == "stop":
            self._is_to_end = True
        else:
            self._turns.take(command)

    def _flush(self, now: float) -> None:
        self._flushed = now
        state: dict[str, Any] = {"w": self._counts.as_dict(), **read_clocks()}
        state["own"] = self._spent_s
        state["hook_s"] = self._hook_s
        state["rows"] = [self._forward.with_grad, self._forward.without_grad]
        state["devices"] = self._forward.devices
        state["dtypes"] = self._forward.dtypes
        state["optimizer_steps"] = sorted(self._counts.optimizers.values())[-MOST_OPTIMIZERS:]
        counts = self._counts
        state["elsewhere"] = {
            "steps": counts.step_thread not in (0, self._thread),
            "updates": counts.update_thread not in (0, counts.step_thread),
        }
        state["layers"] = self._forward.layers
        state["env_id"] = self._env_steps.env_id
        state["versions"] = self._discovery.versions
        torch = sys.modules.get("torch")
        if torch is not None and "torch" in self._discovery.versions:
            state["torch_threads"] = torch.get_num_threads()
            state["debugging"] = debugging_modes()
        self._channel.send([*self._stacks.drain(), state])

    def _see_collection(self, phase: str, info: dict[str, int]) -> None:
        counts = self._counts
        if phase == "start":
            counts.gc_start = perf_counter()
        else:
            counts.gc_s += perf_counter() - counts.gc_start
            counts.gc_times += 1

    def _ending(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A function that replaces the process; what is known is written first."""

        def ending(*args: Any, **options: Any) -> Any:
            self.end()
            return original(*args, **options)

        return ending

    def _replacing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`execv` and `execve`: another Python in place of this one is watched again."""

        def replacing(path: Any, args: Any, *rest: Any) -> Any:
            if os.getpid() != self._pid or "python" not in os.path.basename(os.fsdecode(path)):
                self.end()
                return original(path, args, *rest)
            environment = rest[0] if rest else os.environ
            self.end()
            again = watch_variables(self._folder, environment)
            return _execve(path, args, {**environment, **again})

        return replacing

    def _watching_handlers(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`signal.signal`: a script that uses the signal of the ticks gets it for itself."""

        def set_handler(signum: int, handler: Any) -> Any:
            if signum == signal.SIGPROF and os.getpid() == self._pid and self._pid:
                self._channel.send([{"bye": self._pid, "why": "SIGPROF", **read_clocks()}])
                self._pid = 0
            return original(signum, handler)

        return set_handler


def start(folder: str) -> Watcher:
    """Watch this process and write to a folder that the doctor has prepared."""
    watcher = Watcher(folder)
    watcher.begin()
    return watcher


def _interrupt_quietly() -> None:
    """End the script as Ctrl-C does, without the traceback if it does not handle that itself."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        signal.raise_signal(signal.SIGINT)
        return
    shown = sys.excepthook

    def hook(kind: Any, error: Any, trace: Any) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            shown(kind, error, trace)

    sys.excepthook = hook
    raise KeyboardInterrupt


def _is_in_callback(frame: FrameType | None) -> bool:
    """Whether the garbage collector has called the watcher; it drops exceptions."""
    return frame is not None and frame.f_code.co_filename == __file__
