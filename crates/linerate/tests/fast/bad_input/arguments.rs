//! Wrong words: status 2, the option named; and the words that every command understands.

use super::ground::{TestFolder, short};
use crate::support::process::ProcessEnd;

fn linerate(words: &[&str]) -> (TestFolder, ProcessEnd) {
    let ground = TestFolder::new();
    let ended = ground.run(&mut ground.linerate(words));
    ground.no_result();
    (ground, ended)
}

#[test]
fn wrong_values_name_their_option() {
    for (option, value) in [
        ("--transfer", "3"),
        ("--transfer", "1000000T"),
        ("--transfer", "much"),
        ("--transfer", "-1"),
        ("--seconds", "0"),
        ("--seconds", "-1"),
        ("--seconds", "nan"),
        ("--seconds", "inf"),
        ("--budget", "0"),
        ("--stages", "foo"),
        ("--stages", ""),
        ("--datagram", "1"),
        ("--datagram", "65508"),
        ("--repeats", "0"),
        ("--queue-depth", "0"),
        ("--protocol", "sctp"),
    ] {
        let (_, ended) = linerate(&["run", &format!("{option}={value}")]);
        ended.refuses(&["error: ", option]);
    }
}

#[test]
fn options_of_others_are_answered_with_our_own() {
    for (words, sentence) in [
        (&["disk", "--bs=4k", "--iodepth=16"][..], "linerate: fio's --bs is --transfer here\n"),
        (&["network", "-R"], "linerate: iperf3's -R is --direction here: receive\n"),
        (&["-s"], "linerate: iperf3's -s is --iperf3 of `linerate agent`\n"),
        (&["run", "--runtime=10"], "linerate: fio's --runtime is --seconds here\n"),
        (
            &["copy-half"],
            "linerate: copy-half reads what is wanted of it from standard input; it is for linerate's own use\n",
        ),
        (&["agent", "--json"], "linerate: --json: this command gives no result; leave it away\n"),
    ] {
        let (_, ended) = linerate(words);
        ended.gives(2);
        assert_eq!(ended.stderr, sentence, "{words:?}");
    }
}

/// Wherever they are written; and what is always refused is in no help.
#[test]
fn options_that_exclude_each_other_are_refused() {
    for words in [&["--json", "disk", "--format", "csv"][..], &["--json", "probe", "--capture", "file"]] {
        linerate(words).1.refuses(&["error: ", "--json", "cannot be used with"]);
    }
    let help = linerate(&["tune", "undo", "--help"]).1.stdout;
    assert!(!help.contains("--setting <") && help.contains("--journal <"), "{help}");
}

#[test]
fn a_time_may_have_a_unit_everywhere() {
    for option in ["--seconds", "--budget"] {
        for value in ["5x", "-5s", "2d", "0ms"] {
            linerate(&["run", &format!("{option}={value}")]).1.refuses(&["error: ", option]);
        }
    }
    let ground = TestFolder::with_source();
    let words =
        ["run", "--stages", "disk", "--source", "source", "--seconds", "50ms", "--repeats", "1", "--json"];
    let run: serde_json::Value =
        serde_json::from_str(&ground.run(&mut ground.linerate(&words)).is_content().stdout).expect("JSON");
    assert_eq!(run["goal"]["seconds"], 0.05);
}

#[test]
fn unknown_and_missing_words() {
    linerate(&["jump"]).1.refuses(&["jump", "--help"]);
    linerate(&["run", "--jump"]).1.refuses(&["--jump"]);
    linerate(&["run", "file"]).1.refuses(&["file"]);
    linerate(&["run", "--source"]).1.refuses(&["--source"]);
    linerate(&["report"]).1.refuses(&["RUN"]);
    linerate(&["report", "--json", "--html", "a", "b"]).1.refuses(&["--html"]);
    linerate(&["generate", "completions", "tcsh"]).1.refuses(&["tcsh"]);
}

#[test]
fn a_source_named_by_bytes_that_are_no_text() {
    use std::os::unix::ffi::OsStringExt;
    let ground = TestFolder::new();
    let name = std::ffi::OsString::from_vec(b"bad\xff\x1b[31mname".to_vec());
    let mut command = ground.linerate(&["run", "--stages", "disk", "--source"]);
    let ended = ground.run(command.arg(&name));
    ended.gives(3).says(&["not there"]);
}

#[test]
fn a_congestion_control_that_the_kernel_lacks() {
    let ground = TestFolder::with_source();
    let available =
        std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").expect("the list");
    let words = short("path", &["--source", "source", "--congestion-control", "nonsense"]);
    ground.run(&mut ground.linerate(&words)).gives(3).says(&["nonsense", available.trim(), "modprobe"]);
    ground.no_result();
}

#[test]
fn help_of_every_command() {
    let commands: [&[&str]; 6] = [&[], &["run"], &["probe"], &["agent"], &["report"], &["generate"]];
    for command in commands {
        let (_, ended) = linerate(&[command, &["--help"]].concat());
        ended.is_content();
        assert!(ended.stdout.contains("Usage: linerate") && ended.stdout.contains("Exit status"), "{ended}");
    }
    let (_, ended) = linerate(&["--version"]);
    assert!(ended.is_content().stdout.starts_with("linerate "), "{ended}");
}

#[test]
fn man_pages_and_completions() {
    let ground = TestFolder::new();
    let folder = ground.path().join("out");
    std::fs::create_dir(&folder).expect("a folder");
    let mut command = ground.linerate(&["generate", "man", "out"]);
    crate::support::process::Started::of(&mut command).end_within(super::ground::SECONDS).is_content();
    let page = std::fs::read_to_string(folder.join("linerate-run.1")).expect("a page");
    assert!(page.contains(".TH") && page.contains("congestion"), "{page}");
    ground.run(&mut ground.linerate(&["generate", "man", "missing"])).gives(3).says(&["missing", "folder"]);
    for shell in ["bash", "zsh", "fish"] {
        let ended = ground.run(&mut ground.linerate(&["generate", "completions", shell]));
        assert!(ended.is_content().stdout.contains("congestion-control"), "{shell}\n{ended}");
        if crate::support::rights::has(shell) && shell != "fish" {
            let script = ground.file("script", 0);
            std::fs::write(&script, &ended.stdout).expect("a script");
            assert!(crate::support::rights::works(shell, &["-n", &script.display().to_string()]), "{shell}");
        }
    }
}
