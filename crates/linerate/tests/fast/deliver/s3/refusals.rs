//! What a store refuses is one sentence each, with the likely cause and the remedy.

use super::fake_store::{FakeStore, KEYS, Spoilt, ended};
use super::signed::KnownKeys;
use crate::support::process::beside_each_other;
use crate::support::served::place;
use crate::support::{names, text, write_secret};

/// What is said where the store answers so to everything.
fn said(spoilt: Spoilt) -> String {
    let (folder, _, out) = place(b"");
    let store = FakeStore::with(Some(KEYS), move |_| Some(spoilt.clone()));
    let (status, _, errors) =
        store.json(folder.path(), &["get", "s3://bucket/key", "--output", text(&out), "--timeout", "2s"]);
    assert!(matches!(status, Some(1 | 3)), "{errors}");
    assert_eq!(names(&out), [""; 0]);
    let lines: Vec<_> = errors.lines().collect();
    assert!(lines.len() == 1 && lines[0].starts_with("linerate: s3://bucket/key"), "{errors}");
    errors
}

#[test]
fn each_refusal_is_a_sentence() {
    let scenarios = [
        (Spoilt::Refuse(403, "AccessDenied"), "access key AKIATEST is refused (403 AccessDenied)"),
        (Spoilt::Refuse(403, "InvalidAccessKeyId"), "does not know access key AKIATEST"),
        (Spoilt::Refuse(403, "SignatureDoesNotMatch"), "check AWS_SECRET_ACCESS_KEY"),
        (Spoilt::Refuse(400, "ExpiredToken"), "get new keys"),
        (Spoilt::Refuse(404, "NoSuchBucket"), "there is no bucket of this name at http://127.0.0.1:"),
        (Spoilt::Refuse(404, "NoSuchKey"), "(404); check the path"),
        (
            Spoilt::RefuseWith(301, "PermanentRedirect", "x-amz-bucket-region: eu-other-1\r\n"),
            "the bucket is in region eu-other-1, and the request went to eu-test-1: set AWS_REGION=eu-other-1",
        ),
        (Spoilt::Refuse(301, "PermanentRedirect"), "check AWS_REGION and the endpoint"),
        (
            Spoilt::RefuseWith(403, "RequestTimeTooSkewed", "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"),
            "minutes ahead of the store's",
        ),
        (Spoilt::Refuse(403, "InvalidObjectState"), "restore it first"),
        (Spoilt::Refuse(418, "Teapot"), "the store answered 418 Teapot: as it is"),
        (Spoilt::Refuse(503, ""), "(503), still after several tries; use fewer --streams or a lower --rate"),
        (Spoilt::Refuse(500, "InternalError"), "the store answered 500 InternalError"),
    ];
    beside_each_other(scenarios, |(spoilt, says)| {
        let errors = said(spoilt.clone());
        assert!(errors.contains(says), "{spoilt:?}: {errors}");
    });
}

#[test]
fn keys_that_are_not_the_right_ones_are_named() {
    let (folder, _, out) = place(b"");
    let store = FakeStore::start();
    store.add("b", "file", b"x");
    for (name, value, says) in [
        ("AWS_SECRET_ACCESS_KEY", "other", "the secret key does not belong to access key AKIATEST"),
        ("AWS_ACCESS_KEY_ID", "AKIAOTHER", "does not know access key AKIAOTHER"),
        ("AWS_SESSION_TOKEN", "left over", "the session token has letters"),
        ("AWS_SESSION_TOKEN", "leftover", "the session token of access key AKIATEST is refused"),
        ("AWS_DEFAULT_REGION", "no region", "is not a region"),
        ("AWS_ENDPOINT_URL", "127.0.0.1:9000", "AWS_ENDPOINT_URL: 127.0.0.1:9000: there is no scheme"),
    ] {
        let mut command = store.command(folder.path());
        command.env(name, value).args(["get", "s3://b/file", "--output", text(&out)]);
        let (status, _, errors) = ended(&mut command);
        assert!(status != Some(0) && errors.contains(says), "{name}={value}: {errors}");
        assert!(!errors.contains(KEYS.secret), "a secret is in no error");
    }
    let mut command = store.command(folder.path());
    command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
    let (_, _, errors) = ended(command.args(["get", "s3://b/file", "--output", text(&out)]));
    assert!(errors.contains("refuses requests without keys (403 AccessDenied); give some"), "{errors}");
    // A profile's keys, where there are no variables.
    std::fs::create_dir(folder.path().join(".aws")).expect("a folder");
    let profile =
        format!("[mine]\naws_access_key_id={}\naws_secret_access_key={}\n", KEYS.access, KEYS.secret);
    write_secret(&folder.path().join(".aws/credentials"), &profile);
    let mut command = store.command(folder.path());
    command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY").env("AWS_PROFILE", "mine");
    let (status, _, errors) = ended(command.args(["get", "s3://b/file", "--output", text(&out)]));
    assert_eq!((status, errors.as_str()), (Some(0), ""));
}

#[test]
fn words_that_are_no_location_are_refused() {
    let (folder, _, out) = place(b"");
    let store = FakeStore::with(Some(KnownKeys { region: "r", ..KEYS }), |_| None);
    for (url, says) in [
        ("s3://", "is not a name of a bucket"),
        ("s3://b ucket/key", "is not a name of a bucket"),
        ("s3://a@h:1/key", "is not a name of a bucket"),
        ("s3:bucket", "there is no scheme"),
        ("ftp://h/x", "s3://BUCKET/KEY"),
        ("s3://b/..", "cannot be a file's name"),
        ("s3://b/../", "cannot be a file's name"),
    ] {
        store.add("b", "..", b"x");
        store.add("b", "../", b"x");
        let mut command = store.command(folder.path());
        command.env("AWS_REGION", "r").args(["get", url, "--output", text(&out)]);
        let (status, _, errors) = ended(&mut command);
        assert!(matches!(status, Some(2 | 3)) && errors.contains(says), "{url}: {errors}");
    }
    assert_eq!(names(folder.path()), ["data"]);
}
