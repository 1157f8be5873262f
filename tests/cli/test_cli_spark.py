"""``aof2 spark``: its options, and what is refused before Spark is started."""

import sys
from pathlib import Path

import click
import pytest
from aof2.cli.commands.spark import command
from cli_support import make_log, run


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A JVM takes longer than all of these together."""

    def refuse(*_args: object, **_options: object) -> None:
        raise AssertionError("a session was started")

    from aof2.spark.pipelines import sessions

    monkeypatch.setattr(sessions, "running", refuse)


def error_of(*args: object) -> tuple[int, str]:
    result = run("spark", *args)
    assert result.stdout == b""
    (line,) = result.stderr.splitlines()
    return result.code, line.removeprefix("error: ")


def test_every_job_takes_a_master_and_settings() -> None:
    for job in command.commands.values():
        names = {option for param in job.params for option in param.opts}
        assert names >= {"--master", "--conf", "--json"}
        assert isinstance(job, click.Command)


def test_without_pyspark_it_says_what_to_install(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    result = run("spark", "verify", log, "--json")
    error = result.error()
    assert (result.code, error["kind"]) == (1, "missing_dependency")
    assert error["hint"] == "pip install 'aof2[spark]'"


class TestWithSpark:
    """What is looked at once PySpark is there."""

    @pytest.fixture(autouse=True)
    def _has_spark(self) -> None:
        pytest.importorskip("pyspark")

    @pytest.mark.parametrize("job", ["verify", "profile", "export", "copy"])
    def test_a_log_that_is_not_there_is_not_found(self, job: str, tmp_path: Path) -> None:
        target = [tmp_path / "target"] if job in ("export", "copy") else []
        code, line = error_of(job, tmp_path / "nowhere", *target)
        assert code == 2
        assert line.startswith(f"{tmp_path / 'nowhere'} does not exist")
        assert list(tmp_path.iterdir()) == []

    def test_wrong_values_are_usage_errors(self, log: Path, tmp_path: Path) -> None:
        target = tmp_path / "target"
        assert error_of("export", log, target, "--columns", "offset,length")[0] == 1
        assert "'length'" in error_of("export", log, target, "--columns", "offset,length")[1]
        code, line = error_of("profile", log, "--conf", "spark.driver.memory")
        assert (code, line) == (
            1,
            "--conf 'spark.driver.memory' is not NAME=VALUE; write it like spark.driver.memory=4g",
        )
        assert error_of("profile", log, "--from", "latest")[0] == 1
        assert error_of("export", log, target, "--mode", "ignore")[0] == 1
        assert error_of("copy", log, target, "--layout", "wide")[0] == 1
        assert error_of("frobnicate", log)[0] == 1
        assert not target.exists()

    def test_a_record_id_that_is_not_there_is_not_found(self, log: Path) -> None:
        assert error_of("profile", log, "--from", "9:64")[0] == 2

    def test_a_copy_replaces_nothing(self, log: Path, tmp_path: Path) -> None:
        other = make_log(tmp_path / "other", [b"mine"])
        result = run("spark", "copy", log, other, "--json")
        error = result.error()
        assert (result.code, error["kind"], error["path"]) == (1, "exists", str(other))
        assert error["hint"] == "name another target"

    def test_a_plot_without_matplotlib_says_what_to_install(
        self, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        monkeypatch.delitem(sys.modules, "matplotlib.figure", raising=False)
        code, line = error_of("profile", log, "--plot", tmp_path / "log.png")
        assert code == 1
        assert line.endswith("pip install 'aof2[plot]'")

    def test_java_that_does_not_start_is_explained(
        self, log: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from aof2.spark.pipelines import sessions
        from pyspark.errors import PySparkRuntimeError

        def fails(*_args: object, **_options: object) -> None:
            raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

        monkeypatch.setattr(sessions, "running", fails)
        code, line = error_of("verify", log)
        assert code == 1
        assert line.endswith("it needs Java 17 or newer: JAVA_HOME, or java on the path")
