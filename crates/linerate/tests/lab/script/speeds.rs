//! Disks and a CPU quota are as fast as was asked for.

use super::named;
use crate::support::lab::Lab;
use crate::support::neighbours::undisturbed;
use crate::support::process::Ends;
use std::process::Stdio;

#[test]
fn disks_have_the_speeds_that_were_asked_for() {
    undisturbed("the disks' speeds", 2, || {
        let Some(lab) = named("disks") else { return };
        lab.succeed("up", &["--disks", "100,25", "--nics", "0", "--file-size", "256M"]);
        let sources = lab.succeed("sources", &[]);
        assert_eq!(sources.lines().count(), 2);
        let readers: Vec<_> =
            sources.lines().zip([200, 50]).map(|(file, mib)| read_directly(&lab, file, mib)).collect();
        for (reader, expected) in readers.into_iter().zip([100e6, 25e6]) {
            let rate = reader.join().expect("reader");
            let share = rate / expected;
            // The kernel's throttle gives a reader that begins some 50 ms for nothing; a busy machine takes as
            // much.
            assert!(
                (0.9..1.06).contains(&share),
                "{:.1} MB/s where {:.0} were asked for",
                rate / 1e6,
                expected / 1e6
            );
        }
        lab.succeed("down", &[]);
        lab.assert_nothing_remains("down");
    });
}

/// Reads a file past the page cache on the server's side, some of it beforehand; the rate by `dd`'s own
/// clock, bytes per second.
fn read_directly(lab: &Lab, file: &str, mib: u32) -> std::thread::JoinHandle<f64> {
    let dd = format!("dd if={file} of=/dev/null bs=1M iflag=direct");
    let both = format!("{dd} count={} status=none; exec {dd} skip=10 count={mib}", mib / 5);
    let mut reader = lab.command("run", &["--", "bash", "-c", &both]);
    let child = reader.env("LC_ALL", "C").stderr(Stdio::piped()).spawn().expect("dd starts");
    std::thread::spawn(move || {
        let said = child.ended().stderr;
        // "209715200 bytes (210 MB, 200 MiB) copied, 2.09 s, 100 MB/s"
        let seconds = said.rsplit("copied, ").next().and_then(|rest| rest.split(' ').next());
        let seconds =
            seconds.and_then(|text| text.parse::<f64>().ok()).unwrap_or_else(|| panic!("dd: {said}"));
        f64::from(mib) * 1048576.0 / seconds
    })
}

#[test]
fn quota_holds_the_cpu() {
    undisturbed("CPU time under a quota", 2, || {
        let Some(lab) = named("quota") else { return };
        lab.succeed("up", &["--disks", "1x0", "--nics", "0", "--file-size", "1M", "--server-cpu", "40"]);
        let burn = "t=$(date +%s%N); while (($(date +%s%N) - t < 2000000000)); do :; done; times";
        let times = lab.succeed("run", &["--", "bash", "-c", burn]);
        let seconds: f64 =
            times.split_whitespace().map(|time| minutes_and_seconds(time).expect("0m1.234s")).sum();
        assert!((0.5..1.0).contains(&seconds), "40 % of 2 s of one core is 0.8 s, not {seconds:.2} s");
    });
}

/// `0m1.234s` in seconds.
fn minutes_and_seconds(time: &str) -> Option<f64> {
    let (minutes, seconds) = time.strip_suffix('s')?.split_once('m')?;
    Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
}
