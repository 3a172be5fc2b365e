//! A store: where its buckets are, who asks, and the lines that each request to it has.

use super::credentials::S3Credentials;
use super::location::S3Location;
use super::signature::{EMPTY_SHA256, SignedRequest, SigningScope, authorization};
use crate::http::url::{HttpUrl, decoded, encoded};
use linerate_system::lock;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// A store and who asks it.
#[derive(Debug)]
pub struct S3Store {
    endpoint: HttpUrl,
    /// `ENDPOINT/BUCKET/KEY`; else the bucket is a part of the host's name.
    path_style: bool,
    region: String,
    credentials: Option<S3Credentials>,
    /// It has neither conditions nor sums for what is put: found out by its answers.
    is_plain: AtomicBool,
    /// Uploads of several parts that are neither completed nor aborted, by their names at the store.
    open_uploads: Mutex<BTreeMap<String, S3Location>>,
}

impl S3Store {
    /// One at this URL, with the bucket as the first part of the path.
    pub fn at(endpoint: HttpUrl, region: String, credentials: Option<S3Credentials>) -> Self {
        let (is_plain, open_uploads) = (AtomicBool::new(false), Mutex::default());
        S3Store { endpoint, path_style: true, region, credentials, is_plain, open_uploads }
    }

    /// AWS itself. With `dotted` a bucket has a dot in its name, which no certificate of AWS covers as a host.
    pub fn aws(region: String, credentials: Option<S3Credentials>, dotted: bool) -> Self {
        let top = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        let host = format!("s3.{region}.{top}");
        let endpoint = HttpUrl { secure: true, host, port: 443, target: "/".into() };
        S3Store { path_style: dotted, ..S3Store::at(endpoint, region, credentials) }
    }

    /// None: it is asked anonymously.
    pub fn access_key(&self) -> Option<&str> {
        self.credentials.as_ref().map(|own| own.access_key.as_str())
    }

    /// Where it is asked, without a bucket.
    pub fn endpoint(&self) -> &HttpUrl {
        &self.endpoint
    }

    pub(crate) fn region(&self) -> &str {
        &self.region
    }

    /// Where an object, or a bucket's list, is asked for.
    pub fn url(&self, location: &S3Location) -> HttpUrl {
        let base = self.endpoint.path().trim_end_matches('/');
        let key = encoded_key(&location.key);
        match self.path_style {
            true => self.endpoint.with_target(&format!("{base}/{}/{key}", location.bucket)),
            false => {
                let host = format!("{}.{}", location.bucket, self.endpoint.host);
                HttpUrl { host, ..self.endpoint.with_target(&format!("{base}/{key}")) }
            }
        }
    }

    /// What a URL of this store is of; none where it is of another server.
    pub fn location(&self, url: &HttpUrl) -> Option<S3Location> {
        if url.secure != self.endpoint.secure || url.port != self.endpoint.port {
            return None;
        }
        let base = self.endpoint.path().trim_end_matches('/');
        let path = url.path().strip_prefix(base)?.strip_prefix('/')?;
        let (bucket, key) = match self.path_style {
            true if url.host == self.endpoint.host => path.split_once('/').unwrap_or((path, "")),
            true => return None,
            false => (url.host.strip_suffix(&self.endpoint.host)?.strip_suffix('.')?, path),
        };
        let key = String::from_utf8_lossy(&decoded(key).ok()?).into_owned();
        Some(S3Location { bucket: bucket.into(), key })
    }

    /// As [`S3Store::location`], for a sentence about a URL.
    pub(crate) fn place(&self, url: &HttpUrl) -> S3Location {
        let unknown = || S3Location { bucket: url.authority(), key: url.path().into() };
        self.location(url).unwrap_or_else(unknown)
    }

    /// What a body is signed as: its SHA-256 where anyone on the way could change it, else TLS is its guard.
    pub(crate) fn signs_bodies(&self) -> bool {
        self.credentials.is_some() && !self.endpoint.secure
    }

    /// The lines of a request that say who asks; `lines` are those that it has already, of which the `x-amz-…` are
    /// signed, too. Objects are asked for with their sums.
    pub(crate) fn lines(&self, method: &str, url: &HttpUrl, lines: &str, now: SystemTime) -> String {
        let mut own = String::new();
        if matches!(method, "GET" | "HEAD") && !url.target.contains('?') {
            own.push_str("x-amz-checksum-mode: ENABLED\r\n");
        }
        let Some(credentials) = &self.credentials else { return own };
        let time = humantime::format_rfc3339_seconds(now).to_string().replace(['-', ':'], "");
        own.push_str(&format!("x-amz-date: {time}\r\n"));
        if let Some(token) = &credentials.session_token {
            own.push_str(&format!("x-amz-security-token: {token}\r\n"));
        }
        let amz = amz_lines(lines);
        let body =
            amz.iter().find(|(name, _)| name == "x-amz-content-sha256").map(|(_, value)| value.clone());
        let payload = body.unwrap_or_else(|| {
            own.push_str(&format!("x-amz-content-sha256: {EMPTY_SHA256}\r\n"));
            EMPTY_SHA256.into()
        });
        let authority = url.authority();
        let all: Vec<(String, String)> = amz.into_iter().chain(amz_lines(&own)).collect();
        let mut signed: Vec<(&str, &str)> =
            all.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        signed.push(("host", &authority));
        let scope = SigningScope { time: &time, region: &self.region, service: "s3" };
        let request = SignedRequest { method, target: &url.target, lines: &signed, payload: &payload };
        own.push_str(&format!("Authorization: {}\r\n", authorization(credentials, &scope, &request)));
        own
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain.load(Ordering::Relaxed)
    }

    /// It refused what not every store has; false: that was known before.
    pub(crate) fn found_plain(&self) -> bool {
        !self.is_plain.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn opened_upload(&self, id: &str, location: &S3Location) {
        lock(&self.open_uploads).insert(id.into(), location.clone());
    }

    pub(crate) fn closed_upload(&self, id: &str) {
        lock(&self.open_uploads).remove(id);
    }

    /// Uploads whose parts the store keeps until somebody aborts them: each object with the upload's name.
    pub fn open_uploads(&self) -> Vec<(S3Location, String)> {
        lock(&self.open_uploads).iter().map(|(id, location)| (location.clone(), id.clone())).collect()
    }
}

/// Slashes stay: they are what makes folders of keys.
fn encoded_key(key: &str) -> String {
    let parts: Vec<String> = key.split('/').map(|part| encoded(part.as_bytes())).collect();
    parts.join("/")
}

fn amz_lines(lines: &str) -> Vec<(String, String)> {
    let lines = lines.lines().filter_map(|line| line.split_once(':'));
    let lines = lines.map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_string()));
    lines.filter(|(name, _)| name.starts_with("x-amz-")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn keys() -> Option<S3Credentials> {
        Some(S3Credentials {
            access_key: "A".into(),
            secret_key: "S".into(),
            session_token: Some("T".into()),
        })
    }

    fn location(text: &str) -> S3Location {
        text.parse().expect("a location")
    }

    #[test]
    fn buckets_are_in_the_path_of_an_endpoint_and_in_the_host_of_aws() {
        let own = S3Store::at("http://h:9000/base/".parse().expect("a URL"), "r".into(), keys());
        let aws = S3Store::aws("eu-west-1".into(), None, false);
        let dotted = S3Store::aws("cn-north-1".into(), None, true);
        for (store, text, url) in [
            (&own, "s3://b/a b/ü%?#", "http://h:9000/base/b/a%20b/%C3%BC%25%3F%23"),
            (&own, "s3://b", "http://h:9000/base/b/"),
            (&own, "s3://b//x//y/", "http://h:9000/base/b//x//y/"),
            (&aws, "s3://b/k", "https://b.s3.eu-west-1.amazonaws.com/k"),
            (&aws, "s3://b", "https://b.s3.eu-west-1.amazonaws.com/"),
            (&dotted, "s3://b.c/k", "https://s3.cn-north-1.amazonaws.com.cn/b.c/k"),
        ] {
            assert_eq!(store.url(&location(text)).to_string(), url);
            assert_eq!(store.location(&store.url(&location(text))), Some(location(text)));
        }
        for url in [
            "http://h:9001/base/b/k",
            "https://h:9000/base/b/k",
            "http://h:9000/other/b/k",
            "http://x.h:9000/base/b",
        ] {
            assert_eq!(own.location(&url.parse().expect("a URL")), None, "{url}");
        }
        assert_eq!(aws.location(&"https://s3.eu-west-1.amazonaws.com/b/k".parse().expect("a URL")), None);
    }

    #[test]
    fn a_request_shows_who_asks_and_never_the_secret() {
        let url: HttpUrl = "http://h:9000/b/k".parse().expect("a URL");
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_369_353_600);
        let named = S3Store::at(url.with_target("/"), "r".into(), keys());
        let lines = named.lines("GET", &url, "Range: bytes=0-9\r\nx-amz-meta-a: b\r\n", now);
        for part in [
            "x-amz-date: 20130524T000000Z\r\n",
            "x-amz-security-token: T\r\n",
            "x-amz-checksum-mode: ENABLED\r\n",
            "SignedHeaders=host;x-amz-checksum-mode;x-amz-content-sha256;x-amz-date;x-amz-meta-a;x-amz-security-token, ",
            "Credential=A/20130524/r/s3/aws4_request, ",
        ] {
            assert!(lines.contains(part), "{part}: {lines}");
        }
        assert!(!format!("{named:?}").contains("\"S\""), "a secret is in no log");
        let body = named.lines("PUT", &url, "x-amz-content-sha256: UNSIGNED-PAYLOAD\r\n", now);
        assert!(!body.contains("x-amz-content-sha256: "), "it is there once: {body}");
        let anonymous = S3Store::at(url.with_target("/"), "r".into(), None);
        assert_eq!(anonymous.lines("GET", &url.with_target("/b/?list-type=2"), "", now), "");
    }

    proptest! {
        #[test]
        fn any_key_goes_there_and_back(key in "\\PC{1,40}", style in any::<bool>()) {
            let store = S3Store { path_style: style, ..S3Store::at("http://h:1/".parse().expect("a URL"), "r".into(), None) };
            let location = S3Location { bucket: "b".into(), key };
            let url = store.url(&location);
            prop_assert!(url.target.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert_eq!(store.location(&url), Some(location));
        }
    }
}
