//! TLS by rustls, for the server and for its clients. The algorithms are graviola's: Rust without a C
//! compiler, so that the static program is built for any CPU as the rest of it is.
//!
//! Whom a client believes: the authorities of this host or of SSL_CERT_FILE, or one certificate alone.

mod records;
mod server;
mod stream;

pub use server::ServerTls;
pub(crate) use stream::{ClientHandshake, Encryption, Handshake, HandshakeError, TlsClientStream};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// SHA-256 of a certificate as it is sent (DER).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    fn of(certificate: &[u8]) -> Self {
        Fingerprint(Sha256::digest(certificate).into())
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// 64 hexadecimal digits, with or without the colons that `openssl x509 -fingerprint` puts between.
impl std::str::FromStr for Fingerprint {
    type Err = TlsError;

    fn from_str(text: &str) -> Result<Self, TlsError> {
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b':').collect();
        if digits.len() != 64 {
            return Err(TlsError::NoFingerprint);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let digit = |letter: u8| (letter as char).to_digit(16).ok_or(TlsError::NoFingerprint);
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Ok(Fingerprint(bytes))
    }
}

/// The algorithms, where this CPU can do them.
fn crypto_provider() -> Result<Arc<CryptoProvider>, TlsError> {
    match graviola::util::is_cpu_supported() {
        true => Ok(Arc::new(rustls_graviola::default_provider())),
        false => Err(TlsError::Cpu),
    }
}

/// The certificates of a file in PEM, at least one.
fn certificates(path: &Path) -> Result<Vec<rustls::pki_types::CertificateDer<'static>>, TlsError> {
    use rustls::pki_types::pem::PemObject;
    let unread = |why: String| TlsError::File { path: path.into(), why };
    let read = rustls::pki_types::CertificateDer::pem_file_iter(path);
    let all =
        read.and_then(|all| all.collect::<Result<Vec<_>, _>>()).map_err(|why| unread(why.to_string()))?;
    if all.is_empty() { Err(unread("it has no certificate in PEM".into())) } else { Ok(all) }
}

/// Each with the likely cause and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TlsError {
    #[error(
        "TLS needs a CPU with AES, PCLMULQDQ, AVX2, BMI1 and ADX (x86-64 since 2015), or with AES and SHA2 (ARM): this one \
         lacks some of them"
    )]
    Cpu,
    #[error("{}: {why}", path.display())]
    File { path: PathBuf, why: String },
    #[error("{}: the key is none of this certificate: {why}", path.display())]
    Key { path: PathBuf, why: String },
    #[error("no certificate could be made: {why}")]
    NotMade { why: String },
    #[error(
        "this host has no certificates of authorities ({why}): install ca-certificates, or set SSL_CERT_FILE to a file of some"
    )]
    NoRoots { why: String },
    #[error("give the 64 hexadecimal digits of a certificate's SHA-256 that `linerate serve --tls` prints")]
    NoFingerprint,
    #[error("“{host}” is not a name that a certificate can have; name the server by its name or address")]
    NoName { host: String },
}

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
    config: Arc<ClientConfig>,
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
        let builder =
            ClientConfig::builder_with_provider(crypto_provider()?).with_safe_default_protocol_versions();
        let builder = builder.map_err(|why| TlsError::NotMade { why: why.to_string() })?;
        Ok(Self::with(builder.with_root_certificates(roots).with_no_client_auth()))
    }

    /// Believes the certificate with this fingerprint, whatever its names are, and no other.
    pub fn pinned(fingerprint: Fingerprint) -> Result<Self, TlsError> {
        let provider = crypto_provider()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_as_linerate_and_as_openssl_write_them() {
        let one = Fingerprint::of(b"a certificate");
        let colons: Vec<String> = one.0.iter().map(|byte| format!("{byte:02X}")).collect();
        assert_eq!(one.to_string().parse::<Fingerprint>().expect("hexadecimal"), one);
        assert_eq!(colons.join(":").parse::<Fingerprint>().expect("with colons"), one);
        for wrong in ["", "00", &"0".repeat(63), &"x".repeat(64), &"0".repeat(65)] {
            assert!(wrong.parse::<Fingerprint>().is_err(), "{wrong}");
        }
    }
}
