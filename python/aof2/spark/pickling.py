"""How readers and writers are pickled for executors.

Spark unpickles them there, in a Python process that somebody else set up. If aof2 is
missing there or does not fit the driver's, unpickling would fail with a bare import error
far from the cause. So each is pickled inside a function that needs nothing but Python: it
looks first, and says what is wrong with which machine.

Classes are pickled by the names of their modules, which another minor version may have
changed. Within one minor version they stay, and an executor may have a newer patch.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import aof2

if TYPE_CHECKING:
    from collections.abc import Callable


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

        here, driver = numbers(aof2.__version__), numbers(version)
        if here[:2] != driver[:2] or here < driver:
            raise ImportError(
                f"{place} has aof2 {aof2.__version__}, the driver has {version}; {remedy}"
            )
        function, arguments = pickle.loads(packed)  # noqa: S301 - packed by `travelling`
        return function(*arguments)

    return unpack
