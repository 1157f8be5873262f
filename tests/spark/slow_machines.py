"""What keeps Spark's own deadlines from failing tests on a busy machine.

Two of them cannot be set. A Python process that Spark starts for a streaming query must
call back within ten seconds, and it imports PySpark from a zip file first, which compiles
every module anew. So tests run with a copy of Spark's directory, made of links, in which
that zip is a folder whose modules are compiled already; and a query that failed for this
reason alone, before any code of ours ran, is started again.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.query import StreamingQuery

TOO_SLOW = "failed to connect back"
#: Those that can be set.
PATIENT_CONF = {
    "spark.python.authenticate.socketTimeout": "600s",
    "spark.network.timeout": "900s",
    "spark.rpc.lookupTimeout": "600s",
}
_RETRY_S = 600.0


def make_spark_home(home: Path) -> Path | None:
    """Link everything of PySpark into `home`, with its zip as a folder; None if it has none."""
    import pyspark

    package = Path(pyspark.__file__).parent
    zipped = package / "python" / "lib" / "pyspark.zip"
    if not zipped.is_file():
        return None
    libraries = home / "python" / "lib"
    (libraries / "pyspark.zip").mkdir(parents=True)
    (libraries / "pyspark.zip" / "pyspark").symlink_to(package)
    for library in zipped.parent.iterdir():
        if library.name != "pyspark.zip":
            (libraries / library.name).symlink_to(library)
    for entry in package.iterdir():
        if entry.name != "python":
            (home / entry.name).symlink_to(entry)
    return home


def finished(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Start a query that ends by itself, and wait for its end."""
    from pyspark.errors import StreamingQueryException

    deadline = time.monotonic() + _RETRY_S
    while True:
        query = start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if TOO_SLOW not in str(error) or time.monotonic() > deadline:
                raise
        else:
            return query


def started(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Start a query that runs on, and wait for its first micro-batch."""
    deadline = time.monotonic() + _RETRY_S
    while True:
        query = start()
        while query.isActive and not query.recentProgress:
            time.sleep(0.05)
        error = query.exception()
        if error is None:
            return query
        if TOO_SLOW not in str(error) or time.monotonic() > deadline:
            raise error
