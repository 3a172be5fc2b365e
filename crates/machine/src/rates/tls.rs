//! TLS 1.3 (RFC 8446): what its records add.

/// Bytes of plaintext in a full record.
const RECORD_BYTES: f64 = 16_384.0;
/// Header 5, type of the content 1, tag of AES-GCM 16.
const AROUND_RECORD_BYTES: f64 = 22.0;

/// Plaintext ÷ bytes of the TCP stream, with full records.
pub const RECORD_SHARE: f64 = RECORD_BYTES / (RECORD_BYTES + AROUND_RECORD_BYTES);
