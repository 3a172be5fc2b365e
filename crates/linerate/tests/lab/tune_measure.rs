//! `linerate tune measure` from outside, in a network namespace and on a loop device that the test makes:
//! settings that were planted bad are found and mended, settings that do nothing are called so, and whatever
//! ends a trial in its middle leaves nothing behind.

use crate::support::disk_places::LoopDevice;
use crate::support::namespaces::Namespaces;
use crate::support::neighbours::Neighbours;
use crate::support::process::{Ends, signal};
use crate::support::tune_place::{
    Journals, device_values, journal_size, linerate, namespace, namespace_values, ran,
};
use serde_json::Value;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A receive buffer of 64 kB, and the kernel's own.
const SMALL: &str = "4096 65536 65536";
const USUAL: &str = "4096 131072 33554432";
/// Far too little.
const TINY: &str = "4096 16384 16384";
/// From 9 rounds on, the interval leaves out the highest and the lowest figure: one window that something
/// else spoilt changes nothing.
const MANY: [&str; 4] = ["--seconds", "0.15", "--repeats", "9"];
/// What stolen CPU time, or the work of others on this machine, spoilt is measured again so often.
const TRIES: u32 = 4;
/// Others at work have taken more than this share of all CPU time: a difference may drown in it.
const TOO_MUCH_WORK: f64 = 0.15;

/// Two measurements at once would be each other's noise.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The `tried` of `tune measure --json`; the words come last.
fn tried(words: &[&str]) -> Vec<Value> {
    let json = linerate(&[&["measure", "--yes", "--json"][..], words].concat()).ended().json();
    assert_eq!(json["schema"], 1);
    json["tried"].as_array().expect("what was tried").clone()
}

/// Ticks of user time that programs not started by this test used, and all ticks.
fn work_of_others() -> (u64, u64) {
    let ticks = |word: &str| word.parse::<u64>().unwrap_or(0);
    let text = std::fs::read_to_string("/proc/stat").expect("/proc/stat");
    let line = text.lines().next().expect("the sum of all CPUs");
    let all: Vec<u64> = line.split_whitespace().skip(1).map(ticks).collect();
    let text = std::fs::read_to_string("/proc/self/stat").expect("/proc/self/stat");
    let (_, behind_name) = text.rsplit_once(") ").expect("a name in brackets");
    let words: Vec<&str> = behind_name.split_whitespace().collect();
    // utime and cutime are the 14th and the 16th figure, the name the second (proc_pid_stat(5)).
    let own = ticks(words[11]) + ticks(words[13]);
    ((all[0] + all[1]).saturating_sub(own), all[..8].iter().sum())
}

/// Measures until it says so, as often as stolen CPU time explains that it did not.
fn says(words: &[&str], effect: &str) -> Value {
    for left in (0..TRIES).rev() {
        let (neighbours, (work, all)) = (Neighbours::watch(), work_of_others());
        let one = tried(words).remove(0);
        if one["effect"] == effect {
            return one;
        }
        let (work_now, all_now) = work_of_others();
        let others = work_now.saturating_sub(work) as f64 / all_now.saturating_sub(all).max(1) as f64;
        // A host that halves the speed of memory for seconds says so nowhere: one try is spoilt by that.
        let spoilt = neighbours.spoilt() || others > TOO_MUCH_WORK || left + 1 == TRIES;
        assert!(left > 0 && spoilt, "others took {others:.2} of the CPU time: {one:#}");
    }
    unreachable!("the last try asserts")
}

fn tcp_rmem(namespace: &Namespaces, value: Option<&str>) -> String {
    let text = match value {
        Some(value) => {
            namespace.printed("own", &["sysctl", "-n", "-w", &format!("net.ipv4.tcp_rmem={value}")])
        }
        None => namespace.printed("own", &["sysctl", "-n", "net.ipv4.tcp_rmem"]),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_receive_buffer_of_64_kb_is_found_and_mended() {
    let Some(namespace) = namespace() else { return };
    let own = namespace.name("own");
    let _alone = alone();
    let journals = Journals::new();
    let folder = journals.folder();
    tcp_rmem(&namespace, Some(SMALL));
    let at = ["--netns", &own, "--journal", &folder];
    let setting = format!("tcp-rmem={USUAL}");
    let words = [&at[..], &MANY, &["--setting", &setting]].concat();
    let one = says(&words, "helped");
    assert_eq!((&one["figure"], &one["kept"]), (&"network, tcp receive".into(), &true.into()), "{one:#}");
    assert!(one["change"].as_f64().expect("a share") > 0.1, "{one:#}");
    for (state, windows) in [("before", 10), ("wanted", 9)] {
        let state = &one[state];
        assert_eq!(state["samples"].as_array().map(Vec::len), Some(windows), "{one:#}");
        assert!(state["interval"]["low"].as_f64() <= state["median"].as_f64(), "{one:#}");
    }
    assert_eq!(tcp_rmem(&namespace, None), USUAL, "what helped is kept");
    assert_eq!(ran(&[&["undo"][..], &at].concat()).0, 0);
    assert_eq!(tcp_rmem(&namespace, None), SMALL, "and undone");

    // The other way round it hurts, and is restored at once.
    tcp_rmem(&namespace, Some(USUAL));
    let setting = format!("tcp-rmem={TINY}");
    let words = [&at[..], &MANY, &["--setting", &setting]].concat();
    let one = says(&words, "hurt");
    assert_eq!(one["kept"], false);
    assert_eq!(tcp_rmem(&namespace, None), USUAL);
    assert!(!journals.file(&format!("tune-netns-{own}")).exists(), "nothing is open");
}

#[test]
fn no_read_ahead_is_found_and_mended() {
    let Some(device) = LoopDevice::of_mib(96) else { return };
    let _alone = alone();
    let journals = Journals::new();
    let folder = journals.folder();
    let read_ahead = format!("/sys/block/{}/queue/read_ahead_kb", device.name());
    std::fs::write(&read_ahead, "0").expect("written");
    let (source, setting) = (format!("/dev/{}", device.name()), format!("read-ahead:{}=4096", device.name()));
    let words = [&MANY[..], &["--journal", &folder, "--source", &source, "--setting", &setting]].concat();
    let one = says(&words, "helped");
    assert_eq!((&one["figure"], &one["kept"]), (&"disk, buffered reads".into(), &true.into()), "{one:#}");
    assert_eq!(std::fs::read_to_string(&read_ahead).expect("text").trim(), "4096");
    assert_eq!(ran(&["undo", "--journal", &folder]).0, 0);
    assert_eq!(std::fs::read_to_string(&read_ahead).expect("text").trim(), "0");

    // A source elsewhere tells nothing about this disk.
    let elsewhere = ["--journal", &folder, "--source", "/", "--setting", &setting];
    let one = tried(&elsewhere).remove(0);
    assert!(one["why"].as_str().is_some_and(|why| why.contains("--source")), "{one:#}");
    assert_eq!(one["kept"], false);
}

/// Ten settings that do nothing where bytes go. What is called different is measured again: chance does not
/// strike twice.
#[test]
fn ten_settings_that_do_nothing_are_called_so() {
    let (Some(namespace), Some(device)) = (namespace(), LoopDevice::of_mib(32)) else { return };
    let own = namespace.name("own");
    let _alone = alone();
    let journals = Journals::new();
    let folder = journals.folder();
    let before = (namespace_values(&namespace), device_values(&device));
    let of_network = "tcp-no-metrics-save=1|tcp-mtu-probing=1|tcp-slow-start-after-idle=0|\
                      local-port-range=32000 60000|mtu:v0=1400|tx-queue-length:v0=500";
    let of_disk = ["nr-requests=64", "rq-affinity=2", "nomerges=1", "rotational=0"]
        .map(|setting| setting.replace('=', &format!(":{}=", device.name())));
    let source = format!("/dev/{}", device.name());
    let windows = ["--seconds", "0.1", "--repeats", "3", "--journal", &folder];
    let network = [&windows[..], &["--netns", &own]].concat();
    let disk = [&windows[..], &["--source", &source]].concat();
    let mut count = 0;
    for (common, settings) in [
        (network, of_network.split('|').collect::<Vec<&str>>()),
        (disk, of_disk.iter().map(String::as_str).collect()),
    ] {
        let measure = |settings: &[&str]| {
            tried(
                &settings
                    .iter()
                    .flat_map(|one| ["--setting", one])
                    .chain(common.iter().copied())
                    .collect::<Vec<_>>(),
            )
        };
        let first = measure(&settings);
        assert_eq!(first.len(), settings.len(), "{first:#?}");
        for (one, setting) in first.iter().zip(&settings) {
            assert!(
                !one["effect"].is_null() || one["why"].as_str().is_some_and(|why| why.contains("kept")),
                "{one:#}"
            );
            if one["effect"] != "no-difference" && !one["effect"].is_null() {
                eprintln!("measured again: {setting}: {}", one["change"]);
                let again = measure(&[setting]).remove(0);
                assert_eq!(again["effect"], "no-difference", "{again:#}");
            }
            count += usize::from(!one["effect"].is_null());
        }
        // What chance kept is brought back.
        ran(&[
            &["undo", "--journal", &folder][..],
            if common.contains(&"--netns") { &common[6..] } else { &[] },
        ]
        .concat());
    }
    assert!(count >= 9, "{count} of ten were measured: a kernel may lack one");
    assert_eq!((namespace_values(&namespace), device_values(&device)), before);
}

/// Killed with -9 at any moment, and stopped politely: nothing is left behind.
#[test]
fn a_trial_that_is_cut_off_is_undone() {
    let Some(namespace) = namespace() else { return };
    let own = namespace.name("own");
    let _alone = alone();
    let journals = Journals::new();
    let folder = journals.folder();
    let at = ["--netns", &own, "--journal", &folder];
    let file = journals.file(&format!("tune-netns-{own}"));
    let before = namespace_values(&namespace);
    let settings = ["--setting", "tcp-rmem=4096 87380 12345678", "--setting", "mtu:v0=1400"];
    let short = ["measure", "--yes", "--seconds", "0.1", "--repeats", "3", "--rate", "200M"];
    let words = [&short[..], &at, &settings].concat();
    let mut seen_open = 0;
    // Which moment a size of the journal is depends on the machine: further rounds until a kill has met a
    // changed setting.
    for (round, grown) in [1, 900, 1700, 2600].into_iter().cycle().take(24).enumerate() {
        if round >= 4 && seen_open > 0 {
            break;
        }
        let mut child =
            linerate(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("linerate starts");
        let since = Instant::now();
        while child.try_wait().expect("a child").is_none() && journal_size(&file) < grown {
            assert!(since.elapsed() < Duration::from_secs(60), "round {round}: the journal does not grow");
            std::thread::sleep(Duration::from_micros(100));
        }
        child.kill().expect("killed");
        child.wait().expect("ended");
        seen_open += usize::from(namespace_values(&namespace) != before);
        let (status, text) = ran(&[&["undo"][..], &at].concat());
        assert_eq!(status, 0, "round {round}: {text}");
        assert_eq!(namespace_values(&namespace), before, "round {round}");
    }
    assert!(seen_open > 0, "no kill hit a changed setting");

    let mut child = linerate(&words).spawn().expect("linerate starts");
    while child.try_wait().expect("a child").is_none() && journal_size(&file) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    signal(&child, "INT");
    let output = child.ended();
    output.gives(1);
    assert!(output.text().contains("interrupted: what was being tried is as it was"), "{}", output.text());
    assert_eq!(namespace_values(&namespace), before, "Ctrl-C restores by itself");
    assert!(!file.exists(), "nothing is open");
}

/// What belongs to a process is tried without root's journal, and written nowhere.
#[test]
fn what_belongs_to_a_process_is_tried_and_not_written() {
    let Some(namespace) = namespace() else { return };
    let own = namespace.name("own");
    let _alone = alone();
    let journals = Journals::new();
    let folder = journals.folder();
    let at = ["--netns", &own, "--journal", &folder];
    let words = [
        &at[..],
        &["--seconds", "0.2", "--repeats", "3", "--rate", "200M"],
        &["--setting", "pacing", "--setting", "pinning"],
    ]
    .concat();
    let all = tried(&words);
    assert_eq!(all.len(), 2);
    for one in &all {
        assert!(one["given_by"].as_str().is_some_and(|by| by.contains("linerate")), "{one:#}");
        assert_eq!(one["kept"], false);
    }
    // A stream that keeps to 200 Mb/s moves 25 MB/s: the state before was faster.
    let pacing = all.iter().find(|one| one["name"] == "pacing").expect("tried");
    let paced = pacing["wanted"]["median"].as_f64().expect("a rate");
    assert!((10e6..40e6).contains(&paced), "{pacing:#}");
    assert_eq!(
        std::fs::read_dir(journals.folder_path()).expect("a folder").count(),
        0,
        "no journal was made"
    );
    let (status, text) = ran(&[&["apply", "--yes", "--setting", "pinning"][..], &at].concat());
    assert_eq!(status, 2);
    assert!(
        text.contains("belongs to a process") && text.contains("tune measure --setting pinning"),
        "{text}"
    );
}

#[test]
fn bad_input_is_a_sentence() {
    let journals = Journals::new();
    let folder = journals.folder();
    let refused = |words: &[&str], status: i32, why: &str| {
        let (got, text) = ran(&[&["measure", "--journal", &folder][..], words].concat());
        assert_eq!(got, status, "{words:?}: {text}");
        assert!(text.contains(why), "{words:?}: {text}");
    };
    refused(&["--setting", "tcp-sack=1"], 2, "nobody can be asked here");
    refused(&["--yes", "--setting", "tcp-sac=1"], 2, "no setting is called tcp-sac");
    refused(&["--yes", "--setting", "swappiness=900"], 2, "a number from 0 to 200");
    refused(&["--yes", "--setting", "pinning=1"], 2, "has no value");
    refused(&["--yes", "--root", "/tmp"], 2, "moves no bytes");
    refused(&["--yes", "--seconds", "0"], 2, "is not between 100ms and 10m");
    refused(&["--yes", "--repeats", "2"], 2, "3..=100");
    refused(&["--yes", "--setting", "read-ahead:nosuchdisk=1"], 3, "is not on this machine");
    refused(&["--yes", "--setting", "nr-requests"], 0, "nothing to try");
    // Nobody listens there: told for the setting, and nothing was changed.
    let peer = ["--yes", "--peer", "127.0.0.1:9", "--setting", "pinning"];
    let mut measure = linerate(&[&["measure", "--journal", &folder][..], &peer].concat());
    let ended = measure.env("LINERATE_KEY", "00".repeat(32)).ended();
    let text = ended.gives(1).text();
    assert!(text.contains("not measured") && text.contains("127.0.0.1:9"), "{text}");
    assert_eq!(std::fs::read_dir(journals.folder_path()).expect("a folder").count(), 0);
}
