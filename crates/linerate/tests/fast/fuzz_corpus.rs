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

#[test]
fn control() {
    replay("control", entries::control);
}

#[test]
fn iperf3() {
    replay("iperf3", entries::iperf3);
}

#[test]
fn udp() {
    replay("udp", entries::udp);
}

#[test]
fn stream() {
    replay("stream", entries::stream);
}

#[test]
fn run_json() {
    replay("run_json", entries::run_json);
}

#[test]
fn run_edits() {
    replay("run_edits", entries::run_edits);
}

#[test]
fn sysroot() {
    replay("sysroot", entries::sysroot);
}

#[test]
fn tarball() {
    replay("tarball", entries::tarball);
}

#[test]
fn lstopo() {
    replay("lstopo", entries::lstopo);
}

#[test]
fn lspci() {
    replay("lspci", entries::lspci);
}

#[test]
fn pci_config() {
    replay("pci_config", entries::pci_config);
}

#[test]
fn perftest() {
    replay("perftest", entries::perftest);
}

#[test]
fn units() {
    replay("units", entries::units);
}

#[test]
fn words() {
    replay("words", entries::words);
}

#[test]
fn smbios() {
    replay("smbios", entries::smbios);
}

#[test]
fn dmidecode() {
    replay("dmidecode", entries::dmidecode);
}

#[test]
fn machine_toml() {
    replay("machine_toml", entries::machine_toml);
}

#[test]
fn fio_job() {
    replay("fio_job", entries::fio_job);
}

#[test]
fn network_counters() {
    replay("network_counters", entries::network_counters);
}

#[test]
fn processes() {
    replay("processes", entries::processes);
}

#[test]
fn movie_toml() {
    replay("movie_toml", entries::movie_toml);
}

#[test]
fn rtp() {
    replay("rtp", entries::rtp);
}

#[test]
fn wall_control() {
    replay("wall_control", entries::wall_control);
}

#[test]
fn watch_recording() {
    replay("watch_recording", entries::watch_recording);
}

#[test]
fn http_request() {
    replay("http_request", entries::http_request);
}

#[test]
fn http_response() {
    replay("http_response", entries::http_response);
}

#[test]
fn http_range() {
    replay("http_range", entries::http_range);
}

#[test]
fn s3_answer() {
    replay("s3_answer", entries::s3_answer);
}
