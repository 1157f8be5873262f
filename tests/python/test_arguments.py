"""Wrong arguments: TypeError or ValueError, and the message names the argument."""

from __future__ import annotations

import ctypes
import datetime
from typing import TYPE_CHECKING, Any

import aof2
import numpy
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAIVE = datetime.datetime(2024, 1, 1)
RID = aof2.RecordId(0, 64)


def refuses(
    kind: type[Exception], name: str, call: Callable[..., object], *args: object, **kwargs: object
) -> None:
    with pytest.raises(kind) as caught:
        call(*args, **kwargs)
    assert type(caught.value) is kind
    assert str(caught.value).startswith((f"{name} ", f"{name}:")), str(caught.value)


PLACES: list[tuple[str, object, type[Exception]]] = [
    ("start", "newest", ValueError),
    ("start", -1, ValueError),
    ("start", 1 << 64, ValueError),
    ("start", 1.5, TypeError),
    ("start", True, TypeError),
    ("start", b"earliest", TypeError),
    ("start", NAIVE, ValueError),
    ("start", NAIVE.date(), TypeError),
    ("end", "latest", ValueError),
    ("end", -1, ValueError),
    ("end", 2.0, TypeError),
    ("end", False, TypeError),
    ("end", NAIVE, ValueError),
    ("visibility", "all", ValueError),
    ("visibility", 1, TypeError),
    ("on_corruption", "ignore", ValueError),
    ("on_corruption", None.__class__, TypeError),
]


@pytest.mark.parametrize("method", ["scan", "follow", "scan_arrow"])
@pytest.mark.parametrize(("name", "value", "kind"), PLACES)
def test_places(
    quiet: aof2.Aof, method: str, name: str, value: object, kind: type[Exception]
) -> None:
    call: Callable[..., Any] = getattr(quiet, method)
    refuses(kind, name, lambda: call(**{name: value}))


BAD_TIMEOUTS: list[tuple[object, type[Exception]]] = [
    (-1, ValueError),
    (-0.001, ValueError),
    (float("nan"), ValueError),
    ("5", TypeError),
    (True, TypeError),
    (datetime.timedelta(seconds=1), TypeError),
]


@pytest.mark.parametrize(("timeout", "kind"), BAD_TIMEOUTS)
def test_timeouts(quiet: aof2.Aof, timeout: Any, kind: type[Exception]) -> None:
    calls: list[Callable[[], object]] = [
        lambda: quiet.append(b"x", timeout=timeout),
        lambda: quiet.append_many([b"x"], timeout=timeout),
        lambda: quiet.append_arrow(None, timeout=timeout),
        lambda: quiet.flush(timeout=timeout),
        lambda: quiet.wait("durable", 0, timeout=timeout),
        lambda: quiet.seal(timeout=timeout),
        lambda: quiet.follow(timeout=timeout),
    ]
    for call in calls:
        refuses(kind, "timeout", call)
    assert quiet.watermarks().appended == 0


def test_timeouts_may_be_anything_that_is_a_number(quiet: aof2.Aof) -> None:
    timeouts: list[Any] = [0, 5, 0.5, float("inf"), 1e300, numpy.float64(1), numpy.int32(1), None]
    for timeout in timeouts:
        quiet.append(b"x", timeout=timeout)
        quiet.flush(timeout=None if timeout in (0, 0.5) else timeout)


BAD_PAYLOADS: list[tuple[object, type[Exception]]] = [
    ("text", TypeError),
    (7, TypeError),
    (None, TypeError),
    ([b"x"], TypeError),
    (numpy.arange(10, dtype=numpy.uint8)[::2], ValueError),
    (numpy.zeros((2, 3)).T, ValueError),
    (memoryview(b"abcdef")[::2], ValueError),
    (numpy.int64(5), TypeError),
    (numpy.array(5), TypeError),
    ((ctypes.c_int * 2)(1, 2), TypeError),
    (ctypes.create_string_buffer(b"abc"), TypeError),
    (numpy.array([b"a", "b", None], dtype=object), TypeError),
    (numpy.zeros(3, dtype=[("a", "i4"), ("b", "O")]), TypeError),
    (numpy.array(["2026-01-31"], dtype="datetime64[s]"), ValueError),
]


@pytest.mark.parametrize(("payload", "kind"), BAD_PAYLOADS)
def test_payloads(quiet: aof2.Aof, payload: Any, kind: type[Exception]) -> None:
    refuses(kind, "payload", lambda: quiet.append(payload))
    refuses(kind, "payload", lambda: quiet.try_append(payload))
    refuses(kind, "payload", lambda: quiet.append_async(payload))
    refuses(kind, "payloads[1]", lambda: quiet.append_many([b"x", payload]))
    refuses(kind, "payloads[1]", lambda: quiet.append_many_async([b"x", payload]))
    refuses(kind, "blob", lambda: quiet.record_event(7, payload))
    refuses(kind, "payload", lambda: aof2.Record(aof2.RecordId(0, 64), 0, 0, 0, payload))
    assert quiet.watermarks().appended == 0


def test_a_wrong_payload_is_told_what_would_be_right(quiet: aof2.Aof) -> None:
    """Numbers and ctypes arrays were a BufferError about strides, and of an array of
    objects the addresses were appended."""
    log: Any = quiet
    accepted = r"bytes-like \(bytes, bytearray, memoryview or an array of numbers\), not "
    with pytest.raises(TypeError, match=accepted + r"c_int_Array_2; .*bytes\(\)"):
        log.append((ctypes.c_int * 2)(1, 2))
    with pytest.raises(TypeError, match=accepted + "ndarray; it holds Python objects"):
        log.append_many([numpy.array([b"a"], dtype=object)])
    # As the message says; and a name of a field that looks like a code of the format.
    log.append(bytes((ctypes.c_int * 2)(1, 2)))
    log.append(numpy.zeros(2, dtype=[("Offset", "i4"), ("Price", "f8")]))
    log.append(numpy.array(["2026-01-31"], dtype="datetime64[s]").view("i8"))
    log.flush()
    assert [len(record) for record in log.scan()] == [8, 24, 8]


def test_text_has_to_be_encoded(quiet: aof2.Aof) -> None:
    with pytest.raises(TypeError, match="encode"):
        quiet.append("text")  # type: ignore[arg-type]


@pytest.mark.parametrize("payloads", [b"abc", bytearray(b"abc"), "abc", 7, None])
def test_one_payload_is_not_many(quiet: aof2.Aof, payloads: Any) -> None:
    refuses(TypeError, "payloads", lambda: quiet.append_many(payloads))
    refuses(TypeError, "payloads", lambda: quiet.append_many_async(payloads))


def test_numbers(quiet: aof2.Aof) -> None:
    log: Any = quiet
    cases: list[tuple[str, Callable[[Any], object]]] = [
        ("timestamp_ms", lambda v: log.append(b"x", timestamp_ms=v)),
        ("flags", lambda v: log.append(b"x", flags=v)),
        ("offset", log.read_offset),
        ("offset", lambda v: log.wait("durable", v)),
        ("ext_id", log.set_ext_id),
        ("timestamp", log.offset_at),
        ("max_age_ms", lambda v: log.apply_retention(max_age_ms=v)),
        ("max_bytes", lambda v: log.apply_retention(max_bytes=v)),
        ("before_offset", lambda v: log.apply_retention(before_offset=v)),
        ("batch_bytes", lambda v: log.scan_arrow(batch_bytes=v)),
        ("batch_records", lambda v: log.scan_arrow(batch_records=v)),
        ("segment_index", lambda v: aof2.RecordId(v, 0)),
        ("segment_offset", lambda v: aof2.RecordId(0, v)),
        ("value", aof2.RecordId.from_int),
        ("worker_threads", lambda v: aof2.AofManager(worker_threads=v)),
        ("blocking_threads_max", lambda v: aof2.AofManager(blocking_threads_max=v)),
    ]
    for name, call in cases:
        refuses(ValueError, name, call, -1)
        refuses(ValueError, name, call, 1 << 64)
        refuses(TypeError, name, call, "1")
        refuses(TypeError, name, call, 1.0)
        refuses(TypeError, name, call, True)
    assert quiet.watermarks().appended == 0
    quiet.append(b"x", timestamp_ms=numpy.int64(5), flags=numpy.uint8(1))


def test_ids(quiet: aof2.Aof) -> None:
    log: Any = quiet
    for value in (0, "0:64", None, (0, 64)):
        refuses(TypeError, "id", log.read, value)
        if value is not None:
            refuses(TypeError, "until", log.flush, value)
    for text in ("", "1", ":", "1:2:3", "-1:5", "a:b", "1:", "99999999999:1", " 1:2"):
        if text != "1":
            refuses(ValueError, "text", aof2.RecordId.parse, text)
    refuses(TypeError, "text", aof2.RecordId.parse, 5)


def test_words(quiet: aof2.Aof) -> None:
    log: Any = quiet
    refuses(ValueError, "level", lambda: log.wait("stored", 0))
    refuses(TypeError, "level", lambda: log.wait(0, 0))
    refuses(TypeError, "offset", lambda: log.wait("durable", "appended"))
    refuses(TypeError, "offset", lambda: log.wait("durable", None))
    refuses(ValueError, "action", lambda: log.apply_retention(action="burn"))
    refuses(TypeError, "action", lambda: log.apply_retention(action=1))
    refuses(TypeError, "columns", lambda: log.scan_arrow(columns="payload"))
    refuses(TypeError, "columns", lambda: log.scan_arrow(columns=[1]))
    refuses(TypeError, "column", lambda: log.append_arrow(None, column=1))
    refuses(ValueError, "column", lambda: log.append_arrow(None, column="\ud800"))


def test_flags_are_bools(quiet: aof2.Aof) -> None:
    log: Any = quiet
    for scan in (log.scan, log.scan_arrow):
        refuses(TypeError, "verify_checksums", lambda scan=scan: scan(verify_checksums="no"))
        refuses(TypeError, "verify_checksums", lambda scan=scan: scan(verify_checksums=0))
        scan(verify_checksums=numpy.bool_(False))


def test_options_of_open(tmp_path: Path) -> None:
    open_: Any = aof2.Aof.open
    numbers = (
        "segment_bytes segment_bytes_min segment_bytes_max segment_target_bytes "
        "preallocate_segments flush_interval_ms flush_bytes max_unflushed_bytes "
        "retention_max_age_ms retention_max_bytes open_segments_max ext_id"
    )
    for name in numbers.split():
        refuses(ValueError, name, open_, tmp_path / "x", **{name: -1})
        refuses(TypeError, name, open_, tmp_path / "x", **{name: "1"})
    refuses(ValueError, "format", lambda: open_(tmp_path / "x", format="huge"))
    refuses(ValueError, "retention_action", lambda: open_(tmp_path / "x", retention_action="x"))
    refuses(TypeError, "name", lambda: open_(tmp_path / "x", name=5))
    refuses(ValueError, "name", lambda: open_(tmp_path / "x", name="half \ud800"))
    refuses(ValueError, "format", lambda: open_(tmp_path / "x", format="\ud800"))
    refuses(TypeError, "sparse_index", lambda: open_(tmp_path / "x", sparse_index=1))
    refuses(TypeError, "manager", lambda: open_(tmp_path / "x", manager=5))
    refuses(
        ValueError,
        "segment_bytes",
        lambda: open_(tmp_path / "x", segment_bytes=1 << 20, segment_bytes_max=1 << 21),
    )
    with pytest.raises(TypeError, match="segment_byte"):
        open_(tmp_path / "x", segment_byte=1)
    with aof2.AofManager() as manager, pytest.raises(TypeError, match="segment_byte"):
        manager.open(tmp_path / "x", segment_byte=1)  # type: ignore[call-arg]
    assert not (tmp_path / "x").exists()


def test_paths(tmp_path: Path) -> None:
    functions: list[Callable[[Any], object]] = [aof2.open, aof2.Aof.open, aof2.verify, aof2.repair]
    for function in functions:
        for strange in (5, None, b"events", [tmp_path]):
            refuses(TypeError, "path", function, strange)
        for bad in ("", "a\0b"):
            refuses(ValueError, "path", function, bad)
    for check in (aof2.verify, aof2.repair):
        refuses(TypeError, "progress", check, tmp_path, progress=5)


def test_paths_may_be_path_likes(tmp_path: Path) -> None:
    class Place:
        def __fspath__(self) -> str:
            return str(tmp_path / "events")

    with aof2.Aof.open(Place()) as log:
        log.append(b"x")
        assert log.path == str(tmp_path / "events")
    assert aof2.verify(Place()).record_count == 1


def test_an_error_of_the_argument_itself_comes_through(quiet: aof2.Aof) -> None:
    class Odd:
        def __index__(self) -> int:
            raise ZeroDivisionError("mine")

        def __iter__(self) -> Any:
            raise ZeroDivisionError("mine")

    for call in (
        lambda: quiet.read_offset(Odd()),
        lambda: quiet.append(b"x", flags=Odd()),
        lambda: quiet.append_many(Odd()),
    ):
        with pytest.raises(ZeroDivisionError, match="mine"):
            call()
