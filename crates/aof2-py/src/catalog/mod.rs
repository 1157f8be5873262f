//! The catalog of a directory of logs: deciding, reading, the change feed, the operation log.
//!
//! [`base`] is what writers and readers have in common, [`writer`] and [`reader`] are the two
//! handles; what can be decided is in [`databases`], [`jobs`], [`chunks`], [`snapshots`] and
//! [`intents`]. Rows of a [`view`] come as [`values`], as dataclasses through [`reads`], and
//! as Arrow data through [`table`].

mod arrays;
mod base;
mod chunks;
mod databases;
mod feed;
mod inputs;
mod intents;
mod jobs;
mod operation;
mod operations;
mod options;
mod pending;
mod reader;
mod reads;
mod reports;
mod snapshots;
mod table;
mod values;
mod view;
mod writer;

pub use self::base::ReadableCatalog;
pub use self::feed::CatalogFeed;
pub use self::operations::CatalogOperations;
pub use self::pending::Pending;
pub use self::reader::CatalogReader;
pub use self::table::CatalogTable;
pub use self::view::CatalogView;
pub use self::writer::Catalog;

/// Where the dataclasses are.
const TYPES: &str = "aof2.catalog";
