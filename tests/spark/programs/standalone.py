"""A standalone cluster of two machines, as far as Spark can tell: it runs a task twice at the
same time only on different hosts, so each worker has a loopback address of its own.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTS = ("127.0.0.1", "127.0.0.2")
_DEADLINE_S = 600.0
_DEPLOY = "org.apache.spark.deploy"


@contextlib.contextmanager
def standalone_cluster(scratch: Path) -> Iterator[str]:
    """Start a master and two workers, and give the address of the master."""
    with contextlib.ExitStack() as stack:
        master = _Daemon(scratch / "master.log", f"{_DEPLOY}.master.Master", "--host", HOSTS[0])
        stack.callback(master.stop)
        url = master.wait_for(r"Starting Spark master at (spark://\S+)")
        for number, host in enumerate(HOSTS):
            work = str(scratch / f"worker-{number}")
            options = ("--host", host, "--cores", "1", "--memory", "1g", "--work-dir", work)
            log = scratch / f"worker-{number}.log"
            worker = _Daemon(log, f"{_DEPLOY}.worker.Worker", *options, url)
            stack.callback(worker.stop)
            worker.wait_for("Successfully registered with (master)")
        yield url


class _Daemon:
    def __init__(self, log: Path, name: str, *options: str) -> None:
        home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
        self._log = log
        # Spark tells of its ports in the log, and by default writes none of that.
        (log.parent / "conf").mkdir(exist_ok=True)
        (log.parent / "conf" / "log4j2.properties").write_text(_LOGGING)
        env = {**os.environ, "SPARK_CONF_DIR": str(log.parent / "conf")}
        # Every port is the kernel's choice.
        command = [str(home / "bin" / "spark-class"), name, "--port", "0", "--webui-port", "0"]
        with log.open("w") as output:
            self._process = subprocess.Popen(
                [*command, *options], stdout=output, stderr=output, env=env
            )

    def wait_for(self, pattern: str) -> str:
        deadline = time.monotonic() + _DEADLINE_S
        while time.monotonic() < deadline:
            if found := re.search(pattern, self._log.read_text()):
                return found[1]
            if self._process.poll() is not None:
                break
            time.sleep(0.05)
        raise SystemExit(f"no {pattern!r} in {self._log}:\n{self._log.read_text()}")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


_LOGGING = """\
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c: %m%n
"""
