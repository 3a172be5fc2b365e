//! Addresses as a user writes them, read in the same way for every option: a host to connect to, a place to
//! listen on.

use linerate_facts::failure::Failure;
use linerate_system::clock;
use linerate_system::stop::{STOP_CHECK, Stop};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;
use thiserror::Error;

/// A name server that does not answer is not waited for longer.
const RESOLVE: Duration = Duration::from_secs(5);

/// `HOST`, `HOST:PORT`, `[V6]:PORT`, `[V6]` or `V6`, which may name its interface (`fe80::1%eth0`). Read by
/// form alone: nobody is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    pub host: String,
    pub port: Option<u16>,
}

/// A text that has not the form of a host.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text}: {why}; write HOST, HOST:PORT, [IPV6]:PORT or an IPv6 address")]
pub struct HostPortError {
    text: String,
    why: &'static str,
}

impl FromStr for HostPort {
    type Err = HostPortError;

    fn from_str(text: &str) -> Result<Self, HostPortError> {
        let wrong = |why| HostPortError { text: text.into(), why };
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
            return Err(wrong("that is not a host"));
        }
        // Interface names may follow a “%”; the address before it must be one.
        if host.contains([':', '%']) && before_scope(host).parse::<Ipv6Addr>().is_err() {
            return Err(wrong("that is not an IPv6 address"));
        }
        let port = match port {
            None => None,
            Some(digits) => match digits.parse::<u16>() {
                Ok(port) if digits.bytes().all(|digit| digit.is_ascii_digit()) => Some(port),
                _ => return Err(wrong("a port is a number from 1 to 65535")),
            },
        };
        Ok(HostPort { host: host.to_string(), port })
    }
}

fn before_scope(host: &str) -> &str {
    host.split_once('%').map_or(host, |(address, _)| address)
}

/// A text that names nothing to connect to.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum ConnectAddressError {
    #[error(transparent)]
    Form(#[from] HostPortError),
    #[error("{text}: a port is a number from 1 to 65535")]
    PortZero { text: String },
}

/// Host and port to connect to, by form alone.
pub(crate) fn to_connect(text: &str, default_port: u16) -> Result<(String, u16), ConnectAddressError> {
    let HostPort { host, port } = text.parse()?;
    match port {
        Some(0) => Err(ConnectAddressError::PortZero { text: text.into() }),
        port => Ok((host, port.unwrap_or(default_port))),
    }
}

/// The address of the host that an option names; a name is looked up, and its first address taken.
pub fn resolve_named(option: &str, text: &str, default_port: u16) -> Result<SocketAddr, Failure> {
    let (host, port) =
        to_connect(text, default_port).map_err(|why| Failure::Usage(format!("{option} {why}")))?;
    resolve_host(&host, port, &Stop::new()).map_err(|why| {
        Failure::Lacks(format!(
            "{option} {text}: {host} has no address: {why}; check the name, or give its address"
        ))
    })
}

/// A text that names no address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ListenAddressError {
    #[error(
        "“{text}” is not an address to listen on: write a port like {port}, or an address with one: \
         192.0.2.7:{port}, [::]:{port}, [fe80::1%eth0]:{port}"
    )]
    Form { text: String, port: u16 },
    #[error("“{text}”: this host has no interface {interface}; `ip link` shows those that are there")]
    NoInterface { text: String, interface: String },
}

/// An address to listen on: `PORT` (at `any`), `ADDRESS:PORT`, and `ADDRESS` where there is a default port. A
/// link-local one names its interface: `fe80::1%eth0`.
pub fn listen_address(
    text: &str,
    any: IpAddr,
    default_port: Option<u16>,
) -> Result<SocketAddr, ListenAddressError> {
    let wrong = || ListenAddressError::Form { text: text.into(), port: default_port.unwrap_or(5004) };
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address);
    }
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::new(any, port));
    }
    let HostPort { host, port } = text.parse().map_err(|_: HostPortError| wrong())?;
    let port = port.or(default_port).ok_or_else(wrong)?;
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, port));
    }
    // Only the resolver knows the numbers of interfaces; a plain name is not looked up.
    let (_, interface) = host.split_once('%').ok_or_else(wrong)?;
    let found = (host.as_str(), port).to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    found.ok_or_else(|| ListenAddressError::NoInterface { text: text.into(), interface: interface.into() })
}

/// Why the resolver has no address of a name.
#[derive(Debug, Error)]
pub enum ResolveError {
    #[error(transparent)]
    Resolver(#[from] io::Error),
    #[error("the resolver gives none")]
    NoAddress,
    #[error("no answer within {} s", RESOLVE.as_secs())]
    Silent,
}

/// The address of a host; a name is looked up.
pub(crate) fn resolve_host(host: &str, port: u16, stop: &Stop) -> Result<SocketAddr, ResolveError> {
    resolve_all(host, port, stop)?.into_iter().next().ok_or(ResolveError::NoAddress)
}

/// All addresses of a host, at least one, in the resolver's order; a name is looked up, unless `stop` ends that.
pub fn resolve_all(host: &str, port: u16, stop: &Stop) -> Result<Vec<SocketAddr>, ResolveError> {
    let question = (host.to_string(), port);
    match host.parse::<IpAddr>() {
        Ok(address) => Ok(vec![SocketAddr::new(address, port)]),
        Err(_) => look_up(move || question.to_socket_addrs().map(Iterator::collect), stop),
    }
}

/// Asks the resolver on a thread of its own, because it has no timeout that we could set.
fn look_up(
    ask: impl FnOnce() -> io::Result<Vec<SocketAddr>> + Send + 'static,
    stop: &Stop,
) -> Result<Vec<SocketAddr>, ResolveError> {
    let (sender, answer) = std::sync::mpsc::channel();
    std::thread::Builder::new().name("resolver".into()).spawn(move || drop(sender.send(ask())))?;
    let until = clock::now() + RESOLVE;
    let found = loop {
        match answer.recv_timeout(STOP_CHECK) {
            Err(RecvTimeoutError::Timeout) if clock::now() < until && !stop.is_ended() => {}
            answered => break answered.map_err(|_| ResolveError::Silent)??,
        }
    };
    if found.is_empty() { Err(ResolveError::NoAddress) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn peer(text: &str) -> Result<SocketAddr, Failure> {
        resolve_named("--peer", text, 7411)
    }

    #[test]
    fn all_forms_of_an_address() {
        for (text, address) in [
            ("192.0.2.7", "192.0.2.7:7411"),
            ("192.0.2.7:80", "192.0.2.7:80"),
            ("2001:db8::7", "[2001:db8::7]:7411"),
            ("[2001:db8::7]", "[2001:db8::7]:7411"),
            ("[2001:db8::7]:80", "[2001:db8::7]:80"),
            ("[fe80::1]:7", "[fe80::1]:7"),
            ("::1", "[::1]:7411"),
        ] {
            let expected: SocketAddr = address.parse().expect("an address");
            assert_eq!(peer(text).expect(text), expected, "{text}");
        }
        let local = peer("localhost:81").expect("localhost");
        assert!(local.ip().is_loopback() && local.port() == 81);
    }

    #[test]
    fn wrong_forms_are_wrong_use() {
        let texts = "|:|:80|host:|host:0|host:65536|host:99999|host:+1|host:x|[::1|[::1]x|[::1]:|[::1]:x\
            |[host]:1|a b|http://host|host/path|1:2:3|::1::2|%eth0|ho\nst";
        for text in texts.split('|') {
            let failure = peer(text).expect_err(text);
            assert!(matches!(failure, Failure::Usage(_)), "{text}: {failure}");
            assert!(failure.to_string().starts_with("--peer "), "{text}: {failure}");
        }
    }

    #[test]
    fn a_name_without_an_address_is_named() {
        // A label of a name has at most 63 letters (RFC 1035, section 2.3.4): nobody on the network is asked.
        let name = "x".repeat(64);
        let failure = peer(&name).expect_err("no such name");
        assert!(matches!(&failure, Failure::Lacks(text) if text.contains(&name)), "{failure}");
    }

    #[test]
    fn a_name_server_that_does_not_answer_is_waited_for_until_the_stop() {
        let (begun, stop) = (clock::now(), Stop::new());
        stop.end();
        let silent = || {
            std::thread::sleep(RESOLVE);
            Ok(Vec::new())
        };
        assert!(matches!(look_up(silent, &stop), Err(ResolveError::Silent)));
        assert!(clock::since(begun) < RESOLVE / 2, "{:?}", clock::since(begun));
    }

    fn listen(text: &str) -> Result<SocketAddr, ListenAddressError> {
        listen_address(text, Ipv6Addr::UNSPECIFIED.into(), Some(7411))
    }

    #[test]
    fn places_to_listen_on_with_and_without_a_port() {
        assert_eq!(listen("127.0.0.1:0"), Ok(SocketAddr::from(([127, 0, 0, 1], 0))));
        assert_eq!(listen("127.0.0.1"), Ok(SocketAddr::from(([127, 0, 0, 1], 7411))));
        assert_eq!(listen("[::1]:5").map(|address| address.port()), Ok(5));
        assert_eq!(listen("[::1]").map(|address| address.port()), Ok(7411));
        assert_eq!(listen("::").map(|address| address.port()), Ok(7411));
        assert_eq!(listen("5004"), Ok(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 5004))));
        for text in ["here", "", "[::1]:x", "here%lo", "[::1]5", "70000"] {
            assert!(listen(text).is_err(), "{text}");
        }
        let here = |text: &str| listen_address(text, Ipv4Addr::LOCALHOST.into(), None);
        assert_eq!(here("7414"), Ok(SocketAddr::from(([127, 0, 0, 1], 7414))));
        assert!(here("127.0.0.1").is_err(), "no port is meant where there is no usual one");
    }

    #[test]
    fn a_link_local_address_takes_its_interface_along() {
        for (text, port) in [("fe80::1%lo", 7411), ("[fe80::1%lo]:80", 80)] {
            match listen(text) {
                Ok(SocketAddr::V6(v6)) => assert_eq!((v6.scope_id() > 0, v6.port()), (true, port), "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        let why = listen("fe80::1%no-such-nic").expect_err("no interface").to_string();
        assert!(why.contains("no-such-nic"), "{why}");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[\\[\\]:%.a-f0-9é ]{0,24}") {
            if let Ok((host, port)) = to_connect(&text, 7411) {
                prop_assert!(!host.is_empty() && port > 0);
            }
            let _ = listen(&text);
        }
    }
}
