"""Standard output and standard error of the command line: a lost stream ends no training.

`main` replaces both streams by an `Output`. Text that the stream cannot encode, control characters
in names and messages, a full disk, a closed descriptor and a reader that has gone away are handled
here, so that commands simply print. Code that draws with terminal codes uses `drawing`, and escapes
the names in its text with `escape_controls`. Progress of long work goes to `optional`.
"""

from __future__ import annotations

import errno
import io
import json
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, TextIO, cast

from briskrl.core.format import escape_controls

BROKEN_PIPE_EXIT = 141
"""Exit code of a program that SIGPIPE ended, as shells report it."""

LOST = "standard output cannot be written, the work continues without it"

_COLOR = re.compile("(\x1b\\[[0-9;]*m)")


class Output(io.TextIOBase):
    """A text stream that escapes control characters and goes silent once it cannot be written.

    Args:
        sink: Where the text goes.
        draws: Pass terminal codes on.
        is_optional: Whether a command succeeds even if this output is lost.
        note: Printed to standard error when the sink is lost; empty for no message.
    """

    def __init__(
        self, sink: Sink, *, draws: bool = False, is_optional: bool = False, note: str = ""
    ) -> None:
        self.sink = sink
        self.is_optional = is_optional
        self._draws = draws
        self._note = note

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the stream."""
        return self.sink.encoding

    def writable(self) -> bool:
        """Always true."""
        return True

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self.sink.isatty()

    def fileno(self) -> int:
        """The descriptor of the stream."""
        return self.sink.stream.fileno()

    def write(self, text: str) -> int:
        """Write the text, unless the stream is lost."""
        if not self.is_optional:
            self.sink.has_result = True
        self.sink.write(text if self._draws else escape_controls(text, keep="\n\t"))
        self._report_loss()
        return len(text)

    def flush(self) -> None:
        """Write what is buffered, unless the stream is lost."""
        self.sink.flush()
        self._report_loss()

    def close(self) -> None:
        """Leave the stream open: it is the process's."""

    def _report_loss(self) -> None:
        if self._note and self.sink.lost is not None:
            note, self._note = self._note, ""
            why = self.sink.lost.strerror or self.sink.lost
            print(f"brisk: {note} ({why}).", file=sys.stderr, flush=True)


class Sink:
    """A stream and the error that ended it, if there was one."""

    def __init__(self, stream: TextIO | None) -> None:
        self.lost: OSError | None = None
        self.has_result = False
        """Whether output that is not optional was written, or lost."""
        if stream is None:
            # Python leaves the stream out if its descriptor was closed before the start.
            stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - as long as the process
            self.lost = _closed()
        self.stream = stream
        self.encoding = getattr(stream, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        try:
            return self.stream.isatty()
        except ValueError:
            return False

    def write(self, text: str) -> None:
        """Write the text, with escapes for characters outside the encoding."""
        if self.lost is None:
            text = text.encode(self.encoding, "backslashreplace").decode(self.encoding)
            with self._losses():
                self.stream.write(text)

    def flush(self) -> None:
        """Write what is buffered."""
        if self.lost is None:
            with self._losses():
                self.stream.flush()

    @contextmanager
    def _losses(self) -> Iterator[None]:
        """Mark the stream as lost if it cannot be written."""
        try:
            yield
        except OSError as error:
            self.lost = error
            _discard(self.stream)
        except ValueError:
            # Somebody has closed the stream object.
            self.lost = _closed()


class StandardStreams:
    """Replaces `sys.stdout` and `sys.stderr` by robust ones for the time of a `with` block."""

    def __enter__(self) -> StandardStreams:
        _open_standard_descriptors()
        self._before = sys.stdout, sys.stderr
        self._stdout, self._stderr = Sink(sys.stdout), Sink(sys.stderr)
        sys.stdout = cast(TextIO, Output(self._stdout))
        sys.stderr = cast(TextIO, Output(self._stderr, is_optional=True))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stdout.flush()
        self._stderr.flush()
        sys.stdout, sys.stderr = self._before

    def exit_code(self, code: int) -> int:
        """The exit code of the process, which counts a result that could not be written."""
        self._stdout.flush()
        lost = self._stdout.lost
        if code or lost is None or not self._stdout.has_result:
            return code
        if lost.errno == errno.EPIPE:
            return BROKEN_PIPE_EXIT
        print(f"brisk: cannot write to standard output: {lost.strerror or lost}", file=sys.stderr)
        return 1


def optional(stream: TextIO) -> TextIO:
    """The stream for progress, whose loss does not count: the work itself goes on."""
    if not isinstance(stream, Output):
        return stream
    note = "" if stream.is_optional else LOST
    return cast(TextIO, Output(stream.sink, is_optional=True, note=note))


def is_lost(stream: TextIO) -> bool:
    """Whether nothing that is printed arrives any more."""
    return isinstance(stream, Output) and stream.sink.lost is not None


def drawing(stream: TextIO) -> TextIO:
    """The stream for text with terminal codes, in which names are escaped already."""
    if not isinstance(stream, Output):
        return stream
    return cast(TextIO, Output(stream.sink, draws=True, is_optional=stream.is_optional))


def print_json(value: Any) -> None:
    """Print one JSON object in one line; numbers that JSON does not have become null."""
    text = json.dumps(_finite(value), allow_nan=False)
    # JSON escapes all control characters but this one.
    print(text.replace("\x7f", "\\u007f"), flush=True)


def escape_all_but_colors(text: str) -> str:
    """Text with its control characters escaped, except line breaks and colors."""
    parts = _COLOR.split(text)
    return "".join(
        part if number % 2 else escape_controls(part, keep="\n\t")
        for number, part in enumerate(parts)
    )


def terminal_environ() -> Mapping[str, str]:
    """The environment for rich, without sizes of a terminal that cannot be drawn on."""
    environ = dict(os.environ)
    for name, least in (("COLUMNS", 20), ("LINES", 5)):
        value = environ.get(name, "")
        usable = value.isascii() and value.isdigit() and least <= int(value[:6]) <= 1000
        if not usable:
            environ.pop(name, None)
    return environ


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(member) for member in value]
    return value


def _closed() -> OSError:
    return OSError(errno.EBADF, os.strerror(errno.EBADF))


def _discard(stream: TextIO) -> None:
    """Redirect a lost stream to nowhere, so that its buffer raises no other error at exit."""
    with suppress(OSError, ValueError):
        descriptor = stream.fileno()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)


def _open_standard_descriptors() -> None:
    """Open the descriptors 0 to 2 if they are closed.

    Otherwise the next file that is opened gets one of them, and whatever a library prints would be
    written into a checkpoint.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != descriptor:
                os.dup2(null, descriptor)
                os.close(null)
