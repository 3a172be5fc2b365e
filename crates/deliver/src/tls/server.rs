//! The server's certificate and key, its own or one that is made for one run: self-signed, ECDSA over P-256
//! (RFC 5280, RFC 5480), for its addresses. Its users know that by its fingerprint.

use super::{Fingerprint, TlsError, certificates, crypto_provider};
use graviola::hashing::Sha256;
use graviola::signing::ecdsa::{P256, SigningKey};
use linerate_facts::secret_file::read_secret_file;
use linerate_system::clock;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A longer file is not a key.
const MOST_KEY_FILE_BYTES: u64 = 1 << 20;

/// What a server needs to speak TLS.
#[derive(Clone)]
pub struct ServerTls {
    pub(super) config: Arc<ServerConfig>,
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

/// Clocks differ: a certificate is valid from a day ago …
const CERTIFICATE_BACKDATED: Duration = Duration::from_secs(24 * 3600);
/// … for a year, which no server is expected to run.
const CERTIFICATE_LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// Object identifiers, as they are encoded.
const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

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
pub(super) fn made_certificate(
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
    let signed = key.sign_asn1::<Sha256>(&[&to_sign], &mut signature).map_err(failed)?;
    let signed = der_value(0x03, &[&[0], signed].concat());
    let certificate = der_sequence(&[&to_sign, &algorithm, &signed]);
    let private = key.to_pkcs8_der(&mut private).map_err(failed)?;
    Ok((CertificateDer::from(certificate), PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(private.to_vec()))))
}

#[cfg(test)]
mod tests {
    use super::*;

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
