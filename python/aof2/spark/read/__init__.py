"""Queries: ``spark.read``, ``spark.readStream``, `map_batches`, and splits for RDDs.

================  =========================================================
``options``       one table of all options
``positions``     places in streams as options name them
``schema``        the columns, and those that a query wants
``ranges``        positions become offsets, once, on the driver
``splits``        ranges are cut into what one task reads
``split_reader``  what a task does: read a split
``batch``         ``spark.read``
``streaming``     ``spark.readStream``
``limits``        how much one micro-batch takes
``near_data``     `map_batches`: computing beside the data
``rdd``           `partitions` and `read_partition`
================  =========================================================
"""
