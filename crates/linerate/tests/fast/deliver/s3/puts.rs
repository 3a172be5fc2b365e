//! `linerate put … s3://…`: whole and right, in parts where it is large, and never over what is there.

use super::fake_store::{Asked, FakeStore, KEYS, Spoilt};
use crate::support::process::beside_each_other;
use crate::support::served::{content, place};
use crate::support::{names, text};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU32, Ordering};

fn outcomes(report: &serde_json::Value, outcome: &str) -> usize {
    let files = report["transfer"]["files"].as_array().map(Vec::as_slice).unwrap_or_default();
    files.iter().filter(|file| file["outcome"] == outcome).count()
}

#[test]
fn folders_are_put_in_parts_with_their_sums_and_once() {
    let (folder, data, out) = place(b"small");
    let store = FakeStore::start();
    let large = content(101, (37 << 20) + 5);
    std::fs::create_dir(data.join("sub é")).expect("a folder");
    std::fs::write(data.join("sub é/large"), &large).expect("written");
    std::fs::write(data.join("empty"), b"").expect("written");
    let words = ["put", text(&data), "s3://bucket/in/", "--streams", "3"];
    let (status, report, errors) = store.json(folder.path(), &words);
    assert_eq!((status, errors.as_str(), outcomes(&report, "put")), (Some(0), "", 3), "{report}");
    assert!(store.get("bucket", "in/data/sub é/large").expect("there").content == large);
    assert_eq!(store.get("bucket", "in/data/file").expect("there").content, b"small");
    assert_eq!(store.get("bucket", "in/data/empty").expect("there").content, b"");
    assert!(
        report["transfer"]["files"]
            .as_array()
            .expect("files")
            .iter()
            .all(|file| file["verified"][0] == "crc64nvme"),
        "{report}"
    );
    assert_eq!(report["transfer"]["moved_bytes"], large.len() + 5, "{report}");
    assert_eq!(
        (store.count("POST create"), store.count("PUT part"), store.count("POST complete")),
        (1, 5, 1)
    );
    assert!(store.content().uploads.is_empty());
    let modified = std::fs::metadata(data.join("sub é/large")).expect("there");
    let line = format!("{}.{:09}", modified.mtime(), modified.mtime_nsec());
    assert_eq!(store.get("bucket", "in/data/sub é/large").expect("there").modified_line, Some(line));
    // Again: nothing goes. What another tool put counts by its sum, another content is left as it is.
    store.add("bucket", "in/data/file", b"small");
    let (status, report, errors) = store.json(folder.path(), &words);
    assert_eq!((status, outcomes(&report, "already-there")), (Some(0), 3), "{errors} {report}");
    assert_eq!(report["transfer"]["moved_bytes"], 0);
    store.add("bucket", "in/data/file", b"other");
    let (status, report, errors) = store.json(folder.path(), &words);
    assert!(status == Some(1) && errors.contains("it was left as it is"), "{errors} {report}");
    assert_eq!(store.get("bucket", "in/data/file").expect("there").content, b"other");
    // And back.
    let (status, _, errors) =
        store.json(folder.path(), &["get", "s3://bucket/in/data/sub é/", "--output", text(&out)]);
    assert_eq!(status, Some(0), "{errors}");
    assert!(std::fs::read(out.join("sub é/large")).expect("there") == large);
    assert_eq!(names(&out.join("sub é")), ["large"]);
}

/// A store that spoils the requests of this kind, the first so many.
fn spoilt(what: &'static str, times: u32, answer: Spoilt) -> FakeStore {
    let number = AtomicU32::new(0);
    FakeStore::with(Some(KEYS), move |asked: &Asked| {
        let now = asked.what() == what && number.fetch_add(1, Ordering::Relaxed) < times;
        now.then(|| answer.clone())
    })
}

/// A file of three parts, put to a store.
fn put_large(store: &FakeStore) -> (Option<i32>, serde_json::Value, String) {
    let (folder, data, _) = place(&content(102, (9 << 20) + 1));
    let file = data.join("file");
    let ended =
        store.json(folder.path(), &["put", text(&file), "s3://b/to/", "--streams", "2", "--timeout", "3s"]);
    let there = store.get("b", "to/file");
    assert!(
        there.is_none_or(|there| there.content == content(102, (9 << 20) + 1)),
        "a wrong object is there"
    );
    ended
}

#[test]
fn what_passes_is_tried_again() {
    let scenarios = [
        ("PUT part", Spoilt::Refuse(503, "SlowDown")),
        ("PUT part", Spoilt::Close),
        ("PUT part", Spoilt::Refuse(400, "RequestTimeout")),
        ("POST create", Spoilt::Refuse(500, "InternalError")),
        ("POST complete", Spoilt::Refuse(503, "SlowDown")),
        ("POST complete", Spoilt::Close),
        ("POST complete", Spoilt::Short(0)),
        ("POST complete", Spoilt::Refuse(200, "InternalError")),
        ("POST complete", Spoilt::Refuse(200, "SlowDown")),
        ("HEAD object", Spoilt::Refuse(503, "SlowDown")),
    ];
    beside_each_other(scenarios, |(what, answer)| {
        let store = spoilt(what, 2, answer.clone());
        let (status, report, errors) = put_large(&store);
        assert!(status == Some(0) && errors.is_empty(), "{what} {answer:?}: {errors} {report}");
        assert!(
            store.get("b", "to/file").is_some() && store.content().uploads.is_empty(),
            "{what} {answer:?}"
        );
    });
}

/// The store looks at the condition before it looks for the upload.
#[test]
fn the_own_object_of_a_lost_answer_is_not_in_the_way() {
    let number = AtomicU32::new(0);
    let store = FakeStore::with(Some(KEYS), move |asked: &Asked| {
        let answers = [Spoilt::Short(0), Spoilt::Refuse(412, "PreconditionFailed")];
        let is_end = asked.what() == "POST complete";
        is_end.then(|| answers.get(number.fetch_add(1, Ordering::Relaxed) as usize).cloned()).flatten()
    });
    let (status, report, errors) = put_large(&store);
    assert_eq!((status, errors.as_str(), outcomes(&report, "put")), (Some(0), "", 1), "{report}");
}

#[test]
fn what_fails_is_aborted_and_nothing_is_there() {
    let scenarios = [
        (
            "PUT part",
            Spoilt::Refuse(403, "AccessDenied"),
            "access key AKIATEST is refused (403 AccessDenied)",
        ),
        ("PUT part", Spoilt::Refuse(503, "SlowDown"), "asks for fewer requests"),
        ("PUT part", Spoilt::Refuse(400, "BadDigest"), "what the store got is not what was sent"),
        ("POST complete", Spoilt::Refuse(400, "InvalidPart"), "the store answered 400 InvalidPart"),
        ("POST complete", Spoilt::Refuse(200, "EntityTooSmall"), "EntityTooSmall: as it is"),
        ("POST complete", Spoilt::Refuse(412, "PreconditionFailed"), "it was left as it is"),
        ("POST create", Spoilt::Refuse(403, "AccessDenied"), "is refused (403 AccessDenied)"),
        ("POST create", Spoilt::Body("<a/>"), "the store's answer cannot be used"),
    ];
    beside_each_other(scenarios, |(what, answer, says)| {
        let store = spoilt(what, u32::MAX, answer.clone());
        let (status, report, errors) = put_large(&store);
        assert!(
            matches!(status, Some(1 | 3)) && errors.contains(says),
            "{what} {answer:?}: {errors} {report}"
        );
        let content = store.content();
        assert!(content.objects.is_empty(), "{what} {answer:?}");
        let left = usize::from(matches!(answer, Spoilt::Body("<a/>")));
        assert_eq!(
            content.uploads.len(),
            left,
            "{what} {answer:?}: an upload whose name did not come cannot be aborted"
        );
        assert!(content.asked.len() < 60, "{} requests", content.asked.len());
    });
}

#[test]
fn a_store_without_conditions_and_sums_gets_plain_requests() {
    let store = FakeStore::with(Some(KEYS), |asked: &Asked| {
        let more = ["if-none-match", "x-amz-checksum-crc64nvme", "x-amz-checksum-algorithm"];
        let has = more.iter().any(|name| asked.line(name).is_some());
        has.then_some(Spoilt::Refuse(501, "NotImplemented"))
    });
    let (status, report, errors) = put_large(&store);
    assert!(status == Some(0) && errors.is_empty(), "{errors}");
    assert_eq!(report["transfer"]["files"][0]["verified"], serde_json::json!([]), "{report}");
    assert!(store.get("b", "to/file").is_some());
    let (folder, data, _) = place(b"small");
    let (status, report, errors) =
        store.json(folder.path(), &["put", text(&data.join("file")), "s3://b/small"]);
    assert!(status == Some(0) && errors.is_empty(), "{errors} {report}");
    assert_eq!(store.get("b", "small").expect("there").content, b"small");
}

/// A store that cannot refuse to replace an object is not trusted to have none because it was busy.
#[test]
fn nothing_is_replaced_where_it_was_not_seen_whether_it_is_there() {
    let number = AtomicU32::new(0);
    let store = FakeStore::with(Some(KEYS), move |asked: &Asked| {
        let is_busy = asked.what() == "HEAD object" && asked.key().1.ends_with("second");
        let is_busy = is_busy && number.fetch_add(1, Ordering::Relaxed) == 0;
        let busy = is_busy.then_some(Spoilt::Refuse(503, "SlowDown"));
        let condition = asked.line("if-none-match").or(asked.line("x-amz-checksum-crc64nvme"));
        busy.or(condition.map(|_| Spoilt::Refuse(501, "NotImplemented")))
    });
    let (folder, data, _) = place(b"first");
    std::fs::write(data.join("second"), "new").expect("written");
    store.add("b", "data/second", b"old");
    let (status, _, errors) = store.json(folder.path(), &["put", text(&data), "s3://b/", "--streams", "1"]);
    assert!(status == Some(1) && errors.contains("it was left as it is"), "{errors}");
    assert_eq!(store.get("b", "data/second").expect("there").content, b"old");
}

#[test]
fn words_that_fit_no_object_are_refused() {
    let (folder, data, _) = place(b"small");
    let store = FakeStore::start();
    let put = |words: &[&str]| store.json(folder.path(), &[&["put"], words].concat());
    let (status, _, errors) = put(&[text(&data), "s3://b/one"]);
    assert!(status == Some(2) && errors.contains("end the URL with a slash"), "{errors}");
    let (status, _, errors) = put(&[text(&data), "s3://absent/"]);
    assert!(status == Some(3) && errors.contains("there is no bucket of this name"), "{errors}");
    let (status, report, errors) = put(&[text(&data.join("file")), "s3://b"]);
    assert_eq!((status, outcomes(&report, "put")), (Some(0), 1), "{errors}");
    assert!(store.get("b", "file").is_some());
}
