//! Why there is no TLS.

use std::path::PathBuf;
use thiserror::Error;

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
