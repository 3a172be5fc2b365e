//! Whether the kernel encrypts a server's records, and why it does not.

use super::FileServerSettings;
use crate::tls::{Encryption, Handshake, HandshakeError};
use linerate_system::kernel_tls::{self, RecordCipher};
use linerate_system::{Errno, lock};
use std::net::TcpStream;
use std::sync::Mutex;

/// Of one server.
#[derive(Debug)]
pub(super) struct KernelTls {
    /// What it encrypts with.
    ciphers: Vec<RecordCipher>,
    /// Why records are encrypted in this program; none: the kernel does it.
    why_not: Mutex<Option<String>>,
}

impl KernelTls {
    /// Tried once, where it is of use.
    pub(super) fn new(settings: &FileServerSettings) -> Self {
        let ciphers = match (&settings.tls, settings.writable.is_some()) {
            (None, _) => Ok(Vec::new()),
            // A client that sends much changes its keys, which the kernels of today do not follow.
            (_, true) => Err("a server that takes files follows its clients' changes of keys".into()),
            (_, false) => kernel_tls::ciphers().map_err(|error| match Errno::from_io_error(&error) {
                Some(Errno::NOENT) => "this kernel has no TLS: modprobe tls".into(),
                _ => format!("this kernel does not: {error}"),
            }),
        };
        let (ciphers, why_not) = match ciphers {
            Ok(ciphers) => (ciphers, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        KernelTls { ciphers, why_not: Mutex::new(why_not) }
    }

    /// In words; none: the kernel encrypts.
    pub(super) fn why_not(&self) -> Option<String> {
        lock(&self.why_not).clone()
    }

    /// None where there is no connection.
    pub(super) fn begin<'a>(&self, handshake: Handshake, socket: &'a TcpStream) -> Option<Encryption<'a>> {
        let by_kernel = if lock(&self.why_not).is_none() { &self.ciphers[..] } else { &[] };
        match handshake.finish(socket, by_kernel) {
            Ok(encryption) => Some(encryption),
            Err(error) => {
                tracing::debug!(%error, "TLS");
                // This connection is lost, for its keys are; the next ones need not be.
                if let HandshakeError::Kernel(why) = error {
                    *lock(&self.why_not) =
                        Some(format!("this kernel did not take the keys of a connection: {why}"));
                }
                None
            }
        }
    }
}
