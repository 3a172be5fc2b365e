//! Ctrl-C, deaths and files that change while they are put to a store: nothing of them is kept there.

use super::fake_store::{Asked, FakeStore, KEYS, Spoilt};
use crate::support::process::{signal, until};
use crate::support::served::{content, place};
use crate::support::text;
use std::io::Read;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// A put of 60 MiB that is on its way, with a part at the store.
fn on_its_way(store: &FakeStore, folder: &std::path::Path, file: &std::path::Path) -> Child {
    let mut command = store.command(folder);
    command.args(["put", text(file), "s3://b/file", "--rate-limit", "25MB/s", "--streams", "2"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    until("no part comes", || store.count("PUT part") >= 1);
    child
}

fn ends(mut child: Child) -> (Option<i32>, String) {
    let mut errors = String::new();
    child.stderr.take().expect("its errors").read_to_string(&mut errors).expect("text");
    (child.wait().expect("it ends").code(), errors)
}

#[test]
fn an_interruption_aborts_the_upload() {
    let (folder, data, _) = place(&content(111, 60 << 20));
    let store = FakeStore::start();
    let child = on_its_way(&store, folder.path(), &data.join("file"));
    signal(&child, "INT");
    let (status, errors) = ends(child);
    assert!(status == Some(1) && errors.contains("interrupted"), "{errors}");
    assert_eq!(store.count("DELETE abort"), 1, "{errors}");
    let content = store.content();
    assert!(content.uploads.is_empty() && content.objects.is_empty());
}

/// As moto does while parts are still coming in.
#[test]
fn a_store_that_stumbles_over_the_end_is_asked_once_more() {
    let (folder, data, _) = place(&content(115, 60 << 20));
    let failed = AtomicBool::new(false);
    let store = FakeStore::with(Some(KEYS), move |asked: &Asked| {
        let is_first = asked.what() == "DELETE abort" && !failed.swap(true, Ordering::Relaxed);
        is_first.then_some(Spoilt::Refuse(500, "InternalError"))
    });
    let child = on_its_way(&store, folder.path(), &data.join("file"));
    signal(&child, "INT");
    let (status, errors) = ends(child);
    assert!(status == Some(1) && !errors.contains("aborted"), "{errors}");
    assert_eq!(store.count("DELETE abort"), 2, "{errors}");
    assert!(store.content().uploads.is_empty());
}

#[test]
fn an_upload_that_cannot_be_aborted_is_named() {
    let (folder, data, _) = place(&content(112, 60 << 20));
    let store = FakeStore::with(Some(KEYS), |asked: &Asked| {
        (asked.what() == "DELETE abort").then_some(Spoilt::Refuse(403, "AccessDenied"))
    });
    let child = on_its_way(&store, folder.path(), &data.join("file"));
    signal(&child, "TERM");
    let (status, errors) = ends(child);
    assert_eq!(status, Some(1), "{errors}");
    for says in [
        "s3://b/file: its upload could not be aborted",
        "--upload-id 'upload/1+'",
        "--bucket 'b' --key 'file'",
    ] {
        assert!(errors.contains(says), "{says}: {errors}");
    }
}

#[test]
fn a_file_that_changes_while_it_is_put_is_not_there() {
    let (folder, data, _) = place(&content(113, 60 << 20));
    let (file, other) = (data.join("file"), content(114, 60 << 20));
    let store = FakeStore::start();
    let child = on_its_way(&store, folder.path(), &file);
    std::fs::write(&file, other).expect("changed");
    let (status, errors) = ends(child);
    assert!(status == Some(1) && errors.contains("it changed while it was sent"), "{errors}");
    let content = store.content();
    assert!(content.uploads.is_empty() && content.objects.is_empty());
}
