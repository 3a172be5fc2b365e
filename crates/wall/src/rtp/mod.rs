//! Uncompressed video over RTP: RFC 4175 payload, as stock GStreamer and ffmpeg play it.
//!
//! [`Layout`] cuts a frame into datagrams of equal size, which is what segmentation offload wants; [`parse`]
//! takes a datagram apart again. <https://www.rfc-editor.org/rfc/rfc4175>

mod layout;
mod packet;
mod sdp;

pub use layout::{DatagramStamp, DatagramTooSmall, FrameLayout};
pub use packet::Malformed;
pub use packet::{Packet, PixelRun, parse};
pub use sdp::SdpSession;

/// The dynamic payload type that linerate sends, the first of them (RFC 3551).
pub(crate) const PAYLOAD_TYPE: u8 = 96;
/// The fixed header of RTP (RFC 3550).
const RTP_BYTES: usize = 12;
/// The high half of the sequence number.
const EXTENDED_BYTES: usize = 2;
/// The header of one run of pixels.
const LINE_BYTES: usize = 6;
