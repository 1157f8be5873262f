//! The tables: their names, numbers and keys.
//!
//! Keys are fixed-width, big-endian and packed, so that the order of bytes is the order of
//! the tuple, and all rows of a database are one range. Numbers stand in checkpoints and
//! never change.

use redb::TableDefinition;

use crate::format::operation::{JobKind, ObjectName, OperationId};

macro_rules! tables {
    ($($(#[$doc:meta])* $number:literal $table:ident $name:literal,)*) => {
        /// A table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Table {
            $($(#[$doc])* $table,)*
        }

        impl Table {
            /// All tables, in the order of their numbers.
            pub const ALL: [Self; [$($number),*].len()] = [$(Self::$table,)*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$table => $name,)*
                }
            }

            /// Its number in checkpoints.
            pub(super) const fn number(self) -> u16 {
                match self {
                    $(Self::$table => $number,)*
                }
            }
        }
    };
}

tables! {
    /// Logs and page stores: `db_id`.
    1 Db "db",
    /// How far a write-ahead log has got: `db_id, shard`.
    2 WalState "wal_state",
    /// Chunks, and archived segments of logs: `db_id, chunk_id`.
    3 ChunkCatalog "chunk_catalog",
    /// Deltas over chunks: `db_id, chunk_id, generation`.
    4 ChunkDeltaIndex "chunk_delta_index",
    /// Places in buckets: `namespace_id`.
    5 RemoteNamespace "remote_namespace",
    /// Snapshots, and forks as their parents see them: `db_id, snapshot_id`.
    6 SnapshotIndex "snapshot_index",
    /// Chunks of write-ahead logs, in order: `db_id, generation, chunk_id`.
    7 WalManifest "wal_manifest",
    /// Jobs: `job_id`.
    8 JobQueue "job_queue",
    /// The last job of a kind: `db_id, kind`.
    9 JobPendingIndex "job_pending_index",
    /// Figures: `scope, metric`.
    10 Metrics "metrics",
    /// How far components and readers of the feed have got: `component_id`.
    11 GenerationWatermarks "generation_watermarks",
    /// What still names an object: `origin_db, chunk_id, variant, generation`.
    12 GcRefcounts "gc_refcounts",
    /// Databases by name.
    13 DbNames "db_names",
    /// Intents without an outcome: `generation, index`.
    14 Intents "intents",
    /// Versions of the tables: `version`.
    15 Migrations "migrations",
    /// The next number of a kind: `counter`; numbers reserved for jobs: `255, job_id`.
    16 Counters "counters",
}

impl Table {
    pub(super) fn from_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.number() == number)
    }

    pub(super) fn index(self) -> usize {
        usize::from(self.number()) - 1
    }

    pub(super) const fn definition(self) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
        TableDefinition::new(self.name())
    }
}

/// What is numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counter {
    Db = 1,
    Namespace = 2,
    Job = 3,
    Component = 4,
}

pub(super) type Key = Vec<u8>;

pub(super) fn id(id: u32) -> Key {
    id.to_be_bytes().to_vec()
}

pub(super) fn ids(first: u32, second: u32) -> Key {
    [first.to_be_bytes(), second.to_be_bytes()].concat()
}

pub(super) fn ids3(first: u32, second: u32, third: u32) -> Key {
    [first.to_be_bytes(), second.to_be_bytes(), third.to_be_bytes()].concat()
}

pub(super) fn shard(db_id: u32, shard: u16) -> Key {
    [&db_id.to_be_bytes()[..], &shard.to_be_bytes()].concat()
}

pub(super) fn job(job_id: u64) -> Key {
    job_id.to_be_bytes().to_vec()
}

pub(super) fn pending(db_id: u32, kind: JobKind) -> Key {
    shard(db_id, kind.number())
}

pub(super) fn object(name: &ObjectName) -> Key {
    let ObjectName { origin_db, chunk_id, variant, generation } = *name;
    [origin_db, chunk_id, variant.number(), generation].map(u32::to_be_bytes).concat()
}

pub(super) fn intent(id: OperationId) -> Key {
    [&id.generation.to_be_bytes()[..], &id.index.to_be_bytes()].concat()
}

pub(super) fn counter(counter: Counter) -> Key {
    vec![counter as u8]
}

/// A number that was taken for a job: behind the counters in their table.
pub(super) fn reserved_job(job_id: u64) -> Key {
    [&[RESERVED_JOB][..], &job_id.to_be_bytes()].concat()
}

pub(super) const RESERVED_JOB: u8 = 0xFF;

/// The `u32` in this place of a key; 0 if the key is too short.
pub(super) fn u32_of(key: &[u8], place: usize) -> u32 {
    let bytes = key.get(place * 4..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

pub(super) fn u64_of(key: &[u8]) -> u64 {
    key.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::operation::Variant;

    #[test]
    fn the_order_of_keys_is_the_order_of_tuples() {
        let numbers = [0, 1, 255, 256, 65_536, u32::MAX];
        let mut keys = Vec::new();
        for first in numbers {
            for second in numbers {
                for third in numbers {
                    keys.push(ids3(first, second, third));
                }
            }
        }
        assert!(keys.is_sorted());
        assert_eq!(u32_of(&ids3(1, 2, 3), 2), 3);
        assert_eq!(u32_of(&[1, 2], 0), 0);
    }

    #[test]
    fn numbers_of_tables_never_change() {
        for (index, table) in Table::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(table.number()), index + 1);
            assert_eq!(Table::from_number(table.number()), Some(table));
        }
        let name =
            ObjectName { origin_db: 1, chunk_id: 2, variant: Variant::delta(3), generation: 4 };
        assert_eq!(object(&name), [0, 0, 0, 1, 0, 0, 0, 2, 0, 1, 0, 3, 0, 0, 0, 4]);
    }
}
