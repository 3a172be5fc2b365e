//! Checksums of bytes. The libraries' own code is compiled where it is called, without optimisation in the builds of the
//! tests, and is then thirty times as slow. So it is called here alone, and this crate is optimised in every build. A
//! call takes many bytes: that it is not inlined costs nothing.

#![forbid(unsafe_code)]

/// The second: of what the first sum is of, followed by so many bytes that the second is of.
pub use crc_fast::{CrcAlgorithm, checksum_combine as joined_crc};
use std::hash::Hasher;

/// A CRC that grows with its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Crc(crc_fast::Digest);

impl Crc {
    /// Of nothing yet.
    #[inline(never)]
    pub fn new(algorithm: CrcAlgorithm) -> Self {
        Crc(crc_fast::Digest::new(algorithm))
    }

    /// The next bytes.
    #[inline(never)]
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The sum of all so far.
    #[inline(never)]
    pub fn finalize(&self) -> u64 {
        self.0.finalize()
    }
}

/// The CRC of bytes in memory.
#[inline(never)]
pub fn crc(algorithm: CrcAlgorithm, bytes: &[u8]) -> u64 {
    crc_fast::checksum(algorithm, bytes)
}

/// XXH3 of 64 bits that grows with its bytes.
pub struct Xxh3(twox_hash::XxHash3_64);

impl Xxh3 {
    /// Of nothing yet.
    #[inline(never)]
    pub fn begin() -> Self {
        Xxh3(twox_hash::XxHash3_64::new())
    }

    /// The next bytes.
    #[inline(never)]
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// The sum of all so far.
    #[inline(never)]
    pub fn end(&self) -> u64 {
        self.0.finish()
    }
}
