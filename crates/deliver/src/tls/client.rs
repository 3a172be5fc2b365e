//! Whom a client believes: the authorities of this host or of SSL_CERT_FILE, or one certificate alone.

use super::error::TlsError;
use super::{Fingerprint, provider};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::sync::Arc;

/// Whom a client believes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TlsTrust {
    /// The authorities that this host believes.
    #[default]
    Host,
    /// One certificate.
    Pinned(Fingerprint),
}

impl TlsTrust {
    pub(crate) fn client(&self) -> Result<ClientTls, TlsError> {
        match self {
            TlsTrust::Host => ClientTls::of_host(),
            TlsTrust::Pinned(fingerprint) => ClientTls::pinned(*fingerprint),
        }
    }
}

/// What a client needs to speak TLS.
#[derive(Clone, Debug)]
pub struct ClientTls {
    pub(super) config: Arc<ClientConfig>,
}

impl ClientTls {
    /// Believes the authorities that this host believes; where SSL_CERT_FILE or SSL_CERT_DIR name others, those alone.
    pub fn of_host() -> Result<Self, TlsError> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            let why = found.errors.first().map_or_else(|| "none was found".into(), ToString::to_string);
            return Err(TlsError::NoRoots { why });
        }
        let builder = ClientConfig::builder_with_provider(provider()?).with_safe_default_protocol_versions();
        let builder = builder.map_err(|why| TlsError::NotMade { why: why.to_string() })?;
        Ok(Self::with(builder.with_root_certificates(roots).with_no_client_auth()))
    }

    /// Believes the certificate with this fingerprint, whatever its names are, and no other.
    pub fn pinned(fingerprint: Fingerprint) -> Result<Self, TlsError> {
        let provider = provider()?;
        let verifier = Arc::new(PinnedVerifier { fingerprint, provider: Arc::clone(&provider) });
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|why| TlsError::NotMade { why: why.to_string() })?;
        Ok(Self::with(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()))
    }

    fn with(mut config: ClientConfig) -> Self {
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // `ClientRecords` takes the keys over.
        config.enable_secret_extraction = true;
        ClientTls { config: Arc::new(config) }
    }
}

/// One certificate is right, all others are wrong. That the server has its key is still verified.
#[derive(Debug)]
struct PinnedVerifier {
    fingerprint: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match Fingerprint::of(end_entity) == self.fingerprint {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
