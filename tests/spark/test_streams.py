"""Which logs a path stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aof2
import pytest
from aof2.spark.errors import InvalidOption
from aof2.spark.streams import find_streams, local_path, place_of
from support import write_log

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    for name in ("clicks", "orders", "eu/orders", "_staged", ".hidden"):
        write_log(root / name, 3)
    write_log(root / "named", 3, name="a name")
    (root / "empty").mkdir()
    (root / "notes.txt").write_text("not a log")
    return root


def keys(*paths: object) -> list[str]:
    return [stream.key for stream in find_streams([str(path) for path in paths])]


def test_a_log_is_called_by_its_name(data: Path) -> None:
    assert keys(data / "clicks") == ["clicks"]
    assert keys(data / "named") == ["a name"]


def test_a_directory_stands_for_the_logs_in_it_but_not_for_hidden_ones(data: Path) -> None:
    assert keys(data) == ["clicks", "eu/orders", "named", "orders"]


def test_a_glob_stands_for_what_matches(data: Path) -> None:
    assert keys(data / "*" / "orders") == ["eu/orders"]
    assert keys(data / "[co]*") == ["clicks", "orders"]
    # A match may be a directory of logs.
    assert keys(data / "e*") == ["eu/orders"]


def test_several_paths_and_file_uris(data: Path) -> None:
    assert keys(data / "clicks", f"file://{data}/orders") == ["clicks", "orders"]
    assert keys(data / "clicks", data / "clicks") == ["clicks"]
    assert local_path("file:///a%20b") == "/a b"


def test_two_logs_may_not_have_the_same_key(data: Path) -> None:
    with pytest.raises(InvalidOption, match="would be stream 'orders'"):
        find_streams([str(data / "orders"), str(data / "eu/orders")])


def test_what_is_no_log_is_an_error_that_says_why(data: Path) -> None:
    for path, why in {
        "nowhere": "does not exist",
        "notes.txt": "is a file",
        "empty": "neither an aof2 log nor a directory of logs",
        "x*": "nothing that matches",
    }.items():
        with pytest.raises(aof2.NotALog, match=why):
            find_streams([str(data / path)])
    with pytest.raises(InvalidOption, match="all executors see"):
        find_streams(["hdfs://bucket/events"])


def test_an_address_in_an_object_store_stays_what_it_is() -> None:
    assert place_of("s3://bucket/logs/events/") == "s3://bucket/logs/events"
    assert place_of("s3a://bucket/logs") == "s3://bucket/logs"
    with pytest.raises(InvalidOption, match="no patterns"):
        place_of("s3://bucket/logs/*")
    # Nothing is written there.
    with pytest.raises(InvalidOption, match="all executors see"):
        local_path("s3://bucket/logs/events")
