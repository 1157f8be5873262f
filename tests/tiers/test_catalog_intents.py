"""Intents that a crash left are ended against a real bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aof2
import pytest
from aof2.catalog import ChunkFields, ObjectName, SegmentRef

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.usefixtures("credentials")
def test_uploads_that_did_not_arrive_are_aborted_and_deletes_are_done_again(
    tmp_path: Path, bucket: str
) -> None:
    tiers = aof2.Tiers(cold=f"s3://{bucket}/pages")
    with aof2.Catalog.open(tmp_path / "data") as catalog:
        catalog.register_db("app", "pages").wait()
        chunks = [ChunkFields(n, size_bytes=4, crc64=7, page_count=1) for n in (1, 2)]
        catalog.checkpoint_apply("app", 1, chunks).wait()
        place = catalog.add_namespace(f"s3://{bucket}/pages").wait().value
        names = [ObjectName(origin_db=1, chunk_id=n, generation=1) for n in (1, 2)]
        stored = [SegmentRef(segment_id=n, crc64=7, bytes=4, epoch=1) for n in (1, 2)]
        absent = catalog.begin_upload("app", place, names[0], str(names[0]), stored[0]).wait()
        upload = catalog.begin_upload("app", place, names[1], str(names[1]), stored[1]).wait()
        catalog.end_intent(upload.value, "done").wait()
        delete = catalog.begin_delete("app", place, names[1], str(names[1]), stored[1]).wait()
    with aof2.Catalog.open(tmp_path / "data") as catalog:
        report = catalog.roll_forward(tiers)
        assert (report.done, report.aborted, report.failed) == (
            [delete.value],
            [absent.value],
            [],
        )
        assert catalog.view().open_intents() == []
        assert {chunk.residency for chunk in catalog.view().chunks("app")} == {"local"}
        assert catalog.roll_forward(tiers).done == []
