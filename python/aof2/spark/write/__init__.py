"""The sink: ``df.write`` and ``df.writeStream``.

================  =========================================================
``options``       one table of all options
``row_layout``    which column of a DataFrame means what
``incoming``      batches, cut into the rows of each log
``staging``       what one task writes
``sink``          the writers that Spark gets, for tasks and for the driver
``publish``       staged logs become part of a target, all at once and once
``publish_lock``  one publisher per target at a time
================  =========================================================
"""
