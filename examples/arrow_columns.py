"""Read a log as Arrow columns, compute on them, and append a column back.

No Python object is made per record in either direction. `scan_arrow` gives any
library that speaks Arrow a stream; here it is pyarrow.

Run it: python examples/arrow_columns.py
"""

import tempfile
from pathlib import Path

import aof2
import pyarrow as pa
import pyarrow.compute as pc

EVENTS = 10_000


def main() -> None:
    """Write events as one column, then group, filter and copy them."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "clicks"
        actions = ["view", "click", "buy"]
        events = pa.array([f"{actions[i % 3]}:{i}".encode() for i in range(EVENTS)])

        with aof2.Aof.open(path) as log:
            appended = log.append_arrow(events)
            print(f"appended {appended.count} records from offset {appended.first_offset}")

        with aof2.open(path) as reader:
            # Only the columns asked for are computed.
            table = pa.table(reader.scan_arrow(columns=["offset", "payload"]))
            print(table.schema.to_string(show_schema_metadata=False))

            text = table["payload"].cast(pa.string())
            action = pc.list_element(pc.split_pattern(text, ":"), 0)
            counts = pa.table({"action": action}).group_by("action").aggregate([([], "count_all")])
            for row in counts.sort_by("action").to_pylist():
                print(f"{row['action']:>6} {row['count_all']}")

            # A scan is a stream of batches: memory does not grow with the log.
            bought = Path(scratch) / "bought"
            stream = reader.scan_arrow(columns=["payload"], batch_records=1_000)
            with aof2.Aof.open(bought) as derived:
                for batch in pa.RecordBatchReader.from_stream(stream):
                    mask = pc.starts_with(batch["payload"].cast(pa.string()), "buy:")
                    derived.append_arrow(batch.filter(mask), column="payload")
                derived.flush()
                print("copied", derived.watermarks().durable, "purchases")


if __name__ == "__main__":
    main()
