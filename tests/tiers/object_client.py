"""The Rust client, driven a command at a time."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# Waits that are over soon, and more tries than any planned fault lasts.
QUICK = {
    "request_timeout_ms": 3000,
    "operation_timeout_ms": 60000,
    "multipart_bytes": 5 << 20,
    "retries_max": 5,
    "backoff_ms": 5,
    "backoff_ms_max": 50,
}


class ObjectClient:
    """A running `object_store_cli`."""

    def __init__(
        self, program: Path, url: str, env: Mapping[str, str], config: Mapping[str, object]
    ) -> None:
        settings = QUICK | dict(config)
        # Nothing of the caller's environment may leak into the chain of credentials.
        clean = {k: os.environ[k] for k in ("PATH", "LD_LIBRARY_PATH") if k in os.environ}
        clean |= {"HOME": "/nonexistent", "AWS_EC2_METADATA_DISABLED": "true"}
        self.process = subprocess.Popen(
            [str(program), url, *(f"{k}={v}" for k, v in settings.items())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=clean | dict(env),
        )

    def call(self, *words: object) -> dict[str, Any]:
        """The answer to one command, failed or not."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(" ".join(map(str, words)) + "\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            assert self.process.stderr is not None
            raise RuntimeError(f"the client ended: {self.process.stderr.read()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ok(self, *words: object) -> dict[str, Any]:
        """The answer to a command that must succeed."""
        answer = self.call(*words)
        assert answer["ok"], answer
        return answer

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        self.process.wait(timeout=30)
