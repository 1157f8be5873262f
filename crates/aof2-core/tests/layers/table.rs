//! The table of layers. A folder within a layer is a part of it with walls of its own: the
//! row `store` is the files of `store/` itself, `store::steps` those of `store/steps/`.

/// Each layer or part, and those that it may use. What a part gives to its parent, others
/// find there: the whole layer is one to those outside, unless they name the part.
#[rustfmt::skip]
pub const LAYERS: &[(&str, &[&str])] = &[
    ("planted", &[]),
    ("format", &["planted"]),
    ("format::artifact", &["format"]),
    ("format::manifest", &["format"]),
    ("format::operation", &["format"]),
    ("io", &[]),
    ("io::sim", &["io"]),
    ("error", &["format", "io", "object"]),
    ("prometheus", &[]),
    ("object", &["error", "format", "format::manifest", "io", "object::s3"]),
    ("object::s3", &["error", "format", "object"]),
    ("object::sim", &["format", "object"]),
    ("sync", &["format", "planted"]),
    ("segment", &["error", "format", "io", "planted"]),
    ("segment::artifact", &["error", "format", "io", "planted", "segment"]),
    ("manifest::chunks", &["error", "format", "format::manifest", "io", "planted"]),
    ("manifest::index", &["format", "format::manifest", "manifest::chunks"]),
    ("manifest::snapshot", &[
        "error", "format::manifest", "io", "manifest::chunks", "manifest::index",
    ]),
    ("manifest::cold", &["error", "format", "format::manifest", "io", "manifest::chunks"]),
    ("manifest::verify", &[
        "error", "format", "format::manifest", "io", "manifest::chunks", "manifest::cold",
        "manifest::snapshot",
    ]),
    ("manifest", &["error", "format", "format::manifest", "manifest::index"]),
    ("manifest::handle", &[
        "error", "format", "format::manifest", "io", "manifest", "manifest::chunks",
        "manifest::cold", "manifest::index", "manifest::snapshot", "planted", "prometheus",
    ]),
    ("bucket", &[
        "error", "format", "format::manifest", "io", "manifest", "object", "planted", "segment",
    ]),
    ("store", &[
        "error", "format", "format::manifest", "io", "manifest", "planted", "segment",
        "store::cold", "store::lineage", "store::steps", "store::transitions", "store::windows",
        "sync",
    ]),
    ("store::windows", &["error", "format", "io", "segment", "store"]),
    ("store::transitions", &[
        "error", "format", "format::manifest", "manifest", "segment", "store",
    ]),
    ("store::cold", &[
        "bucket", "error", "format", "format::manifest", "io", "manifest", "object", "planted",
        "segment", "store",
    ]),
    ("store::lineage", &["error", "format", "io", "planted", "segment", "store", "store::cold"]),
    ("store::steps", &[
        "bucket", "error", "format", "format::manifest", "io", "manifest", "planted", "segment",
        "store", "store::transitions",
    ]),
    ("read", &[
        "bucket", "error", "format", "io", "object", "read::cursor", "segment", "store", "sync",
    ]),
    ("read::cursor", &["error", "format", "read", "segment", "store", "sync"]),
    ("fork", &["error", "format", "io", "planted", "read", "segment", "store"]),
    ("write", &[
        "error", "format", "io", "manifest", "planted", "prometheus", "read", "segment",
        "store", "sync",
    ]),
    ("check::verify", &[
        "bucket", "error", "format", "io", "read", "segment", "store", "sync", "write",
    ]),
    ("check::scrub", &[
        "bucket", "error", "format", "io", "manifest", "object", "read", "segment", "store",
        "write",
    ]),
    ("check", &[
        "bucket", "check::verify", "error", "format", "io", "manifest", "object", "read",
        "segment", "store",
    ]),
    ("tier", &[
        "bucket", "check", "error", "format", "io", "object", "planted", "read", "segment",
        "store", "write",
    ]),
    ("tier::status", &["object", "prometheus", "store", "tier", "write"]),
    ("manager::aof", &[
        "check", "error", "format", "manifest", "read", "store", "sync", "tier", "write",
    ]),
    ("manager", &[
        "error", "io", "manager::aof", "manifest", "object", "prometheus", "store", "tier",
        "write",
    ]),
    ("catalog", &[
        "catalog::apply", "error", "format", "format::operation", "io", "manager", "object",
        "planted", "prometheus", "read", "store", "sync", "write",
    ]),
    ("catalog::apply", &["catalog", "error", "format", "format::operation", "io", "planted"]),
    ("catalog::history", &["catalog", "error", "format", "format::operation", "io", "read"]),
];

/// Layers that use something above them: who, what, in which files, and why that stays.
pub const CIRCLES: &[(&str, &str, &[&str], &str)] = &[
    ("error", "object", &["error.rs"], "wraps the errors of the layers below, which name it"),
    ("object", "object::s3", &["blocking.rs"], "an address is opened by what it names"),
    (
        "store",
        "store::cold",
        &["identity.rs", "kept_index.rs", "state.rs", "survey.rs"],
        "an open log has its bucket, and copies are found there",
    ),
    (
        "store",
        "store::lineage",
        &["apply.rs", "state.rs", "survey.rs"],
        "a fork has segments of its parent, and forks hold segments",
    ),
    ("store", "store::steps", &["apply.rs"], "apply calls the step of each change"),
    ("store", "store::transitions", &["state.rs"], "an open log has its manifest"),
    ("store", "store::windows", &["entry.rs", "table.rs"], "the table keeps windows of entries"),
    ("read", "read::cursor", &["readable.rs", "scan.rs"], "a scan is made of a cursor"),
    (
        "catalog",
        "catalog::apply",
        &["engine.rs", "replay.rs"],
        "operations are applied to the tables that they change",
    ),
];

/// Uses against the table that stay, each with its reason.
pub const EXCEPTIONS: &[(&str, &str, &str)] =
    &[("io/mod.rs", "object", "where users of the crate found the object store before")];

/// Most files of a row, tests not counted.
pub const FILES_MAX: usize = 25;

/// Rows that are larger, and how large they may be.
pub const LARGE: &[(&str, usize)] = &[("catalog", 29)];
