//! Why a request to the object store failed, and what follows from it.

use std::fmt;

use crate::format::manifest::ReasonCode;

/// What a request asks for; the name under which metrics count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ObjectOp {
    /// [`ObjectStore::put_new`](crate::object::store::ObjectStore::put_new).
    Put,
    /// [`ObjectStore::head`](crate::object::store::ObjectStore::head).
    Head,
    /// [`ObjectStore::get_range`](crate::object::store::ObjectStore::get_range) and `get_suffix`.
    Get,
    /// [`ObjectStore::list_page`](crate::object::store::ObjectStore::list_page).
    List,
    /// [`ObjectStore::delete`](crate::object::store::ObjectStore::delete).
    Delete,
    /// [`ObjectStore::multipart_begin`](crate::object::store::ObjectStore::multipart_begin).
    MultipartBegin,
    /// [`ObjectStore::multipart_part`](crate::object::store::ObjectStore::multipart_part).
    MultipartPart,
    /// [`ObjectStore::multipart_finish`](crate::object::store::ObjectStore::multipart_finish).
    MultipartFinish,
    /// [`ObjectStore::multipart_abort`](crate::object::store::ObjectStore::multipart_abort).
    MultipartAbort,
    /// [`ObjectStore::multipart_list`](crate::object::store::ObjectStore::multipart_list).
    MultipartList,
    /// [`ObjectStore::probe`](crate::object::store::ObjectStore::probe).
    Probe,
}

impl ObjectOp {
    /// All of them, in the order of their index.
    pub const ALL: [Self; 11] = [
        Self::Put,
        Self::Head,
        Self::Get,
        Self::List,
        Self::Delete,
        Self::MultipartBegin,
        Self::MultipartPart,
        Self::MultipartFinish,
        Self::MultipartAbort,
        Self::MultipartList,
        Self::Probe,
    ];

    /// The name in metrics and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Head => "head",
            Self::Get => "get",
            Self::List => "list",
            Self::Delete => "delete",
            Self::MultipartBegin => "multipart_begin",
            Self::MultipartPart => "multipart_part",
            Self::MultipartFinish => "multipart_finish",
            Self::MultipartAbort => "multipart_abort",
            Self::MultipartList => "multipart_list",
            Self::Probe => "probe",
        }
    }

    pub(super) const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for ObjectOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What kind of failure it is: a kind exists where a caller would act differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ObjectErrorKind {
    /// There is no such object or upload.
    NotFound,
    /// There is no such bucket: the store answers, and will go on saying so until somebody
    /// creates it.
    NoSuchBucket,
    /// The key is taken, by other bytes than the ones to be stored.
    Exists,
    /// The credentials are missing, refused or expired.
    Denied,
    /// The store asks for fewer requests; this one was not carried out.
    Throttled,
    /// The store or the way to it is down. Whether the request was carried out is
    /// not known.
    Unavailable,
    /// No answer in time. Whether the request was carried out is not known.
    Timeout,
    /// Bytes that arrived are not the ones that were sent.
    Corrupt,
    /// The store will never do what was asked.
    InvalidRequest,
}

impl ObjectErrorKind {
    const fn describe(self) -> &'static str {
        match self {
            Self::NotFound => "not found",
            Self::NoSuchBucket => "there is no such bucket; create it, or correct its address",
            Self::Exists => "the key is taken by other bytes",
            Self::Denied => "access denied; check the credentials and the bucket's policy",
            Self::Throttled => "the store asks for fewer requests",
            Self::Unavailable => "the store is unavailable",
            Self::Timeout => "no answer in time",
            Self::Corrupt => "bytes were damaged on the way",
            Self::InvalidRequest => "the store refuses the request",
        }
    }
}

/// A request that failed.
///
/// `detail` is the store's own code and message or the transport's, never a
/// request's headers: no secret can be in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectError {
    /// What kind of failure.
    pub kind: ObjectErrorKind,
    /// What was asked for.
    pub op: ObjectOp,
    /// The key or the prefix it was asked about.
    pub key: String,
    /// What the store or the transport said.
    pub detail: String,
    /// How long the store asks to be left alone.
    pub retry_after_ms: Option<u64>,
    is_retryable: bool,
    is_of_store: bool,
    is_outage: bool,
    is_alone: bool,
}

/// What a request gives.
pub type ObjectResult<T> = std::result::Result<T, ObjectError>;

/// A message of a server is shown up to here.
const DETAIL_LEN_MAX: usize = 300;

impl ObjectError {
    /// A failure; whether another try can help follows from its kind.
    pub fn new(kind: ObjectErrorKind, op: ObjectOp, key: &str, detail: &str) -> Self {
        let is_retryable = matches!(
            kind,
            ObjectErrorKind::Throttled
                | ObjectErrorKind::Unavailable
                | ObjectErrorKind::Timeout
                | ObjectErrorKind::Corrupt
        );
        let is_of_store = matches!(
            kind,
            ObjectErrorKind::Throttled | ObjectErrorKind::Unavailable | ObjectErrorKind::Timeout
        );
        let detail = detail.chars().filter(|c| !c.is_control()).take(DETAIL_LEN_MAX).collect();
        Self {
            kind,
            op,
            key: key.to_owned(),
            detail,
            retry_after_ms: None,
            is_retryable,
            is_of_store,
            is_outage: false,
            is_alone: false,
        }
    }

    /// Says that it concerns this key alone, where the kind does not tell: somebody else
    /// is at it.
    #[must_use]
    pub fn of_key(mut self) -> Self {
        self.is_of_store = false;
        self
    }

    /// Says whether the store answers nobody, and whether it answered nothing like it.
    #[must_use]
    pub(super) fn blame_store(mut self, is_outage: bool, is_alone: bool) -> Self {
        self.is_outage = is_outage;
        self.is_alone = is_alone;
        self
    }

    /// Says whether another try can help where the kind alone does not tell:
    /// expired credentials are replaced by the chain they come from.
    #[must_use]
    pub fn retryable(mut self, is_retryable: bool) -> Self {
        self.is_retryable = is_retryable;
        self
    }

    /// How long the store asks to be left alone.
    #[must_use]
    pub fn retry_after_ms(mut self, retry_after_ms: Option<u64>) -> Self {
        self.retry_after_ms = retry_after_ms;
        self
    }

    /// Whether the same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        self.is_retryable
    }

    /// Whether it may be the store as a whole that fails, and not what was asked of it.
    pub fn is_of_store(&self) -> bool {
        self.is_of_store
    }

    /// Whether the store was found to answer nobody: another try is due when it is back,
    /// and not before.
    pub fn is_outage(&self) -> bool {
        self.is_outage
    }

    /// Whether nothing like it was answered while it was tried: the store is there, but may
    /// be unable to do such things.
    pub fn may_be_of_all(&self) -> bool {
        self.is_alone
    }

    /// Whether the request may have been carried out all the same.
    pub fn may_be_carried_out(&self) -> bool {
        matches!(self.kind, ObjectErrorKind::Unavailable | ObjectErrorKind::Timeout)
    }

    /// The reason as the manifest records it.
    pub fn reason(&self) -> ReasonCode {
        match self.kind {
            ObjectErrorKind::Denied => ReasonCode::AUTH,
            ObjectErrorKind::Unavailable => ReasonCode::UNAVAILABLE,
            ObjectErrorKind::NotFound | ObjectErrorKind::NoSuchBucket => ReasonCode::MISSING,
            _ => ReasonCode::TRANSIENT,
        }
    }
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { op, key, kind, detail, .. } = self;
        write!(f, "{op} of {key:?} in the cold tier failed: {}", kind.describe())?;
        if detail.is_empty() { Ok(()) } else { write!(f, " ({detail})") }
    }
}

impl std::error::Error for ObjectError {}
