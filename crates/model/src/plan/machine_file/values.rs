//! The values of a machine file that carry a unit: rates, PCIe links, links between sockets, clocks, places.

use crate::plan::parts::GENERATIONS;
use linerate_facts::units::{ParseError, parse_rate};
use linerate_machine::probe::PciLink;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::fmt;
use thiserror::Error as ThisError;

/// More bytes per second than any part of a server carries: a unit was mistaken.
pub(in crate::plan) const LARGEST_RATE: f64 = 1e13;
/// Less than a modem: likewise.
pub(in crate::plan) const SMALLEST_RATE: f64 = 1e3;

/// Bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate(pub f64);

/// Fastest PCIe link of a part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pcie(pub PciLink);

/// A link between processors, or to a hub.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Link {
    /// Bytes per second and direction.
    pub bytes_per_second: f64,
    /// As people write it.
    pub words: String,
}

/// Gigahertz.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Clock(pub f64);

/// One place, or one for each of several parts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlaceValue(pub Vec<String>);

/// A text that is not a value of a part.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub(in crate::plan) enum PartValueError {
    #[error(transparent)]
    Unit(#[from] ParseError),
    #[error("“{0}” is not a rate of a server's part: check its unit")]
    Rate(String),
    #[error("“{0}” is not a PCIe link: write generation 1 to 7 and lanes, like 3x16 or \"2.0 x8\"")]
    Pcie(String),
    #[error(
        "“{0}” is not a link: write its kind and GT/s, like \"qpi 6.4\", \"upi 10.4\", \"hypertransport 5.2\", \
         \"xgmi 18\", or give a rate"
    )]
    Link(String),
    #[error("“{text}”: no {name} runs at {speed} GT/s")]
    LinkSpeed { text: String, name: &'static str, speed: String },
    #[error("“{0}” is not a clock: write it like \"2.66GHz\"")]
    Clock(String),
}

/// Reads a rate that a part can have.
pub(in crate::plan) fn rate(text: &str) -> Result<f64, PartValueError> {
    let rate = parse_rate(text)?;
    if !(SMALLEST_RATE..=LARGEST_RATE).contains(&rate) {
        return Err(PartValueError::Rate(text.into()));
    }
    Ok(rate)
}

/// Reads `2.0 x8`, `pcie3x16`, `PCIe 1.0 x4`.
pub(in crate::plan) fn pcie(text: &str) -> Result<PciLink, PartValueError> {
    let wrong = || PartValueError::Pcie(text.into());
    let lower = text.trim().to_ascii_lowercase();
    let rest = lower.strip_prefix("pcie").unwrap_or(&lower).trim_start();
    let (generation, width) = rest.split_once('x').ok_or_else(wrong)?;
    let generation = generation.trim();
    let generation = generation.strip_suffix(".0").unwrap_or(generation);
    let speed = GENERATIONS.iter().find(|(number, _)| number.to_string() == generation);
    let width: u32 = width.trim().parse().map_err(|_| wrong())?;
    match speed {
        Some((_, gt_per_second)) if [1, 2, 4, 8, 12, 16, 32].contains(&width) => {
            Ok(PciLink { gt_per_second: *gt_per_second, width })
        }
        _ => Err(wrong()),
    }
}

/// Reads `qpi 6.4`, `upi 10.4`, `hypertransport 5.2`, `xgmi 18`, `dmi 5`: kind and giga-transfers a second.
///
/// Data bytes of a transfer and direction: QPI and UPI 1 carry 16 data bits of 20 (Intel, "An Introduction to
/// the Intel QuickPath Interconnect", 2009), HyperTransport 16 bits without a line code, xGMI 16 lanes at 8/9
/// for its CRC, DMI 4 lanes like PCIe.
fn socket_link(text: &str) -> Result<Link, PartValueError> {
    let wrong = || PartValueError::Link(text.into());
    let lower = text.trim().to_ascii_lowercase();
    let (kind, speed) = lower.split_once(' ').ok_or_else(wrong)?;
    let speed = speed.trim().trim_end_matches("gt/s").trim();
    let speed: f64 = speed.parse().map_err(|_| wrong())?;
    let (name, fastest, bytes_a_transfer) = match kind {
        "qpi" => ("QPI", 12.0, 2.0),
        // UPI 2 has 24 lanes and no published payload figure: give a rate for it.
        "upi" => ("UPI", 12.0, 2.0),
        "hypertransport" | "ht" => ("HyperTransport", 8.0, 2.0),
        "xgmi" => ("xGMI", 40.0, 2.0 * 8.0 / 9.0),
        "dmi" => ("DMI", 8.0, if speed > 5.0 { 4.0 / 8.0 * 128.0 / 130.0 } else { 4.0 / 8.0 * 0.8 }),
        _ => return Err(wrong()),
    };
    if !(speed > 0.0 && speed <= fastest) {
        return Err(PartValueError::LinkSpeed { text: text.into(), name, speed: speed.to_string() });
    }
    Ok(Link { bytes_per_second: speed * 1e9 * bytes_a_transfer, words: format!("{name} {speed} GT/s") })
}

fn clock(text: &str) -> Result<f64, PartValueError> {
    let number = text.trim().strip_suffix("GHz").map(str::trim).and_then(|number| number.parse().ok());
    match number {
        Some(gigahertz) if (0.1..=20.0).contains(&gigahertz) => Ok(gigahertz),
        _ => Err(PartValueError::Clock(text.into())),
    }
}

/// A value that is read from a string in quotes.
struct Quoted<T>(fn(&str) -> Result<T, PartValueError>, &'static str);

impl<T> Visitor<'_> for Quoted<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.1)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.0)(text).map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let words = "a rate with its unit in quotes, like \"10G\" (bits) or \"250MB/s\" (bytes)";
        deserializer.deserialize_str(Quoted(rate, words)).map(Rate)
    }
}

impl<'de> Deserialize<'de> for Pcie {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Quoted(pcie, "a PCIe link in quotes, like \"2.0 x8\"")).map(Pcie)
    }
}

impl<'de> Deserialize<'de> for Link {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Quoted(socket_link, "a link in quotes, like \"qpi 6.4\""))
    }
}

impl<'de> Deserialize<'de> for Clock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Quoted(clock, "a clock in quotes, like \"2.66GHz\"")).map(Clock)
    }
}

struct Places;

impl<'de> Visitor<'de> for Places {
    type Value = PlaceValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name in quotes, or a list of names")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<PlaceValue, E> {
        Ok(PlaceValue(vec![text.to_string()]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<PlaceValue, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = list.next_element()? {
            names.push(name);
        }
        Ok(PlaceValue(names))
    }
}

impl<'de> Deserialize<'de> for PlaceValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn links_as_people_write_them() {
        let link = |gt_per_second, width| Ok(PciLink { gt_per_second, width });
        assert_eq!(pcie("2.0 x8"), link(5.0, 8));
        assert_eq!(pcie("pcie3x16"), link(8.0, 16));
        assert_eq!(pcie("PCIe 1.0 x4"), link(2.5, 4));
        for wrong in ["", "x", "8", "8x8", "3x3", "3x", "3.5x8", "3x99999999999999"] {
            assert!(pcie(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn links_between_sockets_carry_what_their_makers_publish() {
        // reference/rates/cpu-interconnect.csv.
        let rate = |text| socket_link(text).expect("a link").bytes_per_second / 1e9;
        assert_eq!(rate("qpi 6.4"), 12.8);
        assert_eq!(rate("UPI 10.4 GT/s"), 20.8);
        assert_eq!(rate("hypertransport 5.2"), 10.4);
        assert!((rate("xgmi 18") - 32.0).abs() < 1e-9 && (rate("dmi 5") - 2.0).abs() < 1e-9);
        for wrong in ["qpi", "qpi fast", "qpi -1", "qpi 64", "upi 24", "bus 3", "qpi NaN"] {
            assert!(socket_link(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_out_of_this_world_are_a_mistaken_unit() {
        assert_eq!(rate("10G"), Ok(1.25e9));
        assert!(rate("100TB/s").is_err() && rate("10").is_err() && rate("10GiB").is_err());
        assert_eq!(clock("2.66GHz"), Ok(2.66));
        assert!(clock("2660").is_err() && clock("2660GHz").is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_a_panic(text in "\\PC{0,16}") {
            let _ = (rate(&text), pcie(&text), socket_link(&text), clock(&text));
        }
    }
}
