"""The driver's side of worker processes on a Ray cluster."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread, Timer
from typing import Any

from briskrl.cluster.messages import Begun, Order, Raised, Reply
from briskrl.cluster.ray.driver_files import DriverFiles
from briskrl.cluster.ray.host import Ended, HostMessage, Placed
from briskrl.cluster.ray.lost_actors import describe_loss, is_unavailable
from briskrl.cluster.ray.relay import StoreAnswer, StoreCall

_END_S = 15.0
"""How long a host may take to end its worker before its node is given up."""
_CAUSE_S = 20.0
"""How long to wait for Ray to find out why a host does not answer."""


class RemoteProcess:
    """A worker process that a Ray actor hosts; see `WorkerProcess`.

    Args:
        actor: Handle of a `JobHost`.
        environment: Environment variables, which decide what jobs it can run.
        mail: Receives what the host sends.
    """

    def __init__(self, actor: Any, environment: Mapping[str, str], mail: Mail) -> None:
        self.actor = actor
        self.environment = environment
        self.socket, self._wake = socket.socketpair()
        self.socket.setblocking(False)
        self._wake.setblocking(False)
        self._replies: deque[Reply] = deque()
        self._number = 0
        self._placed = False
        self._lost: str | None = None
        self._has_actor = True
        self._closed = False
        mail.watch(self)

    @property
    def is_placed(self) -> bool:
        """Whether Ray has found resources for it, and it has started there."""
        return self._placed

    @property
    def has_ended(self) -> bool:
        """Whether it, or its node, was lost."""
        return self._lost is not None

    @property
    def is_wanted(self) -> bool:
        """Whether the driver has not ended it."""
        return not self._closed

    def send(self, order: Order) -> None:
        """Let it run a job, as soon as it is placed."""
        self._number = order.number
        self.actor.run.remote(order)

    def receive(self) -> list[Reply] | None:
        """The messages that have arrived; None if it was lost."""
        with suppress(BlockingIOError):
            while self.socket.recv(4096):
                pass
        lost = self._lost
        found = [self._replies.popleft() for _ in range(len(self._replies))]
        return None if lost is not None and not found else found

    def ask_to_stop(self) -> None:
        """Ask the job to save and stop."""
        self.actor.ask_to_stop.remote()

    def end(self) -> None:
        """End the worker and its actor; waits until it is gone, unless its node is."""
        import ray

        if self._closed:
            return
        self._closed = True
        if self._placed and self._has_actor:
            with suppress(Exception):
                ray.get(self.actor.end.remote(), timeout=_END_S)
        with suppress(Exception):
            ray.kill(self.actor)
        self.socket.close()
        self._wake.close()

    def describe_end(self) -> str:
        """How it was lost, as a clause for messages."""
        return self._lost or "was ended"

    def deliver(self, message: Reply | Placed) -> None:
        """From the mail: something that the host has sent."""
        if isinstance(message, Placed):
            self._placed = True
            return
        self._replies.append(message)
        self._notify()

    def refuse(self, cause: str) -> None:
        """From the mail: its node cannot run our jobs at all."""
        self._replies += [
            Reply(self._number, Begun("")),
            Reply(self._number, Raised(cause, hopeless=True)),
        ]
        self.lose("has never started")

    def lose(self, how: str, *, actor: bool = True) -> None:
        """From the mail: the worker is lost, and perhaps its actor; nothing else will come."""
        if self._lost is not None:
            return
        self._has_actor = not actor
        self._lost = how
        self._notify()

    def _notify(self) -> None:
        # Full is as good as one byte; closed means that nobody waits any more.
        with suppress(OSError):
            self._wake.send(b"!")


class Mail:
    """A thread that receives what hosts send, and does what they ask for.

    Copies of checkpoints do not wait until somebody asks for the next event.

    Args:
        files: Where copies go; None if hosts send none.
    """

    def __init__(self, files: DriverFiles | None) -> None:
        self._files = files
        self._arrived: SimpleQueue[tuple[RemoteProcess, Any] | None] = SimpleQueue()
        self._thread = Thread(target=self._sort, name="briskrl-mail", daemon=True)
        self._thread.start()

    def watch(self, process: RemoteProcess) -> None:
        """Receive the next messages of a host when they arrive."""
        self._put_when_done(process, process.actor.receive)

    def close(self) -> None:
        """End the thread."""
        self._arrived.put(None)
        self._thread.join()

    def _put_when_done(self, process: RemoteProcess, method: Any) -> None:
        future = method.remote().future()
        future.add_done_callback(lambda done: self._arrived.put((process, done)))

    def _sort(self) -> None:
        while (arrived := self._arrived.get()) is not None:
            process, future = arrived
            if process.is_wanted:
                self._open(process, future)

    def _open(self, process: RemoteProcess, future: Any) -> None:
        try:
            messages: list[HostMessage] = future.result()
        except Exception as error:
            self._handle_loss(process, error)
            return
        for message in messages:
            match message:
                case StoreCall():
                    process.actor.answer.remote(self._do(message))
                case Ended(how):
                    process.lose(how, actor=False)
                    return
                case _:
                    process.deliver(message)
        self.watch(process)

    def _handle_loss(self, process: RemoteProcess, error: Exception) -> None:
        if is_unavailable(error):
            # Messages may be lost, too. What Ray answers next is the cause, if it knows it soon.
            self._put_when_done(process, process.actor.say_cut_off)
            timer = Timer(_CAUSE_S, process.lose, ["was cut off from the driver"])
            timer.daemon = True
            timer.start()
            return
        loss = describe_loss(error)
        if loss.hopeless:
            process.refuse(loss.text)
        else:
            process.lose(loss.text)

    def _do(self, call: StoreCall) -> StoreAnswer:
        if self._files is None:
            return StoreAnswer(error="The driver keeps no files.")
        try:
            return self._files.answer(call)
        except Exception as error:
            # The thread has to go on for the others.
            return StoreAnswer(error=f"{type(error).__name__}: {error}")
