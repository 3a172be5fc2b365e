//! What is loaded: a block device of its own and two namespaces; and the loads, which move a known rate for a
//! known time.

use super::tools::unhurried;
use crate::support::disk_places::LoopDevice;
use crate::support::namespaces::Namespaces;
use crate::support::process::Running;
use std::process::Stdio;

/// The loads run so long.
const SECONDS: &str = "2";

/// Programs that run; ended with the value.
pub struct Loads(Vec<Running>);

impl Loads {
    /// iperf3's servers in the watched namespace, which end after one test each.
    pub fn servers(pair: &Namespaces) -> Loads {
        let server = |port| quiet(pair, "b", &["iperf3", "--server", "--one-off", "--port", port]);
        Loads(vec![server("5201"), server("5202")])
    }

    /// UDP and TCP to the watched interface, reads and writes of the disk: each at a bounded rate.
    pub fn start(pair: &Namespaces, disk: &LoopDevice) -> Loads {
        let iperf3 = ["iperf3", "--client", "192.0.2.2", "--time", SECONDS, "--port"];
        let udp = [&iperf3[..], &["5201", "--udp", "--length", "1200", "--bitrate", "40M"]].concat();
        let tcp = [&iperf3[..], &["5202", "--bitrate", "200M"]].concat();
        let (runtime, place) = (format!("--runtime={SECONDS}"), format!("--filename={}", disk.text()));
        let fio =
            ["fio", "--name=load", "--rw=randrw", "--bs=64k", "--direct=1", "--rate=30m,15m", "--time_based"];
        let fio = [&fio[..], &[&runtime, &place]].concat();
        Loads(vec![quiet(pair, "a", &udp), quiet(pair, "a", &tcp), quiet(pair, "a", &fio)])
    }

    /// Waits for all; false where one failed.
    pub fn ended(&mut self) -> bool {
        let statuses: Vec<_> = self.0.iter_mut().map(|child| child.wait().expect("its status")).collect();
        statuses.iter().all(std::process::ExitStatus::success)
    }
}

fn quiet(pair: &Namespaces, end: &str, words: &[&str]) -> Running {
    let mut command = pair.inside(end, &unhurried(words));
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    Running(quiet.spawn().expect("the load starts"))
}
