//! Peers that are absent, are something else, have another key, or go away in the middle.

use super::ground::{OUTPUT, SECONDS, TestFolder, errors, short, stages};
use crate::support::agent::StartedAgent;
use crate::support::process::{Started, signal_process, until};
use crate::support::rights;
use crate::support::served::listener;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// `run` towards this peer ends before anything is measured.
fn refused(peer: &str, key_file: &str, parts: &[&str]) {
    let ground = TestFolder::with_source();
    let words = short("disk,path", &["--source", "source", "--peer", peer, "--key-file", key_file]);
    ground.run(&mut ground.linerate(&words)).gives(3).says(&[&[peer], parts].concat());
    ground.no_result();
}

/// Its workers are read at the rate; the figure is the limit's, and no device's.
#[test]
fn a_run_under_an_agent_s_rate_limit_is_held_and_says_so() {
    let agent = StartedAgent::start(&["--rate-limit", "80M"]);
    for protocol in ["tcp", "udp"] {
        let ground = TestFolder::new();
        let [peer, address, key_file, key] = &agent.words();
        let words = short("network", &["--protocol", protocol, peer, address, key_file, key]);
        let ended = ground.run(&mut ground.linerate(&words));
        ended.is_content();
        let run = ground.result(OUTPUT);
        let figures: Vec<_> = run["measurements"].as_array().expect("figures").iter().collect();
        let figures: Vec<_> = figures.into_iter().filter(|figure| figure["stage"] == "network").collect();
        assert!(!figures.is_empty(), "{ended}");
        for figure in figures {
            let rate = figure["bytes_per_second"].as_f64().expect("a rate");
            assert!((5e6..11e6).contains(&rate), "{protocol}: {rate}\n{figure:#}");
            assert_eq!(
                (&figure["lower_bound"], &figure["held_by"]),
                (&true.into(), &"peer".into()),
                "{figure:#}"
            );
            assert!(
                figure["flags"].as_array().is_some_and(|flags| flags.contains(&"agent-rate-limit".into()))
            );
            assert!(figure["loss"].as_f64().expect("a loss") < 0.01, "{figure:#}");
        }
    }
}

#[test]
fn an_absent_peer() {
    let agent = StartedAgent::start(&[]);
    let nobody =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    refused(&nobody.to_string(), &agent.key(), &["no agent", "start `linerate agent`"]);
}

/// In a network namespace of its own, where no packet leaves the machine: no route, no name server, and a
/// wire on which nobody answers (its packets end at an interface whose address they do not carry; a fixed
/// neighbour, so that not even its address is asked for).
#[test]
fn a_peer_that_no_packet_reaches() {
    if !rights::may_make_networks() {
        return rights::skipped(
            "no network namespaces of our own: not root, or in a container that forbids them",
        );
    }
    let agent = StartedAgent::start(&[]);
    for (peer, parts) in [
        ("192.0.2.1:9", ["no agent", "no route"]),
        ("[2001:db8::1]:9", ["no agent", "no route"]),
        ("no-such-host.invalid", ["no address", "check the name"]),
        ("198.51.100.7:9", ["no answer", "firewall"]),
    ] {
        let ground = TestFolder::with_source();
        let script = "ip link add name wire type veth peer name far && ip link set far up && ip address add \
                      198.51.100.1/24 dev wire && ip link set wire up \
             && ip neighbour add 198.51.100.7 lladdr 02:00:00:00:00:07 dev wire && exec \"$@\"";
        let mut words = vec!["--net", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_linerate")];
        let key = agent.key();
        words.extend(short("path", &["--source", "source", "--peer", peer, "--key-file", &key]));
        ground.run(&mut ground.command("unshare", &words)).gives(3).says(&[peer]).says(&parts);
        ground.no_result();
    }
}

#[test]
fn a_peer_of_another_version() {
    let agent = StartedAgent::start(&[]);
    let other = listener(|mut stream| {
        let _ = stream.read(&mut [0; 4]);
        let _ = stream.write_all(b"LRc9");
    });
    refused(&other.to_string(), &agent.key(), &["version 9", "install the same version"]);
}

#[test]
fn a_peer_that_is_another_service() {
    let agent = StartedAgent::start(&[]);
    let web = listener(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    });
    refused(&web.to_string(), &agent.key(), &["not an agent of linerate"]);
    let silent = listener(|mut stream| drop(stream.read_to_end(&mut Vec::new())));
    refused(&silent.to_string(), &agent.key(), &["did not answer", "another service"]);
}

#[test]
fn a_peer_with_another_key_or_none() {
    let (agent, other) = (StartedAgent::start(&[]), StartedAgent::start(&[]));
    let peer = agent.address.to_string();
    refused(&peer, &other.key(), &["refused the key", "--key-file"]);
    let ground = TestFolder::with_source();
    std::fs::write(ground.path().join("loose"), "00".repeat(32)).expect("a file");
    ground.file("nonsense", 10);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(ground.path().join("nonsense"), mode).expect("a mode");
    for (key, part) in [("none", "not there"), ("loose", "chmod 600"), ("nonsense", "no key")] {
        let words = short("path", &["--source", "source", "--peer", &peer, "--key-file", key]);
        ground.run(&mut ground.linerate(&words)).gives(3).says(&[key, part]);
    }
    let words = short("path", &["--source", "source", "--peer", &peer]);
    ground.run(&mut ground.linerate(&words)).gives(2).says(&["--key-file", "LINERATE_KEY"]);
    let mut command = ground.linerate(&words);
    ground.run(command.env("LINERATE_KEY", "short")).gives(2).says(&["LINERATE_KEY", "no key"]);
    ground.no_result();
}

#[test]
fn a_peer_that_is_no_address() {
    let agent = StartedAgent::start(&[]);
    let ground = TestFolder::with_source();
    for peer in ["", "host:0", "a b", "http://host/", "ssh://-host", "ssh://a b@host"] {
        let words = short("path", &["--source", "source", "--key-file", &agent.key()])
            .iter()
            .map(|word| word.to_string())
            .collect::<Vec<_>>();
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        words.extend(["--peer", peer]);
        ground.run(&mut ground.linerate(&words)).gives(2).says(&["--peer", peer]);
    }
}

#[test]
fn an_agent_that_cannot_start() {
    let agent = StartedAgent::start(&[]);
    let ground = TestFolder::new();
    let key = agent.key();
    let taken = agent.address.to_string();
    for (words, status, part) in [
        (vec!["agent", "--key-file", "missing/key"], 3, "missing/key"),
        (vec!["agent", "--key-file", &key, "--listen", "here"], 2, "here"),
        (vec!["agent", "--key-file", &key, "--listen", "192.0.2.1:0"], 3, "192.0.2.1"),
        (vec!["agent", "--key-file", &key, "--listen", &taken], 3, "--listen"),
        (vec!["agent", "--own", "--listen", "127.0.0.1:0"], 2, "own use"),
    ] {
        ground.run(&mut ground.linerate(&words)).gives(status).says(&[part]);
    }
}

#[test]
fn a_run_against_an_agent_and_an_agent_that_is_asked_to_end() {
    let mut agent = StartedAgent::start(&[]);
    let ground = TestFolder::with_source();
    let peer = agent.words();
    let peer: Vec<&str> = peer.iter().map(String::as_str).collect();
    let words = short("path", &[&["--source", "source", "--verify"], &peer[..]].concat());
    ground.run(&mut ground.linerate(&words)).is_content();
    assert_eq!(stages(&ground.result(OUTPUT)), ["path", "path"]);
    signal_process(agent.child.id(), "TERM");
    assert_eq!(agent.child.wait().expect("its status").code(), Some(0));
}

/// Waits until the path stage runs: the figure of the disk stage is saved then.
pub fn path_stage_runs(ground: &TestFolder) {
    let saved = ground.path().join(OUTPUT).join("run.json");
    let has_disk = || std::fs::read_to_string(&saved).is_ok_and(|text| text.contains("\"stage\": \"disk\""));
    until("the disk stage is saved", has_disk);
    std::thread::sleep(Duration::from_millis(1300));
}

/// Words of a run whose path stage takes long.
pub fn long<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec!["run", "--stages", "disk,path", "--source", "source", "--output", OUTPUT];
    words.extend(["--seconds", "0.5", "--repeats", "4", "--budget", "60"]);
    words.extend(more);
    words
}

/// Something happens to the peer while the path stage runs: the run ends with what it has.
fn dies_in_the_middle(more: &[&str], happen: impl Fn(&StartedAgent)) {
    let agent = StartedAgent::start(&[]);
    let ground = TestFolder::with_source();
    let before = ground.seen();
    let peer = agent.words();
    let peer: Vec<&str> = peer.iter().map(String::as_str).collect();
    let started = Started::of(&mut ground.linerate(&long(&[&peer[..], more].concat())));
    path_stage_runs(&ground);
    let happened = Instant::now();
    happen(&agent);
    let ended = started.end_within(SECONDS);
    let took = happened.elapsed();
    ended.gives(1).says(&["path", "gent"]);
    assert!(took < Duration::from_secs(9), "{took:?}\n{ended}");
    ground.left_alone(&before, &ended);
    let run = ground.result(OUTPUT);
    assert!(stages(&run).contains(&"disk".to_string()) && run["diagnosis"].is_object(), "{run:#}");
    assert!(errors(&run).iter().any(|error| error.contains(&agent.address.to_string())), "{run:#}");
    assert!(ground.path().join(OUTPUT).join("report.html").is_file());
}

#[test]
fn a_peer_that_is_killed_in_the_middle() {
    for protocol in ["tcp", "udp"] {
        dies_in_the_middle(&["--protocol", protocol], |agent| signal_process(agent.child.id(), "KILL"));
    }
}

#[test]
fn a_peer_that_hangs_in_the_middle() {
    dies_in_the_middle(&["--protocol", "tcp"], |agent| signal_process(agent.child.id(), "STOP"));
}

#[test]
fn a_peer_that_hangs_in_the_middle_of_udp() {
    dies_in_the_middle(&["--protocol", "udp"], |agent| signal_process(agent.child.id(), "STOP"));
}

#[test]
fn a_peer_that_hangs_does_not_hold_up_ctrl_c() {
    let agent = StartedAgent::start(&[]);
    let ground = TestFolder::with_source();
    let peer = agent.words();
    let peer: Vec<&str> = peer.iter().map(String::as_str).collect();
    let started = Started::of(&mut ground.linerate(&long(&peer)));
    path_stage_runs(&ground);
    signal_process(agent.child.id(), "STOP");
    std::thread::sleep(Duration::from_millis(300));
    let asked = Instant::now();
    started.signal(2);
    let ended = started.end_within(SECONDS);
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}\n{ended}", asked.elapsed());
    ended.gives(1).says(&["interrupted"]);
    errors(&ground.result(OUTPUT));
}

#[test]
fn our_own_receiver_that_is_killed_in_the_middle() {
    let ground = TestFolder::with_source();
    let before = ground.seen();
    let started = Started::of(&mut ground.linerate(&long(&[])));
    path_stage_runs(&ground);
    let own = super::ground::processes_in(&ground.path());
    let (number, _) = own.iter().find(|(_, line)| line.contains(" agent ")).expect("our receiver");
    signal_process(*number, "KILL");
    let ended = started.end_within(SECONDS);
    ended.gives(1).says(&["path", "gent"]);
    ground.left_alone(&before, &ended);
    assert_eq!(stages(&ground.result(OUTPUT))[0], "disk");
}
