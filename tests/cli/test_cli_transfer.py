"""What is exported and imported again is the same."""

import json
import subprocess
import sys
from pathlib import Path

import aof2
import pytest
from cli_support import FIRST_MS, UNHURRIED, check_golden, environment, flip, make_log, run
from hypothesis import given, settings
from hypothesis import strategies as st

Rows = list[tuple[bytes, int, int]]


def rows(path: Path) -> Rows:
    with aof2.open(path) as log:
        return [(bytes(r), r.timestamp_ms, r.flags) for r in log.scan()]


RECORDS = st.lists(
    st.tuples(
        st.one_of(
            st.binary(min_size=1, max_size=100),
            st.text(min_size=1, max_size=40).map(str.encode),
        ),
        st.integers(0, 4_102_444_800_000),
        st.integers(0, 3),  # the other bits are reserved
    ),
    max_size=20,
)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
@settings(UNHURRIED, max_examples=25)
@given(records=RECORDS)
def test_every_payload_timestamp_and_flag_comes_back(
    tmp_path_factory: pytest.TempPathFactory, ending: str, records: Rows
) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    place = tmp_path_factory.mktemp("round")
    with aof2.Aof.open(place / "from", segment_bytes=1 << 16) as log:
        for payload, ms, flags in records:
            log.append(payload, timestamp_ms=ms, flags=flags)
    file = place / f"records.{ending}"
    run("export", place / "from", file).ok()
    run("import", place / "to", file).ok()
    assert rows(place / "to") == rows(place / "from") == records


def test_json_lines_are_as_stored(log: Path) -> None:
    exported = run("export", log, "-").ok()
    check_golden("export-jsonl", exported.text)
    assert exported.stderr == ""


def test_a_range_can_be_exported(log: Path, tmp_path: Path) -> None:
    file = tmp_path / "part.jsonl"
    report = run("export", "--json", log, file, "--from", "1", "--to", "3").ok().json()
    assert report == {
        "path": str(file),
        "format": "jsonl",
        "record_count": 2,
        "file_bytes": file.stat().st_size,
        "skipped": 0,
        "lost": 0,
    }
    assert [json.loads(line)["offset"] for line in file.read_bytes().splitlines()] == [1, 2]


def test_export_is_whole_or_not_there(log: Path, tmp_path: Path) -> None:
    flip(log, 2)
    file = tmp_path / "all.jsonl"
    assert run("export", log, file).code == 5
    assert not file.exists()
    file.write_text("precious")
    assert run("export", log, file, "--force").code == 5
    assert file.read_text() == "precious"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["all.jsonl", "events"]


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_export_around_damage_has_the_intact_rest(log: Path, tmp_path: Path, ending: str) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    flip(log, 2)
    file = tmp_path / f"rest.{ending}"
    result = run("export", "--json", log, file, "--skip-damage")
    assert result.code == 5
    assert (result.json()["record_count"], result.json()["skipped"]) == (5, 1)
    run("import", tmp_path / "copy", file).ok()
    assert len(rows(tmp_path / "copy")) == 5


def test_files_are_not_replaced_unless_forced(log: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text("precious")
    result = run("export", "--json", log, file)
    assert (result.code, result.error()["kind"]) == (1, "exists")
    assert file.read_text() == "precious"
    run("export", log, file, "--force").ok()
    assert len(file.read_bytes().splitlines()) == 6


def test_the_ending_tells_the_format(log: Path, tmp_path: Path) -> None:
    assert run("export", log, tmp_path / "x.csv").code == 1
    run("export", log, tmp_path / "x.csv", "--format", "jsonl").ok()
    run("import", tmp_path / "copy", tmp_path / "x.csv", "--format", "jsonl").ok()
    assert run("export", log, "-", "--format", "parquet").code == 1


def test_hand_written_rows_may_leave_things_out(tmp_path: Path) -> None:
    stdin = b'{"payload": "a"}\n\n{"payload":"b","timestamp":"2026-01-01T00:00:00Z","extra":[1]}\n'
    run("import", tmp_path / "log", "-", stdin=stdin).ok()
    (first, second) = rows(tmp_path / "log")
    assert (first[0], first[2]) == (b"a", 0)
    assert first[1] > FIRST_MS
    assert second == (b"b", FIRST_MS, 0)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"not json", "line 2"),
        (b"[1]", "not a JSON object"),
        (b"{}", '"payload" must be a string'),
        (b'{"payload": 5}', '"payload" must be a string'),
        (b'{"payload": ""}', "at least one byte"),
        (b'{"payload": "x", "payload_encoding": "rot13"}', "neither text nor base64"),
        (b'{"payload": "?", "payload_encoding": "base64"}', "not base64"),
        (b'{"payload": "x", "payload_encoding": 7}', "neither text nor base64"),
        (b'{"payload": "x", "flags": -1}', '"flags" must be'),
        (b'{"payload": "x", "flags": 6}', "line 2"),
        (b'{"payload": "x", "flags": true}', '"flags" must be'),
        (b'{"payload": "x", "timestamp_ms": 1.5}', '"timestamp_ms" must be'),
        (b'{"payload": "x", "timestamp_ms": -1}', '"timestamp_ms" must be'),
        (b'{"payload": "x", "timestamp": "soon"}', "not a time"),
        (b'{"payload": "x", "timestamp": "1969-01-01"}', "before 1970"),
        (b'{"payload": "\\ud800"}', "line 2"),
        (b"\xff\xfe", "line 2"),
    ],
)
def test_a_wrong_row_is_named_and_those_before_it_stay(
    tmp_path: Path, line: bytes, message: str
) -> None:
    stdin = b'{"payload": "good"}\n' + line + b'\n{"payload": "never"}\n'
    result = run("import", tmp_path / "log", "-", stdin=stdin)
    assert result.code == 1
    assert message in result.stderr
    assert "line 2" in result.stderr
    assert "1 record appended before that" in result.stderr
    assert [row[0] for row in rows(tmp_path / "log")] == [b"good"]


def test_a_dry_run_checks_and_appends_nothing(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"payload": "a"}\n{"payload": "b"}\n')
    report = run("import", "--json", "--dry-run", tmp_path / "log", file).ok().json()
    assert report["record_count"] == 2
    file.write_text('{"payload": "a"}\n{}\n')
    assert run("import", "--dry-run", tmp_path / "log", file).code == 1
    assert not (tmp_path / "log").exists()


def test_files_that_are_missing_or_no_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    assert run("import", tmp_path / "log", tmp_path / "no.jsonl").code == 2
    assert run("import", tmp_path / "log", tmp_path / "no.parquet").code == 2
    fake = tmp_path / "fake.parquet"
    fake.write_text("hello")
    result = run("import", "--json", tmp_path / "log", fake)
    assert (result.code, result.error()["kind"]) == (1, "invalid_file")
    assert not (tmp_path / "log").exists()


def test_foreign_parquet_with_other_types(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "rows.parquet"
    table = pyarrow.table(
        {
            "more": [1.5, 2.5],
            "payload": pyarrow.array(["text", "more"]),
            "timestamp": pyarrow.array([FIRST_MS, FIRST_MS + 1], pyarrow.timestamp("ms")),
            "flags": pyarrow.array([0, 1], pyarrow.int64()),
        }
    )
    parquet.write_table(table, file)
    run("import", tmp_path / "log", file).ok()
    assert rows(tmp_path / "log") == [(b"text", FIRST_MS, 0), (b"more", FIRST_MS + 1, 1)]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"text": ["a"]}, "no column payload"),
        ({"payload": ["a", None]}, "no payload in row 1"),
        ({"payload": ["a", ""]}, "empty payload in row 1"),
        ({"payload": [1, 2]}, "must be binary or text"),
        ({"payload": ["a"], "flags": ["many"]}, "cannot be used"),
    ],
)
def test_wrong_parquet_is_named(
    tmp_path: Path, columns: dict[str, list[object]], message: str
) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table(columns), tmp_path / "rows.parquet")
    result = run("import", tmp_path / "log", tmp_path / "rows.parquet")
    assert result.code == 1
    assert message in result.stderr


def test_many_rows_go_through_many_batches(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    make_log(tmp_path / "log", [b"%d" % n for n in range(40_000)])
    run("export", tmp_path / "log", tmp_path / "all.parquet").ok()
    run("import", tmp_path / "copy", tmp_path / "all.parquet").ok()
    assert rows(tmp_path / "copy") == rows(tmp_path / "log")


def test_without_pyarrow_the_message_says_what_to_install(log: Path, tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['pyarrow'] = None; from aof2.cli import main;"
        "sys.exit(main(sys.argv[1:]))"
    )
    for arguments in (
        ["export", str(log), str(tmp_path / "x.parquet")],
        ["import", str(log), str(tmp_path / "x.parquet")],
    ):
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments], capture_output=True, env=environment()
        )
        assert done.returncode == 1
        assert 'pip install "aof2[arrow]"' in done.stderr.decode()
        assert not (tmp_path / "x.parquet").exists()
