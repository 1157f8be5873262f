"""``aof2 spark``: jobs over whole logs, in parallel.

What they do is in `aof2.spark.pipelines`; here are their options, what they print, and
which exit code a failure of Spark has. Neither PySpark nor Java is started before the
options are right and the log was found.
"""

import click

from aof2.cli.commands.spark import copy, export, profile, verify
from aof2.cli.options import examples


@click.group(
    "spark",
    epilog=examples(
        "aof2 spark verify data/events",
        "aof2 spark export data/events events.parquet --from -1d",
        "aof2 spark profile data/events --plot events.png",
    ),
)
def command() -> None:
    """Run jobs over a log on Spark.

    On a local session, or with --master on a cluster whose machines see the same
    directory. Needs Java 17 or newer, and pip install "aof2[spark]".
    """


for each in (copy, export, profile, verify):
    command.add_command(each.command)
