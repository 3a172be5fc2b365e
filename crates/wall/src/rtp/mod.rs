//! Uncompressed video over RTP: RFC 4175 payload, as stock GStreamer and ffmpeg play it.
//!
//! [`Layout`] cuts a frame into datagrams of equal size, which is what segmentation offload wants; [`parse`]
//! takes a datagram apart again. <https://www.rfc-editor.org/rfc/rfc4175>
//!
//! Stock receivers play a tile's stream by its session description (RFC 8866; the format's parameters are RFC
//! 4175's and SMPTE ST 2110-20's).

mod layout;
mod packet;

pub use layout::{DatagramStamp, DatagramTooSmall, FrameLayout};
pub use packet::{Malformed, Packet, PixelRun, parse};

use crate::geometry::{FrameRate, Size, TileId};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The dynamic payload type that linerate sends, the first of them (RFC 3551).
pub(crate) const PAYLOAD_TYPE: u8 = 96;
/// The fixed header of RTP (RFC 3550).
const RTP_BYTES: usize = 12;
/// The high half of the sequence number.
const EXTENDED_BYTES: usize = 2;
/// The header of one run of pixels.
const LINE_BYTES: usize = 6;

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
        assert_eq!(
            lines[0..6],
            [
                "v=0",
                "o=linerate 1 1 IN IP4 192.0.2.1",
                "s=linerate tile r0c0",
                "t=0 0",
                "m=video 5012 RTP/AVP 96",
                "c=IN IP4 192.0.2.10",
            ]
        );
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
