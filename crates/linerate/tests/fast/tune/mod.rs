//! `linerate tune` from outside: a tree of files that stands for a machine, a network namespace and a loop
//! device that the test makes and takes down, and `kill -9` at any moment.

mod findings;
mod lasting;
mod refusals;

use crate::support::disk_places::LoopDevice;
use crate::support::tune_place::{
    Journals, MachineFolder, device_values, journal_size, linerate, namespace, namespace_values, ran, random,
};
use linerate_testing::{cases, drawn};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Settings of the tree, with other values than it has.
const SETTINGS: [&str; 8] = [
    "rmem-max=268435456",
    "wmem-max=268435456",
    "tcp-rmem=4096 87380 268435456",
    "tcp-notsent-lowat=262144",
    "swappiness=5",
    "transparent-huge-pages=madvise",
    "read-ahead:vda=4096",
    "scheduler:vda=none",
];

fn with_settings<'a>(words: &[&'a str], settings: &[&'a str]) -> Vec<&'a str> {
    words.iter().copied().chain(settings.iter().flat_map(|setting| ["--setting", *setting])).collect()
}

/// Kills it once its journal has grown by so many bytes; true where that happened before it was done.
fn killed_at(words: &[&str], journal: &Path, grown: u64) -> bool {
    let before = journal_size(journal);
    let mut child =
        linerate(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("linerate starts");
    loop {
        if child.try_wait().expect("a child").is_some() {
            return false;
        }
        if journal_size(journal).saturating_sub(before) >= grown {
            child.kill().expect("killed");
            child.wait().expect("ended");
            return true;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

#[test]
fn the_plan_changes_nothing_and_reports_why() {
    let tree = MachineFolder::new();
    let before = tree.content();
    let root = tree.root();
    let (status, text) = ran(&["--root", &root, "--rate", "100G", "--rtt", "20ms"]);
    assert_eq!(status, 0, "{text}");
    let words =
        "tcp-rmem|4096 131072 536870912|rmem-max|Nothing was changed|docs.kernel.org|stale advice|tcp-sack";
    for word in words.split('|') {
        assert!(text.contains(word), "{word}: {text}");
    }
    let (status, json) = ran(&["--root", &root, "--rate", "100G", "--json", "--stage", "memory"]);
    let plan: serde_json::Value = serde_json::from_str(&json).expect("JSON and nothing else");
    assert_eq!((status, plan["schema"].as_u64()), (0, Some(1)));
    let settings = plan["settings"].as_array().expect("settings");
    let [id, now, wanted] = ["swappiness", "60", "10"];
    assert!(settings.iter().any(|one| one["id"] == id && one["now"] == now && one["wanted"] == wanted));
    assert!(settings.iter().all(|item| item["stage"] == "memory"), "{json}");
    // Without a rate and a card that tells one, buffers are not guessed.
    let (_, json) = ran(&["--root", &root, "--json", "--setting", "tcp-rmem"]);
    assert!(json.contains("give --rate"), "{json}");
    assert_eq!(tree.content(), before);
}

#[test]
fn apply_and_undo_bring_back_every_byte() {
    let tree = MachineFolder::new();
    let before = tree.content();
    let root = tree.root();
    let words = with_settings(&["apply", "--yes", "--root", &root], &SETTINGS);
    let (status, text) = ran(&words);
    assert_eq!(status, 0, "{text}");
    let (status, text) =
        ran(&["apply", "--yes", "--root", &root, "--setting", "transparent-huge-pages", "--json"]);
    assert!(status == 0 && text.contains("\"outcomes\": []"), "{text}");
    assert_eq!(tree.text("sys/block/vda/queue/scheduler"), "[none] mq-deadline kyber\n");
    assert_eq!(tree.text("proc/sys/net/ipv4/tcp_rmem"), "4096 87380 268435456\n");
    let (status, text) = ran(&["persist", "--yes", "--root", &root]);
    assert_eq!(status, 0, "{text}");
    assert!(
        tree.text("etc/sysctl.d/90-linerate.conf").contains("net.ipv4.tcp_rmem = 4096 87380 268435456\n")
    );
    assert!(
        tree.text("etc/udev/rules.d/90-linerate.rules")
            .contains("KERNEL==\"vda\", ATTR{queue/scheduler}=\"none\"")
    );
    assert!(
        tree.text("etc/tmpfiles.d/90-linerate.conf").contains("transparent_hugepage/enabled - - - - madvise")
    );
    let (status, text) = ran(&["undo", "--root", &root]);
    assert_eq!(status, 0, "{text}");
    assert_eq!(tree.content(), before);
    let (status, text) = ran(&["undo", "--root", &root]);
    assert_eq!((status, text.contains("nothing to undo")), (0, true), "{text}");
}

#[test]
fn a_hundred_kills_at_any_moment() {
    let tree = MachineFolder::new();
    let before = tree.content();
    let root = tree.root();
    let journals = Journals::new();
    let folder = journals.folder();
    let apply = with_settings(&["apply", "--yes", "--root", &root, "--journal", &folder], &SETTINGS);
    let undo = ["undo", "--root", &root, "--journal", &folder];
    let file = journals.file("tune");
    // How long the journal gets: of an apply, and of its undo.
    assert_eq!(ran(&apply).0, 0);
    let applied = journal_size(&file);
    assert_eq!(ran(&undo).0, 0);
    let undone = journal_size(&journals.folder_path().join("tune.undone")) - applied;
    let mut killed = 0;
    for round in drawn(100) {
        let mut next = random(u64::from(round));
        killed += u32::from(killed_at(&apply, &file, next(applied)));
        // Every fourth time somebody else comes in between.
        let foreign = round % 4 == 0;
        if foreign {
            tree.write("proc/sys/vm/swappiness", "33\n");
        }
        if round % 2 == 0 && file.exists() {
            killed += u32::from(killed_at(&undo, &file, next(undone)));
        }
        let (status, text) = ran(&undo);
        if foreign {
            assert_eq!(tree.text("proc/sys/vm/swappiness"), "33\n", "round {round}: {text}");
            if status == 1 {
                assert!(text.contains("somebody else"), "round {round}: {text}");
                let (status, text) = ran(&[&undo[..], &["--forget", "swappiness"]].concat());
                assert_eq!(status, 0, "round {round}: {text}");
            }
            tree.write("proc/sys/vm/swappiness", "60\n");
        } else {
            assert_eq!(status, 0, "round {round}: {text}");
        }
        assert_eq!(tree.content(), before, "round {round}");
        assert!(!file.exists(), "round {round}: nothing is open");
    }
    assert!(
        killed > cases(20),
        "{killed} of {} were killed on the way: the rest had ended before",
        cases(150)
    );
}

#[test]
fn somebody_elses_value_is_shown_and_stays() {
    let tree = MachineFolder::new();
    let root = tree.root();
    assert_eq!(
        ran(&[
            "apply",
            "--yes",
            "--root",
            &root,
            "--setting",
            "swappiness=5",
            "--setting",
            "rmem-max=268435456"
        ])
        .0,
        0
    );
    tree.write("proc/sys/vm/swappiness", "33\n");
    let (status, text) = ran(&["undo", "--root", &root]);
    assert_eq!(status, 1);
    assert!(
        text.contains("before 60, by linerate 5, now 33") && text.contains("--force swappiness"),
        "{text}"
    );
    assert_eq!(tree.text("proc/sys/net/core/rmem_max"), "4194304\n", "the others are back");
    assert_eq!(ran(&["undo", "--root", &root, "--force", "rmem-max"]).0, 2, "that one is not open");
    assert_eq!(ran(&["undo", "--root", &root, "--force", "swappiness"]).0, 0);
    assert_eq!(tree.text("proc/sys/vm/swappiness"), "60\n");
}

#[test]
fn bad_input_is_a_sentence() {
    let tree = MachineFolder::new();
    let before = tree.content();
    let root = tree.root();
    let apply = |words: &[&str]| ran(&[&["apply", "--root", &root][..], words].concat());
    let refused = |words: &[&str], status: i32, why: &str| {
        let (got, text) = apply(words);
        assert_eq!(got, status, "{words:?}: {text}");
        assert!(text.contains(why), "{words:?}: {text}");
    };
    refused(&["--setting", "swappiness=5"], 2, "nobody can be asked here");
    refused(&["--yes", "--setting", "swapiness"], 2, "no setting is called swapiness");
    refused(&["--yes", "--setting", "swappiness=900"], 2, "a number from 0 to 200");
    refused(&["--yes", "--finding", "steal"], 2, "no setting cures the finding steal");
    refused(&["--yes", "--setting", "read-ahead:vdz=1"], 3, "is not on this machine");
    refused(&["--yes", "--setting", "busy-poll=50"], 1, "not there");
    refused(&["--yes", "--setting", "scheduler:vda=bfq"], 1, "does not take this value");
    assert_eq!(ran(&["--netns", "linerate-none-such"]).0, 3);
    assert_eq!(ran(&["undo", "--root", "/nonexistent"]).0, 3);
    let (status, text) = ran(&["undo", "--root", &root, "--setting", "swappiness"]);
    assert!(status == 2 && text.contains("leave --rate"), "it would undo all: {text}");
    assert_eq!(ran(&["undo", "--root", &root]).0, 0, "what was refused closes by itself");
    assert_eq!(tree.content(), before);
}

#[test]
fn a_journal_of_another_machine_or_cut_short() {
    let tree = MachineFolder::new();
    let (root, journals) = (tree.root(), Journals::new());
    let folder = journals.folder();
    assert_eq!(
        ran(&["apply", "--yes", "--root", &root, "--journal", &folder, "--setting", "swappiness=5"]).0,
        0
    );
    tree.write("etc/machine-id", "ffffffffffffffffffffffffffffffff\n");
    for words in
        [&["undo"][..], &["apply", "--yes", "--setting", "rmem-max=268435456"], &["persist", "--yes"]]
    {
        let (status, text) = ran(&[words, &["--root", &root, "--journal", &folder]].concat());
        assert_eq!(status, 3, "{text}");
        assert!(text.contains("another machine"), "{text}");
    }
    assert_eq!(tree.text("proc/sys/vm/swappiness"), "5\n");
    tree.write("etc/machine-id", "0123456789abcdef0123456789abcdef\n");
    let file = journals.file("tune");
    let whole = std::fs::read(&file).expect("a journal");
    std::fs::write(&file, [&whole[..10], b"#", &whole[11..]].concat()).expect("written");
    let (status, text) = ran(&["undo", "--root", &root, "--journal", &folder]);
    assert_eq!(status, 3, "{text}");
    assert!(text.contains("line 1 cannot be used"), "{text}");
    assert_eq!(tree.text("proc/sys/vm/swappiness"), "5\n");
    std::fs::write(&file, &whole[..whole.len() - 5]).expect("written");
    let (status, text) = ran(&["undo", "--root", &root, "--journal", &folder]);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("cut short"), "{text}");
    assert_eq!(tree.text("proc/sys/vm/swappiness"), "60\n");
}

/// The kernel's own settings, in a namespace that nobody else sees: sysctls, attributes of a veth, an
/// offload.
#[test]
fn a_live_namespace_comes_back_after_kills() {
    let Some(namespace) = namespace() else { return };
    let own = namespace.name("own");
    let journals = Journals::new();
    let folder = journals.folder();
    let settings = "tcp-rmem=4096 87380 12345678|tcp-wmem=4096 16384 12345678|tcp-notsent-lowat=262144|\
                    tcp-slow-start-after-idle=0|mtu:v0=1400|tx-queue-length:v0=500|generic-receive:v0=1";
    let settings: Vec<&str> = settings.split('|').collect();
    let common = ["--netns", &own, "--journal", &folder];
    let apply = with_settings(&[&["apply", "--yes"][..], &common].concat(), &settings);
    let undo = [&["undo"][..], &common].concat();
    let file = journals.file(&format!("tune-netns-{own}"));
    let before = namespace_values(&namespace);
    let (status, text) = ran(&apply);
    assert_eq!(status, 0, "{text}");
    let changed = namespace_values(&namespace);
    assert!(before.iter().zip(&changed).all(|(before, now)| before != now), "{before:?} {changed:?}");
    let applied = journal_size(&file);
    assert_eq!(ran(&undo).0, 0);
    assert_eq!(namespace_values(&namespace), before);
    let mut next = random(11);
    for round in 0..20 {
        killed_at(&apply, &file, next(applied));
        if file.exists() && round % 2 == 0 {
            killed_at(&undo, &file, next(applied));
        }
        let (status, text) = ran(&undo);
        assert_eq!(status, 0, "round {round}: {text}");
        assert_eq!(namespace_values(&namespace), before, "round {round}");
    }
    // A renamed interface is found by its number; one that is gone is told.
    assert_eq!(ran(&apply).0, 0);
    namespace.ip("own", &["link", "set", "v0", "name", "w0"]);
    assert_eq!(ran(&undo).0, 0);
    namespace.ip("own", &["link", "set", "w0", "name", "v0"]);
    assert_eq!(namespace_values(&namespace), before);
    assert_eq!(ran(&apply).0, 0);
    namespace.ip("own", &["link", "del", "v0"]);
    let (status, text) = ran(&undo);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("v0 is not there") && text.contains("--forget mtu:v0"), "{text}");
}

#[test]
fn a_loop_device_comes_back() {
    let Some(device) = LoopDevice::of_mib(16) else { return };
    let journals = Journals::new();
    let folder = journals.folder();
    let settings: Vec<String> = ["read-ahead", "scheduler", "nr-requests"]
        .iter()
        .zip(["4096", "none", "64"])
        .map(|(id, value)| format!("{id}:{}={value}", device.name()))
        .collect();
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let before = device_values(&device);
    let words = with_settings(&["apply", "--yes", "--journal", &folder], &settings);
    let (status, text) = ran(&words);
    // Some kernels give a loop no scheduler to choose from, or as many requests: then that one is told as it
    // is.
    assert!(status <= 1, "{text}");
    assert_ne!(device_values(&device)[0], before[0], "{text}");
    let (status, text) = ran(&["undo", "--journal", &folder]);
    assert_eq!(status, 0, "{text}");
    assert_eq!(device_values(&device), before);
}
