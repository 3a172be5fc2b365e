//! What is loaded: a block device of its own and two namespaces; and the loads, which move a known rate for a
//! known time.

use super::tools::unhurried;
use crate::support::pair::Pair;
use std::fs::File;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Bytes of the block device.
const SIZE: u64 = 64 << 20;
/// The loads run so long.
const SECONDS: &str = "2";

/// A loop device over a file; gone with the value.
pub struct LoopDisk {
    /// `/dev/loop7`.
    pub place: String,
    _folder: TempDir,
}

impl LoopDisk {
    pub fn up() -> LoopDisk {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let file = folder.path().join("disk");
        File::create(&file).and_then(|made| made.set_len(SIZE)).expect("a file");
        let output = Command::new("losetup").args(["--find", "--show"]).arg(&file).output().expect("losetup");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let place = String::from_utf8(output.stdout).expect("text").trim().to_string();
        LoopDisk { place, _folder: folder }
    }

    /// `loop7`.
    pub fn name(&self) -> &str {
        self.place.trim_start_matches("/dev/")
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.place]).output();
    }
}

/// Programs that run; ended with the value.
pub struct Loads(Vec<Child>);

impl Loads {
    /// iperf3's servers in the watched namespace, which end after one test each.
    pub fn servers(pair: &Pair) -> Loads {
        let server = |port| quiet(pair, 'b', &["iperf3", "--server", "--one-off", "--port", port]);
        Loads(vec![server("5201"), server("5202")])
    }

    /// UDP and TCP to the watched interface, reads and writes of the disk: each at a bounded rate.
    pub fn start(pair: &Pair, disk: &LoopDisk) -> Loads {
        let iperf3 = ["iperf3", "--client", "192.0.2.2", "--time", SECONDS, "--port"];
        let udp = [&iperf3[..], &["5201", "--udp", "--length", "1200", "--bitrate", "40M"]].concat();
        let tcp = [&iperf3[..], &["5202", "--bitrate", "200M"]].concat();
        let (runtime, place) = (format!("--runtime={SECONDS}"), format!("--filename={}", disk.place));
        let fio =
            ["fio", "--name=load", "--rw=randrw", "--bs=64k", "--direct=1", "--rate=30m,15m", "--time_based"];
        let fio = [&fio[..], &[&runtime, &place]].concat();
        Loads(vec![quiet(pair, 'a', &udp), quiet(pair, 'a', &tcp), quiet(pair, 'a', &fio)])
    }

    /// Waits for all; false where one failed.
    pub fn ended(&mut self) -> bool {
        let statuses: Vec<_> = self.0.iter_mut().map(|child| child.wait().expect("its status")).collect();
        statuses.iter().all(std::process::ExitStatus::success)
    }
}

impl Drop for Loads {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn quiet(pair: &Pair, end: char, words: &[&str]) -> Child {
    let mut command = pair.inside(end, &unhurried(words));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the load starts")
}
