"""The standard streams, made fit for whatever they are connected to.

A shell may have closed them (``>&-``), the locale may not know the characters that are to
be printed, the disk behind them may be full, and whoever read them may be gone.
"""

import io
import os
import select
import signal
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: What an error of writing to standard output has as its file name.
STDOUT_NAME = "standard output"
_STDOUT = 1


def prepare() -> None:
    """Make the streams usable."""
    _open_closed()
    _name_stdout()
    # Nothing that is printed may fail for its characters: an ASCII locale, a file name
    # that is no text.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _open_closed() -> None:
    """Give streams that are closed to nobody.

    Whoever closed them does not want to hear. Left closed, their numbers would go to the
    next files that are opened, and those are a log's.
    """
    modes = (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)
    for number, (mode, name) in enumerate(zip(modes, ("stdin", "stdout", "stderr"), strict=True)):
        if getattr(sys, name) is not None:
            continue
        null = os.open(os.devnull, mode)
        if null != number:
            os.dup2(null, number)
            os.close(null)
        how = "r" if name == "stdin" else "w"
        setattr(sys, name, open(number, how, encoding="utf-8", closefd=False))  # noqa: SIM115


# Above the raw file, not instead of it: a signal handler may raise in a method that is
# written in Python, and the buffer would write again what the raw file had written.
class _NamedBuffer(io.BufferedWriter):
    """Standard output whose errors say that they are its own."""

    def write(self, data: "Buffer") -> int:
        with _named_errors():
            return super().write(data)

    def flush(self) -> None:
        with _named_errors():
            super().flush()


class _NamedFile(io.FileIO):
    """The same without a buffer."""

    def write(self, data: "Buffer") -> int:
        with _named_errors():
            return super().write(data)


@contextmanager
def _named_errors() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        error.filename = STDOUT_NAME
        raise


def _name_stdout() -> None:
    stream = sys.stdout
    buffer = getattr(stream, "buffer", None)
    # PYTHONUNBUFFERED leaves the buffer out.
    raw = getattr(buffer, "raw", buffer)
    # Somebody else's stream, in a program that calls this one, stays as it is.
    if not isinstance(stream, io.TextIOWrapper) or type(raw) is not io.FileIO:
        return
    stream.flush()
    # A file of its own: the other one is closed with its stream.
    number = raw.fileno()
    sys.stdout = io.TextIOWrapper(
        _NamedFile(number, "wb", closefd=False)
        if buffer is raw
        else _NamedBuffer(io.FileIO(number, "wb", closefd=False)),
        encoding=stream.encoding,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


@contextmanager
def ending_with_reader() -> Iterator[None]:
    """Raise BrokenPipeError as soon as nobody reads standard output any more.

    Otherwise that is noticed when something is written, and there may be nothing to write
    for hours: ``aof2 tail -f LOG | head -3``. A thread waits for it and wakes the main one
    by the signal that a write would have had.
    """
    if threading.current_thread() is not threading.main_thread() or not _may_lose_reader():
        yield
        return
    stop, stopped = os.pipe()
    main = threading.get_ident()

    def wait() -> None:
        poll = select.poll()
        # Of errors and hang-ups one is told unasked.
        poll.register(_STDOUT, 0)
        poll.register(stop, select.POLLIN | select.POLLHUP)
        if all(number == _STDOUT for number, _ in poll.poll()):
            signal.pthread_kill(main, signal.SIGPIPE)

    def wake(_number: int, _frame: FrameType | None) -> None:
        if _is_unread():
            raise BrokenPipeError

    before = signal.signal(signal.SIGPIPE, wake)
    waiting = threading.Thread(target=wait, name="aof2-reader", daemon=True)
    waiting.start()
    try:
        yield
    finally:
        os.close(stopped)
        waiting.join()
        os.close(stop)
        signal.signal(signal.SIGPIPE, before)


def _may_lose_reader() -> bool:
    try:
        kind = os.fstat(_STDOUT).st_mode
        return sys.stdout.fileno() == _STDOUT and (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind))
    except (OSError, ValueError):
        return False


def _is_unread() -> bool:
    poll = select.poll()
    poll.register(_STDOUT, 0)
    return bool(poll.poll(0))
