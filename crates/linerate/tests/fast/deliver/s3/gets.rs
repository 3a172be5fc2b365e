//! `linerate get s3://…`: objects and prefixes, whole and right.

use super::fake_store::{FakeStore, KEYS, Spoilt};
use super::signed::KnownKeys;
use crate::deliver::liars::ranges;
use crate::support::process::{Ends, until};
use crate::support::served::{content, place};
use crate::support::{linerate, names, text};
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn an_object_comes_in_signed_ranges_of_one_version_and_its_sum_is_compared() {
    let content = content(91, (21 << 20) + 5);
    let (folder, _, out) = place(b"");
    let store = FakeStore::start();
    let key = "sets/a b%20+ü?#.bin";
    store.add("bucket", key, &content);
    let url = format!("s3://bucket/{key}");
    let words = ["get", &url, "--output", text(&out), "--streams", "3"];
    let (status, report, errors) = store.json(folder.path(), &words);
    assert_eq!((status, errors.as_str()), (Some(0), ""), "{report}");
    assert!(std::fs::read(out.join("a b%20+ü?#.bin")).expect("there") == content);
    assert_eq!(report["transfer"]["files"][0]["verified"], serde_json::json!(["crc64nvme"]), "{report}");
    assert_eq!(report["transfer"]["moved_bytes"], content.len(), "{report}");
    let asked = store.content().asked.clone();
    let parts: Vec<_> = asked.iter().filter(|asked| asked.line("range").is_some()).collect();
    assert!(parts.len() >= 3, "{}", parts.len());
    assert!(
        parts.iter().all(|asked| asked.line("if-match").is_some() && asked.line("authorization").is_some())
    );
    let (status, report, _) = store.json(folder.path(), &words);
    assert_eq!(
        (status, &report["transfer"]["files"][0]["outcome"]),
        (Some(0), &"already-there".into()),
        "{report}"
    );
    assert_eq!(names(&out).len(), 1);
}

#[test]
fn a_prefix_comes_page_by_page_and_keys_that_lead_out_are_left_out() {
    let (folder, _, out) = place(b"");
    let store = FakeStore::start();
    let large = content(92, (3 << 20) + 1);
    for number in 0..10u8 {
        store.add("bucket", &format!("set/sub {number}/file"), &[number; 100]);
    }
    store.add("bucket", "set/large", &large);
    store.add("bucket", "set/folder/", b"");
    store.add("bucket", "settee", b"beside it");
    let bad = ["set/../../out-1", "set//out-2", "set/a/../x", "set/full/", "set/./x", "set/sub 1/file/below"];
    bad.iter().for_each(|key| store.add("bucket", key, b"bad"));
    // Without its slash it is a prefix as well, as long as there is no such object.
    for url in ["s3://bucket/set/", "s3://bucket/set"] {
        let (status, report, errors) = store.json(folder.path(), &["get", url, "--output", text(&out)]);
        assert_eq!(status, Some(1), "{errors} {report}");
        assert_eq!(names(&out), ["set"], "{errors}");
        let there = names(&out.join("set"));
        assert_eq!(there.len(), 12, "{there:?}");
        assert_eq!(report["errors"].as_array().map(Vec::len), Some(6), "{report}");
        assert!(errors.contains("cannot be a file's name") || errors.contains("6 "), "{errors}");
    }
    assert!(std::fs::read(out.join("set/large")).expect("there") == large);
    assert_eq!(std::fs::read(out.join("set/sub 7/file")).expect("there"), [7; 100]);
    assert_eq!(names(folder.path()), ["data", "out"], "nothing beside it");
    assert!(store.count("GET list") >= 10);
    let (status, _, errors) = store.json(folder.path(), &["get", "s3://bucket/none", "--output", text(&out)]);
    assert!(status == Some(3) && errors.contains("no such key"), "{errors}");
}

#[test]
fn a_store_is_asked_with_session_tokens_or_with_no_keys_at_all() {
    let (folder, _, out) = place(b"");
    let keys = KnownKeys { token: Some("a+session/token=="), ..KEYS };
    let store = FakeStore::with(Some(keys), |_| None);
    store.add("b", "file", b"of a role");
    let mut command = store.command(folder.path());
    command.env("AWS_SESSION_TOKEN", "a+session/token==").args([
        "get",
        "s3://b/file",
        "--output",
        text(&out),
    ]);
    let (status, _, errors) = super::fake_store::ended(&mut command);
    assert_eq!(status, Some(0), "{errors}");
    let open = FakeStore::with(None, |_| None);
    open.add("b", "other", b"for all");
    let mut command = store.command(folder.path());
    command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
    let endpoint = format!("http://127.0.0.1:{}/", open.port);
    command.env("AWS_ENDPOINT_URL", &endpoint).args(["get", "s3://b/other", "--output", text(&out)]);
    let (status, _, errors) = super::fake_store::ended(&mut command);
    assert!(status == Some(0) && errors.contains("asked anonymously"), "{errors}");
    assert!(open.content().asked.iter().all(|asked| asked.line("authorization").is_none()));
    assert_eq!(names(&out), ["file", "other"]);
}

/// Of the older stores, which have no sum but that.
#[test]
fn an_object_whose_tag_is_an_md5_is_compared_and_another_is_said_not_to_be() {
    const OF_ABC: &str = "ETag: \"900150983cd24fb0d6963f7d28e17f72\"\r\n";
    const OF_ZEROES: &str = "ETag: \"b2d1236c286a3c0704224fe4105eca49\"\r\n";
    const OF_PARTS: &str = "ETag: \"b2d1236c286a3c0704224fe4105eca49-2\"\r\n";
    const OF_KMS: &str =
        "ETag: \"900150983cd24fb0d6963f7d28e17f72\"\r\nx-amz-server-side-encryption: aws:kms\r\n";
    let (folder, _, out) = place(b"");
    let (zeroes, mut changed) = (vec![0; 2 << 20], vec![0; 2 << 20]);
    changed[1_500_000] = 1;
    for (content, lines, compared) in [
        (b"abc".to_vec(), OF_ABC, Some(true)),
        (b"abd".to_vec(), OF_ABC, None),
        (b"abd".to_vec(), OF_KMS, Some(false)),
        (zeroes.clone(), OF_ZEROES, Some(true)),
        (changed, OF_ZEROES, None),
        (zeroes, OF_PARTS, Some(false)),
    ] {
        let _ = std::fs::remove_dir_all(&out);
        let store = ranges(content, lines, |_, _| {});
        let mut command = linerate();
        command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_PROFILE").env("HOME", folder.path());
        command.env("AWS_ENDPOINT_URL", store.url(""));
        command.args(["get", "s3://b/file", "--output", text(&out)]);
        let output = command.ended();
        let (said, errors) = (output.stdout, output.stderr);
        match compared {
            None => {
                assert_eq!(output.status.code(), Some(1), "{lines}: {errors}");
                assert!(
                    errors.contains("its MD5 (its ETag) is") && errors.contains("nothing of it was kept"),
                    "{errors}"
                );
                assert_eq!(names(&out), [""; 0], "{lines}");
            }
            Some(is_compared) => {
                assert_eq!(output.status.code(), Some(0), "{lines}: {errors}");
                assert_eq!(said.contains(", verified by md5\n"), is_compared, "{lines}: {said}");
                assert_eq!(said.contains(", not compared\n"), !is_compared, "{lines}: {said}");
            }
        }
    }
}

#[test]
fn a_get_that_was_killed_goes_on_and_the_sum_is_of_all_of_it() {
    let content = content(93, (40 << 20) + 7);
    let (folder, _, out) = place(b"");
    let store = FakeStore::start();
    store.add("b", "file", &content);
    let words = ["get", "s3://b/file", "--output", text(&out)];
    let mut child =
        store.command(folder.path()).args(words).args(["--rate-limit", "40MB/s"]).spawn().expect("it starts");
    let journal = out.join(".file.linerate-journal");
    until("no block comes", || std::fs::metadata(&journal).map_or(0, |journal| journal.len()) >= 400);
    child.kill().expect("killed");
    child.wait().expect("it ends");
    let (status, report, errors) = store.json(folder.path(), &words);
    assert_eq!(status, Some(0), "{errors}");
    assert!(report["transfer"]["kept_bytes"].as_u64() > Some(0), "{report}");
    assert_eq!(report["transfer"]["files"][0]["verified"][0], "crc64nvme", "{report}");
    assert!(std::fs::read(out.join("file")).expect("there") == content);
}

#[test]
fn a_store_that_asks_for_fewer_requests_is_asked_again() {
    let content = content(94, (9 << 20) + 1);
    let (folder, _, out) = place(b"");
    let refused = AtomicU32::new(0);
    let store = FakeStore::with(Some(KEYS), move |asked| {
        let of_each = !asked.what().starts_with("HEAD") && refused.fetch_add(1, Ordering::Relaxed) < 2;
        of_each.then_some(Spoilt::Refuse(503, "SlowDown"))
    });
    store.add("b", "set/file", &content);
    let (status, _, errors) = store.json(folder.path(), &["get", "s3://b/set/", "--output", text(&out)]);
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    assert!(std::fs::read(out.join("set/file")).expect("there") == content);
}
