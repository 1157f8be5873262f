//! The twin behaves as real files do where no power is cut.

use std::io::{self, ErrorKind};
use std::path::Path;

use super::*;
use crate::io::{DirEntry, EntryKind, LockError, OpenMode, OsStorage};

fn kind<T>(result: io::Result<T>) -> Option<ErrorKind> {
    result.err().map(|e| e.kind())
}

/// Runs the same checks on the real file system and on the simulated one.
fn on_both(check: impl Fn(&dyn Storage, &Path)) {
    let dir = tempfile::tempdir().unwrap();
    check(&OsStorage, dir.path());
    let sim = SimStorage::new();
    sim.create_dir_all(Path::new("/some/where")).unwrap();
    check(&sim, Path::new("/some/where"));
}

#[test]
fn file_errors_are_those_of_real_files() {
    on_both(|storage, root| {
        let path = root.join("f");
        let file = storage.create_new(&path).unwrap();
        file.allocate(4096).unwrap();
        assert_eq!(kind(file.map(4097, false)), Some(ErrorKind::UnexpectedEof));
        assert_eq!(kind(file.map_words(4097, true)), Some(ErrorKind::UnexpectedEof));
        assert_eq!(kind(file.map(0, true)), None);
        let mut buf = [0; 2];
        assert_eq!(kind(file.read_exact_at(&mut buf, 4095)), Some(ErrorKind::UnexpectedEof));
        assert_eq!(kind(file.read_exact_at(&mut buf, 1 << 40)), Some(ErrorKind::UnexpectedEof));
        assert_eq!(kind(file.read_exact_at(&mut [], 1 << 40)), None);
        assert_eq!(kind(file.allocate(0)), Some(ErrorKind::InvalidInput));
        assert_eq!(kind(file.punch_hole(0, 0)), Some(ErrorKind::InvalidInput));
        let read_only = storage.open(&path, OpenMode::Read).unwrap();
        let refused = read_only.write_all_at(&[1], 0).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EBADF));
        assert_eq!(kind(read_only.map(1, true)), Some(ErrorKind::PermissionDenied));
        assert_eq!(kind(read_only.map(1, false)), None);
        assert_eq!(kind(read_only.sync()), None);
    });
}

#[test]
fn name_errors_are_those_of_real_files() {
    on_both(|storage, root| {
        let (file, below) = (root.join("f"), root.join("f/below"));
        let (dir, none) = (root.join("dir"), root.join("none"));
        storage.create_new(&file).unwrap();
        storage.create_dir_all(&dir).unwrap();
        storage.create_dir_all(&dir).unwrap();
        let open = |path: &Path| kind(storage.open(path, OpenMode::ReadWrite));
        assert_eq!(open(&none), Some(ErrorKind::NotFound));
        assert_eq!(open(&below), Some(ErrorKind::NotADirectory));
        assert_eq!(open(&dir), Some(ErrorKind::IsADirectory));
        assert_eq!(kind(storage.create_new(&file)), Some(ErrorKind::AlreadyExists));
        assert_eq!(kind(storage.create_new(&dir)), Some(ErrorKind::AlreadyExists));
        assert_eq!(kind(storage.create_new(&none.join("g"))), Some(ErrorKind::NotFound));
        assert_eq!(kind(storage.create_dir_all(&file)), Some(ErrorKind::AlreadyExists));
        assert_eq!(kind(storage.create_dir_all(&below)), Some(ErrorKind::NotADirectory));
        assert_eq!(kind(storage.rename(&none, &file)), Some(ErrorKind::NotFound));
        assert_eq!(kind(storage.rename(&file, &dir)), Some(ErrorKind::IsADirectory));
        assert_eq!(kind(storage.rename(&file, &none.join("g"))), Some(ErrorKind::NotFound));
        assert_eq!(kind(storage.rename(&file, &file)), None);
        assert_eq!(kind(storage.remove(&none)), Some(ErrorKind::NotFound));
        assert_eq!(kind(storage.remove(&dir)), Some(ErrorKind::IsADirectory));
        assert_eq!(kind(storage.list(&file)), Some(ErrorKind::NotADirectory));
        assert_eq!(kind(storage.list(&none)), Some(ErrorKind::NotFound));
        assert_eq!(kind(storage.sync_dir(&none)), Some(ErrorKind::NotFound));
        assert_eq!(kind(storage.exists(&below)), Some(ErrorKind::NotADirectory));
        assert!(!storage.exists(&none).unwrap());
        assert!(storage.exists(&dir).unwrap());
        let lock = storage.lock(&none.join("LOCK")).unwrap_err();
        assert!(matches!(lock, LockError::Io(e) if e.kind() == ErrorKind::NotFound));
    });
}

#[test]
fn files_come_and_go_as_real_ones() {
    on_both(|storage, root| {
        let (a, b) = (root.join("a"), root.join("b"));
        let file = storage.create_new(&a).unwrap();
        file.write_all_at(b"old", 5000).unwrap();
        assert_eq!(file.len().unwrap(), 5003);
        file.zero_range(5001, 9).unwrap();
        assert_eq!(file.len().unwrap(), 5010);
        file.allocate(100).unwrap();
        assert_eq!(file.len().unwrap(), 5010, "allocating never shortens");
        file.punch_hole(0, 1 << 20).unwrap();
        assert_eq!(file.len().unwrap(), 5010, "a hole never lengthens");
        storage.create_new(&b).unwrap().write_all_at(b"new", 0).unwrap();
        storage.rename(&b, &a).unwrap();
        let listed = storage.list(root).unwrap();
        assert_eq!(listed, [DirEntry { name: "a".into(), kind: EntryKind::File }]);
        let mut buf = [0; 3];
        let renamed = storage.open(&a, OpenMode::Read).unwrap();
        renamed.read_exact_at(&mut buf, 0).unwrap();
        assert_eq!(&buf, b"new");
        file.read_exact_at(&mut buf, 5000).unwrap();
        assert_eq!(buf, [0; 3], "the replaced file lives on in its handle");
        let lock = storage.lock(&root.join("LOCK")).unwrap();
        assert!(matches!(storage.lock(&root.join("LOCK")), Err(LockError::Held { .. })));
        drop(lock);
        storage.lock(&root.join("LOCK")).unwrap();
    });
}
