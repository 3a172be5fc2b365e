//! The rate of a network card by what it is called: `82599ES 10-Gigabit SFI/SFP+`, `XL710 for 40GbE QSFP+`,
//! `ConnectX-6 Dx EN adapter card, 100GbE`. A name without a rate gives none.

/// Rates that a port can have, in Mb/s: `82571GB` is not a rate.
const PORTS: [u64; 15] = [
    10, 100, 1_000, 2_500, 5_000, 10_000, 20_000, 25_000, 40_000, 50_000, 56_000, 100_000, 200_000, 400_000,
    800_000,
];
/// What is behind a number of Gb/s.
const GIGABITS: [&str; 9] = ["g", "gb", "gbe", "gbit", "gbps", "gbase", "gbaset", "gige", "gigabit"];
/// InfiniBand's generations at four lanes, data bits per second in Mb/s (InfiniBand architecture
/// specification, volume 1; QDR codes 8b/10b, FDR 64b/66b).
const INFINIBAND: [(&str, u64); 6] = [
    ("QDR", 32_000),
    ("FDR", 54_545),
    ("EDR", 100_000),
    ("HDR", 200_000),
    ("NDR", 400_000),
    ("XDR", 800_000),
];

/// Rates of this and more are of one kind of port each: a chip that has three and more of them is sold on several cards.
const LEAST_OF_FAMILY: u64 = 10_000;
const FAMILY: usize = 3;

/// What a name says of the rate of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamedRate {
    /// Bits per second.
    One(u64),
    /// A family of chips; which of them it is, the name does not say: from the slowest to the fastest.
    Family(u64, u64),
}

/// What a name says of the rate of a port, if anything.
pub(super) fn of_name(name: &str, infiniband: bool) -> Option<NamedRate> {
    let mut rates: Vec<u64> = name.split_whitespace().flat_map(listed).collect();
    rates.sort_unstable();
    rates.dedup();
    match rates.as_slice() {
        [slowest, .., fastest] if rates.len() >= FAMILY => {
            Some(NamedRate::Family(slowest * 1_000_000, fastest * 1_000_000))
        }
        _ => bits_per_second(name, infiniband).map(NamedRate::One),
    }
}

/// The rates of a word that lists several, in Mb/s: `10/25/40/50/100G`, `10Gb/25Gb/50Gb`.
fn listed(word: &str) -> Vec<u64> {
    let parts: Vec<(Option<f64>, String)> = word.split('/').map(number).collect();
    let in_gigabits = parts.last().is_some_and(|(_, unit)| GIGABITS.contains(&unit.as_str()));
    let rate = |(number, unit): &(Option<f64>, String)| {
        let of_unit = unit.is_empty() || GIGABITS.contains(&unit.as_str());
        port((*number)? * 1e3).filter(|rate| of_unit && *rate >= LEAST_OF_FAMILY)
    };
    if in_gigabits { parts.iter().filter_map(rate).collect() } else { Vec::new() }
}

/// Ports of the card that a name mentions: `Dual-port`, `2-port`, `Quad Port`.
pub(super) fn ports(name: &str) -> Option<u32> {
    let words = name.to_ascii_lowercase().replace(['-', ',', ';'], " ");
    let words: Vec<&str> = words.split_whitespace().collect();
    let at = words.iter().position(|word| matches!(*word, "port" | "ports"))?;
    match *words.get(at.checked_sub(1)?)? {
        "dual" | "two" | "2" => Some(2),
        "quad" | "four" | "4" => Some(4),
        "single" | "one" | "1" => Some(1),
        _ => None,
    }
}

/// The fastest rate of a port that a name mentions, bits per second.
fn bits_per_second(name: &str, infiniband: bool) -> Option<u64> {
    let words: Vec<&str> = name.split(|c: char| c.is_whitespace() || "[](),:;\"".contains(c)).collect();
    let parts: Vec<&str> =
        words.iter().flat_map(|word| word.split(['/', '-'])).filter(|part| !part.is_empty()).collect();
    let own = (0..parts.len()).filter_map(|at| part(&parts, at));
    let generations = INFINIBAND.iter().filter(|(word, _)| infiniband && parts.contains(word));
    let plain = words.iter().filter(|word| word.starts_with("10/100")).filter_map(|word| megabits(word));
    let fastest = own.chain(generations.map(|(_, rate)| *rate)).chain(plain).max();
    fastest.and_then(|rate| rate.checked_mul(1_000_000))
}

/// Mb/s of one part of a word, with the next where the unit is a word of its own.
fn part(parts: &[&str], at: usize) -> Option<u64> {
    let (number, unit) = number(parts[at]);
    let next = parts.get(at + 1).map(|next| next.to_ascii_lowercase()).unwrap_or_default();
    let before = at.checked_sub(1).map(|before| parts[before]).unwrap_or_default();
    match (number, unit.as_str()) {
        (Some(number), "") if GIGABITS.contains(&next.as_str()) => port(number * 1e3),
        (Some(number), unit) if GIGABITS.contains(&unit) => port(number * 1e3),
        (Some(number), "base" | "baset" | "basetx") => port(number),
        (None, "gigabit" | "gbe")
            if before.parse::<f64>().is_err() && !before.eq_ignore_ascii_case("multi") =>
        {
            Some(1_000)
        }
        (None, "fast") if next == "ethernet" => Some(100),
        _ => None,
    }
}

/// `10/100/1000BASE-T`: Mb/s without a unit.
fn megabits(word: &str) -> Option<u64> {
    word.split('/').filter_map(|part| port(number(part).0?)).max()
}

/// The number that a part begins with, and the letters behind it.
fn number(part: &str) -> (Option<f64>, String) {
    let end = part.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(part.len());
    (part[..end].parse().ok(), part[end..].to_ascii_lowercase())
}

fn port(megabits: f64) -> Option<u64> {
    PORTS.into_iter().find(|rate| *rate as f64 == megabits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_real_cards() {
        let rates = [
            ("Intel Corporation 82598EB 10-Gigabit AF Network Connection", Some(10.0)),
            ("Intel Corporation 82599ES 10-Gigabit SFI/SFP+ Network Connection", Some(10.0)),
            ("Intel Corporation Ethernet Controller XL710 for 40GbE QSFP+", Some(40.0)),
            ("Intel Corporation Ethernet Controller 10G X550T", Some(10.0)),
            ("Intel Corporation Ethernet Connection X552/X557-AT 10GBASE-T", Some(10.0)),
            ("Intel Corporation 82571EB/82571GB Gigabit Ethernet Controller", Some(1.0)),
            ("Mellanox Technologies ConnectX-6 Dx EN adapter card, 100GbE, Dual-port QSFP56", Some(100.0)),
            ("MT26428 [ConnectX VPI PCIe 2.0 5GT/s - IB QDR / 10GigE]", Some(10.0)),
            ("Broadcom Inc. BCM57414 NetXtreme-E 10Gb/25Gb RDMA Ethernet Controller", Some(25.0)),
            ("Broadcom Corporation NetXtreme BCM5720 2-port Gigabit Ethernet PCIe", Some(1.0)),
            ("Broadcom Corporation NetXtreme II BCM57810 10 Gigabit Ethernet", Some(10.0)),
            ("Realtek Semiconductor Co., Ltd. RTL8125 2.5GbE Controller", Some(2.5)),
            ("Realtek RTL-8100/8101L/8139 PCI Fast Ethernet Adapter", Some(0.1)),
            ("RTL8101/2/6E PCI Express 10/100 Ethernet", Some(0.1)),
            ("Solarflare SFC9220 10/40G Ethernet Controller", Some(40.0)),
            ("Mellanox Technologies MT2892 Family [ConnectX-6 Dx]", None),
            ("Intel Corporation Ethernet Controller E810-C for QSFP", None),
            ("Red Hat, Inc. Virtio network device", None),
            ("Amazon.com, Inc. Elastic Network Adapter (ENA)", None),
            ("Broadcom Inc. NetXtreme 5719 1.5Gb/s and 3GB cache", None),
            ("", None),
        ];
        for (name, gigabits) in rates {
            let bits = gigabits.map(|gigabits: f64| (gigabits * 1e9) as u64);
            assert_eq!(bits_per_second(name, false), bits, "{name}");
        }
    }

    #[test]
    fn a_name_with_three_rates_and_more_is_of_a_family() {
        let giga = 1_000_000_000;
        let family = |name: &str| of_name(name, false);
        let solarflare = "AMD Solarflare XtremeScale SFC9250 10/25/40/50/100G Ethernet Controller";
        assert_eq!(family(solarflare), Some(NamedRate::Family(10 * giga, 100 * giga)));
        let broadcom = "BCM57508 NetXtreme-E 10Gb/25Gb/40Gb/50Gb/100Gb/200Gb Ethernet";
        assert_eq!(family(broadcom), Some(NamedRate::Family(10 * giga, 200 * giga)));
        assert_eq!(family("Broadcom BCM57414 10Gb/25Gb"), Some(NamedRate::One(25 * giga)));
        assert_eq!(family("NetXtreme 10/100/1000BASE-T"), Some(NamedRate::One(giga)));
        assert_eq!(family("Intel Corporation Ethernet Controller E810-C for QSFP"), None);
    }

    #[test]
    fn ports_of_a_card() {
        assert_eq!(ports("ConnectX-6 Dx EN adapter card, 100GbE, Dual-port QSFP56"), Some(2));
        assert_eq!(ports("Ethernet 10Gb/40Gb 2-port 544+FLR"), Some(2));
        assert_eq!(ports("PRO/1000 PT Quad Port Server Adapter"), Some(4));
        assert_eq!((ports("5520 I/O Hub to ESI Port"), ports("Port"), ports("")), (None, None, None));
    }

    #[test]
    fn infiniband_by_its_generation() {
        let name = "MT26428 [ConnectX VPI PCIe 2.0 5GT/s - IB QDR / 10GigE]";
        assert_eq!(bits_per_second(name, true), Some(32_000_000_000));
        assert_eq!(bits_per_second("ConnectX-6 VPI adapter, HDR", true), Some(200_000_000_000));
        assert_eq!(bits_per_second("ConnectX-6 VPI adapter, HDR", false), None);
    }

    proptest! {
        #[test]
        fn no_name_makes_a_panic(name in "\\PC{0,60}") {
            let _ = (of_name(&name, true), ports(&name));
        }
    }
}
