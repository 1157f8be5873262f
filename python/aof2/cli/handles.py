"""Opening logs."""

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aof2 import Aof, Reader, Tiers

# Only the segments that were named move, none for a budget.
_NO_LIMIT = 2**64 - 1


def open_reader(path: str) -> "Reader":
    """Open the log for reading."""
    import aof2

    return aof2.open(path)


def require_log(path: str) -> None:
    """Fail as reading would if there is no log; writing would make one."""
    open_reader(path).close()


def is_address(path: str) -> bool:
    """Whether this is an address in an object store and no directory."""
    from aof2 import _aof2

    return _aof2.is_address(path)


def refuse_address(path: str) -> None:
    """Fail as opening it for writing would, before an object store is asked anything."""
    from aof2 import _aof2

    _aof2.refuse_address(path)


@contextmanager
def open_writer(
    path: str, *, no_create: bool = True, layout: str | None = None, **options: Any
) -> "Iterator[Aof]":
    """Open the log for writing, and close it at the end.

    An error of the body counts before one of closing, which often only repeats it.
    """
    import aof2

    refuse_address(path)
    if no_create:
        require_log(path)
    given = {name: value for name, value in options.items() if value is not None}
    if layout is not None:
        given["format"] = layout
    log = aof2.Aof.open(path, **given)
    try:
        yield log
    except BaseException:
        with suppress(aof2.Error):
            log.close()
        raise
    log.close()


def tiers_of(log: str, cold: str | None) -> "Tiers":
    """Tiers in which nothing moves by itself.

    With the object store that is named, or else the one that the log knows.
    """
    import aof2

    known = aof2.cold_location(log)
    if cold is not None and (known is None or known.url != cold):
        return aof2.Tiers(hot_bytes=_NO_LIMIT, cold=cold, archive_after_ms=0)
    if known is None:
        return aof2.Tiers(hot_bytes=_NO_LIMIT)
    return aof2.Tiers(
        hot_bytes=_NO_LIMIT,
        archive_after_ms=0,
        cold=known.url,
        cold_endpoint=known.endpoint,
        cold_region=known.region,
        cold_path_style=known.path_style,
        cold_sse=known.sse,
    )
