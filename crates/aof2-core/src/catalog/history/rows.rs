//! Rows of any table as plain values, in the order of [`Table::columns`].

use crate::catalog::records::{
    ChunkRecord, ComponentKind, ComponentRecord, DbRecord, DeltaRecord, IntentRecord,
    IntentSegment, JobRecord, JobState, MetricRecord, MigrationRecord, NamespaceRecord, Number,
    RefcountRecord, Row, SnapshotRecord, WalChunkPointer, WalState,
};
use crate::catalog::state::{ReadTables, decode, refused};
use crate::catalog::tables::{self, Key, Table};
use crate::catalog::view::{View, object_of};
use crate::error::{AofError, Result};
use crate::format::CursorFile;
use crate::format::SegmentId;
use crate::format::operation::{
    JobKind, OPERATION_TYPES, OperationId, RemoteObject, SegmentRef, Value,
};

impl View {
    /// Visits all rows of a table in the order of their keys, until the visitor returns
    /// `false`. A row has a value for each of [`Table::columns`].
    ///
    /// ```
    /// use aof2_core::catalog::{DbKind, Table, Value};
    /// use aof2_core::{Catalog, CatalogConfig};
    /// # let dir = tempfile::tempdir()?;
    /// let catalog = Catalog::open(CatalogConfig::new(dir.path()))?;
    /// catalog.register_db("app", DbKind::Pages, 0)?.wait()?;
    /// catalog.view()?.each_row(Table::DbNames, |row| {
    ///     assert_eq!(row, [Value::Text("app".into()), Value::Number(1)]);
    ///     Ok(true)
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn each_row(
        &self,
        table: Table,
        mut visit: impl FnMut(Vec<Value>) -> Result<bool>,
    ) -> Result<()> {
        self.walk(table, &[], &mut |key, value| visit(row_values(table, key, value)?))
    }

    /// Rows whose keys begin with these numbers, in order: one row, if they are the whole key.
    /// `Refused` for a table whose keys are no numbers.
    ///
    /// ```
    /// use aof2_core::catalog::{DbKind, Table};
    /// use aof2_core::{Catalog, CatalogConfig};
    /// # let dir = tempfile::tempdir()?;
    /// let catalog = Catalog::open(CatalogConfig::new(dir.path()))?;
    /// let db_id = catalog.register_db("app", DbKind::Pages, 0)?.wait()?.value;
    /// let rows = catalog.view()?.rows_with_key(Table::Db, &[u64::from(db_id)])?;
    /// assert_eq!(rows.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rows_with_key(&self, table: Table, numbers: &[u64]) -> Result<Vec<Vec<Value>>> {
        let Some(prefix) = key_of(table, numbers)? else { return Ok(Vec::new()) };
        let mut rows = Vec::new();
        self.walk(table, &prefix, &mut |key, value| {
            rows.push(row_values(table, key, value)?);
            Ok(true)
        })?;
        Ok(rows)
    }
}

/// The beginning of a key; `None` if a number is too large for any key.
fn key_of(table: Table, numbers: &[u64]) -> Result<Option<Key>> {
    let lens: &[usize] = match table {
        Table::JobQueue => &[8],
        Table::Intents => &[8, 4],
        Table::WalState | Table::JobPendingIndex => &[4, 2],
        Table::DbNames | Table::Counters => &[],
        Table::Db | Table::RemoteNamespace | Table::Migrations => &[4],
        Table::GenerationWatermarks => &[4],
        Table::ChunkCatalog | Table::SnapshotIndex | Table::Metrics => &[4, 4],
        Table::ChunkDeltaIndex | Table::WalManifest => &[4, 4, 4],
        Table::GcRefcounts => &[4, 4, 4, 4],
    };
    if numbers.len() > lens.len() {
        let (name, count) = (table.name(), lens.len());
        return Err(refused(format!("keys of table {name} have {count} numbers")));
    }
    let mut key = Key::new();
    for (number, len) in numbers.iter().zip(lens) {
        let bytes = number.to_be_bytes();
        let (high, low) = bytes.split_at(bytes.len() - len);
        if high.iter().any(|byte| *byte != 0) {
            return Ok(None);
        }
        key.extend_from_slice(low);
    }
    Ok(Some(key))
}

fn number(value: impl Into<u64>) -> Value {
    Value::Number(value.into())
}

fn maybe(value: Option<impl Into<u64>>) -> Value {
    value.map_or(Value::None, number)
}

fn text(value: impl ToString) -> Value {
    Value::Text(value.to_string())
}

fn maybe_text(value: Option<impl ToString>) -> Value {
    value.map_or(Value::None, text)
}

/// A random id; 0 stands for none.
fn id(value: u64) -> Value {
    if value == 0 { Value::None } else { Value::Hash(value) }
}

/// A time; 0 stands for none.
fn time(value_ms: u64) -> Value {
    if value_ms == 0 { Value::None } else { Value::Number(value_ms) }
}

/// The part of a key that is in this place.
fn part(key: &[u8], place: usize) -> Value {
    number(tables::u32_of(key, place))
}

/// The `u16` behind the number of a database.
fn u16_part(key: &[u8]) -> u16 {
    key.get(4..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u16::from_be_bytes(*bytes))
}

fn remote(remote: Option<RemoteObject>) -> [Value; 2] {
    match remote {
        Some(remote) => [number(remote.namespace_id), text(remote.name)],
        None => [Value::None, Value::None],
    }
}

/// A row as plain values.
pub(super) fn row_values(table: Table, key: &[u8], value: &[u8]) -> Result<Vec<Value>> {
    fn of<R: Row>(table: Table, value: &[u8]) -> Result<R> {
        decode(table, value)
    }
    Ok(match table {
        Table::Db => database(key, of(table, value)?),
        Table::WalState => {
            let row: WalState = of(table, value)?;
            vec![
                part(key, 0),
                number(u16_part(key)),
                number(row.last_sealed_chunk),
                number(row.last_sealed_lsn),
                number(row.last_applied_lsn),
                number(row.last_checkpoint_generation),
            ]
        }
        Table::ChunkCatalog => chunk(key, of(table, value)?),
        Table::ChunkDeltaIndex => delta(key, of(table, value)?),
        Table::RemoteNamespace => {
            let row: NamespaceRecord = of(table, value)?;
            vec![part(key, 0), text(row.url), maybe_text(row.encryption), number(row.object_count)]
        }
        Table::SnapshotIndex => {
            let row: SnapshotRecord = of(table, value)?;
            vec![
                part(key, 0),
                part(key, 1),
                text(row.name),
                number(row.generation),
                number(row.offset),
                number(row.created_ms),
                maybe(row.expires_at_ms),
                maybe(row.fork_db),
            ]
        }
        Table::WalManifest => {
            let row: WalChunkPointer = of(table, value)?;
            let places = [part(key, 0), part(key, 1), part(key, 2)];
            let values = [number(row.shard), number(row.lsn_start), number(row.lsn_end)];
            places.into_iter().chain(values).collect()
        }
        Table::JobQueue => job(key, of(table, value)?),
        Table::JobPendingIndex => {
            let Number(job_id) = of(table, value)?;
            let kind = JobKind::from_number(u16_part(key));
            let kind =
                kind.ok_or_else(|| refused("a key of table job_pending_index is damaged"))?;
            vec![part(key, 0), text(kind), number(job_id)]
        }
        Table::Metrics => {
            let row: MetricRecord = of(table, value)?;
            let buckets = row.buckets.iter().map(|count| number(*count)).collect();
            let figures = [row.count, row.sum, row.min, row.max, row.last].map(Value::Number);
            let places = [part(key, 0), part(key, 1)].into_iter();
            places.chain(figures).chain([Value::List(buckets), number(row.updated_ms)]).collect()
        }
        Table::GenerationWatermarks => {
            let row: ComponentRecord = of(table, value)?;
            let kind = match row.kind {
                ComponentKind::Component => "component",
                ComponentKind::Cursor => "cursor",
                ComponentKind::ExpiredCursor => "expired_cursor",
            };
            let generation = Some(row.generation).filter(|at| *at != CursorFile::FORGOTTEN);
            vec![
                part(key, 0),
                text(row.name),
                text(kind),
                maybe(generation),
                maybe(row.expired_at),
                number(row.updated_ms),
            ]
        }
        Table::GcRefcounts => {
            let row: RefcountRecord = of(table, value)?;
            let object =
                object_of(key).ok_or_else(|| refused("a key of table gc_refcounts is damaged"))?;
            vec![
                number(object.origin_db),
                number(object.chunk_id),
                text(object.variant),
                number(object.generation),
                number(row.in_use),
                number(row.pending_upload),
                maybe(row.died),
            ]
        }
        Table::DbNames => {
            let Number(db_id) = of(table, value)?;
            vec![text(String::from_utf8_lossy(key)), number(db_id)]
        }
        Table::Intents => intent(key, of(table, value)?),
        Table::Migrations => {
            let row: MigrationRecord = of(table, value)?;
            vec![part(key, 0), text(row.name), number(row.generation), number(row.applied_ms)]
        }
        Table::Counters => counter(key, of(table, value)?)?,
    })
}

fn database(key: &[u8], row: DbRecord) -> Vec<Value> {
    let origin = row.origin.as_ref();
    vec![
        part(key, 0),
        text(row.name),
        text(row.kind),
        text(row.status),
        id(row.stream_id),
        Value::Hash(row.config_hash),
        maybe(origin.map(|origin| origin.db_id)),
        maybe(origin.map(|origin| origin.snapshot_id)),
        maybe(origin.map(|origin| origin.generation)),
        maybe(origin.map(|origin| origin.offset)),
        maybe(row.policy.max_age_ms),
        maybe(row.policy.max_bytes),
        maybe(row.policy.snapshots_max),
        number(row.start_offset),
        number(row.generation),
        number(row.next_snapshot_id),
        number(row.created_ms),
    ]
}

fn chunk(key: &[u8], row: ChunkRecord) -> Vec<Value> {
    let [namespace, object] = remote(row.remote);
    vec![
        part(key, 0),
        part(key, 1),
        text(row.variant),
        number(row.generation),
        maybe(row.died),
        number(row.first_page),
        number(row.page_count),
        number(row.size_bytes),
        Value::Hash(row.crc64),
        text(row.compression),
        text(row.residency),
        number(row.lsn_start),
        number(row.lsn_end),
        namespace,
        object,
    ]
}

fn delta(key: &[u8], row: DeltaRecord) -> Vec<Value> {
    let [namespace, object] = remote(row.remote);
    vec![
        part(key, 0),
        part(key, 1),
        part(key, 2),
        number(row.delta_id),
        maybe(row.died),
        Value::Bytes(row.dirty_pages),
        number(row.size_bytes),
        Value::Hash(row.crc64),
        text(row.compression),
        text(row.residency),
        namespace,
        object,
    ]
}

fn job(key: &[u8], row: JobRecord) -> Vec<Value> {
    let [owner, until, heartbeats] = match &row.state {
        JobState::Leased { owner, until_ms, heartbeats } => {
            [text(owner), number(*until_ms), number(*heartbeats)]
        }
        _ => [Value::None, Value::None, Value::None],
    };
    vec![
        number(tables::u64_of(key)),
        number(row.db_id),
        text(row.kind),
        text(row.state.as_str()),
        owner,
        until,
        heartbeats,
        time(row.not_before_ms),
        number(row.runs),
        number(row.failures),
        number(row.attempts_max),
        number(row.created_ms),
        number(row.updated_ms),
        text(row.message),
        Value::Bytes(row.payload),
    ]
}

fn intent(key: &[u8], row: IntentRecord) -> Vec<Value> {
    let operation = OperationId { generation: tables::u64_of(key), index: tables::u32_of(key, 2) };
    let name = OPERATION_TYPES.iter().find(|(number, _)| *number == row.operation_type);
    vec![
        text(operation),
        text(name.map_or("?", |(_, name)| name)),
        number(row.db_id),
        id(row.stream_id),
        number(row.namespace_id),
        maybe_text(row.object),
        text(row.key),
        segments(&row.segments),
        segments(&row.outputs),
        number(row.created_ms),
    ]
}

fn segments(rows: &[IntentSegment]) -> Value {
    let value = |row: &IntentSegment| {
        let IntentSegment { segment_id, crc64, bytes, epoch } = *row;
        SegmentRef { segment_id: SegmentId::from_u64(segment_id), crc64, bytes, epoch }.to_value()
    };
    Value::Text(Value::List(rows.iter().map(value).collect()).to_json())
}

fn counter(key: &[u8], Number(next): Number) -> Result<Vec<Value>, AofError> {
    let (name, value) = match key {
        [1] => ("db", next),
        [2] => ("namespace", next),
        [3] => ("job", next),
        [4] => ("component", next),
        [tables::RESERVED_JOB, job_id @ ..] => ("reserved_job", tables::u64_of(job_id)),
        _ => return Err(refused("a key of table counters is damaged")),
    };
    Ok(vec![text(name), number(value)])
}
