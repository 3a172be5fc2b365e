//! A NIC that goes down in the middle: two network namespaces with a pair of virtual interfaces between them.

use super::ground::{OUTPUT, SECONDS, Started, TestFolder, errors, stages};
use super::peers::{listening, long, path_stage_runs};
use super::rights;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Two namespaces with names of this test alone, and an agent in the second; gone with this value.
struct Link {
    here: String,
    there: String,
    ground: TestFolder,
    agent: Option<Child>,
}

fn ip(words: &[&str]) {
    let output = Command::new("ip").args(words).output().expect("ip");
    assert!(output.status.success(), "ip {words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Link {
    fn up(name: &str) -> Link {
        let (here, there) =
            (format!("lr-{name}-{}-a", std::process::id()), format!("lr-{name}-{}-b", std::process::id()));
        let mut link = Link { here, there, ground: TestFolder::new(), agent: None };
        let (here, there) = (link.here.clone(), link.there.clone());
        ip(&["netns", "add", &here]);
        ip(&["netns", "add", &there]);
        for path in ["1", "2"] {
            let (near, far) = (format!("near{path}"), format!("far{path}"));
            ip(&["-n", &here, "link", "add", &near, "type", "veth", "peer", "name", &far, "netns", &there]);
            for (namespace, name, host) in [(&here, &near, "1"), (&there, &far, "2")] {
                ip(&["-n", namespace, "address", "add", &format!("192.168.{path}.{host}/24"), "dev", name]);
                ip(&["-n", namespace, "link", "set", name, "up"]);
                ip(&["-n", namespace, "link", "set", "lo", "up"]);
            }
        }
        let mut words =
            vec!["netns", "exec", &there, env!("CARGO_BIN_EXE_linerate"), "agent", "--key-file", "key"];
        words.extend(["--listen", "192.168.1.2:7411", "--listen", "192.168.2.2:7411"]);
        link.agent = Some(listening(&mut link.ground.command("ip", &words)).0);
        link
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(agent) = &mut self.agent {
            let _ = agent.kill();
            let _ = agent.wait();
        }
        for name in [&self.here, &self.there] {
            let _ = Command::new("ip").args(["netns", "delete", name]).output();
        }
    }
}

/// A run over some of the paths, during whose path stage the first one goes down.
fn goes_down(
    name: &str,
    peers: &[&str],
    protocol: &str,
) -> Option<(TestFolder, super::ground::ProcessEnd, Duration)> {
    if !rights::may_make_networks() {
        rights::skipped("no network namespaces of our own: not root, or in a container that forbids them");
        return None;
    }
    let link = Link::up(name);
    let ground = TestFolder::new();
    ground.file("source", 4 << 20);
    let before = ground.seen();
    let key = link.ground.path().join("key").display().to_string();
    let mut words = vec!["netns", "exec", &link.here, env!("CARGO_BIN_EXE_linerate")];
    words.extend(long(&["--protocol", protocol, "--key-file", &key]));
    peers.iter().for_each(|peer| words.extend(["--peer", peer]));
    let started = Started::of(&mut ground.command("ip", &words));
    path_stage_runs(&ground);
    let happened = Instant::now();
    ip(&["-n", &link.here, "link", "set", "near1", "down"]);
    let ended = started.end_within(SECONDS);
    let took = happened.elapsed();
    ground.left_alone(&before, &ended);
    Some((ground, ended, took))
}

fn one_link_down(protocol: &str) {
    let Some((ground, ended, took)) = goes_down(protocol, &["192.168.1.2"], protocol) else { return };
    ended.gives(1).says(&["path", "near1"]);
    // Some 5 s until the peer is given up, then six rounds of some 1.4 s of the disk alone: 12.4 s on a quiet machine.
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
