"""What fails in a job, as a person is told."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from aof2.cli.errors import CommandError, ExitCode, usage


@contextmanager
def explained() -> Iterator[None]:
    """Say of errors of Spark what a person can do about them."""
    from aof2.spark.errors import InvalidOption, InvalidSchema, PackageMismatch
    from aof2.spark.write.publish import TargetExists

    try:
        yield
    except PackageMismatch as error:
        message, _, hint = str(error).rpartition("; ")
        raise CommandError(ExitCode.USAGE, "missing_dependency", message, hint) from None
    except (InvalidOption, InvalidSchema) as error:
        raise usage(str(error)) from None
    except TargetExists as error:
        message, _, hint = str(error).rpartition("; ")
        path = error.filename
        raise CommandError(ExitCode.USAGE, "exists", message, hint, path=path) from None
    except Exception as error:
        failure = _of_spark(error)
        if failure is None:
            raise
        raise failure from error


def _of_spark(error: Exception) -> CommandError | None:
    if sys.modules.get("pyspark") is None:
        return None
    from pyspark.errors import PySparkException

    if isinstance(error, import_module("py4j.protocol").Py4JError):
        return CommandError(ExitCode.IO, "spark", f"the job failed: {_said(error)}")
    if not isinstance(error, PySparkException):
        return None
    match error.getCondition():
        case "JAVA_GATEWAY_EXITED":
            return CommandError(
                ExitCode.USAGE,
                "missing_dependency",
                "Spark's JVM did not start",
                "it needs Java 17 or newer: JAVA_HOME, or java on the path",
            )
        case "PATH_ALREADY_EXISTS":
            return CommandError(
                ExitCode.USAGE,
                "exists",
                "TARGET exists already",
                "--mode overwrite replaces it, --mode append adds to it",
            )
    return CommandError(ExitCode.IO, "spark", f"the job failed: {_said(error)}")


#: The end of a Python traceback: what was raised, and what it says.
_RAISED = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*: (.+)$", re.MULTILINE)


def _said(error: Exception) -> str:
    """Return the line of a long text that a person needs."""
    text = str(error)
    raised = _RAISED.findall(text.split("JVM stacktrace")[0])
    return raised[-1] if raised else next(iter(text.splitlines()), type(error).__name__)
