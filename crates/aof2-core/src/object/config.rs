//! Configuration of the cold tier. Flat, validated, every default with its reason.
//! It holds no secret: see [`ColdSecrets`](crate::object::secret::ColdSecrets).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::error::{AofError, Result};

/// Where environment variables are looked up.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Parts of a multipart upload are at least this long; S3 refuses smaller ones.
const MULTIPART_BYTES_MIN: u64 = 5 << 20;
/// What a single put may be; S3 refuses more.
const MULTIPART_BYTES_MAX: u64 = 5 << 30;
/// S3 keeps 2 KiB of metadata; ours take some of it.
const METADATA_LEN_MAX: usize = 1024;

/// How the store encrypts objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sse {
    /// As the bucket's own default says.
    #[default]
    None,
    /// With the store's keys (SSE-S3).
    S3,
    /// With a key of the key management service (SSE-KMS), the account's default one
    /// where none is named.
    Kms {
        /// Name of the key.
        key_id: Option<String>,
    },
    /// With a key of ours that is sent along (SSE-C): 32 bytes in base64, taken from
    /// `AOF2_COLD_SSE_KEY`. Without it nothing can be read back.
    Customer,
}

impl fmt::Display for Sse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::S3 => f.write_str("s3"),
            Self::Kms { key_id: None } => f.write_str("kms"),
            Self::Kms { key_id: Some(key_id) } => write!(f, "kms:{key_id}"),
            Self::Customer => f.write_str("customer"),
        }
    }
}

/// `none`, `s3`, `kms`, `kms:key-id` or `customer`.
impl FromStr for Sse {
    type Err = AofError;

    fn from_str(text: &str) -> Result<Self> {
        match text.split_once(':') {
            None if text == "none" => Ok(Self::None),
            None if text == "s3" => Ok(Self::S3),
            None if text == "kms" => Ok(Self::Kms { key_id: None }),
            None if text == "customer" => Ok(Self::Customer),
            Some(("kms", key_id)) if !key_id.is_empty() => {
                Ok(Self::Kms { key_id: Some(key_id.to_owned()) })
            }
            // The text is not repeated: somebody may have put a key there.
            _ => Err(invalid("sse", "must be none, s3, kms, kms:KEY_ID or customer")),
        }
    }
}

/// `s3://bucket/prefix`, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColdUrl {
    /// The bucket.
    pub bucket: String,
    /// What every key starts with, without slashes at its ends; may be empty.
    pub prefix: String,
}

impl ColdUrl {
    /// The key of something below the prefix.
    pub fn key(&self, name: &str) -> String {
        if self.prefix.is_empty() { name.to_owned() } else { format!("{}/{name}", self.prefix) }
    }
}

impl fmt::Display for ColdUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}", self.key_of_bucket())
    }
}

impl ColdUrl {
    fn key_of_bucket(&self) -> String {
        if self.prefix.is_empty() {
            self.bucket.clone()
        } else {
            format!("{}/{}", self.bucket, self.prefix)
        }
    }
}

impl FromStr for ColdUrl {
    type Err = AofError;

    fn from_str(text: &str) -> Result<Self> {
        let Some(rest) = text.strip_prefix("s3://") else {
            return Err(invalid("cold", "must look like s3://bucket/prefix"));
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        // Lower-case names are S3's rule; other stores have older buckets.
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if !(3..=255).contains(&bucket.len()) || !bucket.chars().all(is_name) {
            return Err(invalid("cold", "the bucket's name is missing or not allowed"));
        }
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        let is_part = |part: &str| {
            !matches!(part, "" | "." | "..") && !part.chars().any(|c| c.is_control() || c == '\\')
        };
        if !prefix.is_empty() && !prefix.split('/').all(is_part) {
            let reason = "the prefix has an empty part, a \".\" or \"..\", or a control character";
            return Err(invalid("cold", reason));
        }
        if prefix.len() > 512 {
            return Err(invalid("cold", "the prefix is longer than 512 bytes"));
        }
        Ok(Self { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }
}

/// Everything the cold tier can be told about its store.
///
/// ```
/// use aof2_core::object::ColdConfig;
/// let config = ColdConfig::new("s3://bucket/logs").with_env()?;
/// config.validate()?;
/// assert_eq!(config.location()?.prefix, "logs");
/// # Ok::<(), aof2_core::AofError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColdConfig {
    /// `s3://bucket/prefix`.
    pub url: String,
    /// Address of the store, such as `https://minio.example:9000`; S3 itself by
    /// default. `AOF2_COLD_ENDPOINT` overrides it.
    pub endpoint: Option<String>,
    /// Region, by default what the standard chain says, or else `us-east-1`, which
    /// stores without regions take. `AOF2_COLD_REGION` overrides it.
    pub region: Option<String>,
    /// The bucket stands in the path and not in the host's name. By default so where
    /// an endpoint is named, because most of those have one host name only.
    /// `AOF2_COLD_PATH_STYLE` (`true`, `false`) overrides it.
    pub path_style: Option<bool>,
    /// How the store encrypts objects. `AOF2_COLD_SSE` overrides it.
    pub sse: Sse,
    /// Whether nothing else ever writes below the prefix: needed to write to a store that
    /// cannot refuse to create what exists, where two writers could both succeed. `false`
    /// by default. `AOF2_COLD_EXCLUSIVE` (`true`, `false`) overrides it.
    pub exclusive: bool,
    /// Metadata of every object.
    pub metadata: BTreeMap<String, String>,
    /// Longest time one request may take with its answer. 30 s by default: a part of
    /// 16 MiB then needs half a megabyte a second.
    pub request_timeout_ms: u64,
    /// Longest time an operation may take with all its retries and the wait for its
    /// turn. 2 minutes by default; a multipart upload is many operations.
    pub operation_timeout_ms: u64,
    /// Objects longer than this are uploaded in parts of this size. 16 MiB by
    /// default: large enough that a request's own cost is small, small enough that
    /// losing one costs little. From 5 MiB to 5 GiB.
    pub multipart_bytes: u64,
    /// Requests in flight. 8 by default; times `multipart_bytes` it bounds memory.
    pub concurrency_max: usize,
    /// Further tries after a failed one. 5 by default.
    pub retries_max: u32,
    /// Wait before the second try; doubles with each. 100 ms by default. The real
    /// wait is a random part of it, so that many clients do not return at once.
    pub backoff_ms: u64,
    /// Longest wait between tries. 10 s by default.
    pub backoff_ms_max: u64,
    /// Failures in a row after which it is doubted that the store answers anybody, and a
    /// probe decides. 10 by default: more than one operation's tries, so that one bad
    /// object does not make all others wait.
    pub breaker_failures: u32,
    /// How often a store that does not answer is asked whether it is back; no other
    /// request is sent meanwhile. 1 s by default: little to ask, and soon enough.
    pub probe_ms: u64,
}

impl ColdConfig {
    /// The defaults for a bucket.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            endpoint: None,
            region: None,
            path_style: None,
            sse: Sse::None,
            exclusive: false,
            metadata: BTreeMap::new(),
            request_timeout_ms: 30_000,
            operation_timeout_ms: 120_000,
            multipart_bytes: 16 << 20,
            concurrency_max: 8,
            retries_max: 5,
            backoff_ms: 100,
            backoff_ms_max: 10_000,
            breaker_failures: 10,
            probe_ms: 1_000,
        }
    }

    /// With what the environment of this process overrides.
    pub fn with_env(self) -> Result<Self> {
        self.with_lookup(&|name| std::env::var(name).ok())
    }

    /// With what variables found through `lookup` override. Empty ones do not count.
    pub fn with_lookup(mut self, lookup: Lookup<'_>) -> Result<Self> {
        let value = |name: &str| lookup(name).filter(|v| !v.is_empty());
        self.endpoint = value("AOF2_COLD_ENDPOINT").or(self.endpoint);
        self.region = value("AOF2_COLD_REGION").or(self.region);
        let flag = |name: &'static str| match value(name).as_deref() {
            None => Ok(None),
            Some("1" | "true") => Ok(Some(true)),
            Some("0" | "false") => Ok(Some(false)),
            Some(_) => Err(invalid(name, "must be true or false")),
        };
        self.path_style = flag("AOF2_COLD_PATH_STYLE")?.or(self.path_style);
        self.exclusive = flag("AOF2_COLD_EXCLUSIVE")?.unwrap_or(self.exclusive);
        if let Some(text) = value("AOF2_COLD_SSE") {
            self.sse = text.parse()?;
        }
        Ok(self)
    }

    /// The bucket and the prefix.
    pub fn location(&self) -> Result<ColdUrl> {
        self.url.parse()
    }

    /// Whether the bucket stands in the path.
    pub fn is_path_style(&self) -> bool {
        self.path_style.unwrap_or(self.endpoint.is_some())
    }

    /// Says what is not allowed.
    pub fn validate(&self) -> Result<()> {
        self.location()?;
        self.validate_endpoint()?;
        self.validate_metadata()?;
        if !(MULTIPART_BYTES_MIN..=MULTIPART_BYTES_MAX).contains(&self.multipart_bytes) {
            return Err(invalid("multipart_bytes", "must be from 5 MiB to 5 GiB"));
        }
        if !(1..=1024).contains(&self.concurrency_max) {
            return Err(invalid("concurrency_max", "must be from 1 to 1024"));
        }
        if self.retries_max > 100 {
            return Err(invalid("retries_max", "must be at most 100"));
        }
        if self.request_timeout_ms == 0 || self.operation_timeout_ms < self.request_timeout_ms {
            let reason = "must be at least request_timeout_ms, which must not be 0";
            return Err(invalid("operation_timeout_ms", reason));
        }
        if self.backoff_ms == 0 || self.backoff_ms_max < self.backoff_ms {
            return Err(invalid(
                "backoff_ms_max",
                "must be at least backoff_ms, which must not be 0",
            ));
        }
        if self.breaker_failures == 0 || self.probe_ms == 0 {
            return Err(invalid("breaker_failures", "and probe_ms must not be 0"));
        }
        Ok(())
    }

    fn validate_endpoint(&self) -> Result<()> {
        let Some(endpoint) = &self.endpoint else { return Ok(()) };
        let (scheme, rest) = endpoint.split_once("://").unwrap_or_default();
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let is_text = endpoint.chars().all(|c| c.is_ascii_graphic());
        if !matches!(scheme, "http" | "https") || host.is_empty() || !is_text {
            return Err(invalid("endpoint", "must look like https://host:port"));
        }
        if host.contains('@') {
            return Err(invalid("endpoint", "must not hold credentials"));
        }
        if self.sse == Sse::Customer && scheme == "http" && !is_loopback(host) {
            return Err(invalid(
                "endpoint",
                "must be https where sse is customer: the key is sent",
            ));
        }
        Ok(())
    }

    fn validate_metadata(&self) -> Result<()> {
        let is_key = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        for (key, value) in &self.metadata {
            if key.is_empty() || !key.chars().all(is_key) || key.starts_with("aof2-") {
                let reason =
                    "keys are lower-case letters, digits and dashes, and do not start with aof2-";
                return Err(invalid("metadata", reason));
            }
            if !value.chars().all(|c| c.is_ascii_graphic() || c == ' ') {
                return Err(invalid("metadata", "values are printable ASCII"));
            }
        }
        if self.metadata.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>() > METADATA_LEN_MAX {
            return Err(invalid("metadata", "keys and values together are at most 1024 bytes"));
        }
        Ok(())
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host.starts_with("localhost:")
        || host.starts_with("127.")
        || host.starts_with("[::1]")
}

fn invalid(field: &'static str, reason: &str) -> AofError {
    AofError::InvalidConfig { field, reason: reason.to_owned() }
}
