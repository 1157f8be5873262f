"""An address is not a directory: whatever writes refuses it, and creates nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import aof2
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

ADDRESSES = ["s3://bucket/logs/events", "gs://bucket/events", "file:///tmp/events"]
CALLS: list[Callable[[Any], object]] = [
    aof2.Aof.open,
    lambda path: aof2.Aof.open(path, tiers=aof2.Tiers()),
    lambda path: aof2.AofManager().open(path),
    aof2.repair,
    aof2.cold_location,
    aof2.Manifest.open,
    lambda path: aof2.restore("s3://bucket/logs/events", path),
]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory: a relative path would leave something in it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("call", CALLS)
def test_an_address_is_refused(here: Path, call: Callable[[Any], object], address: str) -> None:
    # Text, and a path, in which one of the slashes is lost.
    for given in (address, Path(address)):
        with pytest.raises(aof2.InvalidConfig, match="is an address and not a directory") as told:
            call(given)
        assert told.value.field == "path"
        assert "directory" in str(told.value)
    assert list(here.iterdir()) == []


def test_what_reads_takes_an_address_as_text_only(here: Path) -> None:
    for call in (aof2.open, aof2.verify):
        for given in (Path("s3://bucket/logs/events"), "gs://bucket/events"):
            with pytest.raises(aof2.InvalidConfig, match=r"s3://bucket/prefix/NAME|as text"):
                call(given)
    with pytest.raises(aof2.InvalidConfig, match="s3://"):
        aof2.scrub("data/events")
    assert list(here.iterdir()) == []


def test_a_directory_that_is_called_like_one_is_a_directory(here: Path) -> None:
    with aof2.Aof.open("./s3:/events") as log:
        log.append(b"x")
    assert (here / "s3:" / "events" / "segments").is_dir()
