"""Arrow structures that break their own rules are refused; the process survives."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import aof2
import pyarrow as pa
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


class CSchema(ctypes.Structure):
    pass


class CArray(ctypes.Structure):
    pass


RELEASE_SCHEMA = ctypes.CFUNCTYPE(None, ctypes.POINTER(CSchema))
RELEASE_ARRAY = ctypes.CFUNCTYPE(None, ctypes.POINTER(CArray))
CSchema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(CSchema))),
    ("dictionary", ctypes.POINTER(CSchema)),
    ("release", RELEASE_SCHEMA),
    ("private_data", ctypes.c_void_p),
]
CArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(CArray))),
    ("dictionary", ctypes.POINTER(CArray)),
    ("release", RELEASE_ARRAY),
    ("private_data", ctypes.c_void_p),
]


def mark_schema(schema: Any) -> None:
    schema.contents.release = RELEASE_SCHEMA()


def mark_array(array: Any) -> None:
    array.contents.release = RELEASE_ARRAY()


# Alive as long as the module: the structures keep only their addresses.
release_schema = RELEASE_SCHEMA(mark_schema)
release_array = RELEASE_ARRAY(mark_array)


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Handmade:
    """An Arrow array with whatever its structures are told to say."""

    names = (b"arrow_schema", b"arrow_array")

    def __init__(
        self, format: bytes | None, buffers: Sequence[bytes | None], length: int, /, **changes: Any
    ) -> None:
        self.memory = [
            None if b is None else ctypes.create_string_buffer(b, len(b) + 1) for b in buffers
        ]
        addresses = [None if m is None else ctypes.addressof(m) for m in self.memory]
        self.pointers = (ctypes.c_void_p * max(len(buffers), 1))(*addresses)
        self.schema = CSchema(format=format, name=b"", release=release_schema)
        self.array = CArray(
            length=length,
            n_buffers=len(buffers),
            buffers=ctypes.cast(self.pointers, ctypes.POINTER(ctypes.c_void_p)),
            release=release_array,
        )
        for name, value in changes.items():
            setattr(self.array, name, value)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        addresses = (ctypes.addressof(self.schema), ctypes.addressof(self.array))
        pairs = zip(addresses, self.names, strict=True)
        schema, array = (new_capsule(address, name, None) for address, name in pairs)
        return schema, array


@pytest.fixture
def log(tmp_path: Path) -> Iterator[aof2.Aof]:
    with aof2.Aof.open(tmp_path / "events") as log:
        yield log
        assert log.watermarks().appended == 0


def i32(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "little", signed=True) for value in values)


def i64(*values: int) -> bytes:
    return b"".join(value.to_bytes(8, "little", signed=True) for value in values)


def test_the_handmade_array_is_fine_when_it_keeps_the_rules(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "fine") as log:
        log.append_arrow(Handmade(b"z", [None, i32(0, 1, 3), b"abb"], 2))
        log.append_arrow(Handmade(b"vz", [None, i32(2) + b"hi" + bytes(10), b""], 1))
        log.flush()
        assert [bytes(r) for r in log.scan()] == [b"a", b"bb", b"hi"]


@pytest.mark.parametrize(
    ("format", "buffers", "length"),
    [
        pytest.param(b"z", [None, i32(0, 3, 1, 4), b"abcd"], 3, id="offsets that go back"),
        pytest.param(b"z", [None, i32(0, 9, 3), b"abc"], 2, id="an offset behind the end"),
        pytest.param(b"z", [None, i32(-1, 1, 3), b"abc"], 2, id="a negative offset"),
        pytest.param(b"z", [None, i32(0, 1, -3), b"abc"], 2, id="a negative last offset"),
        pytest.param(b"Z", [None, i64(0, 3, 1, 4), b"abcd"], 3, id="large offsets that go back"),
        pytest.param(b"Z", [None, i64(0, 1, -3), b"abc"], 2, id="a negative large offset"),
        pytest.param(b"z", [None, None, b"abc"], 2, id="no offsets"),
        pytest.param(b"z", [None, i32(0, 1, 3), None], 2, id="no values"),
        pytest.param(b"z", [None, i32(0, 1, 3)], 2, id="a buffer too few"),
        pytest.param(b"z", [], 2, id="no buffers"),
        pytest.param(b"w:3", [None, None], 2, id="no fixed values"),
        pytest.param(b"w:-3", [None, b"abcdef"], 2, id="a negative width"),
        pytest.param(b"vz", [None, i32(-5, 0, 0, 0), b""], 1, id="a view of negative length"),
        pytest.param(b"vz", [None, i32(50, 0, 0, 0), b""], 1, id="a view into no buffer"),
        pytest.param(b"vz", [None, i32(50, 0, 7, 0), b"x" * 60, i64(60)], 1, id="a view's buffer"),
        pytest.param(b"vz", [None, i32(50, 0, 0, 20), b"x" * 60, i64(60)], 1, id="a view's end"),
        pytest.param(b"vz", [None, i32(50, 0, 0, -1), b"x" * 60, i64(60)], 1, id="a view's start"),
        pytest.param(b"vz", [None, i32(50, 0, 0, 0), b"x" * 60, i64(-60)], 1, id="a view length"),
        pytest.param(b"vz", [None, i32(1, 0, 0, 0)], 1, id="views without lengths"),
        pytest.param(b"z", [None, i32(0, 1, 3), b"abb"], -1, id="a negative length"),
        pytest.param(b"z", [None, i32(0, 1, 3), b"abb"], 2**63 - 1, id="an endless length"),
        pytest.param(b"w:4", [None, b"abcd"], 2**62, id="more bytes than memory has"),
        pytest.param(b"+s", [None], 1, id="a struct without fields"),
        pytest.param(b"?!", [None, i32(0, 1, 3), b"abb"], 2, id="no such type"),
        pytest.param(b"", [None, i32(0, 1, 3), b"abb"], 2, id="an empty type"),
        pytest.param(b"\xff\xfe", [None, i32(0, 1, 3), b"abb"], 2, id="a type that is no text"),
        pytest.param(None, [None, i32(0, 1, 3), b"abb"], 2, id="no type"),
    ],
)
def test_a_structure_that_contradicts_itself_is_refused(
    log: aof2.Aof, format: bytes | None, buffers: list[bytes | None], length: int
) -> None:
    with pytest.raises(ValueError):
        log.append_arrow(Handmade(format, buffers, length))


@pytest.mark.parametrize(
    "changes",
    [
        {"offset": -1},
        {"offset": 2**63 - 1},
        {"n_buffers": -1, "buffers": None},
        {"buffers": None},
        {"release": RELEASE_ARRAY()},
    ],
    ids=str,
)
def test_numbers_that_make_no_sense_are_refused(log: aof2.Aof, changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        log.append_arrow(Handmade(b"z", [None, i32(0, 1, 3), b"abb"], 2, **changes))


def test_a_struct_whose_fields_are_missing_or_short_is_refused(log: aof2.Aof) -> None:
    batch = pa.record_batch({"x": [b"a", b"b"]})

    class Shortened:
        def __init__(self, **changes: int) -> None:
            self.changes = changes

        def __arrow_c_array__(self, requested_schema: object = None) -> tuple[Any, Any]:
            schema, array = batch.__arrow_c_array__()
            get = ctypes.pythonapi.PyCapsule_GetPointer
            get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
            structure = CArray.from_address(get(array, b"arrow_array"))
            for name, value in self.changes.items():
                setattr(structure, name, value)
            return schema, array

    for changes in ({"length": 3}, {"offset": 1}, {"length": -1}):
        with pytest.raises(ValueError, match="malformed"):
            log.append_arrow(Shortened(**changes))


def test_a_capsule_that_was_consumed_is_refused(tmp_path: Path) -> None:
    class Once:
        """Gives the same stream again, as an object that is consumed by reading it may."""

        def __init__(self) -> None:
            self.capsule = pa.table({"x": [b"a"]}).__arrow_c_stream__()

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return self.capsule

    once = Once()
    with aof2.Aof.open(tmp_path / "once") as log:
        log.append_arrow(once)
        with pytest.raises(ValueError, match="consumed already"):
            log.append_arrow(once)
        assert log.watermarks().appended == 1


def test_capsules_of_another_kind_are_refused(log: aof2.Aof) -> None:
    class Misnamed(Handmade):
        names = (b"arrow_schema", b"arrow_schema")

    class NotCapsules:
        def __init__(self, method: str, result: object) -> None:
            self.result = result
            setattr(type(self), method, lambda self: self.result)

    with pytest.raises((ValueError, TypeError)):
        log.append_arrow(Misnamed(b"z", [None, i32(0, 1, 3), b"abb"], 2))
    for method in ("__arrow_c_stream__", "__arrow_c_array__"):
        for result in (None, 7, (1, 2), ()):
            kind = type("Liar", (NotCapsules,), {})
            with pytest.raises((ValueError, TypeError)):
                log.append_arrow(kind(method, result))
