//! The settings of a transfer's connections: made once, cloned for each NIC.

use super::address_book::AddressBook;
use super::nic::LocalNic;
use crate::dialled::AwaitedConnections;
use crate::flow_sockets::FlowSockets;
use crate::get::error::GetError;
use crate::http::url::HttpUrl;
use crate::s3::S3Store;
use crate::tls::{ClientTls, TlsError, TlsTrust};
use linerate_system::stop::Stop;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
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
    pub(super) fn tls(&self) -> Result<&ClientTls, GetError> {
        self.tls.get_or_init(|| self.trust.client()).as_ref().map_err(|why| why.clone().into())
    }

    pub(crate) fn check_stop(&self) -> Result<(), GetError> {
        if self.stop.is_ended() { Err(GetError::Interrupted) } else { Ok(()) }
    }
}
