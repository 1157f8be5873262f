//! Secrets: read from the environment where they are used, shown nowhere, and overwritten
//! in memory when they are dropped.

use secrecy::SecretString;

use super::config::Lookup;

/// What the environment says about access; what it does not say comes from the
/// standard chain of credential providers.
#[derive(Clone, Debug, Default)]
pub struct ColdSecrets {
    /// `AOF2_COLD_ACCESS_KEY_ID`.
    pub access_key_id: Option<SecretString>,
    /// `AOF2_COLD_SECRET_ACCESS_KEY`.
    pub secret_access_key: Option<SecretString>,
    /// `AOF2_COLD_SESSION_TOKEN`.
    pub session_token: Option<SecretString>,
    /// `AOF2_COLD_SSE_KEY`: the customer's key, base64 of 32 bytes.
    pub sse_key: Option<SecretString>,
}

impl ColdSecrets {
    /// Reads the environment of this process.
    pub fn from_env() -> Self {
        Self::from_lookup(&|name| std::env::var(name).ok())
    }

    /// Reads variables through `lookup`.
    pub fn from_lookup(lookup: Lookup<'_>) -> Self {
        let secret = |name: &str| lookup(name).filter(|v| !v.is_empty()).map(SecretString::from);
        Self {
            access_key_id: secret("AOF2_COLD_ACCESS_KEY_ID"),
            secret_access_key: secret("AOF2_COLD_SECRET_ACCESS_KEY"),
            session_token: secret("AOF2_COLD_SESSION_TOKEN"),
            sse_key: secret("AOF2_COLD_SSE_KEY"),
        }
    }
}
