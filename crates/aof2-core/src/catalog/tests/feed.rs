//! The change feed: every batch once, in order; nothing that a cursor needs is trimmed.

use std::sync::Arc;
use std::time::Duration;

use super::driver::{ROOT, config, one, open_with};
use crate::catalog::config::CatalogConfig;
use crate::catalog::engine::Engine;
use crate::catalog::reader::CatalogReader;
use crate::catalog::records::ComponentKind;
use crate::error::AofError;
use crate::format::CursorFile;
use crate::format::operation::{JobKind, JobOutcome, OperationBody as B};
use crate::io::Storage;
use crate::io::sim::SimStorage;

const NOW: Option<Duration> = Some(Duration::ZERO);

fn reader(sim: &SimStorage) -> CatalogReader {
    let clock = Arc::new(sim.clock().clone());
    CatalogReader::open_on(ROOT, Arc::new(sim.clone()), clock).unwrap()
}

/// More than a segment of the operation log.
fn fill(engine: &mut Engine) {
    for _ in 0..30 {
        let body = B::EnqueueJob {
            job_id: 0,
            db_id: 0,
            kind: JobKind::Gc,
            payload: vec![7; 3_000],
            not_before_ms: 0,
            attempts_max: 1,
        };
        let B::EnqueueJob { job_id, .. } = one(engine, body).unwrap() else { panic!("a job") };
        let done = B::CompleteJob {
            job_id,
            run: 0,
            outcome: JobOutcome::Done,
            message: String::new(),
            retry_at_ms: 0,
        };
        one(engine, done).unwrap();
    }
}

#[test]
fn every_batch_comes_once_in_order_and_again_after_what_was_not_acknowledged() {
    let sim = SimStorage::new();
    let (mut engine, _) = open_with(&sim, config()).unwrap();
    fill(&mut engine);
    let end = engine.applied.next_generation();
    let reader = reader(&sim);
    let mut feed = reader.feed("search").unwrap();
    for generation in 0..end {
        assert_eq!(feed.next_batch(NOW).unwrap().unwrap().generation, generation);
    }
    assert!(feed.next_batch(NOW).unwrap().is_none());
    assert!(feed.acknowledge(end).is_err(), "that was not given out");
    feed.acknowledge(9).unwrap();
    let busy = reader.feed("search");
    assert!(matches!(busy, Err(AofError::Locked { .. })), "{busy:?}");
    drop(feed);
    let mut feed = reader.feed("search").unwrap();
    assert_eq!(feed.next_batch(NOW).unwrap().unwrap().generation, 10);
    let mut unnamed = reader.changes_from(end - 1).unwrap();
    assert_eq!(unnamed.next_batch(NOW).unwrap().unwrap().generation, end - 1);
    assert!(unnamed.acknowledge(end - 1).is_err());
}

/// A slow cursor keeps the log; a fast one does not let it go.
pub(super) fn the_slowest_cursor_counts() -> Result<(), String> {
    let sim = SimStorage::new();
    let (mut engine, _) = open_with(&sim, config()).unwrap();
    let reader = reader(&sim);
    drop(reader.feed("slow").map_err(|e| e.to_string())?);
    for _ in 0..3 {
        fill(&mut engine);
        sim.clock().advance_ms(10);
        let mut fast = reader.feed("fast").map_err(|e| e.to_string())?;
        while let Some(batch) = fast.next_batch(NOW).map_err(|e| e.to_string())? {
            fast.acknowledge(batch.generation).map_err(|e| e.to_string())?;
        }
        engine.checkpoint_now().map_err(|e| e.to_string())?;
    }
    let mut slow = reader.feed("slow").map_err(|e| e.to_string())?;
    match slow.next_batch(NOW).map_err(|e| e.to_string())? {
        Some(batch) if batch.generation == 0 => Ok(()),
        other => Err(format!("the slow cursor got {:?}", other.map(|b| b.generation))),
    }
}

#[test]
fn an_acknowledgement_trims_nothing_that_a_slower_cursor_needs() {
    the_slowest_cursor_counts().unwrap();
}

#[test]
fn without_cursors_the_log_is_trimmed_behind_the_oldest_checkpoint_kept() {
    let sim = SimStorage::new();
    let (mut engine, _) = open_with(&sim, config()).unwrap();
    let mut checkpoints = Vec::new();
    for _ in 0..4 {
        fill(&mut engine);
        checkpoints.push(engine.checkpoint_now().unwrap());
    }
    let earliest = engine.core.log.earliest_offset();
    assert!(earliest > 0, "nothing was trimmed");
    assert!(earliest <= checkpoints[2] + 1, "the checkpoint before the last needs more");
    let kept = crate::catalog::checkpoint::list(&sim, &engine.core.layout).unwrap();
    assert_eq!(kept, [checkpoints[3], checkpoints[2]]);
    // A reader that is behind starts again with a checkpoint.
    let reader = reader(&sim);
    assert_eq!(reader.view().unwrap().generation(), engine.applied.generation.unwrap());
    let reset = reader.changes_from(0).and_then(|mut feed| feed.next_batch(NOW));
    assert!(matches!(reset, Err(AofError::FeedReset { next: 0, .. })), "{reset:?}");
}

#[test]
fn a_reader_that_was_overtaken_by_trimming_starts_again() {
    let sim = SimStorage::new();
    let (mut engine, _) = open_with(&sim, config()).unwrap();
    let reader = reader(&sim);
    for _ in 0..4 {
        fill(&mut engine);
        engine.checkpoint_now().unwrap();
    }
    assert!(engine.core.log.earliest_offset() > reader.view().unwrap().generation() + 1);
    assert_eq!(reader.refresh().unwrap(), engine.applied.generation.unwrap());
    assert!(reader.verify().unwrap().is_empty());
}

#[test]
fn a_cursor_too_far_behind_expires_and_its_reader_is_told() {
    let sim = SimStorage::new();
    let limits = CatalogConfig { cursor_batches_max: 20, ..config() };
    let (mut engine, _) = open_with(&sim, limits).unwrap();
    let reader = reader(&sim);
    drop(reader.feed("slow").unwrap());
    engine.checkpoint_now().unwrap();
    for _ in 0..4 {
        fill(&mut engine);
        engine.checkpoint_now().unwrap();
    }
    let components = engine.core.tables.view().unwrap().components().unwrap();
    assert!(components.iter().any(|(_, row)| row.kind == ComponentKind::ExpiredCursor));
    let told = reader.feed("slow");
    assert!(matches!(told, Err(AofError::FeedReset { .. })), "{told:?}");
    let Err(AofError::FeedReset { earliest, .. }) = told else { return };
    // It reads the state, and goes on from there.
    let mut feed = reader.feed_from("slow", earliest).unwrap();
    let batch = feed.next_batch(NOW).unwrap().unwrap();
    assert_eq!(batch.generation, earliest);
    feed.acknowledge(engine.applied.generation.unwrap().min(batch.generation)).unwrap();
    let view = engine.core.tables.view().unwrap();
    let metrics = crate::catalog::metrics::CatalogMetrics::of(&engine.core, &view).unwrap();
    assert_eq!((metrics.cursor_batches_limit, metrics.cursors_expired), (20, 1));
    assert!(metrics.to_prometheus("/data").contains("aof2_catalog_cursor_batches_limit{root="));
}

#[test]
fn an_idle_cursor_with_nothing_to_acknowledge_does_not_expire() {
    let sim = SimStorage::new();
    let (mut engine, _) = open_with(&sim, config()).unwrap();
    let reader = reader(&sim);
    let mut feed = reader.feed("idle").unwrap();
    while let Some(batch) = feed.next_batch(NOW).unwrap() {
        feed.acknowledge(batch.generation).unwrap();
    }
    drop(feed);
    // Noting where it is makes a batch that it has not seen; it has time for that one.
    engine.checkpoint_now().unwrap();
    sim.clock().advance_ms(config().cursor_age_ms_max / 2);
    engine.checkpoint_now().unwrap();
    assert!(reader.feed("idle").is_ok());
}

#[test]
fn a_damaged_cursor_is_a_reset_and_no_guess() {
    let sim = SimStorage::new();
    let (mut engine, _) = open_with(&sim, config()).unwrap();
    let reader = reader(&sim);
    drop(reader.feed("search").unwrap());
    sim.flip_bit(engine.core.layout.cursor("search"), 150).unwrap();
    let told = reader.feed("search");
    assert!(matches!(told, Err(AofError::FeedReset { .. })), "{told:?}");
    for _ in 0..2 {
        engine.checkpoint_now().unwrap();
    }
    let told = reader.feed("search");
    assert!(matches!(told, Err(AofError::FeedReset { .. })), "{told:?}");
}

#[test]
fn a_cursor_that_the_catalog_knows_and_whose_file_is_gone_is_a_reset() {
    let sim = SimStorage::new();
    let (mut engine, _) = open_with(&sim, config()).unwrap();
    let reader = reader(&sim);
    drop(reader.feed("search").unwrap());
    engine.checkpoint_now().unwrap();
    sim.remove(&engine.core.layout.cursor("search")).unwrap();
    let told = reader.feed("search");
    assert!(matches!(told, Err(AofError::FeedReset { .. })), "{told:?}");
}

#[test]
fn a_reader_that_gave_its_place_up_begins_anew() {
    let sim = SimStorage::new();
    let (mut engine, _) = open_with(&sim, config()).unwrap();
    let reader = reader(&sim);
    for _ in 0..2 {
        let mut feed = reader.feed("search").unwrap();
        assert_eq!(feed.next_batch(NOW).unwrap().unwrap().generation, 0);
        engine.checkpoint_now().unwrap();
        feed.forget().unwrap();
    }
    engine.checkpoint_now().unwrap();
    assert!(!sim.files().contains(&engine.core.layout.cursor("search")));
    let mut feed = reader.feed("search").unwrap();
    assert_eq!(feed.next_batch(NOW).unwrap().unwrap().generation, 0);
}

#[test]
fn a_cursor_of_another_log_or_ahead_of_this_one_is_a_reset() {
    let sim = SimStorage::new();
    let (engine, _) = open_with(&sim, config()).unwrap();
    let reader = reader(&sim);
    drop(reader.feed("search").unwrap());
    let path = engine.core.layout.cursor("search");
    let good = CursorFile::decode(&sim.read_file(&path).unwrap()).unwrap();
    for bad in [
        CursorFile { stream_id: good.stream_id ^ 1, ..good },
        CursorFile { next_generation: 1_000, ..good },
    ] {
        sim.write_file(&path, &bad.encode()).unwrap();
        let told = reader.feed("search");
        assert!(matches!(told, Err(AofError::FeedReset { .. })), "{told:?}");
    }
    sim.write_file(&path, &good.encode()).unwrap();
    reader.feed("search").unwrap();
}

#[test]
fn a_reader_that_caught_up_has_its_time_from_when_something_comes() {
    let sim = SimStorage::new();
    let (mut engine, _) = open_with(&sim, config()).unwrap();
    let reader = reader(&sim);
    let mut feed = reader.feed("idle").unwrap();
    while let Some(batch) = feed.next_batch(NOW).unwrap() {
        feed.acknowledge(batch.generation).unwrap();
    }
    drop(feed);
    for _ in 0..3 {
        engine.checkpoint_now().unwrap();
        sim.clock().advance_ms(config().cursor_age_ms_max * 2);
    }
    one(&mut engine, B::RecordMetric { scope: 1, metric: 1, value: 1 }).unwrap();
    engine.checkpoint_now().unwrap();
    reader.feed("idle").unwrap();
    // That wrote the place again; from now on it does nothing.
    sim.clock().advance_ms(config().cursor_age_ms_max + 1);
    engine.checkpoint_now().unwrap();
    let told = reader.feed("idle");
    assert!(matches!(told, Err(AofError::FeedReset { .. })), "{told:?}");
}

#[test]
fn an_expired_cursor_that_its_reader_has_or_moved_keeps_its_file() {
    let sim = SimStorage::new();
    let limits = CatalogConfig { cursor_batches_max: 20, ..config() };
    let (mut engine, _) = open_with(&sim, limits).unwrap();
    let reader = reader(&sim);
    let mut feed = reader.feed("slow").unwrap();
    engine.checkpoint_now().unwrap();
    fill(&mut engine);
    engine.checkpoint_now().unwrap();
    let path = engine.core.layout.cursor("slow");
    assert!(sim.files().contains(&path), "its reader has it");
    let is_expired = |engine: &Engine| {
        let components = engine.core.tables.view().unwrap().components().unwrap();
        components.iter().any(|(_, row)| row.kind == ComponentKind::ExpiredCursor)
    };
    assert!(is_expired(&engine));
    // It read everything after all, also what says that it was expired; whatever its clock says.
    while let Some(batch) = feed.next_batch(NOW).unwrap() {
        feed.acknowledge(batch.generation).unwrap();
    }
    drop(feed);
    engine.checkpoint_now().unwrap();
    assert!(!is_expired(&engine) && sim.files().contains(&path));
    reader.feed("slow").unwrap();
}
