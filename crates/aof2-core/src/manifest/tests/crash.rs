//! Crashes at every call, in every flavour, and crashes of the recovery itself.

use fastrand::Rng;

use super::driver::{Driver, reader};
use super::model::Model;
use crate::io::sim::{CrashImage, CrashOptions, SimStorage};

/// A number from the environment: `AOF2_CRASH_STATES` for how many crash states to
/// explore, `AOF2_CRASH_SEED` for where to start, to look at a failure again.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// Outcomes looked at for each crash.
const SEEDS_PER_CRASH: u64 = 10;

pub(super) fn explore(first_seed: u64, states: u64) -> Result<u64, String> {
    let mut explored = 0;
    let mut seed = first_seed;
    while explored < states {
        explored += explore_one(seed).map_err(|e| format!("seed {seed}: {e}"))?;
        seed += 1;
    }
    Ok(explored)
}

/// One random history, cut at a random call; then many outcomes of that cut.
fn explore_one(seed: u64) -> Result<u64, String> {
    let mut rng = Rng::with_seed(seed ^ 0xC0FFEE);
    let mut driver = Driver::new(seed);
    let cut = 5 + rng.u64(..900);
    match rng.bool() {
        true => driver.sim.crash_at(cut),
        false => driver.sim.crash_after(cut),
    }
    driver.run(40 + rng.usize(..160))?;
    let image = driver.sim.take_crash().unwrap_or_else(|| driver.sim.image());
    driver.manifest = None;
    for outcome in 0..SEEDS_PER_CRASH {
        let choice = if outcome < 4 { outcome } else { 4 + rng.u64(..1_000_000) };
        check_outcome(&driver, &image, choice, &mut rng)
            .map_err(|e| format!("cut at call {cut}, outcome {choice}: {e}"))?;
    }
    Ok(SEEDS_PER_CRASH)
}

fn check_outcome(
    before: &Driver,
    image: &CrashImage,
    choice: u64,
    rng: &mut Rng,
) -> Result<(), String> {
    let options = CrashOptions::default();
    let mut sim = image.materialize(choice, &options);
    let mut model = before.model.clone();
    // A reader elsewhere has shown these to somebody, before anything was recovered.
    model.acked = model.acked.max(seen_by_reader(&sim, &mut model)?);
    if rng.bool() {
        sim = crash_recovery(before, sim, &mut model, rng)?;
    }
    let mut driver = before.resume(sim, model, rng.u64(..));
    driver.open_and_check()?;
    driver.run(10)?;
    // Whatever happened after recovery must survive the next cut as well.
    let kept = driver.model.records.len();
    let second = driver.sim.image().materialize(rng.u64(..1_000), &options);
    let mut again = driver.resume(second, driver.model.clone(), 0);
    driver.manifest = None;
    again.open_and_check().map_err(|e| format!("second crash, after {kept} records: {e}"))
}

/// What a process that only reads finds; how many records it takes for committed.
fn seen_by_reader(sim: &SimStorage, model: &mut Model) -> Result<u64, String> {
    let mut cursor = reader(sim).cursor().map_err(|e| format!("reader: {e}"))?;
    let mut seen = 0;
    loop {
        match cursor.next_record().map_err(|e| format!("reader: {e}"))? {
            Some(placed) => {
                model.check(&placed).map_err(|e| format!("reader: {e}"))?;
                seen = placed.ordinal + 1;
            }
            None if seen < model.acked => {
                return Err(format!("reader: {} were committed, {seen} are there", model.acked));
            }
            None => return Ok(seen),
        }
    }
}

/// Cuts the power once or twice while recovery is at work.
fn crash_recovery(
    before: &Driver,
    mut sim: SimStorage,
    model: &mut Model,
    rng: &mut Rng,
) -> Result<SimStorage, String> {
    for _ in 0..1 + rng.u64(..2) {
        match rng.bool() {
            true => sim.crash_at(rng.u64(..40)),
            false => sim.crash_after(rng.u64(..40)),
        }
        let opened = crate::manifest::tests::driver::open_with(&sim, before.config.clone());
        if let Ok(manifest) = &opened {
            // It finished first; what it opened with is promised.
            model.acked = model.acked.max(manifest.committed());
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
fn committed_records_survive_any_cut_and_nothing_is_invented() {
    let first_seed = setting("AOF2_CRASH_SEED", 1);
    let explored = explore(first_seed, setting("AOF2_CRASH_STATES", 3_000)).unwrap();
    println!("{explored} crash states");
}

/// One history, and every call of it the last one.
#[test]
fn every_call_of_a_history_may_be_the_last() {
    for seed in [2, 3] {
        let calls = {
            let mut driver = Driver::new(seed);
            driver.run(45).unwrap();
            driver.sim.calls()
        };
        for cut in 0..calls {
            for is_after in [false, true] {
                let mut driver = Driver::new(seed);
                match is_after {
                    false => driver.sim.crash_at(cut),
                    true => driver.sim.crash_after(cut),
                }
                driver.run(45).unwrap();
                let image = driver.sim.take_crash().unwrap_or_else(|| driver.sim.image());
                driver.manifest = None;
                for choice in [0, 1, 2, 3, 4 + cut] {
                    let sim = image.materialize(choice, &CrashOptions::default());
                    let mut after = driver.resume(sim, driver.model.clone(), cut);
                    after
                        .open_and_check()
                        .map_err(|e| format!("seed {seed}, cut at {cut}, outcome {choice}: {e}"))
                        .unwrap();
                }
            }
        }
        println!("{} calls", calls);
    }
}
