//! A clock that jumps: nothing that the agent waits for or measures hangs on the wall clock.

use std::path::Path;

#[test]
fn the_agent_reads_no_wall_clock() {
    let room = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/agent");
    let files = std::fs::read_dir(&room).expect("the room").flatten().map(|entry| entry.path());
    let mut monotonic = 0;
    for file in files.filter(|file| file.is_file()) {
        let text = std::fs::read_to_string(&file).expect("a source");
        assert!(!text.contains("SystemTime") && !text.contains("UNIX_EPOCH"), "{}", file.display());
        monotonic += text.matches("Instant::now()").count();
    }
    assert!(monotonic > 5, "its times are of the monotonic clock: {monotonic}");
}
