//! What a watch of a machine of 64 queues and 64 disks costs.

use crate::support::neighbours::undisturbed;
use crate::support::program;
use crate::support::watch_running::RunningWatch;
use crate::support::watch_tree::{CORES, tree};
use std::path::Path;
use std::process::{Command, Stdio};

/// Clock ticks of CPU that a process has used, and its memory in kB: this line of its status.
fn used(process: u32, memory: &str) -> (u64, u64) {
    let read = |file: &str| {
        std::fs::read_to_string(Path::new("/proc").join(process.to_string()).join(file)).expect("a process")
    };
    let stat = read("stat");
    let words: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
    let ticks = |index: usize| words[index].parse::<u64>().expect("ticks");
    let status = read("status");
    let kilobytes = status.lines().find_map(|line| line.strip_prefix(memory)).expect("its memory");
    (ticks(11) + ticks(12), kilobytes.split_whitespace().next().expect("kB").parse().expect("a number"))
}

#[test]
fn a_sample_of_64_queues_and_64_disks_costs_less_than_a_hundredth_of_a_core_and_30_mb() {
    undisturbed("what a sample costs", 2, || {
        // At one a second each source is read for each sample; at shorter intervals dear ones are left out now
        // and then.
        const SAMPLES: u64 = 7;
        let tree = tree(64, 64);
        let root = tree.path().to_str().expect("a path");
        // `./test --thorough` names the release build, which is what has to be cheap; of a build with checks only, that
        // it is not absurd.
        let program = program();
        let mut command = Command::new(&program);
        command.args(["watch", "--json", "--interval", "1s", "--root", root]).stdin(Stdio::null());
        let mut running = RunningWatch::start(command);
        for _ in 0..2 {
            let moment = running.next().expect("a moment");
            assert_eq!((moment.disks.len(), moment.cpus.each.len()), (64, CORES));
            assert_eq!(moment.nics.first().map(|nic| nic.queues.len()), Some(64));
        }
        // How much of a program without optimisation is mapped says nothing of the watch: there what it allocated counts.
        let checked = std::env::var_os("LINERATE").is_none() && cfg!(debug_assertions);
        let (most_ms, memory, most_kilobytes) =
            if checked { (30.0, "RssAnon:", 8_000) } else { (10.0, "VmHWM:", 30_000) };
        let (before, _) = used(running.child.id(), memory);
        for _ in 0..SAMPLES {
            running.next().expect("a moment");
        }
        let (after, kilobytes) = used(running.child.id(), memory);
        let each_ms = (after - before) as f64 * 10.0 / SAMPLES as f64;
        println!("{program}: {each_ms:.1} ms of CPU for each sample with its JSON, {memory} {kilobytes} kB");
        assert!(each_ms < most_ms, "{each_ms} ms of CPU for each sample");
        assert!(kilobytes < most_kilobytes, "{kilobytes} kB");
    });
}
