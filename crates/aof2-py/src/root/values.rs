//! Forks, snapshots and trees as the dataclasses of `aof2._types`.

use aof2_core::{ForkedLog, LogNode, LogTree, SnapshotInfo, StreamId, Swept};
use pyo3::prelude::*;

use crate::path::FsPath;
use crate::report::{Built, Fields, list};

pub fn forked<'py>(py: Python<'py>, made: &ForkedLog) -> Built<'py> {
    Fields::new(py)
        .set("name", &made.name)?
        .set("path", FsPath(&made.path))?
        .set("stream_id", made.stream_id.as_u64())?
        .set("offset", made.offset)?
        .build("ForkedLog")
}

pub fn snapshot<'py>(py: Python<'py>, taken: &SnapshotInfo) -> Built<'py> {
    Fields::new(py)
        .set("name", &taken.name)?
        .set("offset", taken.offset)?
        .set("created_at_ms", taken.created_at_ms)?
        .set("expires_at_ms", taken.expires_at_ms)?
        .build("SnapshotInfo")
}

pub fn swept(py: Python<'_>, swept: Swept) -> Built<'_> {
    Fields::new(py)
        .set("holds", swept.holds)?
        .set("segments", swept.segments)?
        .set("directories", swept.directories)?
        .build("Swept")
}

pub fn tree<'py>(py: Python<'py>, tree: &LogTree) -> Built<'py> {
    Fields::new(py).set("logs", list(py, &tree.logs, node)?)?.build("LogTree")
}

fn node<'py>(py: Python<'py>, node: &LogNode) -> Built<'py> {
    Fields::new(py)
        .set("name", &node.name)?
        .set("path", FsPath(&node.path))?
        .set("stream_id", node.stream_id.as_u64())?
        .set("parent", node.parent.map(StreamId::as_u64))?
        .set("parent_name", &node.parent_name)?
        .set("fork_offset", node.fork_offset)?
        .set("depth", node.depth)?
        .set("is_dropped", node.is_dropped)?
        .set("snapshots", list(py, &node.snapshots, snapshot)?)?
        .set("holders", &node.holders)?
        .build("LogNode")
}
