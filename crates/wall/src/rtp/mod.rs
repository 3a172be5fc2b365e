//! Uncompressed video over RTP: RFC 4175 payload, as stock GStreamer and ffmpeg play it.
//!
//! [`FrameLayout`] cuts a frame into datagrams of equal size, which is what segmentation offload wants; [`parse`]
//! takes a datagram apart again. <https://www.rfc-editor.org/rfc/rfc4175>
//!
//! A raw frame is one run of bytes, and so is each datagram's share of it: pixels of one line, or of the end
//! of one and the beginning of the next. A datagram that carries one line header more carries two pixels
//! fewer (6 bytes = 2 × 3), so all of them have the same size, and one system call with UDP_SEGMENT sends
//! many. Where a line ends one or two pixels before the datagram does, there is no room for another header:
//! RTP's own padding fills it (RFC 3550, 5.1). Only the last of a frame may be shorter, which the kernel
//! allows.
//!
//! Stock receivers play a tile's stream by its session description (RFC 8866; the format's parameters are RFC
//! 4175's and SMPTE ST 2110-20's).

mod packet;

use crate::geometry::{FrameRate, PIXEL_BYTES, Size, TileId};
use linerate_system::socket::UDP_HEADERS_V4;
pub use packet::{Malformed, Packet, PixelRun, parse};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;

/// The dynamic payload type that linerate sends, the first of them (RFC 3551).
pub(crate) const PAYLOAD_TYPE: u8 = 96;
/// The fixed header of RTP (RFC 3550).
const RTP_BYTES: usize = 12;
/// The high half of the sequence number.
const EXTENDED_BYTES: usize = 2;
/// The header of one run of pixels.
const LINE_BYTES: usize = 6;

/// Pixels that a line header displaces.
const LINE_PIXELS: usize = LINE_BYTES / PIXEL_BYTES;

/// What fills up a datagram: the last byte says how many there are.
const PADDING: [&[u8]; LINE_PIXELS + 1] = [&[], &[0, 0, 3], &[0, 0, 0, 0, 0, 6]];

/// One stream.
#[derive(Clone, Copy, Debug)]
pub struct SdpSession {
    pub tile: TileId,
    /// The server's address; unspecified where it is not known yet.
    pub from: IpAddr,
    pub to: SocketAddr,
    pub size: Size,
    pub frames_per_second: FrameRate,
    /// UDP payload of a datagram.
    pub datagram_bytes: usize,
    /// Networks that a packet to a multicast group may come into.
    pub multicast_hops: u8,
    /// At most eight datagrams follow one another at once (ST 2110-21, type N), or more (type W).
    pub narrow: bool,
}

impl SdpSession {
    /// The text of its `.sdp` file.
    pub fn text(&self) -> String {
        let SdpSession { tile, from, to, size, frames_per_second, datagram_bytes, .. } = self;
        let from = match (from.is_unspecified(), to) {
            (false, _) => *from,
            (true, SocketAddr::V4(_)) => Ipv4Addr::LOCALHOST.into(),
            (true, SocketAddr::V6(_)) => Ipv6Addr::LOCALHOST.into(),
        };
        // RFC 8866, 5.7: of IPv4 groups alone.
        let ttl = match to {
            SocketAddr::V4(to) if to.ip().is_multicast() => format!("/{}", self.multicast_hops),
            _ => String::new(),
        };
        let kind = if self.narrow { "2110TPN" } else { "2110TPW" };
        let mut text = String::new();
        let _ = write!(
            text,
            "v=0\r\n\
             o=linerate 1 1 IN {} {from}\r\n\
             s=linerate tile {tile}\r\n\
             t=0 0\r\n\
             m=video {} RTP/AVP {}\r\n\
             c=IN {} {}{ttl}\r\n\
             a=rtpmap:{} raw/90000\r\n\
             a=fmtp:{} sampling=RGB; width={}; height={}; exactframerate={frames_per_second}; depth=8; \
             TCS=SDR; \
             colorimetry=BT709; RANGE=FULL; PM=2110GPM; SSN=ST2110-20:2017; TP={kind}; MAXUDP={}\r\n\
             a=mediaclk:direct=0\r\n\
             a=ts-refclk:localmac=02-00-00-00-00-01\r\n",
            family(from),
            to.port(),
            PAYLOAD_TYPE,
            family(to.ip()),
            to.ip(),
            PAYLOAD_TYPE,
            PAYLOAD_TYPE,
            size.width,
            size.height,
            // With the UDP header, and in steps of the standard's own.
            datagram_bytes + 8,
        );
        text
    }
}

fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IP4" } else { "IP6" }
}

/// What a datagram bears beside its place in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramStamp {
    /// Counts datagrams of this tile; the low half goes into RTP's own field.
    pub sequence: u32,
    /// 90 kHz, one for all datagrams of a frame and all tiles of the wall.
    pub timestamp: u32,
    /// Names the tile.
    pub ssrc: u32,
}

/// One datagram's share.
#[derive(Clone, Debug)]
struct Share {
    /// Its bytes of the frame.
    payload: Range<usize>,
    /// Pixels that are missing to the full size.
    missing: usize,
    /// Its line headers within `Layout::lines`.
    lines: Range<usize>,
}

/// Not even one pixel fits into a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a datagram of {most_bytes} bytes is too small for RTP video; the MTU must be at least {least_mtu}")]
pub struct DatagramTooSmall {
    most_bytes: usize,
    least_mtu: usize,
}

/// How frames of one size are cut; the same for every frame.
#[derive(Clone, Debug)]
pub struct FrameLayout {
    size: Size,
    datagram_bytes: usize,
    shares: Vec<Share>,
    /// All line headers, end to end, as they go on the wire.
    lines: Vec<u8>,
}

impl FrameLayout {
    /// Datagrams of at most `most_bytes` (UDP payload: MTU − 28 for IPv4, − 48 for IPv6). Fails where not
    /// even one pixel fits.
    pub fn new(size: Size, most_bytes: usize) -> Result<FrameLayout, DatagramTooSmall> {
        let fixed = RTP_BYTES + EXTENDED_BYTES + LINE_BYTES;
        let pixels = most_bytes.min(65_507).saturating_sub(fixed) / PIXEL_BYTES;
        // A datagram may begin with the last pixel of a line and go on with another: room for both headers.
        if pixels <= LINE_PIXELS {
            let least_mtu = fixed + PIXEL_BYTES * (LINE_PIXELS + 1) + UDP_HEADERS_V4 as usize;
            return Err(DatagramTooSmall { most_bytes, least_mtu });
        }
        let mut layout = FrameLayout {
            size,
            datagram_bytes: fixed + pixels * PIXEL_BYTES,
            shares: Vec::new(),
            lines: Vec::new(),
        };
        let (mut line, mut offset) = (0, 0);
        while line < size.height {
            layout.push_share(pixels, &mut line, &mut offset);
        }
        Ok(layout)
    }

    /// The next datagram, from `offset` of `line` on; both go ahead.
    fn push_share(&mut self, pixels: usize, line: &mut u32, offset: &mut u32) {
        let width = self.size.width;
        let start = *line as usize * self.size.line_bytes() + *offset as usize * PIXEL_BYTES;
        let (first_header, mut left, mut taken) = (self.lines.len(), pixels, 0);
        loop {
            let here = left.min((width - *offset) as usize);
            let length = (here * PIXEL_BYTES) as u16;
            self.lines.extend(length.to_be_bytes());
            self.lines.extend((*line as u16).to_be_bytes());
            // The continuation bit of the one before, now that there is another.
            let before = self.lines.len() - 4;
            if before >= first_header + LINE_BYTES {
                self.lines[before - 2] |= 0x80;
            }
            self.lines.extend((*offset as u16).to_be_bytes());
            (left, taken) = (left - here, taken + here);
            *offset += here as u32;
            if *offset == width {
                (*line, *offset) = (*line + 1, 0);
            }
            if left <= LINE_PIXELS || *line == self.size.height {
                break;
            }
            left -= LINE_PIXELS;
        }
        let missing = if *line == self.size.height { 0 } else { left };
        self.shares.push(Share {
            missing,
            payload: start..start + taken * PIXEL_BYTES,
            lines: first_header..self.lines.len(),
        });
    }

    /// The size of the frames.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Datagrams a frame.
    pub fn datagrams(&self) -> usize {
        self.shares.len()
    }

    /// UDP payload of each datagram but the last of a frame, which may be smaller.
    pub fn datagram_bytes(&self) -> usize {
        self.datagram_bytes
    }

    /// UDP payload of one datagram.
    pub fn bytes_of(&self, datagram: usize) -> usize {
        let share = &self.shares[datagram];
        RTP_BYTES + EXTENDED_BYTES + share.lines.len() + share.payload.len() + PADDING[share.missing].len()
    }

    /// UDP payload of a whole frame.
    pub fn wire_bytes(&self) -> usize {
        (0..self.datagrams()).map(|datagram| self.bytes_of(datagram)).sum()
    }

    /// The bytes of the frame that a datagram carries, behind its header.
    pub fn payload(&self, datagram: usize) -> Range<usize> {
        self.shares[datagram].payload.clone()
    }

    /// The bytes that follow the pixels of a datagram: mostly none.
    pub fn padding(&self, datagram: usize) -> &'static [u8] {
        PADDING[self.shares[datagram].missing]
    }

    /// Appends a datagram's header: RTP, extended sequence, lines. On the wire the pixels follow it, and then
    /// the padding.
    pub fn write_header(&self, datagram: usize, stamp: DatagramStamp, into: &mut Vec<u8>) {
        let marker = if datagram + 1 == self.shares.len() { 0x80 } else { 0 };
        let padded = if self.shares[datagram].missing > 0 { 0x20 } else { 0 };
        into.extend([0x80 | padded, marker | PAYLOAD_TYPE]);
        into.extend((stamp.sequence as u16).to_be_bytes());
        into.extend(stamp.timestamp.to_be_bytes());
        into.extend(stamp.ssrc.to_be_bytes());
        into.extend(((stamp.sequence >> 16) as u16).to_be_bytes());
        into.extend(&self.lines[self.shares[datagram].lines.clone()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_stock_receivers_take_it() {
        let session = SdpSession {
            tile: TileId { row: 0, column: 0 },
            from: Ipv4Addr::new(192, 0, 2, 1).into(),
            to: SocketAddr::from(([192, 0, 2, 10], 5012)),
            size: Size { width: 2560, height: 1600 },
            frames_per_second: FrameRate { numerator: 24, denominator: 1 },
            datagram_bytes: 7732,
            multicast_hops: 1,
            narrow: false,
        };
        let text = session.text();
        let lines: Vec<&str> = text.split("\r\n").collect();
        let begin = "v=0|o=linerate 1 1 IN IP4 192.0.2.1|s=linerate tile r0c0|t=0 0\
            |m=video 5012 RTP/AVP 96|c=IN IP4 192.0.2.10";
        assert_eq!(lines[0..6].join("|"), begin);
        assert_eq!(
            lines[7],
            "a=fmtp:96 sampling=RGB; width=2560; height=1600; exactframerate=24; depth=8; TCS=SDR; \
             colorimetry=BT709; RANGE=FULL; PM=2110GPM; SSN=ST2110-20:2017; TP=2110TPW; MAXUDP=7740"
        );
        let six = SdpSession {
            to: "[fd00::2]:5004".parse().expect("an address"),
            from: Ipv6Addr::UNSPECIFIED.into(),
            ..session
        };
        assert!(six.text().contains("c=IN IP6 fd00::2\r\n") && six.text().contains("IN IP6 ::1"));
    }
}
