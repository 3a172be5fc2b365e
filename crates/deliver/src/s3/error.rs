//! Why a store did not do what it was asked.

use super::answers::{AnswerError, StoreFault};
use super::location::S3Location;
use super::store::S3Store;
use crate::client::TransferError;
use crate::http::conditions::parse_date;
use crate::http::head::ResponseHead;
use linerate_facts::printable::foreign;
use linerate_facts::wording::counted;
use linerate_system::clock;
use std::time::{Duration, SystemTime};
use thiserror::Error;

/// Codes of a store that does not have the bucket where it was asked for.
const ELSEWHERE: [&str; 4] = [
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
    "PermanentRedirect",
    "TemporaryRedirect",
];

/// Each with the likely cause and the remedy. `place` is the object, or the bucket with a prefix.
#[derive(Debug, Error)]
pub enum S3Error {
    #[error(
        "{place}: there is no bucket of this name at {endpoint} ({code}); check the name and the endpoint"
    )]
    NoBucket { place: S3Location, endpoint: String, code: String },
    #[error("{place}: there is no such key, and none below it; check the key")]
    NoKey { place: S3Location },
    #[error(
        "{place}: access key {key} is refused (403{code}); the bucket's owner has to allow it, or give other keys \
         (AWS_PROFILE, AWS_ACCESS_KEY_ID)"
    )]
    Refused { place: S3Location, key: String, code: String },
    #[error(
        "{place}: the store refuses requests without keys (403{code}); give some (AWS_PROFILE, AWS_ACCESS_KEY_ID and \
         AWS_SECRET_ACCESS_KEY)"
    )]
    RefusedAnonymous { place: S3Location, code: String },
    #[error(
        "{place}: {endpoint} does not know access key {key}; check AWS_ACCESS_KEY_ID, AWS_PROFILE and the endpoint"
    )]
    UnknownKey { place: S3Location, endpoint: String, key: String },
    #[error(
        "{place}: the secret key does not belong to access key {key}, or something on the way changes requests \
         (SignatureDoesNotMatch); check AWS_SECRET_ACCESS_KEY"
    )]
    OtherSecret { place: S3Location, key: String },
    #[error("{place}: the session token of access key {key} is refused ({code}): get new keys")]
    Expired { place: S3Location, key: String, code: String },
    #[error(
        "{place}: the clock of this host is {apart} the store's (RequestTimeTooSkewed): set it, then start again"
    )]
    Skewed { place: S3Location, apart: String },
    #[error(
        "{place}: the bucket is in region {region}, and the request went to {own}: set AWS_REGION={region}"
    )]
    OtherRegion { place: S3Location, region: String, own: String },
    #[error(
        "{place}: the bucket is elsewhere ({status}) and the store does not say where; check AWS_REGION and the endpoint"
    )]
    Elsewhere { place: S3Location, status: u16 },
    #[error(
        "{place}: the store asks for fewer requests ({status}{code}), still after several tries; use fewer --streams or a \
         lower --rate-limit"
    )]
    SlowDown { place: S3Location, status: u16, code: String, retry_after: Option<Duration> },
    #[error("{place}: the object is in an archive (InvalidObjectState); restore it first")]
    Archived { place: S3Location },
    #[error(
        "{place}: what the store got is not what was sent ({code}); something on the way changes bytes, or the file changed"
    )]
    BadDigest { place: S3Location, code: String },
    #[error("{place}: the store answered {status}{fault}; the store's own log says more")]
    Status { place: S3Location, status: u16, code: String, fault: String },
    #[error("{place}: the store's answer cannot be used: {why}; check that the endpoint is an S3 store")]
    Answer { place: S3Location, why: AnswerError },
    #[error("{place}: the pages of the list lead in a circle; the store is faulty")]
    Circle { place: S3Location },
    #[error("{place}: its key cannot be a file's name here: {why}; it was left out")]
    NoName { place: S3Location, why: &'static str },
}

impl S3Error {
    /// Of an answer that is not a success; `fault` is what its body says, if it has one.
    pub(crate) fn of(
        store: &S3Store,
        place: S3Location,
        head: &ResponseHead,
        fault: StoreFault,
    ) -> TransferError {
        let (status, retry_after, code) = (head.status, head.retry_after(), fault.code.clone());
        let endpoint = store.endpoint().to_string();
        let key = store.access_key().map(String::from);
        let named = if code.is_empty() { String::new() } else { format!(" {code}") };
        let region = head.headers.text("x-amz-bucket-region").map(foreign).or(fault.region.clone());
        let other_region = region.filter(|region| region != store.region());
        let error = match (code.as_str(), status) {
            ("NoSuchBucket", _) => S3Error::NoBucket { place, endpoint, code },
            ("NoSuchKey", _) | ("", 404 | 410) => return TransferError::NotFound { url: place.to_string() },
            ("PreconditionFailed", _) | (_, 412 | 416) => {
                return TransferError::Changed { url: place.to_string() };
            }
            ("RequestTimeTooSkewed" | "RequestExpired", _) => {
                S3Error::Skewed { place, apart: clock_gap(head) }
            }
            (code, status) if ELSEWHERE.contains(&code) || matches!(status, 301 | 307) => {
                match other_region {
                    Some(region) => S3Error::OtherRegion { place, region, own: store.region().into() },
                    None => S3Error::Elsewhere { place, status },
                }
            }
            ("InvalidAccessKeyId", _) => {
                S3Error::UnknownKey { place, endpoint, key: key.unwrap_or_default() }
            }
            ("SignatureDoesNotMatch", _) => S3Error::OtherSecret { place, key: key.unwrap_or_default() },
            ("ExpiredToken" | "InvalidToken" | "TokenRefreshRequired", _) => {
                S3Error::Expired { place, key: key.unwrap_or_default(), code }
            }
            ("InvalidObjectState", _) => S3Error::Archived { place },
            ("BadDigest" | "XAmzContentSHA256Mismatch" | "XAmzContentChecksumMismatch", _) => {
                S3Error::BadDigest { place, code }
            }
            ("SlowDown" | "ServiceUnavailable" | "ThrottlingException" | "RequestLimitExceeded", _)
            | (_, 429 | 503) => S3Error::SlowDown { place, status, code: named, retry_after },
            (_, 401 | 403) => match key {
                Some(key) => S3Error::Refused { place, key, code: named },
                None => S3Error::RefusedAnonymous { place, code: named },
            },
            _ => {
                let says =
                    if fault.message.is_empty() { String::new() } else { format!(": {}", fault.message) };
                S3Error::Status { place, status, code, fault: format!("{named}{says}") }
            }
        };
        error.into()
    }

    /// Of a success whose body says that it is none.
    pub(crate) fn of_fault(place: S3Location, fault: StoreFault) -> TransferError {
        let says = format!(" {}: {}", fault.code, fault.message);
        S3Error::Status { place, status: 200, code: fault.code, fault: says }.into()
    }

    /// The store asks for this time.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        if let S3Error::SlowDown { retry_after, .. } = self { *retry_after } else { None }
    }

    /// Another try may have it.
    pub fn may_pass(&self) -> bool {
        match self {
            S3Error::SlowDown { .. } => true,
            S3Error::Status { status, code, .. } => {
                // `SlowDown`: of a success whose body says that it is none.
                let passing = [
                    "RequestTimeout",
                    "OperationAborted",
                    "ConditionalRequestConflict",
                    "InternalError",
                    "SlowDown",
                ];
                *status >= 500 && *status != 501 || passing.contains(&code.as_str())
            }
            _ => false,
        }
    }

    /// The store does not have what was asked of it (conditions, sums).
    pub(crate) fn is_not_implemented(&self) -> bool {
        matches!(self, S3Error::Status { status: 501, .. })
            || matches!(self, S3Error::Status { code, .. } if code == "NotImplemented")
    }
}

impl TransferError {
    /// There is no such upload: it was completed, or aborted.
    pub(super) fn is_no_upload(&self) -> bool {
        match self {
            TransferError::Store(error) => {
                matches!(&**error, S3Error::Status { code, .. } if code == "NoSuchUpload")
            }
            error => matches!(error, TransferError::NotFound { .. }),
        }
    }
}

impl From<S3Error> for TransferError {
    fn from(error: S3Error) -> Self {
        TransferError::Store(Box::new(error))
    }
}

/// How far this host's clock is from the store's, by the `Date` line of its answer.
fn clock_gap(head: &ResponseHead) -> String {
    let own = clock::date().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let Some(theirs) = head.headers.text("date").and_then(parse_date) else { return "apart from".into() };
    let minutes = own.abs_diff(theirs) / 60;
    let side = if own > theirs { "ahead of" } else { "behind" };
    format!("{} {side}", counted(minutes, "minute"))
}
