//! Network namespaces of a test's own, and what runs in them; gone with the value.

use super::process::Ends;
use super::{keep_apart, kept, rights};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Some hosts: each a namespace with loopback.
pub struct Namespaces {
    prefix: String,
    hosts: Vec<&'static str>,
}

/// `ip` with these words, which has to end well.
#[track_caller]
pub fn ip(words: &[&str]) {
    Command::new("ip").args(words).ended().gives(0);
}

impl Namespaces {
    /// None, with a message, where this user may not make them. The name of the test is short: it begins theirs.
    pub fn new(test: &str, hosts: &[&'static str]) -> Option<Namespaces> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !rights::may_make_networks() {
            rights::skipped(
                "no network namespaces of our own: not root, or in a container that forbids them",
            );
            return None;
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("lr-{test}-{}-{number}-", std::process::id());
        let namespaces = Namespaces { prefix, hosts: hosts.to_vec() };
        for host in hosts {
            ip(&["netns", "add", &namespaces.name(host)]);
            namespaces.ip(host, &["link", "set", "lo", "up"]);
        }
        Some(namespaces)
    }

    /// The name of a host's namespace.
    pub fn name(&self, host: &str) -> String {
        format!("{}{host}", self.prefix)
    }

    /// `ip` with these words on a host.
    #[track_caller]
    pub fn ip(&self, host: &str, words: &[&str]) {
        ip(&[&["-n", &self.name(host)], words].concat());
    }

    /// A cable between two hosts, each end a host and the name of its interface.
    pub fn cable(&self, (host, interface): (&str, &str), (other, far): (&str, &str)) {
        let peer = ["type", "veth", "peer", "name", far, "netns", &self.name(other)];
        ip(&[&["link", "add", interface, "netns", &self.name(host)], &peer[..]].concat());
    }

    /// An interface with an address, which is up.
    pub fn address(&self, host: &str, interface: &str, address: &str) {
        self.ip(host, &["address", "add", address, "dev", interface]);
        self.ip(host, &["link", "set", interface, "up"]);
    }

    /// A program on a host, without input.
    pub fn inside(&self, host: &str, program: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(host)]).args(program).stdin(Stdio::null());
        keep_apart(command.env_remove("LINERATE_KEY"), &kept());
        command
    }

    /// What a program on a host printed; it has to end well.
    #[track_caller]
    pub fn printed(&self, host: &str, program: &[&str]) -> String {
        let ended = self.inside(host, program).env("LC_ALL", "C").ended();
        ended.gives(0);
        ended.stdout
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for host in &self.hosts {
            let _ = Command::new("ip").args(["netns", "delete", &self.name(host)]).output();
        }
    }
}

/// `a` with the interface `sender` (192.0.2.1), `b` with `watched` (192.0.2.2), and a cable between the two.
pub fn pair(test: &str) -> Option<Namespaces> {
    let pair = Namespaces::new(test, &["a", "b"])?;
    pair.cable(("a", "sender"), ("b", "watched"));
    pair.address("a", "sender", "192.0.2.1/24");
    pair.address("b", "watched", "192.0.2.2/24");
    Some(pair)
}
