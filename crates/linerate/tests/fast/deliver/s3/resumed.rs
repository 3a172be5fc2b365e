//! Puts to a store that are killed and started again: they go on with the upload that is there, and touch no other.

use super::fake_store::{Asked, FakeStore, KEYS, OpenUpload, Spoilt};
use crate::support::process::{Ends, until};
use crate::support::served::{content, place};
use crate::support::text;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

const BYTES: usize = (44 << 20) + 77;
/// Bytes of a part: of a file this long over two streams.
const PART: usize = 8 << 20;

fn words(file: &Path) -> [&str; 5] {
    ["put", text(file), "s3://b/to/file", "--streams", "2"]
}

fn start(store: &FakeStore, folder: &Path, file: &Path, rate: &str) -> Child {
    let mut command = store.command(folder);
    command.args(words(file)).args(["--rate-limit", rate]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
}

/// Until the store has so many parts.
fn awaits(store: &FakeStore, parts: usize) {
    until("no part comes", || {
        store.content().uploads.values().map(|upload| upload.parts.len()).sum::<usize>() >= parts
    });
}

fn kill(mut child: Child, store: &FakeStore) {
    let _ = child.kill();
    child.wait().expect("it ends");
    store.settles();
}

/// An upload of somebody's, with these parts.
fn opened(store: &FakeStore, key: &str, is_summed: bool, parts: &[(u32, &[u8])]) {
    let mut content = store.content();
    content.made += 1;
    let id = format!("upload/{}+", content.made);
    let parts = parts.iter().map(|(number, bytes)| (*number, bytes.to_vec())).collect();
    let place = ("b".into(), key.into());
    content.uploads.insert(id, OpenUpload { place, is_summed, parts, modified_line: None });
}

/// Put to its end, and right; how many bytes of it the store had.
fn put(store: &FakeStore, folder: &Path, file: &Path, content: &[u8]) -> u64 {
    let (status, report, errors) = store.json(folder, &words(file));
    assert!(status == Some(0) && errors.is_empty(), "{errors} {report}");
    assert!(store.get("b", "to/file").expect("there").content == content, "{report}");
    let kept = report["transfer"]["files"][0]["kept_bytes"].as_u64().expect("a number");
    assert_eq!(report["transfer"]["moved_bytes"].as_u64(), Some(content.len() as u64 - kept), "{report}");
    assert_eq!(report["transfer"]["files"][0]["verified"][0], "crc64nvme", "{report}");
    kept
}

#[test]
fn a_killed_put_goes_on_with_the_parts_that_are_there() {
    let bytes = content(131, BYTES);
    let (folder, data, _) = place(&bytes);
    let (store, file) = (FakeStore::start(), data.join("file"));
    let child = start(&store, folder.path(), &file, "25MB/s");
    awaits(&store, 2);
    kill(child, &store);
    let there = store.content().uploads.values().map(|upload| upload.parts.len()).sum::<usize>();
    let kept = put(&store, folder.path(), &file, &bytes);
    assert_eq!(kept, (there * PART) as u64);
    assert_eq!(store.count("POST create"), 1);
    assert!(store.content().uploads.is_empty());
}

/// `LINERATE_KILLS` says how often; the counts are printed.
#[test]
fn kills_at_random_moments_leave_no_upload_and_only_right_objects() {
    let kills = std::env::var("LINERATE_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(8u32);
    let bytes = content(132, BYTES);
    let (folder, data, _) = place(&bytes);
    let (store, file) = (FakeStore::start(), data.join("file"));
    let (mut state, mut objects) = (0x9e37_79b9_7f4a_7c15u64, 0);
    for _ in 0..kills {
        let child = start(&store, folder.path(), &file, "60MB/s");
        std::thread::sleep(Duration::from_millis(linerate_testing::next(&mut state) % 500));
        kill(child, &store);
        assert!(store.content().uploads.len() <= 1, "a start begins no second upload");
        if let Some(object) = store.content().objects.remove(&("b".into(), "to/file".into())) {
            assert!(object.content == bytes, "a wrong object");
            objects += 1;
        }
    }
    put(&store, folder.path(), &file, &bytes);
    assert!(store.content().uploads.is_empty());
    println!("kills: {kills}; {objects} objects whole before, 0 wrong ones");
}

#[test]
fn parts_count_by_their_content_and_keep_their_length() {
    let bytes = content(133, BYTES);
    let (folder, data, _) = place(&bytes);
    let (store, file) = (FakeStore::start(), data.join("file"));
    // Of another length than linerate's own, with one that is wrong.
    let part = |at: usize| bytes[at * (10 << 20)..BYTES.min((at + 1) * (10 << 20))].to_vec();
    let mut wrong = part(2);
    wrong[5] ^= 1;
    opened(&store, "to/file", true, &[(1, &part(0)), (2, &part(1)), (3, &wrong), (5, &part(4))]);
    let kept = put(&store, folder.path(), &file, &bytes);
    assert_eq!(kept, (part(0).len() + part(1).len() + part(4).len()) as u64);
    assert_eq!((store.count("POST create"), store.count("PUT part")), (0, 2));
    assert!(store.content().uploads.is_empty());
}

#[test]
fn uploads_of_others_are_left_alone() {
    let bytes = content(134, BYTES);
    let (folder, data, _) = place(&bytes);
    let (store, file) = (FakeStore::start(), data.join("file"));
    let other = content(135, PART);
    opened(&store, "to/file", true, &[(1, &other)]);
    opened(&store, "to/file", true, &[(1, &bytes[..4 << 20])]);
    opened(&store, "to/file", false, &[(1, &bytes[..PART])]);
    opened(&store, "to/file2", true, &[(1, &bytes[..PART])]);
    assert_eq!(put(&store, folder.path(), &file, &bytes), 0);
    let content = store.content();
    assert_eq!(content.uploads.len(), 4, "none of them was taken, or ended");
    assert!(content.uploads.values().all(|upload| upload.parts.len() == 1));
}

#[test]
fn stores_that_give_no_lists_get_a_new_upload() {
    for (what, answer) in [
        ("GET uploads", Spoilt::Refuse(403, "AccessDenied")),
        ("GET uploads", Spoilt::Refuse(501, "NotImplemented")),
        ("GET uploads", Spoilt::Refuse(500, "InternalError")),
        ("GET uploads", Spoilt::Body("<ListBucketResult/>")),
        ("GET parts", Spoilt::Refuse(403, "AccessDenied")),
        ("GET parts", Spoilt::Body("")),
    ] {
        let bytes = content(136, (9 << 20) + 3);
        let (folder, data, _) = place(&bytes);
        let of = answer.clone();
        let store =
            FakeStore::with(Some(KEYS), move |asked: &Asked| (asked.what() == what).then(|| of.clone()));
        opened(&store, "to/file", true, &[(1, &bytes[..PART])]);
        assert_eq!(put(&store, folder.path(), &data.join("file"), &bytes), 0, "{what} {answer:?}");
        assert_eq!((store.count("POST create"), store.content().uploads.len()), (1, 1), "{what} {answer:?}");
    }
}

/// Two of the same command at once: the second goes on with the upload of the first.
#[test]
fn an_upload_that_another_put_completed_counts_as_put() {
    let bytes = content(137, BYTES);
    let (folder, data, _) = place(&bytes);
    let (store, file) = (FakeStore::start(), data.join("file"));
    let first = start(&store, folder.path(), &file, "12MB/s");
    awaits(&store, 1);
    put(&store, folder.path(), &file, &bytes);
    let output = first.ended();
    assert!(output.status.success(), "{output:?}");
    assert_eq!((store.count("POST create"), store.content().uploads.len()), (1, 0));
}
