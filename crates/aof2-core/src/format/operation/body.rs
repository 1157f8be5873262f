//! The types of operations and their fields, in the order in which they stand on disk.

use super::codes::{ChunkResidency, DbKind, DbStatus, JobKind, JobOutcome};
use super::fields::{Field, bad};
use super::parts::{ChunkFields, ChunkMutation, ObjectName, Policy, SegmentRef};
use super::value::Value;
use crate::format::FormatError;

macro_rules! bodies {
    ($($(#[$doc:meta])* $number:literal $name:ident {
        $($(#[$field_doc:meta])* $field:ident: $ty:ty,)*
    })*) => {
        /// What is decided, by type.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum OperationBody {
            $($(#[$doc])* $name { $($(#[$field_doc])* $field: $ty,)* },)*
        }

        /// Numbers and names of all types.
        pub const OPERATION_TYPES: &[(u16, &str)] = &[$(($number, stringify!($name)),)*];

        impl OperationBody {
            /// The number of its type.
            pub const fn number(&self) -> u16 {
                match self {
                    $(Self::$name { .. } => $number,)*
                }
            }

            /// The name of its type.
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$name { .. } => stringify!($name),)*
                }
            }

            pub(super) fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$name { $($field,)* } => { $($field.put(out);)* })*
                }
            }

            /// Its fields by name, without their types.
            pub fn fields(&self) -> Vec<(&'static str, Value)> {
                match self {
                    $(Self::$name { $($field,)* } => {
                        vec![$(Value::named(stringify!($field), $field.value()),)*]
                    })*
                }
            }

            /// The fields of a type, which take all of the bytes.
            pub(super) fn take(number: u16, mut bytes: &[u8]) -> Result<Self, FormatError> {
                let input = &mut bytes;
                let body = match number {
                    $($number => Self::$name { $($field: <$ty as Field>::take(input)?,)* },)*
                    found => return Err(FormatError::UnknownOperation { found }),
                };
                match input.is_empty() {
                    true => Ok(body),
                    false => Err(bad("fields_len", "not the length of its fields")),
                }
            }
        }
    };
}

bodies! {
    // ---- segments of logs; which ones, in the list of segments ----

    /// Segments are to leave the hot tier. A directive: each node's manifest says what that
    /// node did.
    1 EvictToTier1 {
        /// The log.
        db_id: u32,
    }
    /// Segments are to come back to the hot tier. A directive.
    2 PromoteToTier0 {
        /// The log.
        db_id: u32,
    }
    /// An object is put into a bucket.
    3 UploadToTier2 {
        /// Log or page store that it belongs to.
        db_id: u32,
        /// Where it is put.
        namespace_id: u32,
        /// What it holds.
        object: ObjectName,
        /// Its key below the namespace.
        key: String,
    }
    /// An object is deleted from a bucket.
    4 DeleteFromTier2 {
        /// Log or page store that it belongs to.
        db_id: u32,
        /// Where it is.
        namespace_id: u32,
        /// What it holds.
        object: ObjectName,
        /// Its key below the namespace.
        key: String,
    }
    /// Segments, those of the list, are replaced by others.
    5 CompactRange {
        /// The log.
        db_id: u32,
        /// What they are replaced by.
        outputs: Vec<SegmentRef>,
    }
    /// Records before an offset go.
    6 Trim {
        /// The log.
        db_id: u32,
        /// First offset that stays.
        before_offset: u64,
    }
    /// What may go is set anew.
    7 SetPolicy {
        /// Log or page store.
        db_id: u32,
        /// The policy.
        policy: Policy,
    }
    /// A log is registered, by its stream id.
    8 CreateStream {
        /// Its number in the catalog.
        db_id: u32,
        /// Its name.
        name: String,
        /// Checksum of its configuration.
        config_hash: u64,
    }

    // ---- the catalog itself ----

    /// The tables are of this version from here on. The first operation of a catalog.
    16 Migrate {
        /// The version.
        version: u32,
        /// What the step does.
        name: String,
    }

    // ---- databases ----

    /// A page store is registered.
    17 RegisterDb {
        /// Its number.
        db_id: u32,
        /// Its name.
        name: String,
        /// What it is.
        kind: DbKind,
        /// Checksum of its configuration.
        config_hash: u64,
    }
    /// The state of a database changes.
    18 UpdateDbStatus {
        /// The database.
        db_id: u32,
        /// The new state.
        status: DbStatus,
    }
    /// A database begins as another one was.
    19 ForkDb {
        /// Its number.
        db_id: u32,
        /// Its name.
        name: String,
        /// The other one.
        parent_db: u32,
        /// Checkpoint of the other one that it begins with.
        generation: u32,
        /// Offset of the other one's log behind what it begins with.
        offset: u64,
        /// Checksum of its configuration.
        config_hash: u64,
    }
    /// The rows of a dropped database go.
    20 RemoveDb {
        /// The database.
        db_id: u32,
        /// Job to be enqueued if its parent's objects may go now.
        job_id: u64,
    }

    // ---- namespaces of buckets ----

    /// A place in a bucket is registered.
    21 AddNamespace {
        /// Its number.
        namespace_id: u32,
        /// Bucket and prefix.
        url: String,
        /// Name of the profile by which objects are encrypted.
        encryption: Option<String>,
    }
    /// A place in a bucket is forgotten.
    22 DropNamespace {
        /// Its number.
        namespace_id: u32,
    }

    // ---- jobs ----

    /// A number is taken for a job.
    23 ReserveJobId {
        /// The number.
        job_id: u64,
    }
    /// A job is to be done.
    24 EnqueueJob {
        /// Its number.
        job_id: u64,
        /// What it is about.
        db_id: u32,
        /// What it does.
        kind: JobKind,
        /// What it needs to know.
        payload: Vec<u8>,
        /// Not to be run before this time; 0 for at once.
        not_before_ms: u64,
        /// Runs that may fail.
        attempts_max: u32,
    }
    /// A worker takes a job.
    25 LeaseJob {
        /// The job.
        job_id: u64,
        /// Which of its runs begins.
        run: u32,
        /// The worker.
        owner: String,
        /// Until when it has it.
        until_ms: u64,
    }
    /// A worker still works on a job.
    26 HeartbeatJob {
        /// The job.
        job_id: u64,
        /// Which of its runs.
        run: u32,
        /// The worker.
        owner: String,
        /// Until when it has it.
        until_ms: u64,
    }
    /// A run of a job has ended.
    27 CompleteJob {
        /// The job.
        job_id: u64,
        /// Which of its runs; 0 if none began.
        run: u32,
        /// How.
        outcome: JobOutcome,
        /// What there is to say about it.
        message: String,
        /// After a failure: when it may run again.
        retry_at_ms: u64,
    }

    // ---- chunks of page stores ----

    /// A chunk of a write-ahead log was sealed.
    28 AppendWalChunk {
        /// The page store.
        db_id: u32,
        /// Which of its logs.
        shard: u16,
        /// Generation that it belongs to.
        generation: u32,
        /// The chunk.
        chunk: ChunkFields,
        /// Upload job to be enqueued, if it is to be uploaded.
        upload_job: Option<u64>,
    }
    /// A checkpoint is in place.
    29 CheckpointApply {
        /// The page store.
        db_id: u32,
        /// Which of its logs.
        shard: u16,
        /// Generation of the checkpoint, one more than the last.
        generation: u32,
        /// Position of the write-ahead log up to which it holds everything.
        applied_lsn: u64,
        /// What it did.
        mutations: Vec<ChunkMutation>,
        /// Deltas over a chunk after which a merge job is enqueued.
        deltas_max: u16,
        /// Merge job to be enqueued.
        merge_job: u64,
        /// Job to be enqueued if objects may go.
        gc_job: u64,
    }
    /// A chunk or delta is somewhere else.
    30 SetResidency {
        /// The page store.
        db_id: u32,
        /// The chunk or delta.
        object: ObjectName,
        /// Where it is now.
        residency: ChunkResidency,
    }
    /// Objects that nothing named were removed.
    31 CollectObjects {
        /// Database that named them last.
        db_id: u32,
        /// The objects.
        objects: Vec<ObjectName>,
    }

    // ---- snapshots ----

    /// A position is named and held.
    32 PublishSnapshot {
        /// Log or page store.
        db_id: u32,
        /// Its number.
        snapshot_id: u32,
        /// Its name.
        name: String,
        /// Checkpoint that it holds; 0 for logs.
        generation: u32,
        /// Offset of the log behind what it holds.
        offset: u64,
        /// When it may go by itself.
        expires_at_ms: Option<u64>,
    }
    /// A position is held no more.
    33 DropSnapshot {
        /// Log or page store.
        db_id: u32,
        /// Its number.
        snapshot_id: u32,
        /// Job to be enqueued if objects may go.
        job_id: u64,
    }

    // ---- figures and watermarks ----

    /// A figure is observed.
    34 RecordMetric {
        /// What it is about: a database, or whatever the caller counts.
        scope: u32,
        /// Which figure.
        metric: u32,
        /// The value.
        value: u64,
    }
    /// A component has got to a generation.
    35 AdvanceComponent {
        /// Its number.
        component_id: u32,
        /// Its name.
        name: String,
        /// The generation.
        generation: u64,
    }
    /// A reader of the change feed has acknowledged everything up to a generation.
    36 AdvanceCursor {
        /// Its number.
        component_id: u32,
        /// Its name.
        name: String,
        /// First generation that it has not acknowledged.
        next_generation: u64,
    }
    /// A reader of the change feed fell too far behind, or is gone: nothing is kept for it.
    37 ExpireCursor {
        /// Its number.
        component_id: u32,
    }
}
