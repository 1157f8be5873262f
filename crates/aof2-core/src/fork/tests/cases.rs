//! What random histories meet too seldom.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::world::{ROOT, World};
use crate::fork::ForkAt;
use crate::io::{OpenMode, Storage};
use crate::write::RetentionPolicy;

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn world_with(name: &str, records: usize) -> Result<World, String> {
    let mut world = World::new(7);
    world.logs.insert(name.into(), Default::default());
    while world.logs.get(name).is_some_and(|log| log.records.len() < records) {
        world.append(name)?;
    }
    world.flush(name)?;
    Ok(world)
}

/// What a fork holds had been durable: an origin that lost it is damaged, not torn.
pub(super) fn a_hold_proves_what_was_durable() -> Result<(), String> {
    let mut world = world_with("events", 3)?;
    world.root()?.fork("events", "trial", &ForkAt::End).map_err(told)?;
    world.close("events")?;
    let dir = PathBuf::from(ROOT).join("events");
    world.sim.remove(&dir.join("watermark")).map_err(told)?;
    let names = world.sim.list(&dir.join("segments")).map_err(told)?;
    let path = dir.join("segments").join(&names[0].name);
    let file = world.sim.open(&path, OpenMode::ReadWrite).map_err(told)?;
    // Nothing behind the first record.
    let first = world.logs["events"].records[0].len() as u64;
    file.zero_range(64 + first + 40, 40_000 - first).map_err(told)?;
    match world.open("events") {
        Err(error) if error.contains("damage") => Ok(()),
        Err(error) => Err(format!("another error: {error}")),
        Ok(stream) => Err(format!("opened with {} records", stream.appended().count())),
    }
}

/// Retention that comes between finding the place of a fork and holding it.
pub(super) fn a_start_that_moves_is_noticed() -> Result<(), String> {
    let mut world = world_with("events", 60)?;
    world.root()?.snapshot("events", "s", &ForkAt::Offset(1), None).map_err(told)?;
    world.root()?.drop_snapshot("events", "s").map_err(told)?;
    let stream = world.open("events")?;
    let once = Arc::new(AtomicBool::new(false));
    world.sim.on_call({
        let (stream, once) = (Arc::clone(&stream), Arc::clone(&once));
        move |call| {
            let is_lock = call.path.ends_with("events/holds/lock");
            if is_lock && !once.swap(true, Ordering::SeqCst) {
                let policy = RetentionPolicy { before_offset: Some(50), ..Default::default() };
                let _ = stream.apply_retention(&policy);
            }
        }
    });
    let forked = world.root()?.fork("events", "trial", &ForkAt::Offset(55));
    if stream.store().table().earliest() == 0 {
        return Err("retention removed nothing".into());
    }
    match forked {
        Err(crate::AofError::Trimmed { .. }) => {}
        other => return Err(format!("{other:?}")),
    }
    let tree = world.root()?.tree().map_err(told)?;
    match tree.logs.len() == 1 && tree.logs[0].holders.is_empty() {
        true => Ok(()),
        false => Err(format!("{tree:?}")),
    }
}

/// A snapshot expires by the clock as it is now, not by one that once ran ahead.
pub(super) fn a_clock_that_ran_ahead_expires_nothing() -> Result<(), String> {
    let mut world = world_with("events", 60)?;
    let clock = world.sim.clock().clone();
    let now_ms = clock.peek_ns() / 1_000_000;
    let hour = 3_600_000;
    let expires = Some(now_ms + hour);
    world.root()?.snapshot("events", "s", &ForkAt::End, expires).map_err(told)?;
    let now_ns = clock.peek_ns();
    clock.advance_ms(24 * hour);
    // Somebody only looks.
    let seen = world.root()?.tree().map_err(told)?;
    let stream = world.open("events")?;
    stream.store().holders_of(crate::format::SegmentId::from_u64(0)).map_err(told)?;
    clock.set_ns(now_ns);
    let policy = RetentionPolicy { before_offset: Some(50), ..Default::default() };
    let kept = stream.apply_retention(&policy).map_err(told)?;
    if !kept.segments.is_empty() {
        return Err(format!("{} segments are gone; the tree was {seen:?}", kept.segments.len()));
    }
    clock.advance_ms(2 * hour);
    let gone = stream.apply_retention(&policy).map_err(told)?;
    match gone.segments.is_empty() {
        true => Err("an expired snapshot holds segments".into()),
        false => Ok(()),
    }
}

#[test]
fn holds_are_proof_starts_are_looked_at_again_and_clocks_are_believed_as_they_are() {
    a_hold_proves_what_was_durable().unwrap();
    a_start_that_moves_is_noticed().unwrap();
    a_clock_that_ran_ahead_expires_nothing().unwrap();
}
