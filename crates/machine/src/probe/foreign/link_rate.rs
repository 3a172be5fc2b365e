//! A PCIe link from its rate alone, which is all that lstopo reports: `15.753846` GB/s is 8 GT/s x16, 16 GT/s
//! x8, 32 GT/s x4 or 64 GT/s x2.
//!
//! hwloc multiplies speed, width and line code (8/10 to 5 GT/s, 128/130 above; `hwloc/pci-common.c`). The
//! product is taken apart where only one speed and width make it, or only one that the port above can do.

use crate::probe::PciLink;
use linerate_facts::fact::Fact;

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
