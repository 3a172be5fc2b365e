//! TLS by rustls, for the server and for its clients. The algorithms are graviola's: Rust without a C compiler, so that
//! the static program is built for any CPU as the rest of it is.

mod certificate;
mod client;
mod error;
mod kernel;
mod records;
mod server;
mod stream;

pub use client::{ClientTls, TlsTrust};
pub use error::TlsError;
pub(crate) use kernel::{Encryption, Handshake, HandshakeError};
use rustls::crypto::CryptoProvider;
pub use server::ServerTls;
use sha2::{Digest, Sha256};
use std::path::Path;
use std::sync::Arc;
pub(crate) use stream::{ClientHandshake, TlsClientStream};

/// SHA-256 of a certificate as it is sent (DER).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    fn of(certificate: &[u8]) -> Self {
        Fingerprint(Sha256::digest(certificate).into())
    }
}

impl std::fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fingerprint({self})")
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
fn provider() -> Result<Arc<CryptoProvider>, TlsError> {
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
