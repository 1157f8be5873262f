"""``aof2 catalog verify``: whether the tables agree with each other."""

import click

from aof2.cli.catalogs import open_reader, root_argument
from aof2.cli.errors import ExitCode
from aof2.cli.options import examples, json_option
from aof2.cli.output import Column, Output
from aof2.cli.units import plural

_COLUMNS = (Column("table"), Column("row"), Column("expected"), Column("found"))


@click.command("verify", epilog=examples("aof2 catalog verify data"))
@root_argument
@json_option
@click.pass_context
def command(ctx: click.Context, root: str, as_json: bool) -> None:
    """Check that the tables of a catalog agree with each other.

    The tables are made from the newest checkpoint and the operation log, as any reader does;
    counts and indexes are derived again. Rows that differ give exit code 5. The operation log
    itself is checked by aof2 oplog verify.
    """
    from dataclasses import asdict

    reader = open_reader(root)
    problems = reader.verify()
    view = reader.view()
    row_count = sum(view.tables().values())
    out = Output(as_json=as_json)
    if as_json:
        found = [asdict(problem) for problem in problems]
        is_healthy = not problems
        out.object(
            {
                "generation": view.generation,
                "is_healthy": is_healthy,
                "rows": row_count,
                "problems": found,
            }
        )
    else:
        if problems:
            out.table(_COLUMNS, [(p.table, p.row, p.expected, p.found) for p in problems])
        verdict = f"damaged: {plural(len(problems), 'problem')}" if problems else "healthy"
        out.line(f"{verdict}: {plural(row_count, 'row')} at generation {view.generation}")
    if problems:
        ctx.exit(ExitCode.CORRUPT)
