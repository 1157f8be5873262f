"""Running the command line in this process, in a process of its own, and on a terminal."""

import contextlib
import fcntl
import io
import json
import os
import pty
import queue
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aof2
from aof2.cli import main
from hypothesis import HealthCheck, settings
from screen import Screen

#: Nothing waits for a time to pass; this only ends a test that would never end.
DEADLINE_SECONDS = 120.0
#: For properties: a slow machine is no failure, and nothing is kept between runs.
UNHURRIED = settings(
    deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
GOLDEN = Path(__file__).parent / "golden"
COMMAND = [sys.executable, "-m", "aof2"]
FIRST_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
HEADER_LEN = 32  # of a record in the full layout


@dataclass(frozen=True)
class Result:
    code: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        return self.stdout.decode()

    def json(self) -> Any:
        """The one object on stdout."""
        return json.loads(self.stdout)

    def lines(self) -> list[Any]:
        """The objects on stdout, one per line."""
        return [json.loads(line) for line in self.stdout.split(b"\n") if line]

    def error(self) -> dict[str, Any]:
        """The error that ``--json`` puts on stderr, its only line."""
        (line,) = self.stderr.splitlines()
        error: dict[str, Any] = json.loads(line)["error"]
        return error

    def ok(self) -> "Result":
        assert self.code == 0, (self.code, self.stderr, self.stdout)
        return self


class _BytesBehindText(io.TextIOWrapper):
    def __init__(self, data: bytes = b"") -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8", write_through=True)

    def bytes(self) -> bytes:
        self.flush()
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue()


def run(*args: object, stdin: bytes = b"") -> Result:
    """The command in this process; the streams are no terminals."""
    streams = _BytesBehindText(stdin), _BytesBehindText(), _BytesBehindText()
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = streams
    try:
        code = main([str(arg) for arg in args])
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
    return Result(int(code), streams[1].bytes(), streams[2].bytes().decode())


def environment(**changes: str | None) -> dict[str, str]:
    """This process's environment without what changes output, and the changes."""
    hidden = ("NO_COLOR", "FORCE_COLOR", "AOF2_TRACEBACK", "COLUMNS", "LINES")
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    env["TERM"] = "xterm-256color"
    # Buffered as for everybody: what a command forgets to flush must be seen missing.
    env.pop("PYTHONUNBUFFERED", None)
    for name, value in changes.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return env


def spawn(
    *args: object, stdin: bytes = b"", env: dict[str, str] | None = None, **how: Any
) -> Result:
    """The command as a process of its own."""
    done = subprocess.run(
        [*COMMAND, *(str(arg) for arg in args)],
        input=stdin,
        capture_output=True,
        env=env or environment(),
        timeout=DEADLINE_SECONDS,
        **how,
    )
    return Result(done.returncode, done.stdout, done.stderr.decode())


class Process:
    """A running command whose lines can be waited for."""

    def __init__(self, *args: object, env: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [*COMMAND, *(str(arg) for arg in args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env or environment(),
        )
        self.pid = self._process.pid
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._errors: list[bytes] = []
        self._pumps = [
            threading.Thread(target=self._pump_lines, daemon=True),
            threading.Thread(target=self._pump_errors, daemon=True),
        ]
        for pump in self._pumps:
            pump.start()

    def _pump_lines(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _pump_errors(self) -> None:
        assert self._process.stderr is not None
        self._errors.append(self._process.stderr.read())

    def line(self) -> str:
        """The next line it prints."""
        line = self._lines.get(timeout=DEADLINE_SECONDS)
        assert line is not None, f"it ended: {self.finish()}"
        return line.decode().rstrip("\n")

    def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        self._process.kill()

    def finish(self) -> Result:
        """Ends its input and waits for its end."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        code = self._process.wait(timeout=DEADLINE_SECONDS)
        for pump in self._pumps:
            pump.join(timeout=DEADLINE_SECONDS)
        rest = []
        while not self._lines.empty():
            line = self._lines.get_nowait()
            if line is not None:
                rest.append(line)
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()
        return Result(code, b"".join(rest), b"".join(self._errors).decode())


@contextlib.contextmanager
def running(*args: object, env: dict[str, str] | None = None) -> Iterator[Process]:
    process = Process(*args, env=env)
    try:
        yield process
    finally:
        process.kill()
        process.finish()


@contextlib.contextmanager
def running_writer(log: Path) -> Iterator[Process]:
    """A process that appends the lines it is sent and prints the id of each when it is
    durable. It holds the writer lock once the first id has come."""
    with running("append", log, "--durable", "--ids") as writer:
        yield writer


def on_terminal(
    *args: object, answer: bytes = b"", columns: int = 100, env: dict[str, str] | None = None
) -> Result:
    """The command on a terminal of its own; stdout has all that the terminal showed. The
    answer is typed when a question has been asked."""
    parent, child = pty.openpty()
    os.set_blocking(parent, True)
    env = env or environment()
    env["COLUMNS"] = str(columns)
    process = subprocess.Popen(
        [*COMMAND, *(str(arg) for arg in args)],
        # A session of its own, so that what is typed can interrupt it.
        preexec_fn=lambda: os.login_tty(child),
        env=env,
    )
    os.close(child)
    shown = b""
    watchdog = threading.Timer(DEADLINE_SECONDS, process.kill)
    watchdog.start()
    try:
        while True:
            try:
                piece = os.read(parent, 65536)
            except OSError:  # the other side is closed
                break
            if not piece:
                break
            shown += piece
            if answer and b"[y/N]" in shown:
                os.write(parent, answer)
                answer = b""
        code = process.wait(timeout=DEADLINE_SECONDS)
    finally:
        watchdog.cancel()
        os.close(parent)
    return Result(code, shown.replace(b"\r\n", b"\n"), "")


class Terminal:
    """A running command on a terminal whose size can be changed."""

    def __init__(self, process: "subprocess.Popen[bytes]", side: int) -> None:
        self._process = process
        self._side = side

    def resize(self, columns: int, rows: int = 24) -> None:
        fcntl.ioctl(self._side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def feed_until(self, screen: Screen, is_so: Callable[[], bool]) -> None:
        """Show what comes, at least one piece, until it is so."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._side], [], [], max(left, 0))
            assert ready, f"it never came: {screen.lines()}"
            screen.feed(os.read(self._side, 65536).decode())
            if is_so():
                return


@contextlib.contextmanager
def terminal(*args: object, columns: int) -> Iterator[Terminal]:
    """The command on a terminal of its own, which says how wide it is."""
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *(str(arg) for arg in args)],
        preexec_fn=lambda: os.login_tty(child),
        env=environment(NO_COLOR="1"),
    )
    shown = Terminal(process, parent)
    shown.resize(columns)
    os.close(child)
    try:
        yield shown
    finally:
        process.kill()
        process.wait(timeout=DEADLINE_SECONDS)
        os.close(parent)


ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def wait_until(what: str, condition: Any) -> None:
    """Looks until it is so."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(0.01)


def make_log(path: Path, payloads: Sequence[bytes], *, seal_after: Sequence[int] = ()) -> Path:
    """A closed log whose record ``n`` is a second after the one before it. A segment ends
    behind each of ``seal_after``."""
    with aof2.Aof.open(path, segment_bytes=1 << 16) as log:
        for number, payload in enumerate(payloads):
            log.append(payload, timestamp_ms=FIRST_MS + number * 1000)
            if number in seal_after:
                log.seal()
    return path


def flip(path: Path, offset: int) -> None:
    """Damages the payload of a record."""
    with aof2.open(path) as log:
        record = log.read_offset(offset)
        place = record.id.segment_offset + HEADER_LEN
        (file,) = (s.path for s in log.segments() if s.segment_id == record.id.segment_index)
    with Path(file).open("r+b") as stream:
        stream.seek(place)
        byte = stream.read(1)[0]
        stream.seek(place)
        stream.write(bytes([byte ^ 0xFF]))


_CHANGING = (
    (re.compile(r"\d{20}_\d{20}_\d{20}\.seg"), "SEGMENT.seg"),
    (re.compile(r'("created"|"sealed"):"[^"]*"'), r'\1:"TIME"'),
    (re.compile(r'("created_ms"|"durable_ms"):\d+'), r"\1:0"),
    # Ids are random, and every checksum has them in it.
    (re.compile(r"stream [0-9a-f]{16}"), "stream ID"),
    (re.compile(r'"stream_id":"[0-9a-f]{16}"'), '"stream_id":"ID"'),
    (re.compile(r"computed 0x[0-9a-f]{8}, stored 0x[0-9a-f]{8}"), "computed 0xCRC, stored 0xCRC"),
)


def normal(text: str, tmp_path: Path) -> str:
    """Output without what differs from run to run."""
    text = text.replace(str(tmp_path), "TMP")
    for pattern, replacement in _CHANGING:
        text = pattern.sub(replacement, text)
    return text


def check_golden(name: str, text: str) -> None:
    """Compares with the stored output; ``AOF2_UPDATE_GOLDEN=1`` stores it anew."""
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("AOF2_UPDATE_GOLDEN"):
        file.write_text(text)
    assert file.exists(), f"no {file.name}; run once with AOF2_UPDATE_GOLDEN=1"
    assert text == file.read_text()
