//! The server's certificate and key.

use super::error::TlsError;
use super::{Fingerprint, certificates, provider};
use linerate_facts::secret_file::read_secret_file;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

/// A longer file is no key.
const MOST_KEY_FILE_BYTES: u64 = 1 << 20;

/// What a server needs to speak TLS.
#[derive(Clone)]
pub struct ServerTls {
    pub(super) config: Arc<ServerConfig>,
    /// Of its own certificate, the first.
    pub fingerprint: Fingerprint,
}

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ServerTls({})", self.fingerprint)
    }
}

impl ServerTls {
    /// With a certificate (and those between it and its authority) and a key, both in PEM; the key's file is for its
    /// owner alone.
    pub fn of_files(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let chain = certificates(certificate)?;
        let unread = |why: String| TlsError::File { path: key.into(), why };
        let pem = read_secret_file(key, MOST_KEY_FILE_BYTES).map_err(|why| unread(why.to_string()))?;
        let private = PrivateKeyDer::from_pem_slice(&pem).map_err(|why| unread(why.to_string()))?;
        Self::new(chain, private).map_err(|why| match why {
            TlsError::NotMade { why } => TlsError::Key { path: key.into(), why },
            other => other,
        })
    }

    /// With one that is made now for these addresses.
    pub fn made(addresses: &[IpAddr]) -> Result<Self, TlsError> {
        provider()?;
        let (certificate, key) = super::certificate::made(addresses)?;
        Self::new(vec![certificate], key)
    }

    fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Self, TlsError> {
        let fingerprint = Fingerprint::of(chain.first().map_or(&[][..], |first| first.as_ref()));
        let failed = |why: rustls::Error| TlsError::NotMade { why: why.to_string() };
        let mut config = ServerConfig::builder_with_provider(provider()?)
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(failed)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // For the kernel, which encrypts with them.
        config.enable_secret_extraction = true;
        Ok(ServerTls { config: Arc::new(config), fingerprint })
    }
}
