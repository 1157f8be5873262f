"""How readers travel from the driver to executors.

Spark pickles a reader there and unpickles it in a Python process that somebody else set
up. If aof2 is missing there or older, unpickling would fail with a bare import error far
from the cause. So a reader travels inside a function that needs nothing but Python: it
looks first, and says what is wrong with which machine.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import aof2

if TYPE_CHECKING:
    from collections.abc import Callable

#: The first PySpark whose data sources have what this package needs.
PYSPARK_MIN = (4, 2)


def travelling(function: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
    """Return what ``__reduce__`` gives: rebuild by ``function(*arguments)`` after looking."""
    packed = pickle.dumps((function, arguments))
    return _look_first(), (aof2.__version__, packed)


def _look_first() -> Callable[[str, bytes], Any]:
    # A function made inside another one is pickled as code, not as a name to import.
    def unpack(version: str, packed: bytes) -> Any:
        import pickle
        import re
        import socket
        import sys

        place = f"the Python of {socket.gethostname()} ({sys.executable})"
        remedy = (
            "install the same aof2 on every machine (PYSPARK_PYTHON names the Python that "
            "executors use), or ship a packed environment with spark.archives"
        )
        try:
            import aof2
        except ImportError as error:
            raise ImportError(f"{place} cannot import aof2: {error}; {remedy}") from None

        def numbers(text: str) -> list[int]:
            return [int(part) for part in re.findall(r"\d+", text)[:3]]

        if numbers(aof2.__version__) < numbers(version):
            raise ImportError(
                f"{place} has aof2 {aof2.__version__}, the driver has {version}; {remedy}"
            )
        function, arguments = pickle.loads(packed)  # noqa: S301 - packed by `travelling`
        return function(*arguments)

    return unpack


def require_spark() -> None:
    """Fail with what to install if PySpark or pyarrow is missing or too old."""
    from aof2.spark.errors import PackageMismatch

    remedy = "pip install 'aof2[spark]'"
    try:
        import pyarrow  # noqa: F401
        import pyspark
    except ImportError as error:
        raise PackageMismatch(f"aof2.spark cannot import {error.name}; {remedy}") from error
    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if version < PYSPARK_MIN:
        needed = ".".join(map(str, PYSPARK_MIN))
        raise PackageMismatch(
            f"aof2.spark needs PySpark {needed} or newer, this is {pyspark.__version__}; {remedy}"
        )
