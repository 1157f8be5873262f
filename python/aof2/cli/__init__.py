"""The command line: ``aof2 COMMAND``.

One file is one command. What they share:

=============  ============================================================
``app``        the table of commands, loaded on first use, and ``main``
``errors``     exceptions to exit codes and one-line messages
``output``     terminal or pipe: tables, field lists, JSON, progress
``tables``     tables on a terminal, however narrow it is
``streams``    the standard streams, closed, full or without a reader
``options``    arguments and options that several commands have
``times``      times, ages and positions as people type them
``units``      bytes, counts and rates as people read them
``payloads``   payloads as text, hexadecimal and JSON
``handles``    opening logs, and who is writing one
=============  ============================================================

Nothing here is imported by the rest of the package, and importing this module loads
neither rich nor pyarrow: ``aof2 --help`` must answer at once.
"""

from aof2.cli.app import main

__all__ = ["main"]
