//! linerate or its agent is killed at random moments of an experiment, which takes of the disk, the NIC and the CPUs of both
//! ends: a second later nothing takes any more. `LINERATE_KILLS` says how often; the figures are printed.

use crate::explain_experiment::sectors_read;
use crate::support::agent::StartedAgent;
use crate::support::lab::Lab;
use crate::support::process::{Running, signal_process, threads_named, until};
use linerate_testing::next;
use std::process::Stdio;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
/// It observes 3 s, then it takes for some 6 to 18 s. A few kills come before most of that is over.
const LONGEST_MS: u64 = 12_000;
const BEGINNING_MS: u64 = 7_000;
/// Neighbours that look for each other, and what says that a stream has ended.
const UNASKED_BYTES: u64 = 10_000;
/// A process that waits may be charged for what runs when the kernel counts.
const UNASKED_TICKS: u64 = 1;

#[test]
fn a_second_after_a_kill_nothing_takes() {
    let options = ["--disks", "1x300", "--nics", "1000", "--file-size", "256M"];
    let Some(lab) = Lab::up("experiment-kills", &options) else { return };
    let device = lab.device();
    let disk = device.trim_start_matches("/dev/");
    // Its view of the NIC is the server's.
    let server = Running(lab.command("run", &["--", "sleep", "infinity"]).spawn().expect("it starts"));
    let kills = std::env::var("LINERATE_KILLS").ok().and_then(|text| text.parse().ok());
    let (kills, latest) = kills.map_or((3, BEGINNING_MS), |kills: usize| (kills, LONGEST_MS));
    let mut state = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_nanos() as u64);
    println!("{kills} kills, seed {state}");
    for at in 0..kills {
        let moment = Duration::from_millis(next(&mut state) % latest);
        let (agent, client) = experiment(&lab);
        let both = [client.id(), agent.child.id()];
        until("the experiment begins", || takers(client.id()) > 0);
        std::thread::sleep(moment);
        // Without one the client's experiment was over.
        let (victim, took) = (at % 2, both.map(takers));
        signal_process(both[victim], "KILL");
        // Of the CPUs by both processes, of the disk, of the NIC.
        let used = || [both.map(ticks).iter().sum(), sectors_read(disk), nic_bytes(server.id())];
        std::thread::sleep(SECOND);
        let (before, left) = (used(), both.map(takers));
        std::thread::sleep(SECOND);
        let now: [u64; 3] = used();
        let [ticks, sectors, bytes] = [0, 1, 2].map(|at| now[at].saturating_sub(before[at]));
        let what = format!(
            "{} killed {moment:?} after the begin, with {took:?} takers of CPUs: {left:?} are left, and in the second \
             second {ticks} ticks, {sectors} sectors, {bytes} bytes",
            ["client", "agent"][victim]
        );
        println!("{what}");
        let is_still = ticks <= UNASKED_TICKS && sectors == 0 && bytes < UNASKED_BYTES;
        assert!(left == [0, 0] && is_still, "{what}");
    }
}

/// A run that takes of all parts of its path, and the agent that receives, which takes of its CPUs.
fn experiment(lab: &Lab) -> (StartedAgent, Running) {
    let agent = lab.agent_elsewhere(&format!("{}:0", lab.succeed("address", &[]).trim()), &[]);
    let source = lab.succeed("sources", &[]);
    let words =
        ["--source", source.trim(), "--protocol", "tcp", "--stages", "path", "--budget", "40", "--no-save"];
    let mut run = lab.linerate("run", &["run"]);
    run.args(agent.words()).args(words).stdout(Stdio::null()).stderr(Stdio::null());
    (agent, Running(run.spawn().expect("it starts")))
}

/// Threads of a process that take of CPUs.
fn takers(process: u32) -> usize {
    threads_named("cpu taker", process)
}

/// CPU time of a process; nothing once it is gone.
fn ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    after_name.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

/// Received and sent by the NICs that this process sees.
fn nic_bytes(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/net/dev")).expect("counters");
    let figures = text.lines().filter_map(|line| line.split_once(':'));
    let of_nic = |(_, figures): (&str, &str)| -> u64 {
        figures.split_whitespace().step_by(8).filter_map(|bytes| bytes.parse::<u64>().ok()).sum()
    };
    figures.map(of_nic).sum()
}
