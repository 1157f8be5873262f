//! What each request says about encryption.

use aws_sdk_s3::types::ServerSideEncryption;
use aws_smithy_types::base64;
use md5::{Digest, Md5};
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};

use crate::error::{AofError, Result};
use crate::object::config::{ColdConfig, Sse};
use crate::object::secret::ColdSecrets;

/// The only algorithm there is for keys of ours.
const CUSTOMER_ALGORITHM: &str = "AES256";

/// The key of SSE-C as its three headers want it.
#[derive(Debug)]
struct CustomerKey {
    key: SecretString,
    /// The store compares it with the key that arrived; it protects nothing.
    md5: String,
}

/// How objects are encrypted.
#[derive(Debug)]
pub(super) struct Encryption {
    sse: Sse,
    customer: Option<CustomerKey>,
}

impl Encryption {
    pub fn new(config: &ColdConfig, secrets: &ColdSecrets) -> Result<Self> {
        let mut sse = config.sse.clone();
        let mut customer = None;
        match (&mut sse, &secrets.sse_key) {
            (Sse::Customer, Some(key)) => customer = Some(CustomerKey::new(key)?),
            (Sse::Customer, None) => return Err(bad_key("is missing; sse is customer")),
            // One variable for whichever key there is.
            (Sse::Kms { key_id: key_id @ None }, Some(key)) => {
                *key_id = Some(key.expose_secret().to_owned());
            }
            _ => {}
        }
        Ok(Self { sse, customer })
    }

    /// For requests that create: encryption by the store.
    pub fn by_store(&self) -> (Option<ServerSideEncryption>, Option<String>) {
        match &self.sse {
            Sse::S3 => (Some(ServerSideEncryption::Aes256), None),
            Sse::Kms { key_id } => (Some(ServerSideEncryption::AwsKms), key_id.clone()),
            Sse::None | Sse::Customer => (None, None),
        }
    }

    /// For every request about an object: algorithm, key, and its hash.
    pub fn by_customer(&self) -> (Option<String>, Option<String>, Option<String>) {
        match &self.customer {
            None => (None, None, None),
            Some(CustomerKey { key, md5 }) => (
                Some(CUSTOMER_ALGORITHM.to_owned()),
                Some(key.expose_secret().to_owned()),
                Some(md5.clone()),
            ),
        }
    }
}

impl CustomerKey {
    fn new(key: &SecretString) -> Result<Self> {
        let bytes = base64::decode(key.expose_secret()).map_err(|_| bad_key("is not base64"))?;
        let bytes = Zeroizing::new(bytes);
        if bytes.len() != 32 {
            return Err(bad_key("is not 32 bytes long"));
        }
        let md5 = base64::encode(Md5::digest(&*bytes));
        Ok(Self { key: key.clone(), md5 })
    }
}

fn bad_key(reason: &str) -> AofError {
    AofError::InvalidConfig { field: "AOF2_COLD_SSE_KEY", reason: reason.to_owned() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn secrets(key: &str) -> ColdSecrets {
        ColdSecrets { sse_key: Some(SecretString::from(key)), ..ColdSecrets::default() }
    }

    #[test]
    fn a_customer_key_is_sent_with_its_hash_and_shown_nowhere() {
        let key = base64::encode([7; 32]);
        let config = ColdConfig { sse: Sse::Customer, ..ColdConfig::new("s3://bucket") };
        let encryption = Encryption::new(&config, &secrets(&key)).unwrap();
        let (algorithm, sent, md5) = encryption.by_customer();
        assert_eq!(algorithm.unwrap(), "AES256");
        assert_eq!(sent.unwrap(), key);
        assert_eq!(md5.unwrap(), base64::encode(Md5::digest([7; 32])));
        assert!(!format!("{encryption:?}").contains(&key));
        for wrong in ["", "not base64!", &base64::encode([7; 16])] {
            let error = Encryption::new(&config, &secrets(wrong)).unwrap_err();
            assert!(error.to_string().contains("AOF2_COLD_SSE_KEY"), "{error}");
            assert!(wrong.is_empty() || !error.to_string().contains(wrong), "{error}");
        }
    }
}
