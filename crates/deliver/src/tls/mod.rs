//! TLS by rustls, for the server and for its clients. The algorithms are graviola's: Rust without a C
//! compiler, so that the static program is built for any CPU as the rest of it is.
//!
//! Whom a client believes: the authorities of this host or of SSL_CERT_FILE, or one certificate alone. The server's
//! certificate and key are its own, or made for one run: self-signed, ECDSA over P-256 (RFC 5280, RFC 5480), for its
//! addresses; its users know that by its fingerprint.

mod records;
mod stream;

use graviola::hashing;
use graviola::signing::ecdsa::{P256, SigningKey};
use linerate_facts::secret_file::read_secret_file;
use linerate_system::clock;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
};
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
pub(crate) use stream::{ClientHandshake, Encryption, Handshake, HandshakeError, TlsClientStream};
use thiserror::Error;

/// A longer file is not a key.
const MOST_KEY_FILE_BYTES: u64 = 1 << 20;

/// Clocks differ: a certificate is valid from a day ago …
const CERTIFICATE_BACKDATED: Duration = Duration::from_secs(24 * 3600);
/// … for a year, which no server is expected to run.
const CERTIFICATE_LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// Object identifiers, as they are encoded.
const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

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

/// What a server needs to speak TLS.
#[derive(Clone)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    /// Of its own certificate, the first.
    pub fingerprint: Fingerprint,
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
        crypto_provider()?;
        let (certificate, key) = made_certificate(addresses)?;
        Self::new(vec![certificate], key)
    }

    fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Self, TlsError> {
        let fingerprint = Fingerprint::of(chain.first().map_or(&[][..], |first| first.as_ref()));
        let failed = |why: rustls::Error| TlsError::NotMade { why: why.to_string() };
        let mut config = ServerConfig::builder_with_provider(crypto_provider()?)
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

/// A value of DER: its tag, its length, its contents.
fn der_value(tag: u8, contents: &[u8]) -> Vec<u8> {
    let mut all = vec![tag];
    let length = contents.len();
    match length {
        0..0x80 => all.push(length as u8),
        0x80..0x100 => all.extend([0x81, length as u8]),
        _ => all.extend([0x82, (length >> 8) as u8, length as u8]),
    }
    all.extend_from_slice(contents);
    all
}

fn der_sequence(parts: &[&[u8]]) -> Vec<u8> {
    der_value(0x30, &parts.concat())
}

fn der_object(identifier: &[u8]) -> Vec<u8> {
    der_value(0x06, identifier)
}

/// `YYYYMMDDHHMMSSZ`.
fn der_time(at: SystemTime) -> Vec<u8> {
    let shown = humantime::format_rfc3339_seconds(at).to_string();
    let digits: String = shown.chars().filter(|letter| letter.is_ascii_digit()).collect();
    der_value(0x18, format!("{digits}Z").as_bytes())
}

/// For these addresses and `localhost`.
fn made_certificate(
    addresses: &[IpAddr],
) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), TlsError> {
    let failed = |why: graviola::Error| TlsError::NotMade { why: format!("{why:?}") };
    let key = SigningKey::<P256>::generate().map_err(failed)?;
    let (mut public, mut private, mut signature) = ([0; 256], [0; 512], [0; 128]);
    let public = key.to_spki_der(&mut public).map_err(failed)?;
    let mut serial = [0; 16];
    graviola::random::fill(&mut serial).map_err(failed)?;
    // A positive number without a zero in front.
    serial[0] = serial[0] & 0x3f | 0x40;
    let algorithm = der_sequence(&[&der_object(ECDSA_WITH_SHA256)]);
    let name = der_sequence(&[&der_object(COMMON_NAME), &der_value(0x0c, b"linerate serve")]);
    let name = der_sequence(&[&der_value(0x31, &name)]);
    let now = clock::date();
    let validity =
        der_sequence(&[&der_time(now - CERTIFICATE_BACKDATED), &der_time(now + CERTIFICATE_LIFETIME)]);
    let mut names = der_value(0x82, b"localhost");
    for address in addresses {
        names.extend(match address {
            IpAddr::V4(address) => der_value(0x87, &address.octets()),
            IpAddr::V6(address) => der_value(0x87, &address.octets()),
        });
    }
    let names = der_sequence(&[&der_object(SUBJECT_ALT_NAME), &der_value(0x04, &der_sequence(&[&names]))]);
    let to_sign = der_sequence(&[
        &der_value(0xa0, &der_value(0x02, &[2])),
        &der_value(0x02, &serial),
        &algorithm,
        &name,
        &validity,
        &name,
        public,
        &der_value(0xa3, &der_sequence(&[&names])),
    ]);
    let signed = key.sign_asn1::<hashing::Sha256>(&[&to_sign], &mut signature).map_err(failed)?;
    let signed = der_value(0x03, &[&[0], signed].concat());
    let certificate = der_sequence(&[&to_sign, &algorithm, &signed]);
    let private = key.to_pkcs8_der(&mut private).map_err(failed)?;
    Ok((CertificateDer::from(certificate), PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(private.to_vec()))))
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

    #[test]
    fn lengths_are_written_as_der_has_them() {
        assert_eq!(der_value(0x04, &[1; 3])[..2], [0x04, 3]);
        assert_eq!(der_value(0x04, &[1; 200])[..3], [0x04, 0x81, 200]);
        assert_eq!(der_value(0x04, &[1; 300])[..4], [0x04, 0x82, 1, 44]);
    }

    #[test]
    fn a_made_certificate_is_one() {
        if !graviola::util::is_cpu_supported() {
            eprintln!("skipped: this CPU cannot do TLS");
            return;
        }
        let (certificate, _) = made_certificate(&["192.0.2.7".parse().expect("an address")]).expect("made");
        let parsed = rustls::server::ParsedCertificate::try_from(&certificate).expect("webpki reads it");
        let is_for = |name: &str| {
            let name = rustls::pki_types::ServerName::try_from(name.to_string()).expect("a name");
            rustls::client::verify_server_name(&parsed, &name).is_ok()
        };
        assert!(is_for("192.0.2.7") && is_for("localhost") && !is_for("192.0.2.8") && !is_for("other"));
        let (other, _) = made_certificate(&[]).expect("made");
        assert_ne!(certificate, other);
    }
}
