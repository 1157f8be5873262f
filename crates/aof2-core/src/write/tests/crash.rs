//! Crashes at every call, in every flavour, and crashes of the recovery itself.

use fastrand::Rng;

use super::driver::Driver;
use super::model::Model;
use crate::format::SegmentFormat;
use crate::io::sim::{CrashImage, CrashOptions, SimStorage};
use crate::manifest::ManifestMode;

/// A number from the environment: `AOF2_CRASH_STATES` for how many crash states to
/// explore (`make test-deep` asks for more than 100,000), `AOF2_CRASH_SEED` for
/// where to start, to look at a failure again.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// Outcomes looked at for each crash.
const SEEDS_PER_CRASH: u64 = 10;

pub(super) fn explore(first_seed: u64, states: u64) -> Result<u64, String> {
    let mut explored = 0;
    let mut seed = first_seed;
    while explored < states {
        let format = if seed % 4 == 3 { SegmentFormat::Compact } else { SegmentFormat::Full };
        explored += explore_one(seed, format).map_err(|e| format!("seed {seed}: {e}"))?;
        seed += 1;
    }
    Ok(explored)
}

/// One random history, cut at a random call; then many outcomes of that cut.
fn explore_one(seed: u64, format: SegmentFormat) -> Result<u64, String> {
    let mut rng = Rng::with_seed(seed ^ 0xC0FFEE);
    let mut driver = Driver::new(seed, format);
    let cut = 20 + rng.u64(..450);
    match rng.bool() {
        true => driver.sim.crash_at(cut),
        false => driver.sim.crash_after(cut),
    }
    driver.run(40 + rng.usize(..160))?;
    let model = driver.model.clone();
    let image = driver.sim.take_crash().unwrap_or_else(|| driver.sim.image());
    drop(driver);
    for outcome in 0..SEEDS_PER_CRASH {
        let choice = if outcome < 4 { outcome } else { 4 + rng.u64(..1_000_000) };
        check_outcome(&image, choice, &model, &mut rng, format)
            .map_err(|e| format!("cut at call {cut}, outcome {choice}: {e}"))?;
    }
    Ok(SEEDS_PER_CRASH)
}

fn check_outcome(
    image: &CrashImage,
    choice: u64,
    model: &Model,
    rng: &mut Rng,
    format: SegmentFormat,
) -> Result<(), String> {
    let options = CrashOptions::default();
    let mut sim = image.materialize(choice, &options);
    let seen =
        model.check_reader(std::sync::Arc::new(sim.clone()), crate::write::tests::driver::ROOT)?;
    // A reader elsewhere has shown these to somebody.
    let mut model = Model { acked: model.acked.max(seen), ..model.clone() };
    if rng.bool() {
        sim = crash_recovery(sim, &mut model, rng, format)?;
    }
    let lost_from = model.records.clone();
    let mut driver = Driver::resume(sim, model, rng.u64(..), format);
    driver.open_and_check()?;
    write_over(&mut driver, &lost_from)?;
    let kept = driver.model.records.len();
    driver.run(12)?;
    // Whatever happened after recovery must survive the next cut as well.
    let second = driver.sim.image().materialize(rng.u64(..1_000), &options);
    let mut again = Driver::resume(second, driver.model.clone(), 0, format);
    drop(driver);
    again.open_and_check().map_err(|e| format!("second crash, after {kept} records: {e}"))
}

/// Appends records exactly as long as those that were lost, so that left-over
/// bytes would line up with what is written now.
fn write_over(driver: &mut Driver, lost_from: &[Vec<u8>]) -> Result<(), String> {
    let Some(stream) = driver.stream.clone() else { return Ok(()) };
    let kept = driver.model.records.len();
    for lost in lost_from.iter().skip(kept).take(2) {
        driver.append_len(&stream, lost.len())?;
    }
    Ok(())
}

/// Cuts the power once or twice while recovery is at work.
fn crash_recovery(
    mut sim: SimStorage,
    model: &mut Model,
    rng: &mut Rng,
    format: SegmentFormat,
) -> Result<SimStorage, String> {
    for _ in 0..1 + rng.u64(..2) {
        match rng.bool() {
            true => sim.crash_at(rng.u64(..60)),
            false => sim.crash_after(rng.u64(..60)),
        }
        let opened = crate::write::tests::driver::open_with(&sim, format, ManifestMode::Enabled);
        if let Ok(stream) = &opened {
            // It finished first; what it opened with is promised.
            model.acked = model.acked.max(stream.durable.count());
        } else if !sim.is_crashed() {
            return Err(format!("recovery failed: {:?}", opened.err()));
        }
        drop(opened);
        let image = sim.take_crash().unwrap_or_else(|| sim.image());
        sim = image.materialize(rng.u64(..1_000), &CrashOptions::default());
    }
    Ok(sim)
}

#[test]
fn acknowledged_records_survive_any_cut_and_nothing_is_invented() {
    let first_seed = setting("AOF2_CRASH_SEED", 1);
    let explored = explore(first_seed, setting("AOF2_CRASH_STATES", 3_000)).unwrap();
    println!("{explored} crash states");
}
