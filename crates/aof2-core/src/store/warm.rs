//! Making compressed files in `warm/`.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;

use super::layout::{Layout, create_anew, temporary_of};
use crate::error::{AofError, Result};
use crate::format::{Crc64, WarmFileName};
use crate::io::{File, Storage};
use crate::planted::{self, StoreBug};
use crate::segment::{Artifact, ArtifactSource, FileSource};

/// Bytes of an artifact that are copied at once.
const COPY_LEN: u64 = 8 << 20;

/// The compressed files of a log. Whoever makes them has the writer's lock.
#[derive(Clone, Copy)]
pub(crate) struct WarmFiles<'a> {
    pub(crate) storage: &'a dyn Storage,
    pub(crate) layout: &'a Layout,
}

impl WarmFiles<'_> {
    /// Makes a compressed file: written, synced and verified under a temporary name. A
    /// crash leaves the temporary, which the next try replaces.
    pub(crate) fn make(
        &self,
        name: &WarmFileName,
        fill: impl FnOnce(&dyn File) -> Result<()>,
    ) -> Result<Artifact> {
        self.make_checked(name, fill, |_| Ok(()))
    }

    /// The same with one more check of the file before it gets its name.
    fn make_checked(
        &self,
        name: &WarmFileName,
        fill: impl FnOnce(&dyn File) -> Result<()>,
        check: impl FnOnce(&Artifact) -> Result<()>,
    ) -> Result<Artifact> {
        let Self { storage, layout } = *self;
        let dir = layout.warm_dir();
        layout.ensure_dir(storage, &dir)?;
        let path = layout.warm_path(name);
        let temporary = temporary_of(&path);
        let write = || {
            let out = create_anew(storage, &temporary)?;
            fill(&*out)?;
            out.sync().map_err(AofError::io("sync compressed segment", &temporary))?;
            if planted::in_store(StoreBug::WarmUnverified) {
                return Ok(());
            }
            let made = self.open(temporary.clone())?;
            made.verify(&mut |_| {})?;
            check(&made)
        };
        if let Err(error) = write() {
            // Half a copy is worth nothing, and may be what fills the disk.
            let _ = storage.remove(&temporary);
            return Err(error);
        }
        storage
            .rename(&temporary, &path)
            .map_err(AofError::io("name compressed segment", &path))?;
        if !planted::in_store(StoreBug::WarmNameUnsynced) {
            storage.sync_dir(&dir).map_err(AofError::io("sync directory", &dir))?;
        }
        self.open(path)
    }

    /// The compressed file of a segment, from an artifact elsewhere. `copied` is told of
    /// every piece, and may end it.
    pub(crate) fn copy(
        &self,
        artifact: &Artifact,
        copied: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Artifact> {
        let name = WarmFileName::of(&artifact.index().summary);
        self.make(&name, |out| {
            self.copy_bytes(artifact, out, &mut |piece| copied(piece.len() as u64))
        })
    }

    /// The same, byte for byte, as far as the checksum that is stored beside the artifact
    /// can tell. Bytes that changed on their way may decompress to the same records.
    pub(super) fn copy_exactly(&self, artifact: &Artifact) -> Result<Artifact> {
        let stored = artifact.source().stored_crc64()?;
        let name = WarmFileName::of(&artifact.index().summary);
        let crc = Cell::new(Crc64::new());
        let fill = |out: &dyn File| {
            self.copy_bytes(artifact, out, &mut |piece| {
                let mut sum = crc.get();
                sum.update(piece);
                crc.set(sum);
                Ok(())
            })
        };
        self.make_checked(&name, fill, |_| {
            let arrived = crc.get().finish();
            match stored.filter(|stored| *stored != arrived) {
                Some(stored) => Err(artifact.damaged_as_whole(format!(
                    "checksum {arrived:#018x} of what arrived, {stored:#018x} is stored with it"
                ))),
                None => Ok(()),
            }
        })
    }

    fn copy_bytes(
        &self,
        artifact: &Artifact,
        out: &dyn File,
        copied: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let source = artifact.source();
        let path = self.layout.warm_path(&WarmFileName::of(&artifact.index().summary));
        let mut at = 0;
        while at < source.len() {
            let end = source.len().min(at + COPY_LEN);
            source.announce(end..source.len().min(end + COPY_LEN));
            let bytes = source.read_at(at, (end - at) as usize)?;
            out.write_all_at(&bytes, at)
                .map_err(AofError::io("write compressed segment", &path))?;
            copied(&bytes)?;
            at = end;
        }
        Ok(())
    }

    /// Reads a compressed file as a whole, its index included, and compares it with what is
    /// known of it. It is opened by its name: the file that is open may have been removed.
    /// `source` stands between the file and whoever reads it; `told` is called for each
    /// frame.
    pub(crate) fn verify(
        &self,
        known: &Artifact,
        source: &dyn Fn(Arc<dyn ArtifactSource>) -> Arc<dyn ArtifactSource>,
        told: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let path = known.source().name();
        let file = Arc::new(FileSource::open(self.storage, path)?);
        let found = Artifact::open(source(file))?;
        if found.index() != known.index() {
            let reason = "its index is not the one it was written with".into();
            return Err(known.damaged_as_whole(reason));
        }
        found.verify(told)
    }

    pub(super) fn open(&self, path: PathBuf) -> Result<Artifact> {
        Artifact::open_file(self.storage, path)
    }
}
