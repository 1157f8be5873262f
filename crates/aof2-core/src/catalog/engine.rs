//! Deciding: from requests to a durable batch to the tables, in this order.
//!
//! | a crash | leaves |
//! |---|---|
//! | before the batch is appended | nothing |
//! | before it is durable | maybe the batch, at the end of the log; nobody was told |
//! | before the tables are written | the batch; the tables get it from the log |
//! | before the guards resolve | the batch; the callers did not hear of it |
//!
//! One thread at a time has the engine. What it shares with readers is in `core`.

use std::collections::VecDeque;
use std::sync::Arc;

use super::apply::{apply, assign};
use super::core::Core;
use super::database::Applied;
use super::guard::Promise;
use super::state::State;
use super::view::View;
use crate::error::{AofError, Result};
use crate::format::StreamId;
use crate::format::operation::{
    Operation, OperationBatch, OperationBody, OperationId, Phase, SegmentRef, operation_space,
};
use crate::planted::{self, CatalogBug};

/// An operation before it is decided. Numbers that are 0 are given by the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// How far it has got: done, unless it changes something outside the tables.
    pub phase: Phase,
    /// The intent of which it is the outcome.
    pub intent: Option<OperationId>,
    /// The log that it is about.
    pub stream_id: Option<StreamId>,
    /// Segments that it is about.
    pub segments: Vec<SegmentRef>,
    /// What is to be done.
    pub body: OperationBody,
}

impl Request {
    /// Something that is done as soon as it is durable.
    pub fn new(body: OperationBody) -> Self {
        Self { phase: Phase::Done, intent: None, stream_id: None, segments: Vec::new(), body }
    }
}

/// Requests that hold together, and who asks.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) actor: Arc<str>,
    pub(super) requests: Vec<Request>,
    pub(super) promise: Promise,
}

/// A group that was taken, and where its operations are in the batch.
struct Taken {
    promise: Promise,
    operations: std::ops::Range<usize>,
}

/// The one that decides.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) core: Arc<Core>,
    pub(super) applied: Applied,
    /// Jobs from this one on were enqueued by this process.
    pub(super) first_job: u64,
    pub(super) operations_since_checkpoint: u64,
    last_ms: u64,
    /// Why nothing more is decided.
    failure: Option<AofError>,
    #[cfg(test)]
    pub(super) without: Option<super::tables::Table>,
}

impl Engine {
    pub(super) fn new(core: Arc<Core>, applied: Applied, first_job: u64) -> Self {
        core.published.set(applied.next_generation());
        Self {
            core,
            applied,
            first_job,
            operations_since_checkpoint: 0,
            last_ms: 0,
            failure: None,
            #[cfg(test)]
            without: None,
        }
    }

    /// Decides groups in their order, in as few batches as they fit into.
    pub(super) fn commit(&mut self, mut groups: VecDeque<Group>) {
        while !groups.is_empty() {
            if let Some(error) = &self.failure {
                groups.iter().for_each(|group| group.promise.complete(Err(error.clone())));
                return;
            }
            let view = match self.core.tables.view() {
                Ok(view) => view,
                Err(error) => return self.fail(error),
            };
            self.commit_batch(&view, &mut groups);
        }
    }

    fn commit_batch(&mut self, view: &View, groups: &mut VecDeque<Group>) {
        let mut state = State::new(view);
        state.opened_at = self.first_job;
        #[cfg(test)]
        {
            state.without = self.without;
        }
        let (operations, taken) = self.decide(&mut state, groups);
        if taken.is_empty() {
            return;
        }
        let changes = state.into_changes();
        let batch = OperationBatch {
            generation: self.applied.next_generation(),
            previous_crc64: self.applied.batch_crc64,
            operations,
        };
        let (bytes, crc64) = batch.encode();
        let applied =
            Applied { generation: Some(batch.generation), batch_crc64: crc64, ..self.applied };
        if planted::in_catalog(CatalogBug::GuardBeforeDurable) {
            resolve(&taken, &batch.operations);
        }
        if planted::in_catalog(CatalogBug::TablesAheadOfLog) {
            let _ = self.core.tables.write(&changes, &applied);
        }
        if let Err(error) = self.append(batch.generation, &bytes) {
            taken.iter().for_each(|taken| taken.promise.complete(Err(error.clone())));
            return self.fail(error);
        }
        // Durable: from here on the batch holds, whatever happens to the tables.
        let written = self.core.tables.write(&changes, &applied);
        self.applied = applied;
        self.operations_since_checkpoint += batch.operations.len() as u64;
        self.core.counters.batch(batch.operations.len(), bytes.len());
        if let Err(error) = written {
            self.fail(error);
        } else {
            self.core.published.set(self.applied.next_generation());
        }
        resolve(&taken, &batch.operations);
    }

    /// Takes groups into a batch until it is full, and refuses those that cannot hold.
    fn decide(
        &mut self,
        state: &mut State<'_>,
        groups: &mut VecDeque<Group>,
    ) -> (Vec<Operation>, Vec<Taken>) {
        let space = operation_space(self.core.log.payload_len_max());
        let wanted = self.core.config.batch_bytes.min(space);
        let timestamp_ms = self.core.now_ms().max(self.last_ms);
        self.last_ms = timestamp_ms;
        let (mut operations, mut taken) = (Vec::new(), Vec::new());
        let mut used = 0;
        while let Some(group) = groups.pop_front() {
            match self.decide_group(state, &group, operations.len(), timestamp_ms) {
                Err(error) => {
                    state.drop_group();
                    self.core.counters.refused();
                    group.promise.complete(Err(error));
                }
                Ok((_, len)) if len > space => {
                    state.drop_group();
                    self.core.counters.refused();
                    let reason = format!("{len} bytes of operations do not fit into a batch");
                    group.promise.complete(Err(AofError::InvalidRecord { reason }));
                }
                Ok((_, len)) if used > 0 && used + len > wanted => {
                    state.drop_group();
                    groups.push_front(group);
                    break;
                }
                Ok((decided, len)) => {
                    state.take_group();
                    used += len;
                    let range = operations.len()..operations.len() + decided.len();
                    operations.extend(decided);
                    taken.push(Taken { promise: group.promise, operations: range });
                }
            }
        }
        (operations, taken)
    }

    /// The operations of a group as they would be in the batch, and their length.
    fn decide_group(
        &self,
        state: &mut State<'_>,
        group: &Group,
        first_index: usize,
        timestamp_ms: u64,
    ) -> Result<(Vec<Operation>, usize)> {
        if group.requests.is_empty() {
            return Err(super::state::refused("there is nothing to be done"));
        }
        let mut decided = Vec::with_capacity(group.requests.len());
        let mut bytes = Vec::new();
        for (index, request) in group.requests.iter().enumerate() {
            let mut body = request.body.clone();
            assign(state, &mut body)?;
            let operation = Operation {
                id: OperationId {
                    generation: self.applied.next_generation(),
                    index: (first_index + index) as u32,
                },
                term: 0,
                phase: request.phase,
                intent: request.intent,
                stream_id: request.stream_id,
                node_id: self.core.node_id,
                timestamp_ms,
                actor: group.actor.to_string(),
                segments: request.segments.clone(),
                body,
            };
            apply(state, &operation)?;
            operation.encode(&mut bytes);
            decided.push(operation);
        }
        Ok((decided, bytes.len()))
    }

    /// Returns when the batch is durable in its place.
    fn append(&self, generation: u64, bytes: &[u8]) -> Result<()> {
        let log = &self.core.log;
        let id = log.append(bytes)?;
        // This process has the only writer, so this is where the record is.
        let offset = log.watermarks().appended.saturating_sub(1);
        if offset != generation {
            return Err(AofError::Poisoned {
                reason: format!("batch {generation} got offset {offset} in the operation log")
                    .into(),
            });
        }
        log.flush_until(id, None)
    }

    /// Nothing more is decided: what was appended may be in the log or not, and the next
    /// opening finds out.
    pub(super) fn fail(&mut self, error: AofError) {
        tracing::error!(%error, "the catalog stops deciding until it is reopened");
        let reason = format!("the catalog failed: {error}").into();
        let failure = AofError::Poisoned { reason };
        self.core.published.end(failure.clone());
        self.failure = Some(failure);
    }

    pub(super) fn is_checkpoint_due(&self) -> bool {
        self.operations_since_checkpoint >= self.core.config.checkpoint_operations
            && self.failure.is_none()
    }
}

fn resolve(taken: &[Taken], operations: &[Operation]) {
    for taken in taken {
        let own = operations.get(taken.operations.clone()).unwrap_or_default();
        taken.promise.complete(Ok(own.into()));
    }
}
