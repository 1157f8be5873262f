"""One manager, many logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import aof2
import pytest
from support import run_program

if TYPE_CHECKING:
    from pathlib import Path


def test_many_logs_share_the_threads_of_a_manager(tmp_path: Path) -> None:
    told = run_program(
        """
        import sys
        import aof2
        from support import background_threads

        with aof2.AofManager(worker_threads=1, blocking_threads_max=4) as manager:
            logs = [manager.open(f"{sys.argv[1]}/{i}", segment_bytes=64 << 10) for i in range(12)]
            for log in logs:
                log.append_many([b"x"] * 100)
            for log in logs:
                log.flush()
            print(manager.open_streams, len(background_threads()) <= 1 + 4)
            logs[0].close()
            print(manager.open_streams)
        print(all(log.closed for log in logs))
        """,
        tmp_path,
    )
    assert told == ["12 True", "11", "True"]
    for i in range(12):
        with aof2.open(tmp_path / str(i)) as reader:
            assert reader.watermarks().durable == 100


def test_open_takes_a_manager(tmp_path: Path) -> None:
    manager = aof2.AofManager()
    log = aof2.Aof.open(tmp_path / "events", manager=manager)
    assert manager.open_streams == 1
    manager.shutdown()
    manager.shutdown()
    assert log.closed
    assert manager.open_streams == 0
    for call in (
        lambda: manager.open(tmp_path / "events"),
        lambda: aof2.Aof.open(tmp_path / "events", manager=manager),
        manager.__enter__,
    ):
        with pytest.raises(aof2.Closed):
            call()


def test_logs_outlive_a_manager_that_is_forgotten(tmp_path: Path) -> None:
    log = aof2.AofManager().open(tmp_path / "events")
    log.append(b"x")
    assert log.wait("durable", 1)
    log.close()


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"worker_threads": 0}, "worker_threads"),
        ({"blocking_threads_max": 3}, "blocking_threads_max"),
    ],
)
def test_limits_are_checked(options: dict[str, Any], field: str) -> None:
    with pytest.raises(aof2.InvalidConfig) as caught:
        aof2.AofManager(**options)
    assert caught.value.field == field


def test_an_exception_in_the_block_comes_through(tmp_path: Path) -> None:
    with pytest.raises(LookupError), aof2.AofManager() as manager:
        log = manager.open(tmp_path / "events")
        raise LookupError
    assert log.closed


def test_the_figures_of_all_logs_are_one_exposition(tmp_path: Path) -> None:
    """Texts of single logs behind each other repeat their TYPE lines, which is not valid."""
    with aof2.AofManager(tiers=aof2.Tiers()) as manager:
        paths = [tmp_path / "a" / "events", tmp_path / "b" / "events", tmp_path / 'c"\\' / "x"]
        logs = [manager.open(path) for path in paths]
        for count, log in enumerate(logs, start=1):
            log.append_many([b"x"] * count)
        manager.open(tmp_path / "closed").close()
        text = manager.metrics_text()
        alone = logs[0].metrics_text()
    families: set[str] = set()
    series: dict[str, str] = {}
    family = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split()[2]
            assert family not in families, "said once, and all its samples together"
            families.add(family)
        elif line.startswith("# TYPE "):
            assert line.split()[2] == family
        else:
            name, value = line.rsplit(" ", 1)
            assert name.split("{")[0].removesuffix("_bucket").removesuffix("_sum").removesuffix(
                "_count"
            ) in (family, family.removesuffix("_bucket"))
            assert name not in series, "every sample once"
            series[name] = value
    assert families == {line.split()[2] for line in alone.splitlines() if line.startswith("# HELP")}
    assert "aof2_tier_hot_bytes" in families
    shown = [str(path).replace("\\", "\\\\").replace('"', '\\"') for path in paths]
    for count, (path, name) in enumerate(zip(shown, ("events", "events", "x"), strict=True), 1):
        sample = f'aof2_appended_records_total{{path="{path}",stream="{name}"}}'
        assert series[sample] == str(count)
    assert not any("closed" in name for name in series)
    with pytest.raises(aof2.Closed):
        manager.metrics_text()
