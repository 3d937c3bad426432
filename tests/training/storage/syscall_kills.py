"""Runs a function in a child process that is killed before its n-th system call."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_TRACEME, _SYSCALL, _SETOPTIONS = 0, 24, 0x4200
_MARK_SYSCALLS, _KILL_WITH_TRACER = 1, 1 << 20
_SYSCALL_STOP = signal.SIGTRAP | 0x80
_FINISHED, _RAISED = 0, 1


def _ptrace(request: int, process: int, data: int = 0) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(request, process, None, data) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def tracing_allowed() -> bool:
    """Whether a process may trace its own children here."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        return not killed_before(1_000_000, lambda: None)
    except OSError:
        return False


def killed_before(number: int, action: Callable[[], None]) -> bool:
    """Run the action in a fork that is killed when it enters its n-th system call.

    Returns:
        Whether it was killed; if not, it was done before.

    Raises:
        RuntimeError: The action raised an exception.
    """
    child = os.fork()
    if child == 0:
        _run_traced(action)
    try:
        # It waits for its tracer.
        _, status = os.waitpid(child, 0)
        assert os.WIFSTOPPED(status), status
        _ptrace(_SETOPTIONS, child, _MARK_SYSCALLS | _KILL_WITH_TRACER)
        return _trace(child, number)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise


def _run_traced(action: Callable[[], None]) -> None:
    code = _RAISED
    try:
        _ptrace(_TRACEME, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        action()
        code = _FINISHED
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _trace(child: int, number: int) -> bool:
    stops, deliver = 0, 0
    while True:
        _ptrace(_SYSCALL, child, deliver)
        _, status = os.waitpid(child, 0)
        deliver = 0
        if not os.WIFSTOPPED(status):
            if os.waitstatus_to_exitcode(status) != _FINISHED:
                raise RuntimeError("the traced process failed")
            return False
        if os.WSTOPSIG(status) != _SYSCALL_STOP:
            deliver = os.WSTOPSIG(status)
            continue
        stops += 1
        # It stops when it enters and when it leaves a call; killed on entry, it never makes it.
        if stops == 2 * number - 1:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            assert os.WIFSIGNALED(status), status
            return True
