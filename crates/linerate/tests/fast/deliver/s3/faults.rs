//! Stores that lie or break while objects come: the right file, or none and a sentence.

use super::fake_store::{Asked, FakeStore, KEYS, Spoilt, StoredObject};
use crate::support::served::{content, place};
use crate::support::{names, text};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const BYTES: usize = (13 << 20) + 3;

/// A store whose answers to the ranges of `b/file` are spoilt, each in its turn.
fn spoilt_ranges(spoil: impl Fn(u32) -> Option<Spoilt> + Send + Sync + 'static) -> FakeStore {
    let number = AtomicU32::new(0);
    FakeStore::with(Some(KEYS), move |asked: &Asked| {
        let is_range = asked.method == "GET" && asked.line("range").is_some();
        is_range.then(|| spoil(number.fetch_add(1, Ordering::Relaxed))).flatten()
    })
}

fn get(store: &FakeStore) -> (Option<i32>, serde_json::Value, String, bool) {
    let content = content(95, BYTES);
    let (folder, _, out) = place(b"");
    store.add("b", "file", &content);
    let words = ["get", "s3://b/file", "--output", text(&out), "--timeout", "2s", "--streams", "2"];
    let (status, report, errors) = store.json(folder.path(), &words);
    let there = std::fs::read(out.join("file"));
    assert!(there.as_ref().map_or(true, |there| *there == content), "a wrong file is at its place");
    (status, report, errors, there.is_ok())
}

#[test]
fn connections_that_drop_and_answers_that_end_early_are_asked_for_again() {
    let store = spoilt_ranges(|number| match number {
        0 => Some(Spoilt::Close),
        1 => Some(Spoilt::Short(100_000)),
        2 => Some(Spoilt::Refuse(500, "InternalError")),
        3 => Some(Spoilt::Refuse(503, "SlowDown")),
        _ => None,
    });
    let (status, report, errors, there) = get(&store);
    assert!(status == Some(0) && there && errors.is_empty(), "{errors} {report}");
}

#[test]
fn a_bit_that_flips_on_the_way_is_noticed_by_the_sum() {
    let store = spoilt_ranges(|number| (number == 1).then_some(Spoilt::Flip(1000)));
    let (status, _, errors, there) = get(&store);
    assert!(status == Some(1) && !there, "{errors}");
    assert!(errors.contains("its crc64nvme is") && errors.contains("changes bytes"), "{errors}");
}

#[test]
fn a_store_that_goes_on_asking_for_fewer_requests_is_given_up() {
    let store = spoilt_ranges(|_| Some(Spoilt::Refuse(503, "SlowDown")));
    let (status, _, errors, there) = get(&store);
    assert!(!there && matches!(status, Some(1 | 3)), "{errors}");
    assert!(errors.contains("asks for fewer requests (503 SlowDown)"), "{errors}");
    let asked = store.content().asked.len();
    assert!(asked < 40, "{asked} requests");
}

#[test]
fn an_object_that_changes_in_the_middle_is_not_mixed() {
    let (folder, _, out) = place(b"");
    let store = FakeStore::start();
    store.add("b", "file", &content(96, 40 << 20));
    let shared = Arc::new(store);
    let changes = Arc::clone(&shared);
    let change = std::thread::spawn(move || {
        while changes.content().asked.iter().filter(|asked| asked.line("range").is_some()).count() < 2 {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        changes
            .content()
            .objects
            .insert(("b".into(), "file".into()), StoredObject::of(&content(97, 40 << 20)));
    });
    let words = ["get", "s3://b/file", "--output", text(&out), "--rate-limit", "60MB/s"];
    let (status, _, errors) = shared.json(folder.path(), &words);
    change.join().expect("changed");
    assert!(status == Some(1) && errors.contains("changed on the server"), "{errors}");
    assert_eq!(names(&out), [""; 0]);
}

#[test]
fn lists_that_are_no_lists_are_sentences() {
    for (body, says) in [
        ("<ListBucketResult><Contents>", "the store's answer cannot be used: it is not XML"),
        ("<html><body>Welcome</body></html>", "is the endpoint that of an S3 store?"),
        ("", "it is not XML"),
        (
            "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
            "no usable NextContinuationToken",
        ),
        (
            "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>a</NextContinuationToken>\
             </ListBucketResult>",
            "lead in a circle",
        ),
        ("<!DOCTYPE a [<!ENTITY b \"c\">]><ListBucketResult>&b;</ListBucketResult>", "it is not XML"),
    ] {
        let (folder, _, out) = place(b"");
        let store = FakeStore::with(Some(KEYS), move |_| Some(Spoilt::Body(body)));
        let (status, _, errors) = store.json(folder.path(), &["get", "s3://b/set/", "--output", text(&out)]);
        assert!(matches!(status, Some(1 | 3)) && errors.contains(says), "{body}: {errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}
