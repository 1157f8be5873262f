"""``aof2 catalog jobs``: what is to be done, and who does it."""

from dataclasses import asdict

import click

from aof2.cli.catalogs import open_reader, root_argument, row_object, value_text
from aof2.cli.options import examples, json_option
from aof2.cli.output import Column, Output

_COLUMNS = (
    Column("job", is_number=True),
    Column("db", is_number=True),
    Column("kind"),
    Column("state"),
    Column("owner", is_name=True, leaves=1),
    Column("leased until", is_time=True, leaves=3),
    Column("runs", is_number=True, leaves=4),
    Column("failures", is_number=True, leaves=2),
    Column("updated", is_time=True, leaves=5),
    Column("message"),
)


@click.command(
    "jobs", epilog=examples("aof2 catalog jobs data", "aof2 catalog jobs data --unfinished --json")
)
@root_argument
@click.option("--unfinished", is_flag=True, help="Only those that are pending or leased.")
@json_option
def command(root: str, unfinished: bool, as_json: bool) -> None:
    """List the jobs of a catalog.

    The last job of each kind and database is kept after it is finished.
    """
    out = Output(as_json=as_json)
    rows = []
    for job in open_reader(root).view().jobs():
        if unfinished and job.state in ("done", "failed"):
            continue
        if as_json:
            out.object(row_object(asdict(job)))
            continue
        rows.append(
            (
                str(job.job_id),
                str(job.db_id),
                job.kind,
                job.state,
                value_text("", job.owner),
                value_text("", job.leased_until),
                str(job.runs),
                str(job.failures),
                value_text("", job.updated),
                job.message,
            )
        )
    if not as_json:
        out.table(_COLUMNS, rows)
