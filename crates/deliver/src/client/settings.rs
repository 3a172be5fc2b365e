//! The settings of a transfer's connections: made once, cloned for each NIC of this host by which they leave;
//! and the addresses of each host name: which of them answer, and how many connections each has, so that the
//! next one goes where it is of use.

use super::TransferError;
use crate::dialled::AwaitedConnections;
use crate::flow_sockets::FlowSockets;
use crate::http::url::HttpUrl;
use crate::s3::S3Store;
use crate::tls::{ClientTls, TlsError, TlsTrust};
use linerate_facts::failure::Failure;
use linerate_machine::probe::network_contains;
use linerate_system::addresses::{InterfaceAddress, interface_addresses};
use linerate_system::lock;
use linerate_system::stop::Stop;
use linerate_transport::address::resolve_all;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// What all connections of a transfer have in common.
#[derive(Clone)]
pub(crate) struct ClientSettings<'a> {
    pub(crate) stop: &'a Stop,
    /// Without any progress for so long a connection is given up.
    pub(crate) timeout: Duration,
    /// The most bytes of a read: few at a low rate limit, so that it is kept evenly.
    pub(crate) read_bytes: usize,
    /// Shown to these servers, as `Host` lines call them, and to none to which they send on.
    pub(crate) token: Option<(String, Vec<String>)>,
    /// Signs the requests to it.
    store: Option<Arc<S3Store>>,
    /// Whom it believes, and the same once it was needed.
    trust: TlsTrust,
    tls: Arc<OnceLock<Result<ClientTls, TlsError>>>,
    /// By which its connections leave this host; none: as the routes say.
    pub(crate) nic: Option<LocalNic>,
    pub(super) book: Arc<AddressBook>,
    /// What its connections use of this host.
    pub(crate) sockets: Arc<FlowSockets>,
    /// All go to the address that answered first, as long as it does: what was sent before is there.
    pub(super) keeps_to_one: bool,
    /// The other end opens the connections; none: this one does.
    pub(super) awaited: Option<Arc<AwaitedConnections>>,
}

impl<'a> ClientSettings<'a> {
    pub(crate) fn new(
        stop: &'a Stop,
        timeout: Duration,
        read_bytes: usize,
        token: Option<(String, Vec<String>)>,
        trust: TlsTrust,
    ) -> Self {
        let (tls, book) = (Arc::default(), Arc::default());
        ClientSettings {
            stop,
            timeout,
            read_bytes,
            token,
            store: None,
            trust,
            tls,
            nic: None,
            book,
            sockets: Arc::default(),
            keeps_to_one: false,
            awaited: None,
        }
    }

    /// The same, with requests signed for this store.
    pub(crate) fn with_store(self, store: Option<Arc<S3Store>>) -> Self {
        ClientSettings { store, ..self }
    }

    /// The object store that this is a URL of.
    pub(crate) fn store_of(&self, url: &HttpUrl) -> Option<&S3Store> {
        self.store.as_deref().filter(|store| store.location(url).is_some())
    }

    /// The same, with connections that the other end opens, where there are such.
    pub(crate) fn with_awaited(self, awaited: Option<Arc<AwaitedConnections>>) -> Self {
        ClientSettings { awaited, ..self }
    }

    /// From now on these are the addresses of the URLs' hosts, where there are some, also for clones.
    pub(crate) fn enter_addresses(&self, urls: &[HttpUrl], addresses: &[SocketAddr]) {
        let urls = urls.iter().filter(|_| !addresses.is_empty());
        urls.for_each(|url| self.book.enter(url, addresses, None));
    }

    /// The same, with all connections to one address of each name.
    pub(crate) fn keeping_to_one_address(self) -> Self {
        ClientSettings { keeps_to_one: true, ..self }
    }

    /// The same, with connections that are counted there.
    pub(crate) fn counted_in(self, sockets: &Arc<FlowSockets>) -> Self {
        ClientSettings { sockets: Arc::clone(sockets), ..self }
    }

    /// The same, by a NIC, which has addresses of its own that it reaches.
    pub(crate) fn through(&self, nic: &LocalNic) -> Self {
        ClientSettings { nic: Some(nic.clone()), book: Arc::default(), ..self.clone() }
    }

    /// The authorities are read with the first connection that needs them.
    pub(super) fn tls(&self) -> Result<&ClientTls, TransferError> {
        self.tls.get_or_init(|| self.trust.client()).as_ref().map_err(|why| why.clone().into())
    }

    /// Has the addresses of the URL's host in the book; looked up once.
    pub(super) fn look_up(&self, url: &HttpUrl) -> Result<(), TransferError> {
        if lock(&self.book.hosts).contains_key(&host_and_port(url)) {
            return Ok(());
        }
        let found = resolve_all(&url.host, url.port, self.stop);
        self.check_stop()?;
        let unreachable = |why: String| TransferError::Unreachable { authority: url.authority(), why };
        self.book.enter(url, &found.map_err(|why| unreachable(why.to_string()))?, self.nic.as_ref());
        Ok(())
    }

    pub(crate) fn check_stop(&self) -> Result<(), TransferError> {
        if self.stop.is_ended() { Err(TransferError::Interrupted) } else { Ok(()) }
    }
}

/// Found by its name, or by one of its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalNic {
    /// Connections are bound to the interface (SO_BINDTODEVICE).
    pub name: String,
    /// And to this address of it, where it was named by one.
    pub address: Option<IpAddr>,
    /// Its addresses, with the bits of their networks.
    networks: Vec<(IpAddr, u8)>,
}

impl LocalNic {
    /// The NIC that `--nic` names.
    pub fn find(text: &str) -> Result<Self, Failure> {
        let all = interface_addresses()
            .map_err(|error| Failure::Lacks(format!("--nic {text}: the addresses of this host: {error}")))?;
        LocalNic::among(text, &all)
    }

    fn among(text: &str, all: &[InterfaceAddress]) -> Result<Self, Failure> {
        let address: Option<IpAddr> = text.trim_start_matches('[').trim_end_matches(']').parse().ok();
        let is_meant = |one: &&InterfaceAddress| match address {
            Some(address) => one.address == address,
            None => one.interface == text || one.interface_name() == text,
        };
        let Some(found) = all.iter().find(is_meant) else {
            let what = match address {
                Some(_) => "no NIC of this host has this address; `ip address` shows those that are there",
                None => "this host has no such NIC, or it has no address; `linerate probe` lists the NICs",
            };
            return Err(Failure::Lacks(format!("--nic {text}: {what}")));
        };
        let name = found.interface_name().to_string();
        let own = all.iter().filter(|one| one.interface_name() == name);
        Ok(LocalNic { networks: own.map(|one| (one.address, one.prefix)).collect(), name, address })
    }

    /// In a network of the NIC's own, without a router.
    fn is_connected_to(&self, peer: IpAddr) -> bool {
        self.networks.iter().any(|(own, prefix)| network_contains(*own, *prefix, peer))
    }
}

/// Shared by all connections that leave by one NIC.
#[derive(Debug, Default)]
pub(crate) struct AddressBook {
    hosts: Mutex<HashMap<(String, u16), Vec<KnownAddress>>>,
}

#[derive(Debug)]
struct KnownAddress {
    address: SocketAddr,
    state: AddressState,
    has_answered: bool,
    /// In no network that the connections' NIC is connected to.
    is_far: bool,
    /// Connections that are open, or being opened.
    connections: usize,
}

/// In the order in which they are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AddressState {
    /// It answered, or was not asked yet.
    Usable,
    /// Another answered while this one was silent.
    Late,
    /// It refused, or was silent for as long as is waited.
    Dead,
    /// It has another copy of what is fetched.
    Differs,
}

impl AddressBook {
    pub(super) fn enter(&self, url: &HttpUrl, found: &[SocketAddr], nic: Option<&LocalNic>) {
        let known = |address: &SocketAddr| KnownAddress {
            address: *address,
            state: AddressState::Usable,
            has_answered: false,
            is_far: nic.is_some_and(|nic| !nic.is_connected_to(address.ip())),
            connections: 0,
        };
        let mut all: Vec<KnownAddress> = Vec::new();
        for address in found {
            if !all.iter().any(|one| one.address == *address) {
                all.push(known(address));
            }
        }
        lock(&self.hosts).entry(host_and_port(url)).or_insert(all);
    }

    /// The address that the next connection should try, with one connection more; none that was tried already.
    /// `keeps_to_one`: that which has answered, else that with the fewest.
    pub(super) fn take(
        self: &Arc<Self>,
        url: &HttpUrl,
        tried: &[SocketAddr],
        keeps_to_one: bool,
    ) -> Option<TakenAddress> {
        let mut hosts = lock(&self.hosts);
        let known = hosts.get_mut(&host_and_port(url))?;
        let untried = known.iter_mut().filter(|one| !tried.contains(&one.address));
        let next = untried.min_by_key(|one| {
            let is_other = keeps_to_one && !one.has_answered;
            (one.state, is_other, one.is_far, if keeps_to_one { 0 } else { one.connections })
        })?;
        next.connections += 1;
        Some(TakenAddress { book: Arc::clone(self), key: host_and_port(url), address: next.address })
    }

    fn change(&self, key: &(String, u16), address: SocketAddr, change: impl FnOnce(&mut KnownAddress)) {
        let mut hosts = lock(&self.hosts);
        let known = hosts.get_mut(key).and_then(|all| all.iter_mut().find(|one| one.address == address));
        if let Some(known) = known {
            change(known);
        }
    }
}

fn host_and_port(url: &HttpUrl) -> (String, u16) {
    (url.host.clone(), url.port)
}

/// An address to which a connection is open, or being opened, as long as this lives.
#[derive(Debug)]
pub(crate) struct TakenAddress {
    book: Arc<AddressBook>,
    key: (String, u16),
    pub(crate) address: SocketAddr,
}

impl TakenAddress {
    pub(super) fn answered(&self) {
        self.set(AddressState::Usable);
        self.book.change(&self.key, self.address, |one| one.has_answered = true);
    }

    pub(super) fn was_late(&self) {
        self.set(AddressState::Late);
    }

    pub(super) fn failed(&self) {
        self.set(AddressState::Dead);
    }

    /// Another copy of the file is there: connections go to the other addresses. False: there is no other.
    pub(crate) fn differs(&self) -> bool {
        self.set(AddressState::Differs);
        let hosts = lock(&self.book.hosts);
        hosts.get(&self.key).is_some_and(|all| all.iter().any(|one| one.state != AddressState::Differs))
    }

    /// What differs stays out whatever else is known of it.
    fn set(&self, state: AddressState) {
        self.book.change(&self.key, self.address, |one| {
            if one.state != AddressState::Differs {
                one.state = state;
            }
        });
    }
}

impl Drop for TakenAddress {
    fn drop(&mut self) {
        self.book.change(&self.key, self.address, |one| one.connections = one.connections.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<InterfaceAddress> {
        let one = |interface: &str, address: &str, prefix| InterfaceAddress {
            interface: interface.into(),
            address: address.parse().expect("an address"),
            prefix,
        };
        vec![
            one("lo", "127.0.0.1", 8),
            one("eth0", "192.0.2.7", 24),
            one("eth0:second", "198.51.100.7", 24),
            one("eth1", "2001:db8::7", 64),
        ]
    }

    #[test]
    fn a_nic_is_found_by_its_name_and_by_its_address() {
        let by_name = LocalNic::among("eth0", &all()).expect("eth0");
        assert_eq!((by_name.name.as_str(), by_name.address, by_name.networks.len()), ("eth0", None, 2));
        assert!(by_name.is_connected_to("198.51.100.9".parse().expect("an address")));
        assert!(!by_name.is_connected_to("203.0.113.9".parse().expect("an address")));
        for (text, name) in [("198.51.100.7", "eth0"), ("2001:db8::7", "eth1"), ("[2001:db8::7]", "eth1")] {
            let found = LocalNic::among(text, &all()).expect(text);
            assert!(found.name == name && found.address.is_some(), "{found:?}");
        }
    }

    #[test]
    fn a_nic_that_is_not_there_is_a_sentence() {
        for text in ["eth9", "192.0.2.8", "", "eth0 ", "[]"] {
            let failure = LocalNic::among(text, &all()).expect_err(text);
            let says = failure.to_string();
            assert!(
                matches!(failure, Failure::Lacks(_)) && says.contains(&format!("--nic {text}")),
                "{says}"
            );
        }
    }
}
