//! The columns of the tables, as those see them who do not know the types of their rows.
//! Fields that are structs are several columns.

use crate::catalog::tables::Table;

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ColumnKind {
    /// Numbers.
    Number,
    /// Checksums and random ids.
    Hash,
    /// Texts, and words for one of a few things.
    Text,
    /// Bytes.
    Bytes,
    /// Times, as numbers of milliseconds since 1970, UTC.
    Time,
    /// Lists of numbers.
    Numbers,
    /// Lists of segments, as JSON.
    Json,
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What its values are.
    pub kind: ColumnKind,
    /// Whether a row may have none.
    pub is_nullable: bool,
}

macro_rules! columns {
    (@nullable) => { false };
    (@nullable maybe) => { true };
    ($($name:ident: $kind:ident $($maybe:ident)?,)*) => {
        &[$(Column {
            name: stringify!($name),
            kind: ColumnKind::$kind,
            is_nullable: columns!(@nullable $($maybe)?),
        },)*]
    };
}

impl Table {
    /// Its columns, those of the key first.
    pub const fn columns(self) -> &'static [Column] {
        match self {
            Self::Db => columns! {
                db_id: Number, name: Text, kind: Text, status: Text, stream_id: Hash maybe,
                config_hash: Hash, origin_db: Number maybe, origin_snapshot: Number maybe,
                origin_generation: Number maybe, origin_offset: Number maybe,
                max_age_ms: Number maybe, max_bytes: Number maybe, snapshots_max: Number maybe,
                start_offset: Number, generation: Number, next_snapshot_id: Number, created: Time,
            },
            Self::WalState => columns! {
                db_id: Number, shard: Number, last_sealed_chunk: Number, last_sealed_lsn: Number,
                last_applied_lsn: Number, last_checkpoint_generation: Number,
            },
            Self::ChunkCatalog => columns! {
                db_id: Number, chunk_id: Number, variant: Text, generation: Number,
                died: Number maybe, first_page: Number, page_count: Number, size_bytes: Number,
                crc64: Hash, compression: Text, residency: Text, lsn_start: Number,
                lsn_end: Number, remote_namespace: Number maybe, remote_object: Text maybe,
            },
            Self::ChunkDeltaIndex => columns! {
                db_id: Number, chunk_id: Number, generation: Number, delta_id: Number,
                died: Number maybe, dirty_pages: Bytes, size_bytes: Number, crc64: Hash,
                compression: Text, residency: Text, remote_namespace: Number maybe,
                remote_object: Text maybe,
            },
            Self::RemoteNamespace => columns! {
                namespace_id: Number, url: Text, encryption: Text maybe, object_count: Number,
            },
            Self::SnapshotIndex => columns! {
                db_id: Number, snapshot_id: Number, name: Text, generation: Number,
                offset: Number, created: Time, expires: Time maybe, fork_db: Number maybe,
            },
            Self::WalManifest => columns! {
                db_id: Number, generation: Number, chunk_id: Number, shard: Number,
                lsn_start: Number, lsn_end: Number,
            },
            Self::JobQueue => columns! {
                job_id: Number, db_id: Number, kind: Text, state: Text, owner: Text maybe,
                leased_until: Time maybe, heartbeats: Number maybe, not_before: Time maybe,
                runs: Number, failures: Number, attempts_max: Number, created: Time,
                updated: Time, message: Text, payload: Bytes,
            },
            Self::JobPendingIndex => columns! { db_id: Number, kind: Text, job_id: Number, },
            Self::Metrics => columns! {
                scope: Number, metric: Number, count: Number, sum: Number, min: Number,
                max: Number, last: Number, buckets: Numbers, updated: Time,
            },
            Self::GenerationWatermarks => columns! {
                component_id: Number, name: Text, kind: Text, generation: Number maybe,
                expired_at: Number maybe, updated: Time,
            },
            Self::GcRefcounts => columns! {
                origin_db: Number, chunk_id: Number, variant: Text, generation: Number,
                in_use: Number, pending_upload: Number, died: Number maybe,
            },
            Self::DbNames => columns! { name: Text, db_id: Number, },
            Self::Intents => columns! {
                operation: Text, operation_type: Text, db_id: Number, stream_id: Hash maybe,
                namespace_id: Number, object: Text maybe, key: Text, segments: Json,
                outputs: Json, created: Time,
            },
            Self::Migrations => columns! {
                version: Number, name: Text, generation: Number, applied: Time,
            },
            Self::Counters => columns! { counter: Text, number: Number, },
        }
    }

    /// The table of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }
}
