//! What a frame looks like: the stamp by which it proves itself ([`prove`]), and the test picture that
//! `linerate wall generate` paints ([`TestPicture`]).
//!
//! The stamp is tile, frame number and checksum in a frame's own pixels, so that anyone who holds the frame can
//! prove what it is: 128 bits as black and white squares in the upper left corner, 32 a row: what a camera, a person and a
//! program can read. Four words, the highest bit first: magic, row and column; frame; CRC-32C of all bytes
//! beside the stamp; CRC-32C of the three words before. The stamp is rebuilt from what was read and must be
//! there byte for byte, so that no byte of a frame is without a guard.

mod scene;
mod texture;

use crate::geometry::{PIXEL_BYTES, Size, TileId};
use linerate_sums::{Crc, CrcAlgorithm, crc, joined_crc};
pub use scene::TestPicture;
use std::ops::RangeInclusive;
use thiserror::Error;

const CRC: CrcAlgorithm = CrcAlgorithm::Crc32Iscsi;
/// In the upper half of the first word; neither a black nor a white picture has it.
const MAGIC: u32 = 0x1b5e;
/// Squares of a row.
const ACROSS: usize = u32::BITS as usize;
/// Rows: words of the stamp.
const DOWN: usize = 4;
/// Pixels of a square's side: small ones on small tiles, and no larger than an eye needs.
const SQUARE: RangeInclusive<usize> = 2..=8;
/// The smallest tile that a stamp fits, so that it leaves half of it to the picture.
const SMALLEST: Size = Size { width: 64, height: 16 };

/// What a stamp says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    pub tile: TileId,
    pub frame: u32,
}

/// Why a frame does not prove what it is.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Wrong {
    #[error("a frame of {bytes} bytes is none of {size} pixels, which has {}", size.frame_bytes())]
    Length { bytes: usize, size: Size },
    #[error("a tile of {0} pixels is too small for a stamp; it needs at least {SMALLEST}")]
    Small(Size),
    #[error("the frame carries no stamp: it is of another movie, or its upper left corner is damaged")]
    Unstamped,
    #[error("the stamp of the frame is damaged")]
    Stamp,
    #[error("the frame says that it is frame {} of tile {}, but its pixels are not that \
             frame's", .0.frame, .0.tile)]
    Pixels(Proof),
}

/// CRC-32C of bytes, as `r0c0.crc32c` holds it for each frame (RFC 3720, appendix B.4).
pub fn sum(bytes: &[u8]) -> u32 {
    crc(CRC, bytes) as u32
}

/// A stamp fits a tile of this size.
pub fn room_for_stamp(size: Size) -> Result<(), Wrong> {
    let fits = size.width >= SMALLEST.width && size.height >= SMALLEST.height;
    if fits { Ok(()) } else { Err(Wrong::Small(size)) }
}

/// Stamps a frame. One that is not a frame of this size, or too small ([`room_for_stamp`]), stays as it is.
pub fn stamp(frame: &mut [u8], size: Size, proof: Proof) {
    stamp_and_sum(frame, size, proof);
}

/// Stamps a frame and gives its [`sum`], both in one pass over it.
pub(crate) fn stamp_and_sum(frame: &mut [u8], size: Size, proof: Proof) -> u32 {
    let Ok(place) = StampArea::of(frame, size) else { return sum(frame) };
    let (head, body) = frame.split_at(place.head_bytes());
    let (body_sum, body_bytes) = (crc(CRC, body), body.len() as u64);
    let around = joined_crc(CRC, place.around(head), body_sum, body_bytes) as u32;
    let words = stamp_words(proof, around);
    for (row, word) in words.into_iter().enumerate() {
        place.paint(frame, row, word);
    }
    let head_sum = crc(CRC, &frame[..place.head_bytes()]);
    joined_crc(CRC, head_sum, body_sum, body_bytes) as u32
}

/// Reads a frame's stamp and holds the whole frame against it: one pass at the speed of the memory.
pub fn prove(frame: &[u8], size: Size) -> Result<Proof, Wrong> {
    let place = StampArea::of(frame, size)?;
    let read: [u32; DOWN] = std::array::from_fn(|row| place.read(frame, row));
    let proof = Proof {
        tile: TileId { row: (read[0] >> 8 & 0xff) as u16, column: (read[0] & 0xff) as u16 },
        frame: read[1],
    };
    if read[0] >> 16 != MAGIC {
        return Err(Wrong::Unstamped);
    }
    if stamp_words(proof, read[2]) != read || !(0..DOWN).all(|row| place.shows(frame, row, read[row])) {
        return Err(Wrong::Stamp);
    }
    let (head, body) = frame.split_at(place.head_bytes());
    let around = joined_crc(CRC, place.around(head), crc(CRC, body), body.len() as u64);
    if around as u32 == read[2] { Ok(proof) } else { Err(Wrong::Pixels(proof)) }
}

/// The words of a stamp.
fn stamp_words(proof: Proof, around: u32) -> [u32; DOWN] {
    // A grid has at most 64 rows and columns.
    let tile = u32::from(proof.tile.row & 0xff) << 8 | u32::from(proof.tile.column & 0xff);
    let stamp = [MAGIC << 16 | tile, proof.frame, around];
    let bytes: Vec<u8> = stamp.iter().flat_map(|word| word.to_be_bytes()).collect();
    [stamp[0], stamp[1], stamp[2], sum(&bytes)]
}

/// Where the stamp lies in frames of one size.
#[derive(Clone, Copy, Debug)]
struct StampArea {
    line_bytes: usize,
    /// Pixels of a square's side.
    square: usize,
}

impl StampArea {
    fn of(frame: &[u8], size: Size) -> Result<StampArea, Wrong> {
        room_for_stamp(size)?;
        if frame.len() != size.frame_bytes() {
            return Err(Wrong::Length { bytes: frame.len(), size });
        }
        let (width, height) = (size.width as usize, size.height as usize);
        let square = (width / ACROSS / 2).min(height / DOWN / 4).clamp(*SQUARE.start(), *SQUARE.end());
        Ok(StampArea { line_bytes: size.line_bytes(), square })
    }

    /// Bytes of the lines that the stamp is in.
    fn head_bytes(&self) -> usize {
        self.line_bytes * self.square * DOWN
    }

    /// Bytes of a line that are the stamp's.
    fn across_bytes(&self) -> usize {
        self.square * PIXEL_BYTES * ACROSS
    }

    /// The checksum of what stands beside the stamp in its lines.
    fn around(&self, head: &[u8]) -> u64 {
        let mut digest = Crc::new(CRC);
        for line in head.chunks_exact(self.line_bytes) {
            digest.update(&line[self.across_bytes()..]);
        }
        digest.finalize()
    }

    /// The stamp's part of each line of one of its rows.
    fn lines<'a>(&self, frame: &'a [u8], row: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let across = self.across_bytes();
        let first = row * self.square;
        frame.chunks_exact(self.line_bytes).skip(first).take(self.square).map(move |line| &line[..across])
    }

    fn paint(&self, frame: &mut [u8], row: usize, word: u32) {
        let (across, side) = (self.across_bytes(), self.square * PIXEL_BYTES);
        for line in frame.chunks_exact_mut(self.line_bytes).skip(row * self.square).take(self.square) {
            for (column, square) in line[..across].chunks_exact_mut(side).enumerate() {
                square.fill(tone(word, column));
            }
        }
    }

    /// The bits of a row, each from the middle of its square, so that a damaged edge does not hide what frame
    /// it was.
    fn read(&self, frame: &[u8], row: usize) -> u32 {
        let side = self.square * PIXEL_BYTES;
        let Some(line) = self.lines(frame, row).nth(self.square / 2) else { return 0 };
        let bits = line.chunks_exact(side).map(|square| u32::from(square[side / 2] >> 7));
        bits.fold(0, |word, bit| word << 1 | bit)
    }

    /// A row shows this word and nothing else.
    fn shows(&self, frame: &[u8], row: usize, word: u32) -> bool {
        let side = self.square * PIXEL_BYTES;
        self.lines(frame, row).all(|line| {
            let mut squares = line.chunks_exact(side).enumerate();
            squares.all(|(column, square)| square.iter().all(|byte| *byte == tone(word, column)))
        })
    }
}

/// Of the bit at a column: white is one.
fn tone(word: u32, column: usize) -> u8 {
    if word >> (ACROSS - 1 - column) & 1 == 1 { 255 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn picture(size: Size, seed: usize) -> Vec<u8> {
        (0..size.frame_bytes()).map(|index| (index * 31 + index / 7 + seed) as u8).collect()
    }

    fn proof(row: u16, column: u16, frame: u32) -> Proof {
        Proof { tile: TileId { row, column }, frame }
    }

    #[test]
    fn what_is_stamped_is_proven() {
        for (width, height) in [(64, 16), (65, 17), (320, 200), (2560, 40), (640, 400)] {
            let size = Size { width, height };
            for stamp in [proof(0, 0, 0), proof(2, 4, 239), proof(63, 63, u32::MAX)] {
                let mut frame = picture(size, width as usize);
                let whole = stamp_and_sum(&mut frame, size, stamp);
                assert_eq!(prove(&frame, size), Ok(stamp), "{size}");
                assert_eq!(whole, sum(&frame), "{size}");
            }
        }
    }

    #[test]
    fn what_cannot_be_stamped_is_refused_in_words() {
        let small = Size { width: 63, height: 16 };
        let mut frame = picture(small, 0);
        let before = frame.clone();
        assert_eq!(stamp_and_sum(&mut frame, small, proof(0, 0, 0)), sum(&before));
        assert_eq!(frame, before);
        let wrong = prove(&frame, small).expect_err("too small").to_string();
        assert!(wrong.contains("63x16") && wrong.contains("64x16"), "{wrong}");
        let size = Size { width: 64, height: 16 };
        let wrong = prove(&frame, size).expect_err("too short").to_string();
        assert!(wrong.contains("3072"), "{wrong}");
        for tone in [0, 255] {
            assert_eq!(prove(&vec![tone; size.frame_bytes()], size), Err(Wrong::Unstamped));
        }
    }

    #[test]
    fn a_frame_of_other_pixels_says_which_it_was() {
        let size = Size { width: 80, height: 20 };
        let mut frame = picture(size, 0);
        stamp(&mut frame, size, proof(1, 2, 3));
        let last = frame.len() - 1;
        frame[last] ^= 1;
        assert_eq!(prove(&frame, size), Err(Wrong::Pixels(proof(1, 2, 3))));
    }

    /// Half of the new frame, half of the old: what a screen must never show.
    #[test]
    fn a_torn_frame_is_found() {
        let size = Size { width: 128, height: 64 };
        let (mut old, mut new) = (picture(size, 0), picture(size, 1));
        stamp(&mut old, size, proof(0, 0, 7));
        stamp(&mut new, size, proof(0, 0, 8));
        let half = new.len() / 2;
        new[half..].copy_from_slice(&old[half..]);
        assert_eq!(prove(&new, size), Err(Wrong::Pixels(proof(0, 0, 8))));
    }

    #[test]
    fn every_single_byte_is_guarded() {
        let size = Size { width: 64, height: 16 };
        let mut frame = picture(size, 5);
        stamp(&mut frame, size, proof(3, 4, 1_000_000));
        for at in 0..frame.len() {
            frame[at] ^= 1;
            assert!(prove(&frame, size).is_err(), "byte {at}");
            frame[at] ^= 1;
        }
        assert!(prove(&frame, size).is_ok());
    }

    proptest! {
        #[test]
        fn any_single_changed_byte_is_found(
            (width, height) in (64u32..300, 16u32..80), at in any::<prop::sample::Index>(), by in 1u8..=255,
            number in any::<u32>(),
        ) {
            let size = Size { width, height };
            let mut frame = picture(size, number as usize & 0xff);
            stamp(&mut frame, size, proof(1, 0, number));
            let at = at.index(frame.len());
            frame[at] ^= by;
            prop_assert!(prove(&frame, size).is_err());
        }

        #[test]
        fn any_bytes_are_judged(bytes in prop::collection::vec(any::<u8>(), 0..4000), width in 1u32..80, height in 1u32..20) {
            let size = Size { width, height };
            prop_assert!(prove(&bytes, size).is_err());
        }
    }
}
