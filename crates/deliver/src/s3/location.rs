//! `s3://BUCKET/KEY` as a user gives it, and keys as names of files: a key may be any text, a name leads
//! nowhere else.

use crate::get::names::refused_name;
use std::fmt::{Display, Formatter};
use std::path::PathBuf;
use std::str::FromStr;
use thiserror::Error;

/// The longest key that S3 has.
const MOST_KEY_BYTES: usize = 1024;
/// Buckets of AWS have 63 letters at most, old ones and those of other stores more.
const MOST_BUCKET_BYTES: usize = 255;

/// An object, or all whose keys begin with a prefix: then the key is empty, or ends with a slash.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct S3Location {
    pub bucket: String,
    /// As it is, nothing of it encoded; a `%20` is three letters of it.
    pub key: String,
}

/// It is not a place in a store.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum S3LocationError {
    #[error("write s3://BUCKET/KEY")]
    NoScheme,
    #[error("“{0}” is not a name of a bucket: letters, digits, dots and dashes")]
    Bucket(String),
    #[error("a key has {MOST_KEY_BYTES} bytes at most")]
    KeyTooLong,
    #[error("a key on the command line has no control characters")]
    Letters,
}

impl S3Location {
    /// All that begins with the key, as a folder does.
    pub fn is_prefix(&self) -> bool {
        self.key.is_empty() || self.key.ends_with('/')
    }

    /// What aborts an upload of this object, for a shell.
    pub fn abort_command(&self, upload: &str) -> String {
        let (bucket, key, upload) = (quoted(&self.bucket), quoted(&self.key), quoted(upload));
        format!("aws s3api abort-multipart-upload --bucket {bucket} --key {key} --upload-id {upload}")
    }

    /// The same bucket, another key.
    pub fn with_key(&self, key: impl Into<String>) -> Self {
        S3Location { bucket: self.bucket.clone(), key: key.into() }
    }
}

/// One word for a shell, whatever it holds: keys are names of files, uploads are named by a store.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

impl FromStr for S3Location {
    type Err = S3LocationError;

    fn from_str(text: &str) -> Result<Self, S3LocationError> {
        if text.chars().any(char::is_control) {
            return Err(S3LocationError::Letters);
        }
        let scheme = text.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("s3://"));
        let rest = scheme.map(|_| &text[5..]).ok_or(S3LocationError::NoScheme)?;
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        let is_edge = |edge: Option<u8>| edge.is_some_and(|byte| byte.is_ascii_alphanumeric());
        let sound = bucket.len() <= MOST_BUCKET_BYTES
            && bucket.bytes().all(is_letter)
            && is_edge(bucket.bytes().next())
            && is_edge(bucket.bytes().last());
        if !sound {
            return Err(S3LocationError::Bucket(bucket.chars().take(100).collect()));
        }
        if key.len() > MOST_KEY_BYTES {
            return Err(S3LocationError::KeyTooLong);
        }
        Ok(S3Location { bucket: bucket.into(), key: key.into() })
    }
}

impl Display for S3Location {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.key)
    }
}

/// The deepest folder of a key.
const MOST_DEPTH: usize = 64;

/// The way of a key below a folder, and whether it is a folder itself (it ends with a slash); or why there is none.
pub fn file_below(key: &str) -> Result<(PathBuf, bool), &'static str> {
    let (names, is_folder) = key.strip_suffix('/').map_or((key, false), |rest| (rest, true));
    let mut path = PathBuf::new();
    for (depth, name) in names.split('/').enumerate() {
        path.push(file_name(name)?);
        if depth >= MOST_DEPTH {
            return Err("it is too deep");
        }
    }
    Ok((path, is_folder))
}

/// One name.
pub(super) fn file_name(name: &str) -> Result<&str, &'static str> {
    refused_name(name.as_bytes()).map_or(Ok(name), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::{Component, Path};

    #[test]
    fn locations_as_users_write_them() {
        let of = |text: &str| {
            text.parse::<S3Location>().map(|one| (one.bucket.clone(), one.key.clone(), one.is_prefix()))
        };
        assert_eq!(of("s3://b"), Ok(("b".into(), String::new(), true)));
        assert_eq!(of("S3://b.c-1/"), Ok(("b.c-1".into(), String::new(), true)));
        assert_eq!(of("s3://b/a b?c#d%20"), Ok(("b".into(), "a b?c#d%20".into(), false)));
        assert_eq!(of("s3://b//a/"), Ok(("b".into(), "/a/".into(), true)));
        for bucket in ["", "..", "-a", "a_", "ü", "a b", "a@h:1"] {
            assert_eq!(of(&format!("s3://{bucket}/k")), Err(S3LocationError::Bucket(bucket.into())));
        }
        assert_eq!(of("http://b/k"), Err(S3LocationError::NoScheme));
        assert_eq!(of("s3:"), Err(S3LocationError::NoScheme));
        assert_eq!(of("s3://b/a\nb"), Err(S3LocationError::Letters));
        assert_eq!(of(&format!("s3://b/{}", "k".repeat(1025))), Err(S3LocationError::KeyTooLong));
    }

    #[test]
    fn a_command_for_a_shell_holds_whatever_names_there_are() {
        let location: S3Location = "s3://b/it's $(a) key".parse().expect("a location");
        let command = location.abort_command("u'; reboot '");
        let words = "--key 'it'\\''s $(a) key' --upload-id 'u'\\''; reboot '\\'''";
        assert!(command.ends_with(words), "{command}");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(s3://)?[a-z.-]{0,5}.{0,40}") {
            if let Ok(location) = text.parse::<S3Location>() {
                prop_assert_eq!(location.to_string().parse::<S3Location>(), Ok(location));
            }
        }
    }

    #[test]
    fn keys_that_lead_elsewhere_are_no_names() {
        for key in
            ["..", "../a", "/a", "//a", "a//b", "a/../b", "a/./b", "", "/", "a\0b", "a//", ".a.linerate-part"]
        {
            assert!(file_below(key).is_err(), "{key:?}");
        }
        assert!(file_below(&"x".repeat(256)).is_err() && file_below(&"a/".repeat(99)).is_err());
        assert_eq!(file_below("a/b c/…"), Ok((Path::new("a/b c/…").into(), false)));
        assert_eq!(file_below("a/b/"), Ok((Path::new("a/b").into(), true)));
        assert_eq!(file_below("..."), Ok((Path::new("...").into(), false)));
    }

    proptest! {
        #[test]
        fn no_key_leads_out(key in "([./\\\\]|\\.\\.|\u{0}|[a-c]|\\PC){0,20}") {
            if let Ok((path, _)) = file_below(&key) {
                prop_assert!(path.components().all(|part| matches!(part, Component::Normal(_))));
                prop_assert!(path.components().count() > 0);
            }
        }
    }
}
