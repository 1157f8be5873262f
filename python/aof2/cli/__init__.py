"""The command line: ``aof2 COMMAND``.

The commands are in ``commands``, one a file. What they share:

=================  ========================================================
``app``            the table of commands, loaded on first use, and ``main``
``errors``         exceptions to exit codes and one-line messages
``output``         terminal or pipe: tables, field lists, JSON, progress
``tables``         tables on a terminal, however narrow it is
``streams``        the standard streams, closed, full or without a reader
``options``        arguments and options that several commands have
``times``          times, ages and positions as people type them
``units``          bytes, counts and rates as people read them
``payloads``       payloads as text, hexadecimal and JSON
``inputs``         payloads from arguments, lines and files
``fileformats``    files that records come from and go to
``parquet``        Parquet, through pyarrow
``handles``        opening logs
``roots``          logs by their names in a directory of logs
``writer``         who is writing a log
``reading``        printing records, and what was passed over
``ranges``         ranges of records, in words
``verify_report``  verifying, and what was found
``segment_rows``   segments as JSON, and as rows of their sizes
``moving``         segments that move between tiers
``retention``      which segments would go
``watching``       logs that are looked at again and again
``measure``        work and its bound, measured in turns
=================  ========================================================

Nothing here is imported by the rest of the package, and importing this module loads
neither rich nor pyarrow: ``aof2 --help`` must answer at once.
"""

from aof2.cli.app import main

__all__ = ["main"]
