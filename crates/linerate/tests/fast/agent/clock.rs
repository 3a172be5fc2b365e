//! A clock that jumps: nothing that the agent waits for or measures hangs on the wall clock.

use std::path::Path;

#[test]
fn the_agent_reads_no_wall_clock() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../transport/src");
    let folders =
        ["agent", "admission"].map(|folder| std::fs::read_dir(sources.join(folder)).expect("a folder"));
    let files = folders.into_iter().flatten().flatten().map(|entry| entry.path());
    let mut monotonic = 0;
    for file in files.filter(|file| file.is_file()) {
        let text = std::fs::read_to_string(&file).expect("a source");
        let wall_clock = ["SystemTime", "UNIX_EPOCH", "clock::date"].iter().any(|name| text.contains(name));
        assert!(!wall_clock, "{}", file.display());
        monotonic += text.matches("clock::now()").count();
    }
    assert!(monotonic > 5, "its times are of the monotonic clock: {monotonic}");
}
