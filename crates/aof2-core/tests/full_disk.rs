//! Real file systems that say no: full, read-only, not permitted, not a directory.
//! Every answer is a typed error, nothing acknowledged is lost, reads go on.
//!
//! The disks are mounted by a helper process in a mount namespace of its own, so
//! that they vanish with it, whatever happens. A helper that dies of a signal
//! (SIGBUS, say) fails its test. Where mounting is not permitted the tests say so
//! and pass.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use aof2_core::*;
use support::{Helper, PATIENCE, tell};

const DISK_MIB: u64 = 32;
const NOBODY: u32 = 65_534;

#[test]
fn helper_process() {
    let Some(role) = support::role() else { return };
    let root = support::root();
    let outcome = match role.as_str() {
        "ext4" => Disk::ext4(&root).map(|disk| fill_and_heal(disk.path())),
        "tmpfs" => Disk::tmpfs(&root).map(|disk| fill_and_heal(disk.path())),
        "ext4 edges" => Disk::ext4(&root).map(|disk| fill_to_every_edge(disk.path())),
        "tmpfs edges" => Disk::tmpfs(&root).map(|disk| fill_to_every_edge(disk.path())),
        "read-only" => Disk::tmpfs(&root).and_then(|disk| use_read_only(&disk)),
        "nobody" => become_nobody().map(|()| use_without_permission(&root)),
        other => panic!("{other}"),
    };
    match outcome {
        Ok(()) => tell(format_args!("done")),
        Err(why) => tell(format_args!("skipped: {why}")),
    }
}

fn run_helper(role: &str) {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let root = dir.path().join("disk");
    fs::create_dir(&root).unwrap();
    let mut helper = Helper::start(role, &root, &[]);
    let mut last = String::new();
    while let Some(line) = helper.next_line() {
        println!("{role}: {line}");
        last = line;
    }
    let status = helper.finish();
    assert!(status.success(), "{role}: {status}");
    assert!(last == "done" || last.starts_with("skipped"), "{role} ended with {last:?}");
}

#[test]
fn a_full_ext4_refuses_appends_loses_nothing_and_heals() {
    run_helper("ext4");
}

#[test]
fn a_full_tmpfs_refuses_appends_loses_nothing_and_heals() {
    run_helper("tmpfs");
}

#[test]
fn however_little_is_left_on_ext4_nothing_is_lost() {
    run_helper("ext4 edges");
}

#[test]
fn however_little_is_left_on_tmpfs_nothing_is_lost() {
    run_helper("tmpfs edges");
}

#[test]
fn a_read_only_file_system_can_be_read_and_refuses_a_writer() {
    run_helper("read-only");
}

#[test]
fn without_permission_the_error_says_so() {
    run_helper("nobody");
}

// ---- disks ----

/// A small file system, unmounted when dropped.
struct Disk {
    point: PathBuf,
}

fn c_string(path: &Path) -> CString {
    CString::new(path.as_os_str().as_encoded_bytes()).unwrap()
}

fn succeeded(result: libc::c_int, what: &str) -> std::result::Result<(), String> {
    match result {
        0 => Ok(()),
        _ => Err(format!("{what}: {}", io::Error::last_os_error())),
    }
}

fn run(program: &str, arguments: &[&str]) -> std::result::Result<(), String> {
    let output =
        Command::new(program).args(arguments).output().map_err(|e| format!("{program}: {e}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

impl Disk {
    /// Mounts of this process are nobody else's, and end with it.
    fn private_mounts() -> std::result::Result<(), String> {
        // SAFETY: gives this thread, and all it starts later, its own mount table.
        succeeded(unsafe { libc::unshare(libc::CLONE_NEWNS) }, "unshare")?;
        let flags = libc::MS_REC | libc::MS_PRIVATE;
        let null = std::ptr::null();
        // SAFETY: the pointers are valid strings or null where the call allows it.
        let private =
            unsafe { libc::mount(c"none".as_ptr(), c"/".as_ptr(), null, flags, null.cast()) };
        succeeded(private, "make mounts private")
    }

    fn ext4(root: &Path) -> std::result::Result<Self, String> {
        Self::private_mounts()?;
        let image = root.join("image");
        let point = root.join("ext4");
        fs::create_dir(&point).map_err(|e| e.to_string())?;
        let file = fs::File::create(&image).map_err(|e| e.to_string())?;
        file.set_len(DISK_MIB << 20).map_err(|e| e.to_string())?;
        let (image, at) = (image.to_str().unwrap(), point.to_str().unwrap());
        run("mkfs.ext4", &["-q", "-F", "-m", "0", image])?;
        run("mount", &["-t", "ext4", "-o", "loop", image, at])?;
        Ok(Self { point })
    }

    fn tmpfs(root: &Path) -> std::result::Result<Self, String> {
        Self::private_mounts()?;
        let point = root.join("tmpfs");
        fs::create_dir(&point).map_err(|e| e.to_string())?;
        let at = point.to_str().unwrap();
        run("mount", &["-t", "tmpfs", "-o", &format!("size={DISK_MIB}m"), "tmpfs", at])?;
        Ok(Self { point })
    }

    fn path(&self) -> &Path {
        &self.point
    }

    fn remount(&self, read_only: bool) -> std::result::Result<(), String> {
        let flags = libc::MS_REMOUNT | if read_only { libc::MS_RDONLY } else { 0 };
        let point = c_string(&self.point);
        let null = std::ptr::null();
        let deadline = Instant::now() + PATIENCE;
        loop {
            // SAFETY: the pointers are valid strings or null where the call allows it.
            let remounted = unsafe { libc::mount(null, point.as_ptr(), null, flags, null.cast()) };
            let busy = io::Error::last_os_error().kind() == io::ErrorKind::ResourceBusy;
            if remounted == 0 || !busy {
                return succeeded(remounted, "remount");
            }
            // Background threads let go of a closed log's files a moment later.
            assert!(Instant::now() < deadline, "a closed log keeps files open for writing");
            std::thread::yield_now();
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let point = c_string(&self.point);
        // SAFETY: a valid string. Detached even if somebody still has a file open.
        unsafe { libc::umount2(point.as_ptr(), libc::MNT_DETACH) };
    }
}

fn free_bytes(disk: &Path) -> u64 {
    let stat = rustix::fs::statvfs(disk).unwrap();
    stat.f_bavail * stat.f_frsize
}

/// A file that takes disk space away until it is dropped.
struct Ballast {
    path: PathBuf,
}

impl Ballast {
    fn new(path: PathBuf, bytes: u64) -> io::Result<Self> {
        let file = fs::File::create(&path)?;
        let ballast = Self { path };
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)?;
        Ok(ballast)
    }

    /// Takes all that is left but `bytes`, or nothing if there is less.
    fn all_but(path: PathBuf, bytes: u64) -> Option<Self> {
        // The file system needs some for itself, and the log's background work may
        // be quicker: look again and take a little less.
        for attempt in 0..100 {
            let free = free_bytes(path.parent().unwrap());
            let take = free.checked_sub(bytes + attempt * 4096).filter(|b| *b > 0)?;
            if let Ok(ballast) = Self::new(path.clone(), take) {
                return Some(ballast);
            }
        }
        None
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

// ---- a log on a full disk ----

fn config(root: &Path) -> AofConfig {
    AofConfig::new(root).segment_bytes(64 << 10)
}

fn payload(i: u64) -> Vec<u8> {
    (0..800 + i * 7 % 900).map(|j| (i * 13 + j) as u8).collect()
}

/// Appends and sometimes flushes until the disk is full. Returns the error.
fn fill(log: &Aof) -> AofError {
    let first = log.watermarks().appended;
    for next in first..first + 100_000 {
        let appended = log.append(&payload(next));
        let flushed = if next % 100 == 99 { log.flush() } else { Ok(()) };
        if let Err(error) = appended.and(flushed) {
            return error;
        }
    }
    panic!("the disk never got full");
}

fn expect_full(log: &Aof) {
    let error = fill(log);
    assert!(error.is_disk_full(), "{error}");
    // Still the same answer, to every kind of append.
    let large = vec![1; 60_000];
    let error = log.append(&large).expect_err("no room for this");
    assert!(error.is_disk_full(), "{error}");
    let error = log
        .append_record_with_timeout(&large, &AppendOptions::default(), PATIENCE)
        .expect_err("no room for this");
    assert!(error.is_disk_full(), "{error}");
    match log.append_batch(&[&large], &AppendOptions::default()) {
        Err(AofError::WouldBlock(_)) => {}
        Err(error) if error.is_disk_full() => {}
        other => panic!("no room for this: {other:?}"),
    }
    log.flush().expect("a full disk does not keep anything from being flushed");
    let marks = log.watermarks();
    assert_eq!(marks.appended, marks.durable);
    assert!(!log.metrics().poisoned);
}

/// After space was freed the handle goes on. The answer to the first append may
/// still be that of an attempt made before.
fn expect_healed(log: &Aof) {
    let next = log.watermarks().appended;
    let mut stale = 0;
    loop {
        match log.append(&payload(next)) {
            Ok(_) => break,
            Err(error) if error.is_disk_full() && stale < 3 => stale += 1,
            Err(error) => panic!("there is space again: {error}"),
        }
    }
    log.flush().unwrap();
    assert_eq!(log.watermarks().durable, next + 1);
}

fn check_all(scan: Scan, from: u64, end: u64) {
    assert_eq!(check_prefix(scan, from), end);
}

/// Checks every record and returns the offset behind the last.
fn check_prefix(scan: Scan, from: u64) -> u64 {
    let mut expected = from;
    for record in scan {
        let record = record.expect("reads go on");
        assert_eq!(record.offset, expected);
        assert_eq!(&*record.payload, payload(expected), "record {expected}");
        expected += 1;
    }
    expected
}

fn check_handles(log: &Aof, root: &Path) {
    let (from, end) = (log.earliest_offset(), log.watermarks().durable);
    check_all(log.scan(ScanOptions::default()).unwrap(), from, end);
    let reader = AofReader::open(root).expect("a reader needs no space");
    check_all(reader.scan(ScanOptions::default()).unwrap(), from, end);
}

/// Makes room for names: a directory keeps its blocks. One that cannot grow is what
/// `fill_to_every_edge` looks for.
fn grow_directory(dir: &Path) {
    let names: Vec<_> = (0..3_000).map(|i| dir.join(format!("{i:060}.tmp"))).collect();
    for name in &names {
        fs::write(name, b"").unwrap();
    }
    for name in &names {
        fs::remove_file(name).unwrap();
    }
}

fn fill_and_heal(disk: &Path) {
    let root = disk.join("log");
    let ballast = Ballast::new(disk.join("ballast"), 8 << 20).unwrap();
    let log = Aof::open(config(&root)).unwrap();
    grow_directory(&root.join("segments"));
    expect_full(&log);
    tell(format_args!("full at {} records", log.watermarks().appended));
    check_handles(&log, &root);

    drop(ballast);
    expect_healed(&log);
    expect_full(&log);
    tell(format_args!("full again at {} records", log.watermarks().appended));
    check_handles(&log, &root);

    // Retention makes room as well.
    let half = log.watermarks().durable / 2;
    let policy = RetentionPolicy { before_offset: Some(half), ..Default::default() };
    assert!(log.apply_retention(&policy).unwrap().segments.len() > 50);
    expect_healed(&log);
    expect_full(&log);
    check_handles(&log, &root);
    let (earliest, end) = (log.earliest_offset(), log.watermarks().durable);
    log.close().expect("closing needs no space");
    drop(log);

    let ballast = Ballast::all_but(disk.join("ballast"), 0);
    let reader = AofReader::open(&root).expect("a full disk can be read");
    assert_eq!(reader.closed_cleanly(), Some(true));
    check_all(reader.scan(ScanOptions::default()).unwrap(), earliest, end);
    match Aof::open(config(&root)) {
        Ok(log) => assert_eq!(log.watermarks().durable, end),
        Err(error) => assert!(error.is_disk_full(), "{error}"),
    }
    check_all(reader.scan(ScanOptions::default()).unwrap(), earliest, end);
    drop(ballast);
    let ballast = Ballast::all_but(disk.join("ballast"), 300 << 10);
    let log = Aof::open(config(&root)).expect("with a little space it opens");
    assert_eq!(log.watermarks().durable, end);
    drop(ballast);
    check_handles(&log, &root);
    let policy = RetentionPolicy { before_offset: Some(end), ..Default::default() };
    log.apply_retention(&policy).unwrap();
    expect_healed(&log);
    check_handles(&log, &root);
}

/// Leaves a little more space each time, so that the disk fills up in the middle of
/// every step of a rollover: allocating, naming in a directory that grows, sealing.
fn fill_to_every_edge(disk: &Path) {
    let root = disk.join("log");
    let log = Aof::open(config(&root)).unwrap();
    let rounds = support::setting("AOF2_FULL_DISK_EDGES", 120);
    let (mut removed, mut refused) = (0, 0);
    for round in 0..rounds {
        // Every other time nothing at all: a spare may be there, but not a block for
        // its name in the directory.
        let pages = if round % 2 == 0 { 0 } else { round % 40 };
        let ballast = Ballast::all_but(disk.join("ballast"), pages * 4096);
        let error = fill(&log);
        let place = format!("{pages} pages left in round {round}");
        assert!(error.is_disk_full(), "{place}: {error}");
        if let Err(error) = log.flush() {
            assert!(error.is_disk_full(), "{place}: {error}");
            refused += 1;
        }
        assert!(!log.metrics().poisoned, "{place}: a full disk stopped the stream");
        drop(ballast);
        log.flush().unwrap_or_else(|e| panic!("{place}, now freed: {e}"));
        if free_bytes(disk) < 2 << 20 {
            let half = log.earliest_offset().midpoint(log.watermarks().durable);
            let policy = RetentionPolicy { before_offset: Some(half), ..Default::default() };
            removed += log.apply_retention(&policy).unwrap().segments.len();
        }
        expect_healed(&log);
    }
    let kept = log.segments().len();
    tell(format_args!(
        "full {rounds} times, {refused} flushes refused, {kept} segments kept, {removed} removed"
    ));
    let (earliest, end) = (log.earliest_offset(), log.watermarks().durable);
    check_all(log.scan(ScanOptions::default()).unwrap(), earliest, end);
    drop(log);
    check_all(AofReader::open(&root).unwrap().scan(ScanOptions::default()).unwrap(), earliest, end);
}

// ---- not allowed ----

fn expect_kind(error: Option<AofError>, kinds: &[io::ErrorKind]) {
    let error = error.expect("this must be refused");
    let kind = error.io_source().map(io::Error::kind);
    assert!(kind.is_some_and(|k| kinds.contains(&k)), "{kinds:?} expected: {error}");
}

fn write_some(root: &Path, end: u64) {
    let log = Aof::open(config(root)).unwrap();
    for i in log.watermarks().appended..end {
        log.append(&payload(i)).unwrap();
    }
    log.close().unwrap();
}

fn read_some(root: &Path, end: u64) {
    let reader = AofReader::open(root).expect("a reader writes nothing");
    for visibility in [Visibility::Durable, Visibility::Appended] {
        let options = ScanOptions { visibility, ..Default::default() };
        check_all(reader.scan(options).unwrap(), 0, end);
    }
    assert_eq!(
        reader.watermarks().unwrap(),
        Watermarks { appended: end, durable: end, archived: 0 }
    );
    let mut follow = reader.follow(ScanOptions::default()).unwrap().until_closed();
    for offset in 0..end {
        assert_eq!(follow.next_record(Some(PATIENCE)).unwrap().unwrap().offset, offset);
    }
    assert!(follow.next_record(Some(PATIENCE)).unwrap().is_none(), "a closed log ends");
}

fn use_read_only(disk: &Disk) -> std::result::Result<(), String> {
    let root = disk.path().join("log");
    write_some(&root, 300);
    let catalog_config =
        CatalogConfig { segment_bytes: 64 << 10, ..CatalogConfig::new(disk.path().join("root")) };
    let catalog = Catalog::open(catalog_config.clone()).unwrap();
    catalog.register_db("app", aof2_core::catalog::DbKind::Pages, 0).unwrap().wait().unwrap();
    catalog.checkpoint().unwrap();
    catalog.register_db("later", aof2_core::catalog::DbKind::Pages, 0).unwrap().wait().unwrap();
    drop(catalog);
    disk.remount(true)?;
    expect_kind(Catalog::open(catalog_config.clone()).err(), &[io::ErrorKind::ReadOnlyFilesystem]);
    let reader = CatalogReader::open(&catalog_config.root_dir).unwrap();
    assert!(reader.view().unwrap().database_named("later").unwrap().is_some());
    assert!(reader.changes_from(0).unwrap().next_batch(None).unwrap().is_some());
    expect_kind(reader.feed("named").err(), &[io::ErrorKind::ReadOnlyFilesystem]);
    expect_kind(Aof::open(config(&root)).err(), &[io::ErrorKind::ReadOnlyFilesystem]);
    expect_kind(
        Aof::open(config(&disk.path().join("new"))).err(),
        &[io::ErrorKind::ReadOnlyFilesystem],
    );
    read_some(&root, 300);
    disk.remount(false)?;
    write_some(&root, 400);
    read_some(&root, 400);
    Ok(())
}

/// Gives up being root for good. Does nothing for who is not root.
fn become_nobody() -> std::result::Result<(), String> {
    // SAFETY: plain calls that change the identity of this process only.
    unsafe {
        if libc::geteuid() != 0 {
            return Ok(());
        }
        // What the helper prepares must be root's, what it tries is nobody's.
        prepare_for_nobody(&support::root());
        succeeded(libc::setgroups(0, std::ptr::null()), "setgroups")?;
        succeeded(libc::setresgid(NOBODY, NOBODY, NOBODY), "setresgid")?;
        succeeded(libc::setresuid(NOBODY, NOBODY, NOBODY), "setresuid")
    }
}

fn prepare_for_nobody(root: &Path) {
    write_some(&root.join("open"), 300);
    fs::create_dir(root.join("closed")).unwrap();
    write_some(&root.join("closed/log"), 10);
    for (path, mode) in [("closed", 0o700), ("open", 0o755), (".", 0o755)] {
        fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
}

fn use_without_permission(root: &Path) {
    if !root.join("open").exists() {
        // Not root: our own directories, closed to ourselves.
        prepare_for_nobody(root);
        fs::set_permissions(root.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    }
    let denied = [io::ErrorKind::PermissionDenied];
    expect_kind(Aof::open(config(&root.join("closed/log"))).err(), &denied);
    expect_kind(AofReader::open(root.join("closed/log")).err(), &denied);
    // SAFETY: asks who we are.
    if unsafe { libc::geteuid() } == NOBODY {
        expect_kind(Aof::open(config(&root.join("open"))).err(), &denied);
        expect_kind(Aof::open(config(&root.join("new"))).err(), &denied);
    }
    read_some(&root.join("open"), 300);
    let _ = fs::set_permissions(root.join("closed"), fs::Permissions::from_mode(0o700));
}

#[test]
fn a_path_that_is_no_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"not a log").unwrap();
    let kinds = [io::ErrorKind::NotADirectory, io::ErrorKind::AlreadyExists];
    expect_kind(Aof::open(config(&file)).err(), &kinds);
    expect_kind(Aof::open(config(&file.join("below"))).err(), &kinds);
    assert!(AofReader::open(&file).is_err());
    assert_eq!(fs::read(&file).unwrap(), b"not a log");
    let missing = AofReader::open(dir.path().join("missing"));
    assert!(matches!(missing, Err(AofError::NotALog { .. })), "{missing:?}");
    let empty = AofReader::open(dir.path());
    assert!(matches!(empty, Err(AofError::NotALog { .. })), "{empty:?}");
}
