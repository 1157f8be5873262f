use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Mutex;

use super::*;
use crate::io::sim::{Fault, Op};
use crate::io::{LockError, OpenMode};

/// Makes every kind of call once or more; `done` counts those that succeeded.
fn workload(sim: &SimStorage, done: &mut u64) -> io::Result<()> {
    let mut step = || *done += 1;
    let (dir, tmp, path) = (Path::new("/d"), Path::new("/d/tmp"), Path::new("/d/f"));
    sim.create_dir_all(dir)?;
    step();
    sim.sync_dir(Path::new("/"))?;
    step();
    let _lock = sim.lock(&dir.join("LOCK")).map_err(|e| match e {
        LockError::Io(e) => e,
        LockError::Held { .. } => ErrorKind::ResourceBusy.into(),
    })?;
    step();
    let file = sim.create_new(tmp)?;
    step();
    file.allocate(8192)?;
    step();
    file.write_all_at(&[1; 1000], 0)?;
    step();
    file.zero_range(10, 10)?;
    step();
    file.sync()?;
    step();
    sim.rename(tmp, path)?;
    step();
    sim.sync_dir(dir)?;
    step();
    let file = sim.open(path, OpenMode::ReadWrite)?;
    step();
    let map = Arc::new(file.map(8192, true)?);
    step();
    map.fault_in(0, 8192)?;
    step();
    if let Some(mut writer) = map.writer() {
        writer.write(4096, &[2; 100])?;
    }
    map.sync(4096, 4196)?;
    step();
    file.map_words(4096, false)?.sync()?;
    step();
    step();
    file.read_exact_at(&mut [0; 10], 0)?;
    step();
    file.len()?;
    step();
    file.allocated_len()?;
    step();
    file.modified_ns()?;
    step();
    file.punch_hole(0, 4096)?;
    step();
    sim.list(dir)?;
    step();
    sim.exists(path)?;
    step();
    sim.remove(path)?;
    step();
    Ok(())
}

fn workload_calls() -> u64 {
    let (sim, mut done) = (SimStorage::new(), 0);
    workload(&sim, &mut done).unwrap();
    assert_eq!(sim.calls(), done, "a call was not counted, or counted twice");
    done
}

#[test]
fn every_kind_of_call_is_seen_with_its_path() {
    let sim = SimStorage::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    sim.fail_when(move |call| {
        log.lock().unwrap().push((call.index, call.op, call.path.to_path_buf()));
        None
    });
    workload(&sim, &mut 0).unwrap();
    let seen = seen.lock().unwrap();
    assert!(seen.iter().enumerate().all(|(i, call)| call.0 == i as u64));
    let ops: std::collections::BTreeSet<Op> = seen.iter().map(|call| call.1).collect();
    assert_eq!(ops.len(), 22, "an operation is missing from the workload");
    assert!(seen.contains(&(5, Op::WriteAllAt, "/d/tmp".into())));
}

#[test]
fn any_call_can_fail_with_any_error_and_then_has_no_effect() {
    for call in 0..workload_calls() {
        let (sim, mut done) = (SimStorage::new(), 0);
        sim.fail_at(call, Fault::Os(5));
        let error = workload(&sim, &mut done).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(5), "call {call}");
        assert_eq!((done.min(call), sim.calls()), (done, call + 1), "call {call}");
        assert!(!sim.is_crashed());
    }
    let sim = SimStorage::new();
    sim.fail_at(0, Fault::Error(ErrorKind::PermissionDenied));
    let error = sim.create_new(Path::new("/f")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(sim.files().is_empty());
    assert!(sim.create_new(Path::new("/f")).is_ok(), "only that call fails");
}

#[test]
fn a_short_write_writes_half_and_fails() {
    let (sim, file) = machine_with("/f", 4096);
    sim.fail_at(sim.calls(), Fault::Short);
    assert_eq!(file.write_all_at(&[1; 1000], 0).unwrap_err().kind(), ErrorKind::StorageFull);
    let bytes = sim.read_file("/f").unwrap();
    assert_eq!((bytes[499], bytes[500]), (1, 0));
}

#[test]
fn power_can_go_before_or_after_any_call() {
    for call in 0..workload_calls() {
        let before = SimStorage::new();
        before.crash_at(call);
        let error = workload(&before, &mut 0).unwrap_err();
        assert_eq!(error.to_string(), "simulated power cut", "call {call}");
        assert_eq!(error.kind(), ErrorKind::Other);
        assert!(before.is_crashed());
        assert!(before.exists(Path::new("/")).is_err(), "no call works without power");
        let before = before.take_crash().unwrap();

        let after_call = SimStorage::new();
        after_call.crash_after(call);
        workload(&after_call, &mut 0).unwrap_err();
        let after_call = after_call.take_crash().unwrap();
        // What the machine saw after one call is what it sees before the next.
        let next = SimStorage::new();
        next.crash_at(call + 1);
        let mut done = 0;
        let _ = workload(&next, &mut done);
        if let Some(next) = next.take_crash() {
            // All but the stores through the map in between.
            assert_eq!(names(&after(&next, 1)), names(&after(&after_call, 1)), "call {call}");
            assert_eq!(names(&after(&next, 0)), names(&after(&after_call, 0)), "call {call}");
        }
        assert!(before.pending_name_count() <= 3);
    }
}

#[test]
fn a_cut_before_a_sync_loses_what_a_cut_after_it_keeps() {
    for (is_after, expected) in [(false, 0), (true, 1)] {
        let (sim, file) = machine_with("/f", 4096);
        file.write_all_at(&[1; 4096], 0).unwrap();
        if is_after {
            sim.crash_after(sim.calls())
        } else {
            sim.crash_at(sim.calls())
        }
        file.sync().unwrap_err();
        let image = sim.take_crash().unwrap();
        assert!(sim.take_crash().is_none());
        assert_eq!(after(&image, 0).read_file("/f").unwrap(), [expected; 4096]);
    }
}

#[test]
fn clearing_faults_forgets_plans_but_not_a_power_cut() {
    let sim = SimStorage::new();
    sim.fail_at(0, Fault::Short);
    sim.fail_when(|_| Some(Fault::Short));
    sim.crash_at(0);
    sim.clear_faults();
    assert!(sim.exists(Path::new("/")).unwrap());
    sim.crash_after(1);
    assert!(sim.exists(Path::new("/")).is_err());
    sim.clear_faults();
    assert!(sim.is_crashed());
    assert!(sim.exists(Path::new("/")).is_err());
}
