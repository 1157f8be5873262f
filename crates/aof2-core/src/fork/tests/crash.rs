//! Random trees of logs, forks and snapshots, cut at any call; recovery cut again.

use fastrand::Rng;

use super::world::World;
use crate::io::sim::{CrashOptions, SimStorage};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// Outcomes looked at for each cut.
const OUTCOMES: u64 = 3;

/// Histories from this seed on.
pub(super) fn explore(first_seed: u64, count: u64) -> Result<(), String> {
    for seed in first_seed..first_seed + count {
        explore_one(seed).map_err(|e| format!("seed {seed}: {e}"))?;
    }
    Ok(())
}

fn explore_one(seed: u64) -> Result<(), String> {
    let mut rng = Rng::with_seed(seed ^ 0xF0_4C5);
    let mut world = World::new(seed);
    let cut = 100 + rng.u64(..3_500);
    match rng.bool() {
        true => world.sim.crash_at(cut),
        false => world.sim.crash_after(cut),
    }
    world.run(60 + rng.usize(..120))?;
    let image = world.sim.take_crash().unwrap_or_else(|| world.sim.image());
    for outcome in 0..OUTCOMES {
        let choice = if outcome < 2 { outcome } else { rng.u64(..1_000_000) };
        let sim = image.materialize(choice, &CrashOptions::default());
        check(sim, &world, &mut rng)
            .map_err(|e| format!("cut at call {cut}, outcome {choice}, {}: {e}", world.told()))?;
    }
    Ok(())
}

fn check(mut sim: SimStorage, world: &World, rng: &mut Rng) -> Result<(), String> {
    if rng.bool() {
        sim = cut_again(sim, world, rng);
    }
    let mut after = World::resume(sim, world.logs.clone(), rng.u64(1 << 30..1 << 40));
    after.doing.clone_from(&world.doing);
    after.settle()?;
    after.check_all()?;
    after.root()?.sweep().map_err(|e| format!("sweep: {e}"))?;
    after.check_swept()?;
    // What forks and snapshots need survives whatever retention is asked for, and dropping.
    trim_all(&mut after)?;
    after.check_all().map_err(|e| format!("after retention: {e}"))?;
    after.run(10)?;
    let names: Vec<String> = after.logs.keys().cloned().collect();
    if !names.is_empty() {
        let name = &names[rng.usize(..names.len())];
        after.drop_log(name)?;
        trim_all(&mut after)?;
        after.root()?.sweep().map_err(|e| format!("sweep: {e}"))?;
        after.check_swept()?;
        after.check_all().map_err(|e| format!("after {name} was dropped: {e}"))?;
    }
    // The last one leaves nothing.
    for name in after.logs.keys().cloned().collect::<Vec<_>>() {
        after.drop_log(&name)?;
    }
    after.root()?.sweep().map_err(|e| format!("sweep: {e}"))?;
    after.check_swept()
}

fn trim_all(world: &mut World) -> Result<(), String> {
    for name in world.logs.keys().cloned().collect::<Vec<_>>() {
        let end = world.logs.get(&name).map_or(0, |log| log.acked);
        world.trim_to(&name, end)?;
    }
    Ok(())
}

/// Cuts the power while everything is opened and swept.
fn cut_again(sim: SimStorage, world: &World, rng: &mut Rng) -> SimStorage {
    sim.crash_at(rng.u64(..250));
    let mut opening = World::resume(sim.clone(), world.logs.clone(), rng.u64(1 << 30..1 << 40));
    for name in world.logs.keys().filter(|name| opening.is_there(name)).collect::<Vec<_>>() {
        let _ = opening.open(name);
    }
    let _ = opening.root().map(|root| root.sweep());
    let image = sim.take_crash().unwrap_or_else(|| sim.image());
    image.materialize(rng.u64(..1_000), &CrashOptions::default())
}

#[test]
fn nothing_that_can_be_read_is_lost_and_nothing_else_stays() {
    let seed = setting("AOF2_CRASH_SEED", 1);
    let count = setting("AOF2_FORK_HISTORIES", 150);
    explore(seed, count).unwrap();
}
