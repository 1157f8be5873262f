//! What differs between two states, row by row.

use std::collections::BTreeMap;

use super::rows::row_values;
use crate::catalog::state::ReadTables;
use crate::catalog::tables::Table;
use crate::catalog::view::View;
use crate::error::Result;
use crate::format::operation::Value;

/// A row that is not the same in two states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowChange {
    /// Its table.
    pub table: Table,
    /// The row in the first state, if it was there: a value for each column.
    pub before: Option<Vec<Value>>,
    /// The row in the second state, if it is there.
    pub after: Option<Vec<Value>>,
}

impl View {
    /// The rows of a table that are not the same in a later state, in the order of their keys.
    ///
    /// ```
    /// use aof2_core::catalog::{DbKind, Table};
    /// use aof2_core::{Catalog, CatalogConfig};
    /// # let dir = tempfile::tempdir()?;
    /// let catalog = Catalog::open(CatalogConfig::new(dir.path()))?;
    /// let before = catalog.view()?;
    /// catalog.register_db("app", DbKind::Pages, 0)?.wait()?;
    /// let changes = before.changes_to(&catalog.view()?, Table::Db)?;
    /// assert!(changes.len() == 1 && changes[0].before.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn changes_to(&self, later: &Self, table: Table) -> Result<Vec<RowChange>> {
        let mut before = BTreeMap::new();
        self.walk(table, &[], &mut |key, value| {
            before.insert(key.to_vec(), value.to_vec());
            Ok(true)
        })?;
        let mut changed = BTreeMap::new();
        later.walk(table, &[], &mut |key, value| {
            let old = before.remove(key);
            if old.as_deref() != Some(value) {
                changed.insert(key.to_vec(), (old, Some(value.to_vec())));
            }
            Ok(true)
        })?;
        changed.extend(before.into_iter().map(|(key, old)| (key, (Some(old), None))));
        let row = |key: &[u8], value: Option<Vec<u8>>| {
            value.map(|value| row_values(table, key, &value)).transpose()
        };
        changed
            .into_iter()
            .map(|(key, (old, new))| {
                Ok(RowChange { table, before: row(&key, old)?, after: row(&key, new)? })
            })
            .collect()
    }
}
