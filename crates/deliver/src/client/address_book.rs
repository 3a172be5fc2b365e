//! The addresses of each host name: which of them answer, and how many connections each has, so that the next one
//! goes where it is of use.

use super::nic::LocalNic;
use crate::get::error::GetError;
use crate::http::url::HttpUrl;
use linerate_system::lock;
use linerate_transport::address::resolve_all;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

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
    /// The addresses of the URL's host; looked up once.
    pub(super) fn look_up(&self, url: &HttpUrl, nic: Option<&LocalNic>) -> Result<(), GetError> {
        if lock(&self.hosts).contains_key(&key(url)) {
            return Ok(());
        }
        let found = resolve_all(&url.host, url.port)
            .map_err(|why| GetError::Unreachable { authority: url.authority(), why: why.to_string() })?;
        self.enter(url, &found, nic);
        Ok(())
    }

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
        lock(&self.hosts).entry(key(url)).or_insert(all);
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
        let known = hosts.get_mut(&key(url))?;
        let untried = known.iter_mut().filter(|one| !tried.contains(&one.address));
        let next = untried.min_by_key(|one| {
            let is_other = keeps_to_one && !one.has_answered;
            (one.state, is_other, one.is_far, if keeps_to_one { 0 } else { one.connections })
        })?;
        next.connections += 1;
        Some(TakenAddress { book: Arc::clone(self), key: key(url), address: next.address })
    }

    fn change(&self, key: &(String, u16), address: SocketAddr, change: impl FnOnce(&mut KnownAddress)) {
        let mut hosts = lock(&self.hosts);
        let known = hosts.get_mut(key).and_then(|all| all.iter_mut().find(|one| one.address == address));
        if let Some(known) = known {
            change(known);
        }
    }
}

fn key(url: &HttpUrl) -> (String, u16) {
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
