//! Work on objects, found by the object's key without copying it.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::format::manifest::{PendingDelete, PendingUpload};

/// Something that knows its object's key.
pub trait Keyed {
    /// Key of the object.
    fn key(&self) -> &str;
}

impl Keyed for PendingUpload {
    fn key(&self) -> &str {
        &self.key
    }
}

impl Keyed for PendingDelete {
    fn key(&self) -> &str {
        &self.key
    }
}

/// At most one of `T` for each key, in the order of keys.
#[derive(Clone, Debug)]
pub struct KeyedSet<T: Keyed> {
    set: BTreeSet<ByKey<T>>,
}

impl<T: Keyed> KeyedSet<T> {
    pub fn get(&self, key: &str) -> Option<&T> {
        self.set.get(key).map(|found| &found.0)
    }

    /// Takes the one with this key out; `None` costs nothing but the search.
    pub fn take(&mut self, key: &str) -> Option<T> {
        // Most of the time nothing is pending.
        if self.set.is_empty() { None } else { self.set.take(key).map(|found| found.0) }
    }

    /// Puts one in, in place of one with the same key.
    pub fn insert(&mut self, value: T) {
        self.set.replace(ByKey(value));
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.set.iter().map(|found| &found.0)
    }
}

impl<T: Keyed> Default for KeyedSet<T> {
    fn default() -> Self {
        Self { set: BTreeSet::new() }
    }
}

impl<T: Keyed> FromIterator<T> for KeyedSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self { set: values.into_iter().map(ByKey).collect() }
    }
}

/// Compares by key alone, so that a set can be searched with a borrowed key.
#[derive(Clone, Debug)]
struct ByKey<T>(T);

impl<T: Keyed> Borrow<str> for ByKey<T> {
    fn borrow(&self) -> &str {
        self.0.key()
    }
}

impl<T: Keyed> PartialEq for ByKey<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0.key() == other.0.key()
    }
}

impl<T: Keyed> Eq for ByKey<T> {}

impl<T: Keyed> PartialOrd for ByKey<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Keyed> Ord for ByKey<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key().cmp(other.0.key())
    }
}
