//! Bodies in chunks (RFC 9112 section 7.1), taken apart: what is content, and where it ends.

use thiserror::Error;

/// A line of a chunk's size, or of a trailer, is not longer.
const MOST_LINE_BYTES: usize = 1 << 10;
/// Lines of a trailer.
const MOST_TRAILERS: usize = 64;

/// A body that is not in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("its chunks are not valid HTTP")]
pub struct ChunkError;

/// What has been taken of a body so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkedBody {
    part: ChunkPart,
    line: Vec<u8>,
    trailers: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkPart {
    Size,
    Content(u64),
    /// The empty line after a chunk's content.
    AfterContent,
    Trailer,
    End,
}

impl ChunkedBody {
    /// Before its first byte.
    pub fn begin() -> Self {
        ChunkedBody { part: ChunkPart::Size, line: Vec::new(), trailers: 0 }
    }

    /// The whole body was taken.
    pub fn is_over(&self) -> bool {
        self.part == ChunkPart::End
    }

    /// The next bytes that surely belong to it, at most `most`; what follows it is another answer.
    pub fn wants(&self, most: usize) -> usize {
        match self.part {
            ChunkPart::End => 0,
            ChunkPart::Content(left) => most.min(usize::try_from(left).unwrap_or(most)),
            ChunkPart::Size | ChunkPart::AfterContent | ChunkPart::Trailer => most.min(1),
        }
    }

    /// Takes the next bytes, not more than it wants; its content is added to `content`.
    pub fn take(&mut self, bytes: &[u8], content: &mut Vec<u8>) -> Result<(), ChunkError> {
        if let ChunkPart::Content(left) = self.part {
            content.extend_from_slice(bytes);
            let left = left.checked_sub(bytes.len() as u64).ok_or(ChunkError)?;
            self.part = if left == 0 { ChunkPart::AfterContent } else { ChunkPart::Content(left) };
            return Ok(());
        }
        for byte in bytes {
            if *byte != b'\n' {
                self.line.push(*byte);
                if self.line.len() > MOST_LINE_BYTES {
                    return Err(ChunkError);
                }
                continue;
            }
            let line = std::mem::take(&mut self.line);
            self.part = self.part_after(line.strip_suffix(b"\r").unwrap_or(&line))?;
        }
        Ok(())
    }

    fn part_after(&mut self, line: &[u8]) -> Result<ChunkPart, ChunkError> {
        match self.part {
            ChunkPart::Size => match size_of(line).ok_or(ChunkError)? {
                0 => Ok(ChunkPart::Trailer),
                size => Ok(ChunkPart::Content(size)),
            },
            ChunkPart::AfterContent if line.is_empty() => Ok(ChunkPart::Size),
            ChunkPart::Trailer if line.is_empty() => Ok(ChunkPart::End),
            ChunkPart::Trailer if self.trailers < MOST_TRAILERS => {
                self.trailers += 1;
                Ok(ChunkPart::Trailer)
            }
            _ => Err(ChunkError),
        }
    }
}

/// Hexadecimal digits, and extensions that mean nothing here.
fn size_of(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii();
    let sound = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    let text = sound.then(|| std::str::from_utf8(digits).ok()).flatten()?;
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The content, and how much of the text it took.
    fn of(text: &[u8], most: usize) -> Result<(Vec<u8>, usize), ChunkError> {
        let (mut body, mut content, mut at) = (ChunkedBody::begin(), Vec::new(), 0);
        while !body.is_over() && at < text.len() {
            let next = body.wants(most.min(text.len() - at));
            body.take(&text[at..at + next], &mut content)?;
            at += next;
        }
        if body.is_over() { Ok((content, at)) } else { Err(ChunkError) }
    }

    #[test]
    fn chunks_are_put_together_and_what_follows_is_left() {
        let text =
            b"4\r\nWiki\r\n6;x=y\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\nA: b\r\n\r\nHTTP/1.1 200";
        for most in [1, 3, 100] {
            let (content, taken) = of(text, most).expect("chunks");
            assert_eq!(content, b"Wikipedia in \r\n\r\nchunks.");
            assert_eq!(&text[taken..], b"HTTP/1.1 200");
        }
        assert_eq!(of(b"0\r\n\r\n", 9), Ok((Vec::new(), 5)));
        let long = "1".repeat(MOST_LINE_BYTES + 1);
        let over = "11111111111111111\r\n";
        for wrong in ["", "\r\n", "-1\r\n", "g\r\n", "1\r\nab\r\n0\r\n\r\n", over, "5\r\nab", &long] {
            assert_eq!(of(wrong.as_bytes(), 100), Err(ChunkError), "{wrong}");
        }
        let endless = format!("0\r\n{}\r\n", "A: b\r\n".repeat(MOST_TRAILERS + 1));
        assert_eq!(of(endless.as_bytes(), 100), Err(ChunkError));
    }

    proptest! {
        #[test]
        fn any_bytes_are_chunks_or_refused(text in "([0-9a-f]{1,3}|\r\n|;|[ -~]|\r|\n){0,60}", most in 1usize..50) {
            if let Ok((content, taken)) = of(text.as_bytes(), most) {
                prop_assert!(content.len() < taken && taken <= text.len());
            }
        }
    }
}
