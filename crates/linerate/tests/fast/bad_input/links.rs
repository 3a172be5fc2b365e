//! A NIC that goes down in the middle: two network namespaces with a pair of virtual interfaces between them.

use super::ground::{OUTPUT, SECONDS, TestFolder, errors, stages};
use super::peers::{long, path_stage_runs};
use crate::support::agent::listening;
use crate::support::namespaces::Namespaces;
use crate::support::process::{ProcessEnd, Running, Started};
use std::time::{Duration, Instant};

/// Two namespaces, and an agent in the second; gone with this value.
struct Link {
    _agent: Running,
    ground: TestFolder,
    hosts: Namespaces,
}

impl Link {
    /// None, with a message, where this user may not make namespaces.
    fn up(name: &str) -> Option<Link> {
        let hosts = Namespaces::new(name, &["a", "b"])?;
        for path in ["1", "2"] {
            let (near, far) = (format!("near{path}"), format!("far{path}"));
            hosts.cable(("a", &near), ("b", &far));
            hosts.address("a", &near, &format!("192.168.{path}.1/24"));
            hosts.address("b", &far, &format!("192.168.{path}.2/24"));
        }
        let ground = TestFolder::new();
        let there = hosts.name("b");
        let mut words =
            vec!["netns", "exec", &there, env!("CARGO_BIN_EXE_linerate"), "agent", "--key-file", "key"];
        words.extend(["--listen", "192.168.1.2:7411", "--listen", "192.168.2.2:7411"]);
        let (agent, _) = listening(&mut ground.command("ip", &words));
        Some(Link { _agent: Running(agent), ground, hosts })
    }
}

/// A run over some of the paths, during whose path stage the first one goes down.
fn goes_down(name: &str, peers: &[&str], protocol: &str) -> Option<(TestFolder, ProcessEnd, Duration)> {
    let link = Link::up(name)?;
    let ground = TestFolder::with_source();
    let before = ground.seen();
    let key = link.ground.path().join("key").display().to_string();
    let here = link.hosts.name("a");
    let mut words = vec!["netns", "exec", &here, env!("CARGO_BIN_EXE_linerate")];
    words.extend(long(&["--protocol", protocol, "--key-file", &key]));
    peers.iter().for_each(|peer| words.extend(["--peer", peer]));
    let started = Started::of(&mut ground.command("ip", &words));
    path_stage_runs(&ground);
    let happened = Instant::now();
    link.hosts.ip("a", &["link", "set", "near1", "down"]);
    let ended = started.end_within(SECONDS);
    let took = happened.elapsed();
    ground.left_alone(&before, &ended);
    Some((ground, ended, took))
}

fn one_link_down(protocol: &str) {
    let Some((ground, ended, took)) = goes_down(protocol, &["192.168.1.2"], protocol) else { return };
    ended.gives(1).says(&["path", "near1"]);
    // Some 5 s until the peer is given up, then four rounds of some 0.9 s of the disk alone: 8 s on a quiet machine.
    assert!(took < Duration::from_secs(20), "{took:?}\n{ended}");
    let run = ground.result(OUTPUT);
    errors(&run);
    assert_eq!(stages(&run)[0], "disk");
    assert!(run["diagnosis"].is_object());
}

#[test]
fn the_only_nic_goes_down_under_tcp() {
    one_link_down("tcp");
}

#[test]
fn the_only_nic_goes_down_under_udp() {
    one_link_down("udp");
}

#[test]
fn one_of_two_nics_goes_down() {
    let Some((ground, ended, took)) = goes_down("two", &["192.168.1.2", "192.168.2.2"], "tcp") else {
        return;
    };
    ended.gives(1).says(&["near1"]);
    assert!(took < Duration::from_secs(16), "{took:?}\n{ended}");
    let run = ground.result(OUTPUT);
    assert!(errors(&run).iter().all(|error| !error.contains("near2")), "{run:#}");
}
