//! A datagram taken apart. It comes from anybody: everything in it is checked before it is believed.

use super::{EXTENDED_BYTES, LINE_BYTES, RTP_BYTES};
use crate::geometry::PIXEL_BYTES;
use thiserror::Error;

/// Line headers of one datagram at most; no sender needs more than a few, and a forged one shall not cost
/// more.
const MOST_LINES: usize = 64;

/// Why a datagram is none of our own.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Malformed {
    #[error("shorter than its headers")]
    Short,
    #[error("another version of RTP")]
    Version,
    #[error("RTCP, not RTP")]
    Control,
    #[error("padding longer than the datagram")]
    Padding,
    #[error("more lines than a datagram can have")]
    Lines,
    #[error("a run of pixels that is not a whole number of them")]
    Pixels,
    #[error("an interlaced field")]
    Interlaced,
}

/// A run of pixels of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PixelRun<'a> {
    pub number: u16,
    /// Of its first pixel.
    pub offset: u16,
    pub bytes: &'a [u8],
}

/// A datagram of video.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    pub payload_type: u8,
    /// The last of its frame.
    pub marker: bool,
    /// All 32 bits.
    pub sequence: u32,
    pub timestamp: u32,
    pub ssrc: u32,
    headers: &'a [u8],
    pixels: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Its runs of pixels, in order.
    pub fn lines(&self) -> impl Iterator<Item = PixelRun<'a>> + use<'a> {
        let (headers, mut pixels) = (self.headers, self.pixels);
        headers.chunks_exact(LINE_BYTES).map(move |header| {
            // `parse` has added up the lengths.
            let (bytes, rest) = pixels.split_at(usize::from(half(header, 0)).min(pixels.len()));
            pixels = rest;
            PixelRun { number: half(header, 2) & 0x7fff, offset: half(header, 4) & 0x7fff, bytes }
        })
    }
}

/// Two bytes, big endian; the caller has checked that they are there.
fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_be_bytes)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// Takes a datagram apart.
pub fn parse(datagram: &[u8]) -> Result<Packet<'_>, Malformed> {
    let (fixed, mut rest) = datagram.split_at_checked(RTP_BYTES).ok_or(Malformed::Short)?;
    if fixed[0] >> 6 != 2 {
        return Err(Malformed::Version);
    }
    // RTCP's packet types lie where marker and payload type lie (RFC 5761).
    if (192..=223).contains(&fixed[1]) {
        return Err(Malformed::Control);
    }
    // Sources that contributed, and an extension: neither is ours, both may stand there.
    rest = rest.get(usize::from(fixed[0] & 0x0f) * 4..).ok_or(Malformed::Short)?;
    if fixed[0] & 0x10 != 0 {
        let (extension, behind) = rest.split_at_checked(4).ok_or(Malformed::Short)?;
        rest = behind.get(usize::from(half(extension, 2)) * 4..).ok_or(Malformed::Short)?;
    }
    if fixed[0] & 0x20 != 0 {
        let padding = usize::from(rest.last().copied().ok_or(Malformed::Padding)?);
        let kept = rest.len().checked_sub(padding).filter(|_| padding > 0).ok_or(Malformed::Padding)?;
        rest = &rest[..kept];
    }
    let (high, rest) = rest.split_at_checked(EXTENDED_BYTES).ok_or(Malformed::Short)?;
    let (headers, pixels) = lines_of(rest)?;
    Ok(Packet {
        payload_type: fixed[1] & 0x7f,
        marker: fixed[1] & 0x80 != 0,
        sequence: u32::from(half(high, 0)) << 16 | u32::from(half(fixed, 2)),
        timestamp: word(fixed, 4),
        ssrc: word(fixed, 8),
        headers,
        pixels,
    })
}

/// Parts the line headers from the pixels, whose lengths must be there.
fn lines_of(rest: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let mut pixel_bytes = 0;
    for line in 0..MOST_LINES {
        let header = rest.get(line * LINE_BYTES..(line + 1) * LINE_BYTES).ok_or(Malformed::Short)?;
        let length = usize::from(half(header, 0));
        if !length.is_multiple_of(PIXEL_BYTES) {
            return Err(Malformed::Pixels);
        }
        if header[2] & 0x80 != 0 {
            return Err(Malformed::Interlaced);
        }
        pixel_bytes += length;
        if header[4] & 0x80 == 0 {
            let (headers, pixels) = rest.split_at((line + 1) * LINE_BYTES);
            return Ok((headers, pixels.get(..pixel_bytes).ok_or(Malformed::Short)?));
        }
    }
    Err(Malformed::Lines)
}

#[cfg(test)]
mod tests {
    use super::super::{DatagramStamp, FrameLayout, PAYLOAD_TYPE};
    use super::*;
    use crate::geometry::Size;
    use proptest::prelude::*;

    /// A frame through the layout and back.
    fn round_trip(size: Size, most_bytes: usize) -> (Vec<u8>, Vec<u8>, usize) {
        let frame: Vec<u8> = (0..size.frame_bytes()).map(|index| (index * 31 % 251) as u8).collect();
        let layout = FrameLayout::new(size, most_bytes).expect("a layout");
        let mut arrived = vec![0; frame.len()];
        let mut whole = 0;
        for index in 0..layout.datagrams() {
            let mut datagram = Vec::new();
            let sequence = 0xffff_fff0u32.wrapping_add(index as u32);
            layout.write_header(index, DatagramStamp { sequence, timestamp: 7, ssrc: 9 }, &mut datagram);
            datagram.extend(&frame[layout.payload(index)]);
            datagram.extend(layout.padding(index));
            assert_eq!(datagram.len(), layout.bytes_of(index));
            // Equal sizes but for the last: what UDP_SEGMENT wants.
            let last = index + 1 == layout.datagrams();
            assert!(
                datagram.len() == layout.datagram_bytes() || last && datagram.len() < layout.datagram_bytes()
            );
            whole += datagram.len();
            let packet = parse(&datagram).expect("ours");
            assert_eq!((packet.sequence, packet.timestamp, packet.ssrc), (sequence, 7, 9));
            assert_eq!((packet.marker, packet.payload_type), (last, PAYLOAD_TYPE));
            for line in packet.lines() {
                let start =
                    usize::from(line.number) * size.line_bytes() + usize::from(line.offset) * PIXEL_BYTES;
                assert!(usize::from(line.offset) * PIXEL_BYTES + line.bytes.len() <= size.line_bytes());
                arrived[start..start + line.bytes.len()].copy_from_slice(line.bytes);
            }
        }
        assert_eq!(whole, layout.wire_bytes());
        (frame, arrived, layout.datagrams())
    }

    #[test]
    fn the_wall_of_the_seeds() {
        // One line in a jumbo frame; 484 pixels in an ordinary one.
        let size = Size { width: 2560, height: 1600 };
        let (frame, arrived, datagrams) = round_trip(size, 7700);
        assert!(frame == arrived && datagrams == 1600);
        let (frame, arrived, datagrams) = round_trip(size, 1472);
        assert!(frame == arrived && datagrams == 8_470, "{datagrams}");
    }

    #[test]
    fn what_is_none_of_our_own_is_said_why() {
        let layout = FrameLayout::new(Size { width: 8, height: 2 }, 1472).expect("a layout");
        let mut datagram = Vec::new();
        layout.write_header(0, DatagramStamp { sequence: 1, timestamp: 2, ssrc: 3 }, &mut datagram);
        datagram.extend([0; 48]);
        let with = |at: usize, value: u8| {
            let mut changed = datagram.clone();
            changed[at] = value;
            parse(&changed).map(|_| ())
        };
        assert_eq!(parse(&datagram).map(|_| ()), Ok(()));
        assert_eq!(with(0, 0x40), Err(Malformed::Version));
        assert_eq!(with(1, 200), Err(Malformed::Control));
        assert_eq!(with(15, 23), Err(Malformed::Pixels));
        assert_eq!(with(16, 0x80), Err(Malformed::Interlaced));
        assert_eq!(parse(&datagram[..datagram.len() - 1]).map(|_| ()), Err(Malformed::Short));
        assert_eq!(parse(&[]).map(|_| ()), Err(Malformed::Short));
        assert!(FrameLayout::new(Size { width: 8, height: 2 }, 28).is_err());
    }

    proptest! {
        #[test]
        fn any_size_over_any_mtu(width in 1u32..700, height in 1u32..40, most in 29usize..9000) {
            let (frame, arrived, _) = round_trip(Size { width, height }, most);
            prop_assert_eq!(frame, arrived);
        }

        #[test]
        fn any_bytes_are_taken_apart_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(packet) = parse(&bytes) {
                let pixels: usize = packet.lines().map(|line| line.bytes.len()).sum();
                prop_assert!(pixels <= bytes.len());
            }
        }
    }
}
