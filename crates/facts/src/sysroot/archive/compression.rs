//! The compressions that tarballs come in, each by a decoder whose memory is bounded.

use super::ArchiveError;
use lzma_rust2::XzReader;
use ruzstd::decoding::StreamingDecoder;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

/// What xz may take for its dictionary: 64 MiB is what `xz -9` needs.
const XZ_MEMORY_KIB: u32 = 80 << 10;
/// The window that zstd may ask for: `zstd --long` needs 128 MiB, `-19` 8 MiB.
const ZSTD_WINDOW_BYTES: u64 = 128 << 20;

type Source<R> = BufReader<Chain<Cursor<Vec<u8>>, R>>;

/// What an archive was compressed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Bzip2,
    Xz,
    Zstd,
}

impl Compression {
    /// The end of a sentence about a damaged archive.
    pub(super) fn remedy(self) -> &'static str {
        match self {
            Compression::None => "; name a tarball, plain or compressed with gzip, bzip2, xz or zstd",
            Compression::Gzip => "; copy it again, or try “gzip -t” on it",
            Compression::Bzip2 => "; copy it again, or try “bzip2 -t” on it",
            Compression::Xz => "; copy it again, or unpack it with “xz -d”",
            Compression::Zstd => "; copy it again, or unpack it with “zstd -d”",
        }
    }
}

/// The plain bytes, and what the archive was compressed with.
pub(super) fn decompress<'a>(
    mut bytes: impl Read + 'a,
) -> Result<(Box<dyn Read + 'a>, Compression), ArchiveError> {
    let mut start = Vec::new();
    bytes.by_ref().take(6).read_to_end(&mut start).map_err(ArchiveError::Unreadable)?;
    let magic = start.clone();
    let source = BufReader::new(Cursor::new(start).chain(bytes));
    Ok(match magic.as_slice() {
        [] => return Err(ArchiveError::Empty),
        [0x1f, 0x8b, ..] => (Box::new(flate2::bufread::MultiGzDecoder::new(source)), Compression::Gzip),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => {
            (Box::new(bzip2::bufread::MultiBzDecoder::new(source)), Compression::Bzip2)
        }
        [0xfd, b'7', b'z', b'X', b'Z', 0] => {
            (Box::new(XzReader::new_mem_limit(source, true, XZ_MEMORY_KIB)), Compression::Xz)
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            (Box::new(Zstd { source: Some(source), decoder: None }), Compression::Zstd)
        }
        _ => (Box::new(source), Compression::None),
    })
}

/// zstd may be cut into frames (`pzstd`), which the decoder takes one at a time.
struct Zstd<R: Read> {
    source: Option<Source<R>>,
    decoder: Option<StreamingDecoder<Source<R>, ruzstd::decoding::FrameDecoder>>,
}

impl<R: Read> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some(mut decoder) = self.decoder.take() {
                let read = decoder.read(buffer)?;
                if read > 0 {
                    self.decoder = Some(decoder);
                    return Ok(read);
                }
                self.source = Some(decoder.into_inner());
            }
            let Some(mut source) = self.source.take() else { return Ok(0) };
            if source.fill_buf()?.is_empty() {
                return Ok(0);
            }
            let decoder = StreamingDecoder::new_with_max_window_size(source, ZSTD_WINDOW_BYTES);
            self.decoder = Some(decoder.map_err(|error| io::Error::other(error.to_string()))?);
        }
    }
}
