//! What fuzzing started from and what it found, through the functions that were fuzzed:
//! `fuzz/corpus/TARGET/*`.

#[path = "../../../../fuzz/src/lib.rs"]
mod entries;

use std::path::Path;

/// Runs a target over its corpus; a panic is a failure, and its message tells the promise that is broken.
fn replay(target: &str, entry: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<_> =
        std::fs::read_dir(&corpus).expect("the corpus").flatten().map(|f| f.path()).collect();
    files.sort();
    assert!(files.len() > 1, "{} is there", corpus.display());
    for file in files {
        println!("{}", file.display());
        entry(&std::fs::read(&file).expect("an input"));
    }
}

macro_rules! replay_all {
    ($($target:ident)*) => {{
        $(replay(stringify!($target), entries::$target);)*
        [$(stringify!($target)),*].len()
    }};
}

#[test]
fn what_fuzzing_found_breaks_nothing_any_more() {
    let replayed = replay_all!(
        control iperf3 udp stream run_json run_edits sysroot tarball listings lstopo lspci pci_config perftest units
        words smbios dmidecode machine_toml paper_toml fio_job foreign_results network_counters processes movie_toml rtp
        wall_control watch_recording expectations http_request http_response http_range index_page s3_answer
        copy_half
    );
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    assert_eq!(std::fs::read_dir(corpora).expect("the corpora").count(), replayed, "each has its target");
}
