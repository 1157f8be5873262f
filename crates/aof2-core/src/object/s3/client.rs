//! The SDK's client, configured.

use std::time::Duration;

use aws_config::BehaviorVersion;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::interceptors::BeforeDeserializationInterceptorContextMut;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    ConfigBag, Credentials, Intercept, Region, RequestChecksumCalculation,
    ResponseChecksumValidation, RuntimeComponents, SharedCredentialsProvider,
    StalledStreamProtectionConfig,
};
use aws_sdk_s3::error::BoxError;
use aws_smithy_http_client::{Builder, tls};
use secrecy::ExposeSecret;

use crate::error::{AofError, Result};
use crate::object::config::ColdConfig;
use crate::object::secret::ColdSecrets;

/// Stores without regions take any; this one is what most clients say.
const REGION_DEFAULT: &str = "us-east-1";
/// A connection that takes longer will not come.
const CONNECT_TIMEOUT_MS_MAX: u64 = 10_000;

/// Asks the standard chain for whatever the configuration leaves open. Sends
/// nothing to the store; the chain may ask the machine's metadata service.
pub(super) async fn client(config: &ColdConfig, secrets: &ColdSecrets) -> Result<Client> {
    let http = Builder::new()
        .tls_provider(tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring))
        .build_https();
    let connect = Duration::from_millis(config.request_timeout_ms.min(CONNECT_TIMEOUT_MS_MAX));
    // Only connecting has a limit here: `ResilientStore` limits whole requests,
    // bodies included.
    let timeouts = TimeoutConfig::builder().connect_timeout(connect).build();
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(http)
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts)
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
    if let Some(region) = &config.region {
        loader = loader.region(Region::new(region.clone()));
    }
    if let Some(credentials) = credentials(secrets)? {
        loader = loader.credentials_provider(credentials);
    }
    let shared = loader.load().await;
    let region = shared.region().cloned().unwrap_or(Region::from_static(REGION_DEFAULT));
    let mut builder = aws_sdk_s3::config::Builder::from(&shared)
        .region(region)
        .force_path_style(config.is_path_style())
        .interceptor(WithoutEchoes);
    if let Some(endpoint) = &config.endpoint {
        builder = builder.endpoint_url(endpoint);
    }
    Ok(Client::from_conf(builder.build()))
}

/// What the environment overrides; both halves of a key or none.
fn credentials(secrets: &ColdSecrets) -> Result<Option<SharedCredentialsProvider>> {
    let (id, secret) = match (&secrets.access_key_id, &secrets.secret_access_key) {
        (None, None) => return Ok(None),
        (Some(id), Some(secret)) => (id.expose_secret(), secret.expose_secret()),
        _ => {
            return Err(AofError::InvalidConfig {
                field: "AOF2_COLD_ACCESS_KEY_ID",
                reason: "and AOF2_COLD_SECRET_ACCESS_KEY are set together or not at all".to_owned(),
            });
        }
    };
    let token = secrets.session_token.as_ref().map(|token| token.expose_secret().to_owned());
    let credentials = Credentials::new(id, secret, token, None, "AOF2_COLD");
    Ok(Some(SharedCredentialsProvider::new(credentials)))
}

/// Removes headers that nobody reads: some stores send this one twice, which the
/// SDK takes for a broken answer.
#[derive(Debug)]
struct WithoutEchoes;

const KEY_MD5_HEADER: &str = "x-amz-server-side-encryption-customer-key-md5";

impl Intercept for WithoutEchoes {
    fn name(&self) -> &'static str {
        "WithoutEchoes"
    }

    fn modify_before_deserialization(
        &self,
        context: &mut BeforeDeserializationInterceptorContextMut<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> std::result::Result<(), BoxError> {
        context.response_mut().headers_mut().remove(KEY_MD5_HEADER);
        Ok(())
    }
}
