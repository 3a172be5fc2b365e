//! What the topologies of hwloc and NCCL have in common: XML from outside, parsed whole, within limits; sets
//! of processors and nodes as words of 32 bits in hexadecimal, the highest first.
//!
//! A PCIe link from its rate alone, which is all that lstopo reports: `15.753846` GB/s is 8 GT/s x16, 16 GT/s
//! x8, 32 GT/s x4 or 64 GT/s x2.
//!
//! hwloc multiplies speed, width and line code (8/10 to 5 GT/s, 128/130 above; `hwloc/pci-common.c`). The
//! product is taken apart where only one speed and width make it, or only one that the port above can do.

use crate::probe::PciLink;
use linerate_facts::fact::Fact;
use roxmltree::{Document, Error, Node, ParsingOptions};

/// Elements, attributes' owners and texts of a document. The largest topologies that are published have some
/// ten thousand.
const MOST_NODES: u32 = 2_000_000;
/// Elements in each other. lstopo needs two dozen for switches below switches.
const DEEPEST: u32 = 200;

/// What is wrong with a topology in XML, and mostly the line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    #[error("no XML at all; check which file it is")]
    NoXml,
    #[error("line {line}: it declares entities, which no topology needs; it was not read")]
    Entities { line: usize },
    #[error("line {line}: the file ends within an element; it was cut off")]
    CutOff { line: usize },
    #[error("line {}: {error}; the file is not XML or damaged", error.pos().row)]
    Damaged { error: Error },
    /// XML, and nothing of a machine in it; a sentence for each format.
    #[error("{0}")]
    Empty(&'static str),
    /// XML, and an element that the format does not have so.
    #[error("line {line}: {what}")]
    Element { line: usize, what: String },
}

impl TopologyError {
    pub(crate) fn at(text: &str, element: Node, what: impl Into<String>) -> Self {
        TopologyError::Element { line: line(text, element.range().start), what: what.into() }
    }
}

/// Parses a document. It may have a document type (lstopo names one), but no entities of its own, which could
/// unfold without end.
pub(crate) fn parse(text: &str) -> Result<Document<'_>, TopologyError> {
    if let Some(at) = text.find("<!ENTITY") {
        return Err(TopologyError::Entities { line: line(text, at) });
    }
    let options = ParsingOptions { allow_dtd: true, nodes_limit: MOST_NODES, ..Default::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| match error {
        Error::NoRootNode => TopologyError::NoXml,
        Error::UnclosedRootNode | Error::UnexpectedEndOfStream => {
            TopologyError::CutOff { line: line(text, text.len()) }
        }
        _ => TopologyError::Damaged { error },
    })?;
    let mut level = vec![document.root_element()];
    for _ in 0..=DEEPEST {
        level = level.iter().flat_map(Node::children).filter(Node::is_element).collect();
    }
    match level.first() {
        Some(element) => {
            let what = format!("elements are nested more than {DEEPEST} deep: no topology");
            Err(TopologyError::at(text, *element, what))
        }
        None => Ok(document),
    }
}

/// Line of a place in a text, from 1.
fn line(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Sets of more are not a server's.
const MOST_BITS: usize = 65_536;

/// Numbers in a set, ascending: `0x00000303,,0x03030303` (hwloc; an empty word is 0) or `00000000,000000ff`
/// (NCCL). `None` where it is not a set; an endless one (`0xf...f`) is none, too.
pub(crate) fn parse_set(text: &str) -> Option<Vec<u32>> {
    let words: Vec<&str> = text.trim().split(',').collect();
    if words.len() > MOST_BITS / 32 {
        return None;
    }
    let mut set = Vec::new();
    for (at, word) in words.iter().rev().enumerate() {
        let digits = word.trim().trim_start_matches("0x");
        let bits = match digits {
            "" if words.len() > 1 => 0,
            _ => u32::from_str_radix(digits, 16).ok()?,
        };
        set.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| at as u32 * 32 + bit));
    }
    Some(set)
}

/// Widths that links are made in (PCIe base specification 4.2: x12 and x32 exist on paper).
const WIDTHS: [u32; 5] = [1, 2, 4, 8, 16];
/// Speeds with the share of payload bits in their line code, as hwloc counts: 242/256 for PCIe 6 in newer
/// versions.
const SPEEDS: [(f64, f64); 8] = [
    (2.5, 0.8),
    (5.0, 0.8),
    (8.0, 128.0 / 130.0),
    (16.0, 128.0 / 130.0),
    (32.0, 128.0 / 130.0),
    (64.0, 128.0 / 130.0),
    (64.0, 242.0 / 256.0),
    (128.0, 242.0 / 256.0),
];

/// A link from its rate in GB/s (10⁹ bytes) after the line code. `most`: the highest speed that the port can
/// do, GT/s, where known.
pub(crate) fn link(gigabytes_per_second: f64, most: Option<f64>) -> Fact<PciLink> {
    if !(gigabytes_per_second.is_finite() && gigabytes_per_second > 0.0) {
        return Fact::unknown("lstopo reports no link: it was down, unreadable, or there is none");
    }
    let link_of = |(speed, code): &(f64, f64), width: u32| {
        let rate = speed * code * f64::from(width) / 8.0;
        (rate - gigabytes_per_second).abs() < rate * 0.002
    };
    let mut fits: Vec<PciLink> = Vec::new();
    for speed in SPEEDS {
        for width in WIDTHS.into_iter().filter(|width| link_of(&speed, *width)) {
            let link = PciLink { gt_per_second: speed.0, width };
            if !fits.contains(&link) && speed.0 <= most.unwrap_or(f64::INFINITY) {
                fits.push(link);
            }
        }
    }
    match fits.as_slice() {
        [only] => Fact::Known(*only),
        [] => Fact::unknown(format!("lstopo reports {gigabytes_per_second} GB/s, which no PCIe link has")),
        [rest @ .., last] => {
            let rest: Vec<String> = rest.iter().map(ToString::to_string).collect();
            let rest = rest.join(", ");
            Fact::unknown(format!(
                "lstopo reports only its rate, {gigabytes_per_second:.2} GB/s: {rest} or {last}"
            ))
        }
    }
}

/// The highest PCIe speed of a processor's own ports, GT/s, by CPUID family and model; of those that the data
/// sheets tell.
pub(crate) fn processor_port(vendor: &str, family: u32, model: u32) -> Option<f64> {
    match (vendor, family, model) {
        // Nehalem, Westmere (their I/O hubs).
        ("GenuineIntel", 6, 26 | 29 | 30 | 37 | 44 | 46 | 47) => Some(5.0),
        // Sandy Bridge, Ivy Bridge, Haswell, Broadwell servers; Knights Landing; Skylake to Cooper Lake.
        ("GenuineIntel", 6, 45 | 62 | 63 | 79 | 86 | 87 | 85) => Some(8.0),
        // Ice Lake servers.
        ("GenuineIntel", 6, 106 | 108) => Some(16.0),
        // Sapphire and Emerald Rapids, Granite Rapids, Sierra Forest.
        ("GenuineIntel", 6, 143 | 207 | 173 | 174 | 175) => Some(32.0),
        // Family 10h and 15h servers (SR5690), Naples, Rome, Milan, Genoa and Bergamo, Turin.
        ("AuthenticAMD", 16 | 21, _) => Some(5.0),
        ("AuthenticAMD", 23, 1) => Some(8.0),
        ("AuthenticAMD", 23, 49) | ("AuthenticAMD", 25, 1) => Some(16.0),
        ("AuthenticAMD", 25, 17 | 160..=175) | ("AuthenticAMD", 26, 0..=31) => Some(32.0),
        _ => None,
    }
}

/// The highest speed of a bridge by its vendor: PLX was bought before it made a switch faster than 8 GT/s
/// (PEX 9700).
pub(crate) fn switch_port(vendor: u32) -> Option<f64> {
    (vendor == 0x10b5).then_some(8.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_forms() {
        assert_eq!(parse_set("0x00000303,0x03030000,,0x00000003").map(|set| set.len()), Some(10));
        assert_eq!(parse_set("0x00000001,,0x00000002"), Some(vec![1, 64]));
        assert_eq!(parse_set("00000000,000000ff,f0000000").map(|set| (set[0], set.len())), Some((28, 12)));
        assert_eq!(parse_set("0x0"), Some(vec![]));
        for text in ["", "0xf...f", "x", "123456789", &"0,".repeat(3000)] {
            assert_eq!(parse_set(text), None, "{text:.20}");
        }
    }

    #[test]
    fn known_by_the_rate_or_by_the_port() {
        let known = |gt_per_second, width| Fact::Known(PciLink { gt_per_second, width });
        assert_eq!(link(0.25, None), known(2.5, 1));
        assert_eq!(link(8.0, None), known(5.0, 16));
        assert_eq!(link(63.015385, Some(32.0)), known(32.0, 16));
        assert_eq!(link(15.753846, Some(8.0)), known(8.0, 16));
        assert_eq!(
            link(15.753846, None).why(),
            Some(
                "lstopo reports only its rate, 15.75 GB/s: 8 GT/s x16, 16 GT/s x8, 32 GT/s x4 or 64 GT/s x2"
            )
        );
        assert_eq!(
            link(4.0, None).why(),
            Some("lstopo reports only its rate, 4.00 GB/s: 2.5 GT/s x16 or 5 GT/s x8")
        );
        assert!(link(0.0, None).why().is_some_and(|why| why.contains("no link")));
        assert!(link(0.2, None).why().is_some_and(|why| why.contains("no PCIe link has")));
        assert_eq!(processor_port("GenuineIntel", 6, 85), Some(8.0));
    }

    proptest! {
        #[test]
        fn a_link_that_is_reported_has_the_rate(speed in 0usize..5, width in 0usize..5, most in 0usize..5) {
            let ((gt, code), width) = (SPEEDS[speed], WIDTHS[width]);
            let rate = gt * code * f64::from(width) / 8.0;
            if let Fact::Known(found) = link(rate, Some(SPEEDS[most].0)) {
                prop_assert!(found.gt_per_second <= SPEEDS[most].0);
                let (_, code) = SPEEDS.iter().find(|known| known.0 == found.gt_per_second).expect("a speed");
                prop_assert!((found.gt_per_second * code * f64::from(found.width) / 8.0 - rate).abs() < rate * 0.01);
            }
        }
    }
}
