//! Making records durable, and waiting until they are.

use std::time::Duration;

use super::{Aof, deadline};
use crate::error::{AofError, Result};
use crate::format::RecordId;
use crate::read::Visibility;
use crate::sync::{Position, Watermark};

/// A level of safety to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Level {
    /// In the page cache.
    Appended,
    /// On disk.
    Durable,
    /// In the object store. Only sealed segments get there.
    Archived,
}

impl Aof {
    /// Returns when everything appended before the call is durable.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.append(b"hello")?;
    /// log.flush()?;
    /// assert_eq!(log.watermarks().durable, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn flush(&self) -> Result<()> {
        let position = self.stream().appended().position();
        self.stream().flush_until(position, None)
    }

    /// Returns when this record is durable; `Timeout` if that takes longer.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// let first = log.append(b"first")?;
    /// log.append(b"second")?;
    /// log.flush_until(first, None)?;
    /// assert!(log.watermarks().durable >= 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn flush_until(&self, id: RecordId, timeout: Option<Duration>) -> Result<()> {
        let position = self.position_after(id)?;
        self.stream().flush_until(position, timeout.and_then(deadline))
    }

    /// End of what is appended now, to wait for with [`Aof::flush_to`].
    pub fn appended_position(&self) -> Position {
        self.stream().appended().position()
    }

    /// Returns when everything before this position is durable; `Timeout` if that
    /// takes longer. Several calls may wait for one position.
    ///
    /// ```
    /// use std::time::Duration;
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.append(b"hello")?;
    /// let position = log.appended_position();
    /// log.flush_to(position, Some(Duration::from_secs(10)))?;
    /// assert_eq!(log.watermarks().durable, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn flush_to(&self, position: Position, timeout: Option<Duration>) -> Result<()> {
        self.stream().flush_until(position, timeout.and_then(deadline))
    }

    /// [`Aof::flush`] without blocking a thread.
    pub async fn flush_async(&self) -> Result<()> {
        let position = self.stream().appended().position();
        self.stream().flush_until_async(position).await
    }

    /// [`Aof::flush_until`] without blocking a thread.
    pub async fn flush_until_async(&self, id: RecordId) -> Result<()> {
        let position = self.position_after(id)?;
        self.stream().flush_until_async(position).await
    }

    fn position_after(&self, id: RecordId) -> Result<Position> {
        if !self.stream().appended().position().covers(id) {
            return Err(AofError::NoSuchRecord(id));
        }
        Ok(Position::from_u64(id.as_u64() + 1))
    }

    /// Waits until the stream has reached logical offset `count` on this level,
    /// without causing a flush. `false` when the time is up.
    ///
    /// ```
    /// use aof2_core::Level;
    /// use std::time::Duration;
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.append(b"flushed in the background")?;
    /// assert!(log.wait(Level::Durable, 1, Some(Duration::from_secs(10)))?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait(&self, level: Level, count: u64, timeout: Option<Duration>) -> Result<bool> {
        let stream = self.stream();
        stream.check_not_forked()?;
        let watermark = self.watermark(level)?;
        let reached = || self.has_come(level, count);
        match watermark.wait(timeout.and_then(deadline), reached) {
            None => Ok(false),
            Some(true) => Ok(true),
            Some(false) => Err(stream.refusal().unwrap_or(AofError::Closed)),
        }
    }

    /// [`Aof::wait`] without blocking a thread. Loop over it to subscribe to every
    /// change.
    pub async fn wait_async(&self, level: Level, count: u64) -> Result<()> {
        let stream = self.stream();
        stream.check_not_forked()?;
        let watermark = self.watermark(level)?;
        match watermark.wait_async(|| self.has_come(level, count)).await {
            true => Ok(()),
            false => Err(stream.refusal().unwrap_or(AofError::Closed)),
        }
    }

    /// [`Aof::wait`] for one record.
    pub fn wait_record(
        &self,
        level: Level,
        id: RecordId,
        timeout: Option<Duration>,
    ) -> Result<bool> {
        let stream = self.stream();
        stream.check_not_forked()?;
        let watermark = self.watermark(level)?;
        let reached = || self.has_come_to(level, watermark, id);
        match watermark.wait(timeout.and_then(deadline), reached) {
            None => Ok(false),
            Some(true) => Ok(true),
            Some(false) => Err(stream.refusal().unwrap_or(AofError::Closed)),
        }
    }

    /// [`Aof::wait_async`] for one record.
    pub async fn wait_record_async(&self, level: Level, id: RecordId) -> Result<()> {
        let stream = self.stream();
        stream.check_not_forked()?;
        let watermark = self.watermark(level)?;
        match watermark.wait_async(|| self.has_come_to(level, watermark, id)).await {
            true => Ok(()),
            false => Err(stream.refusal().unwrap_or(AofError::Closed)),
        }
    }

    fn watermark(&self, level: Level) -> Result<&Watermark> {
        let stream = self.stream();
        match level {
            Level::Appended => Ok(stream.watermark(Visibility::Appended)),
            Level::Durable => Ok(stream.watermark(Visibility::Durable)),
            Level::Archived if stream.store().has_cold_tier() => Ok(stream.store().archived()),
            Level::Archived => Err(AofError::InvalidConfig {
                field: "cold",
                reason: "this log was opened without a cold tier, so nothing is archived".into(),
            }),
        }
    }

    /// Whether a level covers a record; `false` once it never will.
    fn has_come_to(&self, level: Level, watermark: &Watermark, id: RecordId) -> Option<bool> {
        if watermark.position().covers(id) {
            return Some(true);
        }
        // Lets the appends be seen, and says whether there will be any.
        self.has_come(level, u64::MAX)
    }

    /// Whether the stream has reached `count` on a level; `false` once it never will.
    fn has_come(&self, level: Level, count: u64) -> Option<bool> {
        match level {
            Level::Appended => self.stream().has_reached(Visibility::Appended, count),
            Level::Durable => self.stream().has_reached(Visibility::Durable, count),
            Level::Archived if self.stream().store().archived().count() >= count => Some(true),
            Level::Archived => self.stream().is_stopped().then_some(false),
        }
    }
}
