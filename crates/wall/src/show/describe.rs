//! What is known of a stream before it is shown. A session description (SDP, RFC 8866) of uncompressed video
//! as RFC 4175 and SMPTE ST 2110-20 write it: ours, GStreamer's or ffmpeg's kind. Where there is none, what
//! the stream tells of itself: the size from its first whole frame, the rate from its first timestamps.

use crate::geometry::{FrameRate, Size};
use crate::rtp::Packet;
use std::net::IpAddr;

/// A description is a few hundred bytes.
const MOST_BYTES: usize = 64 << 10;

/// What it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    pub port: u16,
    /// Where the stream is sent to.
    pub address: Option<IpAddr>,
    pub payload_type: u8,
    pub size: Size,
    pub rate: Option<FrameRate>,
}

/// Why a text is not a description, or none that can be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    #[error("{0} bytes are not a session description")]
    TooLong(usize),
    /// A line or a number is not there; with the sentence.
    #[error("{0}")]
    Lacks(&'static str),
    #[error("`{0}`: only `m=video PORT RTP/AVP TYPE` is known")]
    NoRtp(String),
    #[error("`{0}`: only raw/90000 can be shown (RFC 4175)")]
    NotRaw(String),
    #[error("{name}={value}: only 8-bit RGB can be shown")]
    NotRgb { name: &'static str, value: String },
}

/// Reads a description.
pub fn describe(text: &str) -> Result<Description, DescriptionError> {
    let lacks = DescriptionError::Lacks;
    if text.len() > MOST_BYTES {
        return Err(DescriptionError::TooLong(text.len()));
    }
    let lines = || text.lines().map(str::trim_end);
    let mut media = lines().skip_while(|line| !line.starts_with("m=video "));
    let video = media.next().ok_or(lacks("it has no line `m=video PORT RTP/AVP TYPE`"))?;
    let of_video: Vec<&str> = media.take_while(|line| !line.starts_with("m=")).collect();
    let words: Vec<&str> = video.split_ascii_whitespace().collect();
    let [_, port, "RTP/AVP", kind] = words[..] else {
        return Err(DescriptionError::NoRtp(shortened(video)));
    };
    let port =
        port.split('/').next().and_then(|port| port.parse().ok()).ok_or(lacks("its port is not a number"))?;
    let payload_type =
        kind.parse().ok().filter(|kind| *kind < 128u8).ok_or(lacks("its payload type is not a number"))?;
    let attribute = |name: &str| {
        let prefix = format!("a={name}:{payload_type} ");
        of_video.iter().find_map(|line| line.strip_prefix(&prefix)).map(str::trim)
    };
    let map = attribute("rtpmap").ok_or(lacks("it has no a=rtpmap for its payload type"))?;
    if !map.eq_ignore_ascii_case("raw/90000") {
        return Err(DescriptionError::NotRaw(shortened(map)));
    }
    let format = attribute("fmtp").ok_or(lacks("it has no a=fmtp for its payload type"))?;
    let value = |name: &str| {
        format.split(';').filter_map(|pair| pair.split_once('=')).find_map(|(key, value)| {
            // GStreamer's caps carry types, as in `(string)RGB`.
            let value = value.trim().rsplit(')').next().unwrap_or_default();
            key.trim().eq_ignore_ascii_case(name).then(|| value.trim_matches('"'))
        })
    };
    for (name, only) in [("sampling", "RGB"), ("depth", "8")] {
        if let Some(other) = value(name).filter(|value| *value != only) {
            return Err(DescriptionError::NotRgb { name, value: shortened(other) });
        }
    }
    let size = format!("{}x{}", value("width").unwrap_or_default(), value("height").unwrap_or_default());
    let size = size.parse().map_err(|_| lacks("its a=fmtp has no width and height that can be"))?;
    let of_media = of_video.iter().find_map(|line| line.strip_prefix("a=framerate:"));
    let rate = value("exactframerate").or(of_media).and_then(rate);
    let connection = of_video.iter().copied().chain(lines()).find_map(|line| line.strip_prefix("c=IN IP"));
    let address = connection
        .and_then(|rest| rest.get(2..))
        .and_then(|address| address.split('/').next())
        .and_then(|address| address.trim().parse().ok());
    Ok(Description { port, address, payload_type, size, rate })
}

/// A rate, also as a decimal fraction of a whole one (`24.000000`).
fn rate(text: &str) -> Option<FrameRate> {
    let text = text.trim();
    let whole = text.split_once('.').filter(|(_, rest)| rest.bytes().all(|digit| digit == b'0'));
    whole.map_or(text, |(whole, _)| whole).parse().ok()
}

/// A piece of a file from outside, short.
fn shortened(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(60).collect()
}

/// The datagrams of a frame that are kept until its size is known: an 8K frame fits.
const LARGEST_FRAME_BYTES: usize = 256 << 20;

/// The largest side that RFC 4175 can number.
const MOST_PIXELS: u32 = 32_768;

/// Looks at a stream until one frame of it is whole, and keeps that frame's datagrams.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    timestamp: Option<u32>,
    bytes: Vec<u8>,
    /// Where each datagram ends in `bytes`, and when it arrived.
    ends: Vec<(usize, i64)>,
    pixels: u64,
    width: u32,
    height: u32,
    marked: bool,
}

impl Opening {
    /// A datagram that is not a duplicate. Gives the size as soon as a frame is whole.
    pub(crate) fn take(&mut self, datagram: &[u8], packet: &Packet<'_>, arrived: i64) -> Option<Size> {
        match self.timestamp {
            Some(timestamp) if timestamp == packet.timestamp => {}
            // Of the frame before: that one was not whole.
            Some(timestamp) if packet.timestamp.wrapping_sub(timestamp).cast_signed() < 0 => return None,
            _ => *self = Opening { timestamp: Some(packet.timestamp), ..self.emptied() },
        }
        if self.bytes.len() + datagram.len() > LARGEST_FRAME_BYTES {
            *self = Opening::default();
            return None;
        }
        self.bytes.extend(datagram);
        self.ends.push((self.bytes.len(), arrived));
        self.marked |= packet.marker;
        for line in packet.lines() {
            let pixels = (line.bytes.len() / crate::geometry::PIXEL_BYTES) as u32;
            self.pixels += u64::from(pixels);
            self.width = self.width.max(u32::from(line.offset) + pixels);
            self.height = self.height.max(u32::from(line.number) + 1);
        }
        let Opening { width, height, .. } = *self;
        let whole = self.marked && self.pixels > 0 && self.pixels == u64::from(width) * u64::from(height);
        (whole && width <= MOST_PIXELS && height <= MOST_PIXELS).then_some(Size { width, height })
    }

    /// The buffers of the frame before, to be used again.
    fn emptied(&mut self) -> Opening {
        let (mut bytes, mut ends) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.ends));
        bytes.clear();
        ends.clear();
        Opening { bytes, ends, ..Opening::default() }
    }

    /// The datagrams of the whole frame, and when each arrived.
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = (&[u8], i64)> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(end, _)| *end));
        starts.zip(&self.ends).map(|(start, (end, arrived))| (&self.bytes[start..*end], *arrived))
    }
}

/// Rates that senders use; the nearest one to a distance of timestamps is meant, if it is within rounding.
const USUAL_RATES: [(u32, u32); 15] = [
    (24, 1),
    (25, 1),
    (30, 1),
    (48, 1),
    (50, 1),
    (60, 1),
    (24_000, 1001),
    (30_000, 1001),
    (60_000, 1001),
    (10, 1),
    (12, 1),
    (15, 1),
    (100, 1),
    (120, 1),
    (144, 1),
];
/// Frames that are looked at: the first ones may have gaps.
const FRAMES: u8 = 8;

/// Guesses the rate from timestamps.
#[derive(Debug, Default)]
pub(crate) struct RateGuess {
    last: Option<u32>,
    shortest: Option<u32>,
    looked: u8,
}

impl RateGuess {
    /// A new frame has begun; the rate, if that says something new.
    pub(crate) fn take(&mut self, timestamp: u32) -> Option<FrameRate> {
        let last = self.last.replace(timestamp)?;
        let units = timestamp.wrapping_sub(last);
        let sensible = (1..=90_000 * 60).contains(&units);
        if self.looked >= FRAMES || !sensible || self.shortest.is_some_and(|shortest| shortest <= units + 1) {
            self.looked = self.looked.saturating_add(1);
            return None;
        }
        self.looked += 1;
        self.shortest = Some(units);
        Some(rate_of(units))
    }
}

fn rate_of(units: u32) -> FrameRate {
    let off = |(numerator, denominator): (u32, u32)| {
        (f64::from(units) - 90_000.0 * f64::from(denominator) / f64::from(numerator)).abs()
    };
    let nearest = USUAL_RATES.into_iter().min_by(|one, other| off(*one).total_cmp(&off(*other)));
    let (numerator, denominator) = nearest.filter(|rate| off(*rate) <= 1.0).unwrap_or((90_000, units));
    FrameRate { numerator, denominator }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OURS: &str = "v=0\r\no=linerate 1 1 IN IP4 192.0.2.1\r\ns=linerate tile r0c0\r\nt=0 0\r\nm=video \
                        5012 RTP/AVP 96\r\nc=IN IP4 192.0.2.10\r\n\
        a=rtpmap:96 raw/90000\r\na=fmtp:96 sampling=RGB; width=2560; height=1600; exactframerate=24; \
        depth=8; TCS=SDR; PM=2110GPM\r\n";

    #[test]
    fn our_own_and_others_are_read() {
        let read = describe(OURS).expect("ours");
        assert_eq!((read.port, read.payload_type, read.size.to_string()), (5012, 96, "2560x1600".into()));
        assert_eq!(read.rate, "24".parse().ok());
        assert_eq!(read.address, "192.0.2.10".parse().ok());
        let other = "v=0\nc=IN IP4 239.0.0.1/32\nm=audio 5000 RTP/AVP 0\nm=video 5004 RTP/AVP \
                     112\na=rtpmap:112 RAW/90000\n\
            a=framerate:25.000\na=fmtp:112 \
            sampling=(string)RGB;depth=(string)8;width=(string)640;height=(string)400\nm=audio 1 RTP/AVP \
            0\na=fmtp:112 x\n";
        let read = describe(other).expect("GStreamer's kind");
        assert_eq!(
            (read.payload_type, read.size.to_string(), read.rate),
            (112, "640x400".into(), "25".parse().ok())
        );
        assert_eq!(read.address, "239.0.0.1".parse().ok());
    }

    #[test]
    fn what_cannot_be_shown_is_said_why() {
        for (old, new, why) in [
            ("m=video", "m=audio", "m=video"),
            ("raw/90000", "H264/90000", "raw/90000"),
            ("sampling=RGB", "sampling=YCbCr-4:2:2", "8-bit RGB"),
            ("depth=8", "depth=10", "8-bit RGB"),
            ("width=2560", "width=0", "width"),
            ("height=1600; ", "", "height"),
            ("5012", "x", "port"),
            ("a=fmtp:96", "a=fmtp:97", "fmtp"),
        ] {
            let told = describe(&OURS.replace(old, new)).expect_err(new).to_string();
            assert!(told.contains(why), "{told}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(lines in prop::collection::vec("(m=video |a=fmtp:96 |a=rtpmap:96 \
            |c=IN IP)?\\PC{0,30}", 0..8), at in 0usize..300) {
            let _ = describe(&lines.join("\n"));
            let cut: String = OURS.chars().take(at).collect();
            let _ = describe(&cut);
        }
    }

    #[test]
    fn rates_are_reported_from_timestamps() {
        for (units, rate) in [
            (3750, "24"),
            (3749, "24"),
            (3753, "24000/1001"),
            (3003, "30000/1001"),
            (1501, "60000/1001"),
            (1502, "60000/1001"),
            (1500, "60"),
            (9000, "10"),
            (4000, "90000/4000"),
        ] {
            assert_eq!(rate_of(units).to_string(), rate);
        }
        let mut guess = RateGuess::default();
        assert_eq!(guess.take(u32::MAX - 10), None);
        // A frame is missing at first, then it is seen.
        assert_eq!(
            guess.take((u32::MAX - 10).wrapping_add(7500)).map(|rate| rate.to_string()),
            Some("12".into())
        );
        assert_eq!(
            guess.take((u32::MAX - 10).wrapping_add(11_250)).map(|rate| rate.to_string()),
            Some("24".into())
        );
        assert_eq!(guess.take((u32::MAX - 10).wrapping_add(15_000)), None);
    }
}
