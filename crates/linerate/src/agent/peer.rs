//! `--peer`: how a user names an agent.

use super::ssh::SshAgent;
use super::ssh_host::SshHost;
use super::{DEFAULT_PORT, Key};
use crate::failure::Failure;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A name server that does not answer is not waited for longer.
const RESOLVE: Duration = Duration::from_secs(5);

/// An agent to connect to. One that was started over ssh ends when this is dropped.
pub struct Peer {
    pub address: SocketAddr,
    pub key: Key,
    _launched: Option<SshAgent>,
}

/// The agents that were named with `--peer`: all names are read before anything is done, then agents are started where `ssh://` asks
/// for it. The key is asked for only where somebody else has started the agent. `stop` (Ctrl-C) ends the waiting.
pub fn find_peers(
    peers: &[String],
    key_file: Option<&Path>,
    stop: &AtomicBool,
) -> Result<Vec<Peer>, Failure> {
    enum Named {
        Address(SocketAddr),
        Ssh(SshHost),
    }
    let named: Vec<Named> = peers
        .iter()
        .map(|text| match SshHost::parse(text).map_err(Failure::Usage)? {
            Some(host) => Ok(Named::Ssh(host)),
            None => parse_peer(text).map(Named::Address),
        })
        .collect::<Result<_, Failure>>()?;
    let shared = match named.iter().any(|name| matches!(name, Named::Address(_))) {
        true => Some(Key::find(key_file)?),
        false => None,
    };
    let ready = named.into_iter().filter_map(|name| match name {
        Named::Address(address) => shared.clone().map(|key| Ok(Peer { address, key, _launched: None })),
        Named::Ssh(host) => Some(SshAgent::start(&host, stop).map(|agent| Peer {
            address: agent.address(),
            key: agent.key().clone(),
            _launched: Some(agent),
        })),
    });
    ready.collect()
}

/// Reads `HOST`, `HOST:PORT`, `[V6]:PORT`, `[V6]` or `V6`; the port is 7411 where none is given. Names are resolved.
pub fn parse_peer(text: &str) -> Result<SocketAddr, Failure> {
    resolve_named("--peer", text, DEFAULT_PORT)
}

/// As [`parse_peer`], for another option with another port where none is given.
pub(crate) fn resolve_named(option: &str, text: &str, default_port: u16) -> Result<SocketAddr, Failure> {
    let (host, port) = split_named(option, text, default_port).map_err(Failure::Usage)?;
    resolve_host(&host, port).map_err(|why| {
        Failure::Lacks(format!(
            "{option} {text}: {host} has no address: {why}; check the name, or give its address"
        ))
    })
}

/// Host and port of `--peer`, by form alone; the error is a sentence.
pub(super) fn split(text: &str) -> Result<(String, u16), String> {
    split_named("--peer", text, DEFAULT_PORT)
}

fn split_named(option: &str, text: &str, default_port: u16) -> Result<(String, u16), String> {
    let wrong =
        |why: &str| format!("{option} {text}: {why}; write HOST, HOST:PORT, [IPV6]:PORT or an IPv6 address");
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or_else(|| wrong("a “]” is missing"))?;
            let port = after.strip_prefix(':');
            if port.is_none() && !after.is_empty() {
                return Err(wrong("after “]” comes nothing, or “:” and a port"));
            }
            if !host.contains(':') {
                return Err(wrong("brackets are for IPv6 addresses"));
            }
            (host, port)
        }
        None if text.matches(':').count() > 1 => (text, None),
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let letter = |letter: char| letter.is_alphanumeric() || matches!(letter, '.' | '-' | '_' | ':' | '%');
    // A leading “-” would be an option to ssh.
    if host.is_empty() || host.len() > 253 || host.starts_with('-') || !host.chars().all(letter) {
        return Err(wrong("that is no host"));
    }
    // Interface names may follow a “%”; the address before it must be one.
    if host.contains([':', '%'])
        && host.split('%').next().is_none_or(|v6| v6.parse::<std::net::Ipv6Addr>().is_err())
    {
        return Err(wrong("that is no IPv6 address"));
    }
    let port = match port {
        None => default_port,
        Some(digits) => match digits.parse::<u16>() {
            Ok(port) if port > 0 && digits.bytes().all(|digit| digit.is_ascii_digit()) => port,
            _ => return Err(wrong("a port is a number from 1 to 65535")),
        },
    };
    Ok((host.to_string(), port))
}

/// Its addresses are looked up as those of `HOST` are.
pub(super) fn resolve_host(host: &str, port: u16) -> Result<SocketAddr, String> {
    match host.parse::<IpAddr>() {
        Ok(address) => Ok(SocketAddr::new(address, port)),
        Err(_) => resolve(host, port),
    }
}

/// Asks the resolver on a thread of its own, because it has no timeout that we could set.
fn resolve(host: &str, port: u16) -> Result<SocketAddr, String> {
    let (sender, answer) = std::sync::mpsc::channel::<io::Result<Option<SocketAddr>>>();
    let question = (host.to_string(), port);
    std::thread::Builder::new()
        .name("resolver".into())
        .spawn(move || {
            let found = question.to_socket_addrs().map(|mut addresses| addresses.next());
            let _ = sender.send(found);
        })
        .map_err(|error| error.to_string())?;
    match answer.recv_timeout(RESOLVE) {
        Ok(Ok(Some(address))) => Ok(address),
        Ok(Ok(None)) => Err("the resolver gives none".into()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", RESOLVE.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn all_forms_of_an_address() {
        for (text, address) in [
            ("192.0.2.7", "192.0.2.7:7411"),
            ("192.0.2.7:80", "192.0.2.7:80"),
            ("2001:db8::7", "[2001:db8::7]:7411"),
            ("[2001:db8::7]", "[2001:db8::7]:7411"),
            ("[2001:db8::7]:80", "[2001:db8::7]:80"),
            ("::1", "[::1]:7411"),
        ] {
            let expected: SocketAddr = address.parse().expect("an address");
            assert_eq!(parse_peer(text).expect(text), expected, "{text}");
        }
        let local = parse_peer("localhost:81").expect("localhost");
        assert!(local.ip().is_loopback() && local.port() == 81);
    }

    #[test]
    fn wrong_forms_are_wrong_use() {
        for text in [
            "",
            ":",
            ":80",
            "host:",
            "host:0",
            "host:65536",
            "host:+1",
            "host:x",
            "[::1",
            "[::1]x",
            "[::1]:",
            "[host]:1",
            "a b",
            "http://host",
            "host/path",
            "1:2:3",
            "::1::2",
            "%eth0",
            "ho\nst",
        ] {
            let failure = parse_peer(text).expect_err(text);
            assert!(matches!(failure, Failure::Usage(_)), "{text}: {failure}");
        }
    }

    #[test]
    fn a_name_without_an_address_is_named() {
        // A label of a name has at most 63 letters (RFC 1035, section 2.3.4): nobody on the network is asked.
        let name = "x".repeat(64);
        let failure = parse_peer(&name).expect_err("no such name");
        assert!(matches!(&failure, Failure::Lacks(text) if text.contains(&name)), "{failure}");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[\\[\\]:%.a-f0-9é ]{0,24}") {
            if let Ok((host, port)) = split(&text) {
                prop_assert!(!host.is_empty() && port > 0);
            }
        }
    }
}
