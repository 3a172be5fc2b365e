//! What a stream tells of itself where nobody else did: the size from its first whole frame, the rate from
//! its first timestamps.

use crate::geometry::{FrameRate, Size};
use crate::rtp::Packet;

/// The datagrams of a frame that are kept until its size is known: an 8K frame fits.
const MOST_BYTES: usize = 256 << 20;
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
        if self.bytes.len() + datagram.len() > MOST_BYTES {
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
const RATES: [(u32, u32); 15] = [
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
const LOOK: u8 = 8;

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
        if self.looked >= LOOK || !sensible || self.shortest.is_some_and(|shortest| shortest <= units + 1) {
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
    let nearest = RATES.into_iter().min_by(|one, other| off(*one).total_cmp(&off(*other)));
    let (numerator, denominator) = nearest.filter(|rate| off(*rate) <= 1.0).unwrap_or((90_000, units));
    FrameRate { numerator, denominator }
}

#[cfg(test)]
mod tests {
    use super::*;

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
