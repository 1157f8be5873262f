"""A catalog: what was decided about the logs of a directory, now, earlier and as it happens."""

import tempfile
from pathlib import Path

import aof2

with tempfile.TemporaryDirectory() as directory:
    root = Path(directory) / "data"
    for name in ("orders", "clicks"):
        with aof2.Aof.open(root / name) as log:
            log.append(b"hello")

    # One process decides. Each call returns at once; `wait` returns when it is durable.
    with aof2.Catalog.open(root, actor="alice") as catalog:
        print("adopted", *catalog.adopt_logs().logs)
        before = catalog.view().generation
        held = catalog.publish_snapshot("orders", "monday", offset=1).wait()
        print(f"snapshot {held.value} since generation {held.generation}")
        try:
            catalog.publish_snapshot("orders", "monday", offset=1).wait()
        except aof2.NameTaken as error:
            print("refused:", error.name, "is taken")

        # A worker takes a job for a minute, and says how it went.
        catalog.enqueue_job("orders", "compact", payload=b"all").wait()
        job = catalog.lease_job("worker", seconds=60)
        if job is not None:
            catalog.complete_job(job, "done").wait()

        # Any process reads, without a lock.
        reader = aof2.Catalog.read(root)
        view = reader.view()
        for db in view.databases():
            print(db.db_id, db.name, db.kind, [row.name for row in view.snapshots(db.db_id)])
        print("snapshots before:", len(reader.view(at=before).rows("snapshot_index")))

        # The change feed gives every batch once, and remembers how far its reader has got.
        with reader.feed("search", timeout=0) as feed:
            for batch in feed:
                print(batch.generation, *(operation.type for operation in batch.operations))
                feed.acknowledge(batch.generation)
        print("problems:", reader.verify())
