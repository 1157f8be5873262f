"""Spark finds the source by itself, and finding it costs little."""

from __future__ import annotations

import json
import subprocess
import sys

from support import child_env

LOOK = """
import json, sys, threading
before = set(sys.modules)
import pyspark.sql.datasource
spark_needs = set(sys.modules)
import pyspark_aof2
source = pyspark_aof2.DefaultSource
added = {name.partition(".")[0] for name in set(sys.modules) - spark_needs}
print(json.dumps({
    "name": source.name(),
    "is_source": issubclass(source, pyspark.sql.datasource.DataSource),
    "threads": threading.active_count(),
    "added": sorted(added),
    "aof2": sorted(n for n in sys.modules if n.startswith("aof2.spark")),
}))
"""


def test_the_module_spark_looks_for_imports_little_and_starts_no_thread() -> None:
    run = subprocess.run(
        [sys.executable, "-c", LOOK], env=child_env(), capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["name"] == "aof2"
    assert found["is_source"]
    assert found["threads"] == 1
    for heavy in ("pandas", "pyarrow", "numpy", "click", "rich"):
        assert heavy not in found["added"]
    assert found["aof2"] == ["aof2.spark", "aof2.spark.source"]
