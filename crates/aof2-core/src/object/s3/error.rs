//! What an answer of the SDK means.

use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use std::error::Error;

use crate::object::error::{ObjectError, ObjectErrorKind, ObjectOp};

/// Reads an error: what happened on the way, or what the store says.
pub(super) fn object_error<E>(
    op: ObjectOp,
    key: &str,
    error: &SdkError<E, HttpResponse>,
) -> ObjectError
where
    E: ProvideErrorMetadata + Error + 'static,
{
    let new = |kind, detail: &str| ObjectError::new(kind, op, key, detail);
    match error {
        SdkError::ServiceError(answer) => {
            let status = answer.raw().status().as_u16();
            let code = answer.err().code().unwrap_or_default();
            let message = answer.err().message().unwrap_or_default();
            let (kind, is_retryable) = kind_of_answer(status, code);
            let detail = if code.is_empty() && status < 300 {
                format!("{status}: {}", told(answer.err()))
            } else {
                format!("{status} {code}: {message}")
            };
            let retry_after = answer.raw().headers().get("retry-after");
            let retry_after_s = retry_after.and_then(|value| value.parse::<u64>().ok());
            let error = new(kind, detail.trim_end_matches([':', ' ']))
                .retry_after_ms(retry_after_s.map(|s| s.saturating_mul(1000)));
            // Somebody else is at the same key: no trouble of the store.
            let error = if status == 409 { error.of_key() } else { error };
            match is_retryable {
                Some(is_retryable) => error.retryable(is_retryable),
                None => error,
            }
        }
        SdkError::TimeoutError(_) => new(ObjectErrorKind::Timeout, "the connection timed out"),
        SdkError::DispatchFailure(failure) if failure.is_timeout() => {
            new(ObjectErrorKind::Timeout, "the connection timed out")
        }
        SdkError::DispatchFailure(failure) if failure.is_io() => {
            new(ObjectErrorKind::Unavailable, &told(error))
        }
        SdkError::ResponseError(_) => new(ObjectErrorKind::Unavailable, &told(error)),
        // No request was sent: no credentials, or none that can be used.
        _ if is_about_credentials(error) => new(ObjectErrorKind::Denied, &told(error)),
        SdkError::DispatchFailure(_) => new(ObjectErrorKind::Unavailable, &told(error)),
        _ => new(ObjectErrorKind::InvalidRequest, &told(error)),
    }
}

/// An error and what caused it, as a person reads it.
fn told(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        // Some repeat what caused them.
        if !text.ends_with(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

/// The kind, and whether to try again where the kind does not say.
fn kind_of_answer(status: u16, code: &str) -> (ObjectErrorKind, Option<bool>) {
    use ObjectErrorKind as Kind;
    match code {
        // The chain that gave them gives others; a clock may be set meanwhile.
        "ExpiredToken"
        | "ExpiredTokenException"
        | "TokenRefreshRequired"
        | "RequestExpired"
        | "RequestTimeTooSkewed" => return (Kind::Denied, Some(true)),
        "NoSuchBucket" => return (Kind::NoSuchBucket, None),
        "SlowDown"
        | "SlowDownRead"
        | "SlowDownWrite"
        | "ThrottlingException"
        | "Throttling"
        | "TooManyRequests"
        | "ServiceUnavailable"
        | "RequestLimitExceeded" => {
            return (Kind::Throttled, None);
        }
        // Somebody else is at the same key right now.
        "ConditionalRequestConflict" | "OperationAborted" => return (Kind::Throttled, None),
        "RequestTimeout" => return (Kind::Timeout, None),
        "BadDigest"
        | "InvalidDigest"
        | "XAmzContentSHA256Mismatch"
        | "XAmzContentChecksumMismatch"
        | "IncompleteBody"
        | "InvalidPart"
        | "InvalidPartOrder"
        | "EntityTooSmall" => {
            return (Kind::Corrupt, None);
        }
        "PreconditionFailed" => return (Kind::Exists, None),
        _ => {}
    }
    match status {
        401 | 403 => (Kind::Denied, None),
        404 | 410 => (Kind::NotFound, None),
        408 => (Kind::Timeout, None),
        409 => (Kind::Throttled, None),
        412 => (Kind::Exists, None),
        429 | 503 => (Kind::Throttled, None),
        501 => (Kind::InvalidRequest, None),
        500..=599 => (Kind::Unavailable, None),
        _ => (Kind::InvalidRequest, None),
    }
}

fn is_about_credentials(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if text.contains("credential") || text.contains("identity") {
            return true;
        }
        next = error.source();
    }
    false
}
