"""A proxy in front of an S3 server that fails on demand.

It speaks just enough HTTP/1.1 to see one whole request, send it on and see one whole answer.
A `Fault` names requests (by operation) and how they fail; each is used up once.
"""

from __future__ import annotations

import contextlib
import enum
import socket
import struct
import threading
import urllib.parse
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Self

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator


class Kind(enum.Enum):
    """How a request fails."""

    REFUSE = "refuse"  # the connection is closed before anything is read
    RESET_BEFORE = "reset before"  # the request is read and not sent on
    RESET_AFTER = "reset after"  # the request is carried out and its answer lost
    UNAVAILABLE = "503"
    THROTTLED = "429"
    INTERNAL = "500"
    SLOW = "slow"  # the answer comes too late
    TRUNCATED = "truncated"  # half of the answer's body arrives
    TRUNCATED_REQUEST = "truncated request"  # half of the request's body is sent on
    FLIPPED = "flipped"  # one byte of the body is changed, in whichever direction it goes
    EXPIRED = "403 expired"
    DENIED = "403"
    DROPPED = "dropped"  # success is reported, and nothing was done


ERRORS = {
    Kind.UNAVAILABLE: (503, "SlowDown", "Please reduce your request rate."),
    Kind.THROTTLED: (429, "TooManyRequests", "Please reduce your request rate."),
    Kind.INTERNAL: (500, "InternalError", "We encountered an internal error."),
    Kind.EXPIRED: (403, "ExpiredToken", "The provided token has expired."),
    Kind.DENIED: (403, "AccessDenied", "Access Denied."),
}


@dataclass
class Request:
    """One request, whole."""

    method: str
    target: str
    head: bytes
    body: bytes

    @property
    def op(self) -> str:
        """The operation, as the client's metrics name it."""
        url = urllib.parse.urlsplit(self.target)
        query = urllib.parse.parse_qs(url.query, keep_blank_values=True)
        has_key = len(url.path.strip("/").split("/", 1)) == 2
        match self.method:
            case "PUT" if "uploadId" in query:
                return "multipart_part"
            case "PUT":
                return "put"
            case "POST" if "uploads" in query:
                return "multipart_begin"
            case "POST" if "uploadId" in query:
                return "multipart_finish"
            case "DELETE" if "uploadId" in query:
                return "multipart_abort"
            case "DELETE":
                return "delete"
            case "HEAD":
                return "head"
            case "GET" if "uploads" in query:
                return "multipart_list"
            case "GET" if has_key:
                return "get"
            case "GET":
                return "list"
        return self.method.lower()


@dataclass
class Fault:
    """What happens to the next `count` requests for `op` (any one if `None`)."""

    kind: Kind
    op: str | None = None
    count: int = 1

    def hits(self, op: str) -> bool:
        return self.count > 0 and self.op in (None, op)


@dataclass
class FaultProxy:
    """Listens on loopback in front of `upstream`. Use it as a context manager.

    With `tls` clients speak HTTPS with it.
    """

    upstream: tuple[str, int]
    tls: ssl.SSLContext | None = None
    faults: list[Fault] = field(default_factory=list)
    seen: list[tuple[str, Kind | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    @property
    def endpoint(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._spawn(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        # Closing alone does not wake a thread that accepts.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=10)

    def plan(self, *faults: Fault) -> None:
        with self._lock:
            self.faults.extend(faults)

    def clear(self) -> None:
        with self._lock:
            self.faults.clear()
            self.seen.clear()

    def hits(self, kind: Kind) -> int:
        with self._lock:
            return sum(1 for _, seen in self.seen if seen is kind)

    def _spawn(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._spawn(self._greet, client)

    def _greet(self, client: socket.socket) -> None:
        if self.tls is None:
            return self._serve(client)
        try:
            client = self.tls.wrap_socket(client, server_side=True)
        except OSError:
            return None  # the client does not trust us, or went away
        return self._serve(client)

    def _serve(self, client: socket.socket) -> None:
        # The reader is closed first: a socket stays open while one is.
        with (
            client,
            self._kept(client),
            contextlib.suppress(OSError),
            client.makefile("rb") as stream,
        ):
            if self._refuses(client):
                return
            while not self._closing.is_set():
                request = read_request(stream)
                # A connection that was kept open is refused when it is used again.
                if request is None or self._refuses(client) or not self._handle(client, request):
                    return

    @contextlib.contextmanager
    def _kept(self, one: socket.socket) -> Iterator[None]:
        with self._lock:
            self._open.add(one)
        try:
            yield
        finally:
            with self._lock:
                self._open.discard(one)

    def _refuses(self, client: socket.socket) -> bool:
        """Refusal comes before the request is known, so it is planned for any operation."""
        with self._lock:
            for fault in self.faults:
                if fault.kind is Kind.REFUSE and fault.count > 0:
                    fault.count -= 1
                    self.seen.append(("connect", Kind.REFUSE))
                    reset(client)
                    return True
        return False

    def _take(self, op: str) -> Kind | None:
        with self._lock:
            for fault in self.faults:
                if fault.kind is not Kind.REFUSE and fault.hits(op):
                    fault.count -= 1
                    self.seen.append((op, fault.kind))
                    return fault.kind
            self.seen.append((op, None))
            return None

    def _handle(self, client: socket.socket, request: Request) -> bool:
        """Serves one request; whether the connection can be used again."""
        kind = self._take(request.op)
        match kind:
            case Kind.RESET_BEFORE:
                reset(client)
                return False
            case Kind.SLOW:
                self._closing.wait(60)  # far longer than any client under test waits
                return False
            case Kind.DROPPED:
                client.sendall(plain_answer(200, b"", 'ETag: "00000000000000000000000000000000"'))
                return True
            case _ if kind in ERRORS:
                client.sendall(error_answer(*ERRORS[kind], is_head=request.method == "HEAD"))
                return True
        if kind is Kind.FLIPPED and request.body:
            request.body = flipped(request.body)
            kind = None
        head, body = self._forward(request, is_cut=kind is Kind.TRUNCATED_REQUEST)
        match kind:
            case Kind.RESET_AFTER:
                reset(client)
                return False
            case Kind.TRUNCATED:
                client.sendall(head + body[: len(body) // 2])
                return False
            case Kind.TRUNCATED_REQUEST:
                return False
            case Kind.FLIPPED:
                body = flipped(body)
        client.sendall(head + body)
        return True

    def _forward(self, request: Request, *, is_cut: bool) -> tuple[bytes, bytes]:
        with socket.create_connection(self.upstream, timeout=60) as server, self._kept(server):
            if is_cut:
                server.sendall(request.head + request.body[: len(request.body) // 2])
                return b"", b""
            server.sendall(request.head + request.body)
            with server.makefile("rb") as stream:
                return read_answer(stream, is_head=request.method == "HEAD")


def reset(client: socket.socket) -> None:
    """Closes with RST and not with FIN."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def flipped(body: bytes) -> bytes:
    if not body:
        return body
    middle = len(body) // 2
    return body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :]


def read_head(stream: BinaryIO) -> tuple[bytes, dict[str, str]] | None:
    lines: list[bytes] = []
    while True:
        line = stream.readline(65536)
        if not line:
            return None
        lines.append(line)
        if line in (b"\r\n", b"\n"):
            break
    headers = {}
    for line in lines[1:-1]:
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    return b"".join(lines), headers


def read_body(stream: BinaryIO, headers: dict[str, str]) -> bytes:
    """The body as it is on the wire, chunk headers included."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        raw = bytearray()
        while True:
            line = stream.readline(65536)
            raw += line
            size = int(line.split(b";")[0], 16)
            raw += stream.read(size + 2)
            if size == 0:
                return bytes(raw)
    size = int(headers.get("content-length", "0"))
    return stream.read(size)


def read_request(stream: BinaryIO) -> Request | None:
    found = read_head(stream)
    if found is None:
        return None
    head, headers = found
    method, target, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
    return Request(method, target, head, read_body(stream, headers))


def read_answer(stream: BinaryIO, *, is_head: bool) -> tuple[bytes, bytes]:
    while True:
        found = read_head(stream)
        if found is None:
            raise OSError("the server closed the connection")
        head, headers = found
        status = int(head.split(b" ", 2)[1])
        if status == 100:
            continue
        if is_head or status in (204, 304):
            return head, b""
        return head, read_body(stream, headers)


def plain_answer(status: int, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Planned", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def error_answer(status: int, code: str, message: str, *, is_head: bool) -> bytes:
    body = (
        f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code>'
        f"<Message>{message}</Message></Error>"
    ).encode()
    answer = plain_answer(status, body, "Content-Type: application/xml")
    return answer[: -len(body)] if is_head else answer
