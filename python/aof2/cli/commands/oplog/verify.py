"""``aof2 oplog verify``: every byte of the operation log, and that it is one history."""

import click

from aof2.cli.catalogs import open_reader, root_argument
from aof2.cli.errors import ExitCode
from aof2.cli.options import examples, json_option
from aof2.cli.output import Output
from aof2.cli.units import plural


@click.command("verify", epilog=examples("aof2 oplog verify data"))
@root_argument
@json_option
@click.pass_context
def command(ctx: click.Context, root: str, as_json: bool) -> None:
    """Check every byte of the operation log, and that each batch follows from the one before.

    Damage gives exit code 5. The tables are checked by aof2 catalog verify.
    """
    from dataclasses import asdict
    from pathlib import Path

    import aof2

    reader = open_reader(root)
    bytes_report = aof2.verify(Path(root, ".aof2", "segment_store.log"))
    out = Output(as_json=as_json)
    if not bytes_report.is_healthy:
        problems = [problem for problem in bytes_report.problems if problem.severity == "damage"]
        if as_json:
            told = [str(problem.detail) for problem in problems]
            out.object({"is_healthy": False, "problems": told})
        else:
            for problem in problems:
                out.line(f"damage in {problem.path}: {problem.detail}")
            out.line(f"damaged: {plural(len(problems), 'problem')}")
        ctx.exit(ExitCode.CORRUPT)
    report = reader.verify_operations()
    if as_json:
        out.object({"is_healthy": True, **asdict(report), "problems": []})
    else:
        first, last = report.earliest_generation, report.next_generation - 1
        operations = plural(report.operations, "operation")
        out.line(f"healthy: {operations} in generations {first} to {last}")
