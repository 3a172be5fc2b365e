//! A second opinion on signatures: what the store of the tests verifies, written from AWS's description and not from
//! linerate's code.

use super::fake_store::Asked;
use sha2::{Digest, Sha256};
use std::time::{Duration, SystemTime};

/// Keys that the store knows.
#[derive(Clone, Debug)]
pub struct KnownKeys {
    pub access: &'static str,
    pub secret: &'static str,
    pub token: Option<&'static str>,
    pub region: &'static str,
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    assert!(key.len() <= 64, "the tests' keys are short");
    let pad = |with: u8| (0..64).map(|at| key.get(at).unwrap_or(&0) ^ with).collect::<Vec<u8>>();
    let inner = Sha256::digest([pad(0x36), text.as_bytes().to_vec()].concat());
    Sha256::digest([pad(0x5c), inner.to_vec()].concat()).to_vec()
}

/// The code of the error that a store answers with.
pub fn refused(asked: &Asked, keys: &KnownKeys) -> Option<&'static str> {
    let Some(line) = asked.line("authorization") else { return Some("AccessDenied") };
    let Some(rest) = line.strip_prefix("AWS4-HMAC-SHA256 ") else {
        return Some("AuthorizationHeaderMalformed");
    };
    let part = |name: &str| {
        let found = rest.split(", ").find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        found.unwrap_or_default().to_string()
    };
    let credential = part("Credential");
    let scope: Vec<&str> = credential.split('/').collect();
    if scope.len() != 5 || scope[0] != keys.access {
        return Some("InvalidAccessKeyId");
    }
    if scope[2] != keys.region {
        return Some("AuthorizationHeaderMalformed");
    }
    if asked.line("x-amz-security-token") != keys.token {
        return Some("InvalidToken");
    }
    let time = asked.line("x-amz-date").unwrap_or_default();
    if !is_near(time) {
        return Some("RequestTimeTooSkewed");
    }
    let payload = asked.line("x-amz-content-sha256").unwrap_or_default();
    if payload != "UNSIGNED-PAYLOAD" && payload != hex(&Sha256::digest(&asked.body)) {
        return Some("XAmzContentSHA256Mismatch");
    }
    let names = part("SignedHeaders");
    let amz = asked.lines.iter().filter(|(name, _)| name.starts_with("x-amz-"));
    if !amz.map(|(name, _)| name.as_str()).chain(["host"]).all(|name| names.split(';').any(|one| one == name))
    {
        return Some("AccessDenied");
    }
    let lines: String = names
        .split(';')
        .map(|name| format!("{name}:{}\n", asked.line(name).unwrap_or_default().trim()))
        .collect();
    let mut query: Vec<String> = asked.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
    query.sort();
    let canonical =
        format!("{}\n{}\n{}\n{lines}\n{names}\n{payload}", asked.method, asked.path, query.join("&"));
    let place = scope[1..].join("/");
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{place}\n{}", hex(&Sha256::digest(canonical)));
    let first = format!("AWS4{}", keys.secret).into_bytes();
    let key = scope[1..].iter().fold(first, |key, part| hmac(&key, part));
    (hex(&hmac(&key, &text)) != part("Signature")).then_some("SignatureDoesNotMatch")
}

/// `20130524T000000Z`, within a quarter of an hour.
fn is_near(time: &str) -> bool {
    if time.len() != 16 {
        return false;
    }
    let (day, clock) = (&time[..8], &time[9..15]);
    let text = format!(
        "{}-{}-{}T{}:{}:{}Z",
        &day[..4],
        &day[4..6],
        &day[6..],
        &clock[..2],
        &clock[2..4],
        &clock[4..]
    );
    let Ok(time) = humantime::parse_rfc3339(&text) else { return false };
    let apart = SystemTime::now().duration_since(time).unwrap_or_else(|error| error.duration());
    apart < Duration::from_secs(900)
}
