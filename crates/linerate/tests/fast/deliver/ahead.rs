//! The sums of what comes are asked for over a connection of their own.

use super::liars::ranges;
use crate::support::served::{content, get_json, place};
use crate::support::text;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A server that takes two seconds for any sum holds up no part: the parts have come before the first sums
/// are there.
#[test]
fn no_stream_waits_for_sums_while_there_are_parts() {
    let whole = content(43, 32 << 20);
    let counts = Arc::new([const { AtomicUsize::new(0) }; 2]);
    let counted = Arc::clone(&counts);
    let server = ranges(whole.clone(), "ETag: \"a\"\r\nLinerate: blocks\r\n", move |head, bytes| {
        let [sent, early] = &*counted;
        if head.contains("?linerate=blocks") {
            std::thread::sleep(Duration::from_secs(2));
            early.fetch_max(sent.load(Ordering::SeqCst), Ordering::SeqCst);
        } else if head.starts_with("GET") {
            sent.fetch_add(bytes, Ordering::SeqCst);
        }
    });
    let (_folder, _, out) = place(b"");
    let words = [&server.url("file"), "--output", text(&out), "--streams", "1"];
    let (status, report, errors) = get_json(&words);
    assert_eq!(status, Some(0), "{errors} {report}");
    assert!(std::fs::read(out.join("file")).expect("there") == whole);
    assert_eq!(report["transfer"]["files"][0]["verified"][0], "xxh3-64", "{report}");
    let early = counts[1].load(Ordering::SeqCst);
    assert_eq!(early, whole.len(), "all parts came while the sums were computed");
}
