//! The words in which the kernel reports the speed of a storage link, as line rates in bits per second: what
//! is on the wire, before 8b/10b and its successors.

use linerate_facts::fact::Fact;

/// `6.0 Gbps` (libata) and `12.0 Gbit` (SAS transport). `<unknown>`, `Phy disabled`, `Spin-up hold` and the
/// like are not rates.
pub(super) fn serial(text: &str) -> Option<u64> {
    let mut words = text.split_ascii_whitespace();
    let number = words.next()?;
    matches!((words.next(), words.next()), (Some("Gbps" | "Gbit"), None)).then_some(())?;
    match number {
        "1.5" => Some(1_500_000_000),
        "3.0" => Some(3_000_000_000),
        "6.0" => Some(6_000_000_000),
        "12.0" => Some(12_000_000_000),
        "22.5" => Some(22_500_000_000),
        _ => None,
    }
}

/// One speed of a Fibre Channel host, `16 Gbit` (drivers/scsi/scsi_transport_fc.c, `fc_port_speed_names`):
/// the name is rounded, the line runs at that of FC-PI. Speeds that only Ethernet has (and 10, which as Fibre
/// Channel joined switches only) are FCoE: there the name is the rate.
pub(super) fn fibre_channel(text: &str) -> Option<u64> {
    match text.trim().strip_suffix("Gbit")?.trim() {
        "1" => Some(1_062_500_000),
        "2" => Some(2_125_000_000),
        "4" => Some(4_250_000_000),
        "8" => Some(8_500_000_000),
        "16" => Some(14_025_000_000),
        "32" => Some(28_050_000_000),
        // PAM4: two bits a baud.
        "64" => Some(57_800_000_000),
        "128" => Some(112_200_000_000),
        "256" => Some(224_400_000_000),
        "10" => Some(10_000_000_000),
        "20" => Some(20_000_000_000),
        "25" => Some(25_000_000_000),
        "40" => Some(40_000_000_000),
        "50" => Some(50_000_000_000),
        "100" => Some(100_000_000_000),
        _ => None,
    }
}

/// The fastest of `4 Gbit, 8 Gbit, 16 Gbit`.
pub(super) fn fastest_fibre_channel(list: &str) -> Option<u64> {
    list.split(',').filter_map(fibre_channel).max()
}

/// SATA generations of a drive from its IDENTIFY data as libata prints it (words of four hexadecimal digits):
/// word 76 has a bit for each of 1.5, 3 and 6 Gb/s; 0 and all ones mean that it reports nothing (ACS-3,
/// 7.12.7.31).
pub(super) fn identify(text: &str) -> Fact<u64> {
    let word = text.split_ascii_whitespace().nth(76).and_then(|word| u16::from_str_radix(word, 16).ok());
    match word {
        Some(0 | u16::MAX) => Fact::unknown("the drive reports no SATA generation"),
        Some(word) if word & 1 << 3 != 0 => Fact::Known(6_000_000_000),
        Some(word) if word & 1 << 2 != 0 => Fact::Known(3_000_000_000),
        Some(word) if word & 1 << 1 != 0 => Fact::Known(1_500_000_000),
        _ => Fact::unknown("the drive's IDENTIFY data has no SATA generation"),
    }
}

/// Rate of a parallel SCSI target: nanoseconds a transfer (`6.25`: already halved where both edges of the
/// clock count), and whether 16 bits cross at once.
pub(super) fn parallel(period_ns: &str, wide: &str) -> Option<u64> {
    let period: f64 = period_ns.split_ascii_whitespace().next()?.parse().ok()?;
    let bits = match wide.trim() {
        "0" => 8.0,
        "1" => 16.0,
        _ => return None,
    };
    // 6.25 ns is the fastest there ever was (Ultra320), some 1 µs the slowest.
    (1.0..=10_000.0).contains(&period).then(|| (bits * 1e9 / period) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_words_of_the_kernel() {
        assert_eq!(serial("6.0 Gbps"), Some(6_000_000_000));
        assert_eq!(serial("22.5 Gbit\n"), Some(22_500_000_000));
        for none in
            ["<unknown>", "Unknown", "Phy disabled", "Link Rate failed", "Spin-up hold", "", "6.0", "7 Gbit"]
        {
            assert_eq!(serial(none), None, "{none}");
        }
        assert_eq!(fibre_channel("16 Gbit"), Some(14_025_000_000));
        assert_eq!(fibre_channel("unknown"), None);
        assert_eq!(fibre_channel("Not Negotiated"), None);
        assert_eq!(fastest_fibre_channel("4 Gbit, 8 Gbit, 16 Gbit"), Some(14_025_000_000));
        // Names do not sort as their lines do.
        assert_eq!(fastest_fibre_channel("16 Gbit, 32 Gbit, 8 Gbit"), Some(28_050_000_000));
    }

    #[test]
    fn parallel_scsi() {
        assert_eq!(parallel("6.25", "1"), Some(2_560_000_000), "Ultra320: 320 MB/s");
        assert_eq!(parallel("12.5", "1"), Some(1_280_000_000), "Ultra160");
        assert_eq!(parallel("100", "0"), Some(80_000_000), "Fast SCSI: 10 MB/s");
        assert_eq!(parallel("0", "1"), None);
        assert_eq!(parallel("NaN", "1"), None);
    }

    #[test]
    fn the_generation_of_a_sata_drive() {
        let words = |word76: &str| {
            let mut words = vec!["0000"; 256];
            words[76] = word76;
            words.join(" ")
        };
        assert_eq!(identify(&words("850e")), Fact::Known(6_000_000_000));
        assert_eq!(identify(&words("0006")), Fact::Known(3_000_000_000));
        assert_eq!(identify(&words("0002")), Fact::Known(1_500_000_000));
        for nothing in [words("0000"), words("ffff"), words("zzzz"), String::new()] {
            assert!(identify(&nothing).why().is_some());
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_rate_or_none(text in ".{0,40}", wide in "[01]|.{0,3}") {
            let _ = (serial(&text), fibre_channel(&text), fastest_fibre_channel(&text), identify(&text));
            prop_assert!(parallel(&text, &wide).is_none_or(|rate| rate <= 16_000_000_000));
        }

        #[test]
        fn any_number_is_a_parallel_rate_or_none(period: f64, wide in "[01]") {
            prop_assert!(parallel(&period.to_string(), &wide).is_none_or(|rate| rate > 0));
        }
    }
}
