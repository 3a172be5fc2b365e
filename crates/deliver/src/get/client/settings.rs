//! What all connections of a transfer have in common.

use crate::get::error::GetError;
use crate::http::url::HttpUrl;
use crate::tls::{ClientTls, TlsError, TlsTrust};
use linerate_system::lock;
use linerate_transport::address::resolve_all;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

/// What all connections of a transfer have in common.
pub(crate) struct ClientSettings<'a> {
    pub(crate) stop: &'a AtomicBool,
    /// Without any progress for so long a connection is given up.
    pub(crate) timeout: Duration,
    /// The most bytes of a read: few at a low rate limit, so that it is kept evenly.
    pub(crate) read_bytes: usize,
    /// Shown to these servers, as `Host` lines call them, and to none to which they send on.
    pub(crate) token: Option<(String, Vec<String>)>,
    /// Whom it believes, and the same once it was needed.
    trust: TlsTrust,
    tls: OnceLock<Result<ClientTls, TlsError>>,
    addresses: Mutex<HashMap<(String, u16), Vec<SocketAddr>>>,
}

impl<'a> ClientSettings<'a> {
    pub(crate) fn new(
        stop: &'a AtomicBool,
        timeout: Duration,
        read_bytes: usize,
        token: Option<(String, Vec<String>)>,
        trust: TlsTrust,
    ) -> Self {
        let (tls, addresses) = (OnceLock::new(), Mutex::default());
        ClientSettings { stop, timeout, read_bytes, token, trust, tls, addresses }
    }

    /// The authorities are read with the first connection that needs them.
    pub(super) fn tls(&self) -> Result<&ClientTls, GetError> {
        self.tls.get_or_init(|| self.trust.client()).as_ref().map_err(|why| why.clone().into())
    }

    pub(in crate::get) fn is_stopped(&self) -> Result<(), GetError> {
        if self.stop.load(Ordering::Relaxed) { Err(GetError::Interrupted) } else { Ok(()) }
    }

    pub(super) fn addresses(&self, url: &HttpUrl) -> Result<Vec<SocketAddr>, GetError> {
        let key = (url.host.clone(), url.port);
        if let Some(known) = lock(&self.addresses).get(&key) {
            return Ok(known.clone());
        }
        let found = resolve_all(&url.host, url.port)
            .map_err(|why| GetError::Unreachable { authority: url.authority(), why: why.to_string() })?;
        lock(&self.addresses).insert(key, found.clone());
        Ok(found)
    }

    /// The next connection tries it first.
    pub(super) fn answers(&self, url: &HttpUrl, address: SocketAddr) {
        if let Some(known) = lock(&self.addresses).get_mut(&(url.host.clone(), url.port)) {
            known.sort_by_key(|one| *one != address);
        }
    }
}
