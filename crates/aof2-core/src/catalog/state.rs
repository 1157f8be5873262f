//! The tables as operations see and change them: what was committed, and what the batch in
//! the making changes about it.
//!
//! Nothing here writes a table. A group of operations is taken or refused as a whole, and the
//! changes of a batch reach the tables once the batch is durable in the operation log. So the
//! tables are never ahead of the log, and a refused operation leaves no trace.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::records::{Number, Row, RowFault};
use super::tables::{self, Counter, Key, Table};
use crate::error::{AofError, Result};

/// What changes in the tables: a new value, or none.
pub(super) type Changes = BTreeMap<(Table, Key), Option<Vec<u8>>>;

/// A visitor of rows; `false` ends the walk.
pub(super) type Visit<'v> = &'v mut dyn FnMut(&[u8], &[u8]) -> Result<bool>;

/// Tables that can be read.
pub(super) trait ReadTables {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// Rows whose keys start with the prefix, in order.
    fn walk(&self, table: Table, prefix: &[u8], visit: Visit<'_>) -> Result<()>;
}

/// A row that cannot be read, as an error of the catalog.
pub(super) fn row_error(table: Table, fault: RowFault) -> AofError {
    match fault {
        RowFault::Newer { found, known } => AofError::NewerVersion {
            what: format!("a row of the catalog's table {}", table.name()),
            found: u32::from(found),
            known: u32::from(known),
        },
        RowFault::Damaged => refused(format!("a row of table {} is damaged", table.name())),
    }
}

/// An operation that cannot be done.
pub(super) fn refused(reason: impl Into<String>) -> AofError {
    AofError::Refused { reason: reason.into() }
}

/// How far ahead of the next number one may be that a caller chose.
const NUMBERS_AHEAD_MAX: u64 = 1 << 16;

/// A number that a caller chose must leave some for those who come next.
pub(super) fn check_number(number: u64, next: u64) -> Result<()> {
    match number == u64::MAX || number > next.saturating_add(NUMBERS_AHEAD_MAX) {
        true => Err(refused(format!("the number {number} is too far ahead; the next is {next}"))),
        false => Ok(()),
    }
}

pub(super) fn decode<R: Row>(table: Table, bytes: &[u8]) -> Result<R> {
    R::decode(bytes).map_err(|fault| row_error(table, fault))
}

/// Typed reads of anything that has tables.
pub(super) trait ReadRows: ReadTables {
    fn row<R: Row>(&self, table: Table, key: &[u8]) -> Result<Option<R>> {
        self.get(table, key)?.map(|bytes| decode(table, &bytes)).transpose()
    }

    /// All rows with a prefix. For those of which there are few.
    fn rows<R: Row>(&self, table: Table, prefix: &[u8]) -> Result<Vec<(Key, R)>> {
        let mut rows = Vec::new();
        self.walk(table, prefix, &mut |key, value| {
            rows.push((key.to_vec(), decode(table, value)?));
            Ok(true)
        })?;
        Ok(rows)
    }

    /// The number that comes next.
    fn next(&self, counter: Counter) -> Result<u64> {
        let number = self.row::<Number>(Table::Counters, &tables::counter(counter))?;
        Ok(number.map_or(1, |Number(next)| next))
    }
}

impl<T: ReadTables + ?Sized> ReadRows for T {}

/// The committed tables, and a batch in the making.
pub(super) struct State<'t> {
    base: &'t dyn ReadTables,
    /// Changes of the groups that were taken.
    batch: Changes,
    /// Changes of the group that is being looked at.
    group: Changes,
    /// The first job that this process enqueued.
    pub(super) opened_at: u64,
    #[cfg(test)]
    pub(super) without: Option<Table>,
}

impl<'t> State<'t> {
    pub(super) fn new(base: &'t dyn ReadTables) -> Self {
        Self {
            base,
            batch: Changes::new(),
            group: Changes::new(),
            opened_at: 0,
            #[cfg(test)]
            without: None,
        }
    }

    /// The group holds.
    pub(super) fn take_group(&mut self) {
        self.batch.append(&mut self.group);
    }

    /// The group never happened.
    pub(super) fn drop_group(&mut self) {
        self.group.clear();
    }

    /// What the batch changes.
    pub(super) fn into_changes(self) -> Changes {
        self.batch
    }

    pub(super) fn changes_count(&self) -> usize {
        self.batch.len()
    }

    pub(super) fn put<R: Row>(&mut self, table: Table, key: Key, row: &R) {
        #[cfg(test)]
        if self.without == Some(table) {
            return;
        }
        self.group.insert((table, key), Some(row.encode()));
    }

    pub(super) fn delete(&mut self, table: Table, key: Key) {
        self.group.insert((table, key), None);
    }

    /// The number is taken: the next one comes behind it.
    pub(super) fn use_number(&mut self, counter: Counter, number: u64) -> Result<()> {
        let next = self.next(counter)?;
        check_number(number, next)?;
        if number >= next {
            let key = tables::counter(counter);
            self.put(Table::Counters, key, &Number(number.saturating_add(1)));
        }
        Ok(())
    }

    /// Changes of rows with a prefix, the group's before the batch's.
    fn changed(&self, table: Table, prefix: &[u8]) -> BTreeMap<Key, Option<Vec<u8>>> {
        let mut changed = BTreeMap::new();
        for changes in [&self.batch, &self.group] {
            let start = Bound::Included((table, prefix.to_vec()));
            let rows = changes.range((start, Bound::Unbounded));
            let rows = rows.take_while(|((t, key), _)| *t == table && key.starts_with(prefix));
            changed.extend(rows.map(|((_, key), value)| (key.clone(), value.clone())));
        }
        changed
    }
}

impl ReadTables for State<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let place = (table, key.to_vec());
        match self.group.get(&place).or_else(|| self.batch.get(&place)) {
            Some(changed) => Ok(changed.clone()),
            None => self.base.get(table, key),
        }
    }

    fn walk(&self, table: Table, prefix: &[u8], visit: Visit<'_>) -> Result<()> {
        let mut changed = self.changed(table, prefix).into_iter().peekable();
        let mut goes_on = true;
        self.base.walk(table, prefix, &mut |key, value| {
            while let Some((new_key, new_value)) = changed.next_if(|(k, _)| &**k < key) {
                if let Some(new_value) = new_value {
                    goes_on = visit(&new_key, &new_value)?;
                    if !goes_on {
                        return Ok(false);
                    }
                }
            }
            goes_on = match changed.next_if(|(k, _)| &**k == key) {
                Some((_, Some(new_value))) => visit(key, &new_value)?,
                Some((_, None)) => true,
                None => visit(key, value)?,
            };
            Ok(goes_on)
        })?;
        for (key, value) in changed {
            match value {
                Some(value) if goes_on => goes_on = visit(&key, &value)?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Tables in memory: what a model is compared with.
impl ReadTables for BTreeMap<(Table, Key), Vec<u8>> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(BTreeMap::get(self, &(table, key.to_vec())).cloned())
    }

    fn walk(&self, table: Table, prefix: &[u8], visit: Visit<'_>) -> Result<()> {
        for ((t, key), value) in self.range((table, prefix.to_vec())..) {
            if *t != table || !key.starts_with(prefix) || !visit(key, value)? {
                break;
            }
        }
        Ok(())
    }
}
