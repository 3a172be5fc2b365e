//! What is wrong with a question about an array, and the remedy.

use super::{LARGEST_BYTES, MOST_DISKS, RaidLevel};
use thiserror::Error;

/// A sentence for who asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RaidError {
    #[error("{} needs at least {least} disks, not {disks}: {instead}", level.name())]
    TooFewDisks { level: RaidLevel, least: u32, disks: u32, instead: &'static str },
    #[error(
        "{} of {disks} disks has no whole pairs: take {} and keep one as a spare, or one more",
        level.name(),
        disks - 1
    )]
    NoWholePairs { level: RaidLevel, disks: u32 },
    #[error("{0} disks: more than the {MOST_DISKS} of one array; make several")]
    TooManyDisks(u32),
    #[error("a physical block of {0} bytes: give a power of two from 512 to 16777216, such as 4k")]
    NoPowerOfTwo(u64),
    #[error(
        "a request of {request} bytes is smaller than the disks' physical block of {block}: a disk moves \
         whole blocks, {} bytes for each of the request (an SSD that erases that much at once, when it is written); \
         give a --request of at least {block}, or the disks' true --block",
        block / (*request).max(1)
    )]
    RequestBelowBlock { request: u64, block: u64 },
    #[error(
        "a request of {request} bytes is not a whole number of blocks of {block}, up to 1 GiB: give --request \
         {}, or a size like 1M, which is 1048576",
        (request / block * block).clamp(*block, LARGEST_BYTES)
    )]
    RequestOfPartBlocks { request: u64, block: u64 },
    #[error("--disks: {0} is named twice: a disk is in an array once")]
    DeviceTwice(String),
    /// The level has no chunk, or one that cannot be chosen.
    #[error("{} has {why}; leave --chunk out", level.name())]
    NoChunk { level: RaidLevel, why: &'static str },
    #[error("{} has a fixed chunk of {size}: leave --chunk out", level.name())]
    FixedChunk { level: RaidLevel, size: String },
    #[error("a chunk of {0} bytes is larger than 1 GiB: a request would never leave a disk")]
    ChunkTooLarge(u64),
    #[error(
        "a chunk of {chunk} bytes is not a multiple of {what}, {bytes} bytes: blocks would lie across two \
         disks; give --chunk {instead} or a power of two above"
    )]
    ChunkOfPartBlocks { chunk: u64, what: &'static str, bytes: u64, instead: u64 },
    #[error(
        "a chunk of {chunk} bytes: md makes {} of powers of two only; give --chunk {}",
        level.name(),
        1_u64 << chunk.ilog2()
    )]
    ChunkNoPowerOfTwo { level: RaidLevel, chunk: u64 },
}
