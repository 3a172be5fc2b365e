//! A host of the kernel's SCSI layer, whatever is behind it; and the two kinds that have little of their own:
//! Fibre Channel hosts, `/sys/class/fc_host` (drivers/scsi/scsi_transport_fc.c), and parallel SCSI, what each
//! target has agreed on with its host, `/sys/class/spi_transport` (drivers/scsi/scsi_transport_spi.c).
//!
//! The speed of its links, as that of SATA and SAS, is reported in words, which are line rates in bits per second: what
//! is on the wire, before 8b/10b and its successors.

use super::numbered;
use crate::probe::machine::Controller;
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::{Sysroot, Unreadable};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const TARGETS: &str = "/sys/class/spi_transport";

/// One SCSI host.
pub(super) struct Host {
    /// `host2`.
    pub(super) name: String,
    /// The device's real directory, `/sys/devices/…/host2`.
    pub(super) directory: PathBuf,
}

impl Host {
    /// Directory of the ATA port that this host stands for.
    pub(super) fn ata_port(&self) -> Option<&Path> {
        self.directory.parent().filter(|parent| numbered(parent, "ata").is_some())
    }

    /// An attribute of one of the host's classes. Recorded trees may have only one of the two ways there.
    pub(super) fn text(&self, sysroot: &Sysroot, class: &str, file: &str) -> Result<String, Unreadable> {
        let inside = || sysroot.text(self.directory.join(class).join(&self.name).join(file));
        sysroot
            .text(format!("/sys/class/{class}/{}/{file}", self.name))
            .or_else(|why| inside().map_err(|_| why))
    }
}

/// Fills in the state of the port and its link.
pub(super) fn fibre_channel(sysroot: &Sysroot, host: &Host, mut controller: Controller) -> Controller {
    let text = |file: &str| {
        Fact::from_option(host.text(sysroot, "fc_host", file).ok(), "the driver does not report its speed")
    };
    // `host3/vport-3:0-0/host5` is a second port over the wire of the first (NPIV): its rate would count
    // twice.
    if host.directory.components().any(|part| part.as_os_str().to_string_lossy().starts_with("vport-")) {
        let why = "a virtual port (NPIV) shares the link of its physical one";
        controller.link_bits_per_second = Fact::unknown(why);
        controller.link_max_bits_per_second = Fact::unknown(why);
        controller.lanes = Fact::unknown(why);
        controller.lanes_max = Fact::unknown(why);
        return controller;
    }
    let rate = |text: Fact<String>, parse: fn(&str) -> Option<u64>| {
        text.and_then(|text| Fact::from_option(parse(&text), "the link has no speed now"))
    };
    if let Ok(state) = host.text(sysroot, "fc_host", "port_state") {
        controller.state = Fact::Known(state);
    }
    controller.link_bits_per_second = match controller.state.known().map(String::as_str) {
        Some(
            down @ ("Linkdown" | "Offline" | "Error" | "Bypassed" | "Deleted" | "Not Present" | "Blocked"),
        ) => Fact::unknown(format!("the port is {down}")),
        _ => rate(text("speed"), fibre_channel_rate),
    };
    controller.link_max_bits_per_second = rate(text("supported_speeds"), fastest_fibre_channel_rate);
    controller.lanes = Fact::Known(1);
    controller.lanes_max = Fact::Known(1);
    controller
}

/// The targets of each host: `target0:1:2` is one of `host0`.
pub(super) fn targets(sysroot: &Sysroot) -> BTreeMap<String, Vec<String>> {
    let mut targets: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for target in sysroot.list(TARGETS) {
        if let Some((host, _)) = target.strip_prefix("target").and_then(|address| address.split_once(':')) {
            targets.entry(format!("host{host}")).or_default().push(target);
        }
    }
    targets
}

/// Fills in the rate of the bus, which all its targets share: that of the fastest, and of the fastest that
/// could be.
pub(super) fn parallel(sysroot: &Sysroot, targets: &[String], mut controller: Controller) -> Controller {
    let fastest = |period: &str, width: &str| {
        let rate = |target: &String| {
            let text = |file: &str| sysroot.text(format!("{TARGETS}/{target}/{file}")).ok();
            parallel_rate(&text(period)?, &text(width)?)
        };
        let why = "no target of this bus has agreed on a synchronous transfer";
        Fact::from_option(targets.iter().filter_map(rate).max(), why)
    };
    controller.link_bits_per_second = fastest("period", "width");
    controller.link_max_bits_per_second = fastest("min_period", "max_width");
    let why = "a parallel bus has no lanes";
    controller.lanes = Fact::unknown(why);
    controller.lanes_max = Fact::unknown(why);
    controller
}

/// `6.0 Gbps` (libata) and `12.0 Gbit` (SAS transport). `<unknown>`, `Phy disabled`, `Spin-up hold` and the
/// like are not rates.
pub(super) fn serial_rate(text: &str) -> Option<u64> {
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
fn fibre_channel_rate(text: &str) -> Option<u64> {
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
fn fastest_fibre_channel_rate(list: &str) -> Option<u64> {
    list.split(',').filter_map(fibre_channel_rate).max()
}

/// SATA generations of a drive from its IDENTIFY data as libata prints it (words of four hexadecimal digits):
/// word 76 has a bit for each of 1.5, 3 and 6 Gb/s; 0 and all ones mean that it reports nothing (ACS-3,
/// 7.12.7.31).
pub(super) fn identified_rate(text: &str) -> Fact<u64> {
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
fn parallel_rate(period_ns: &str, wide: &str) -> Option<u64> {
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
    use crate::probe::machine::{Controller, ControllerKind};
    use crate::probe::probe;
    use linerate_facts::fact::Fact;
    use linerate_testing::Tree;
    use proptest::prelude::*;

    fn host(state: &str, above: &str) -> Controller {
        let place = format!("sys/devices/pci0000:00/0000:05:00.0/{above}host3");
        let mut tree = Tree::new(&[
            (&format!("{place}/scsi_host/host3/proc_name"), "lpfc\n"),
            (&format!("{place}/fc_host/host3/speed"), "16 Gbit\n"),
            (&format!("{place}/fc_host/host3/supported_speeds"), "8 Gbit, 16 Gbit, 32 Gbit\n"),
            (&format!("{place}/fc_host/host3/port_state"), state),
            (&format!("{place}/rport-3:0-2/target3:0:1/3:0:1:0/block/sdc/size"), "8"),
        ]);
        for class in ["scsi_host", "fc_host"] {
            tree.link(&format!("sys/class/{class}/host3"), &format!("../../../{place}/{class}/host3"));
        }
        tree.link("sys/block/sdc", &format!("../../{place}/rport-3:0-2/target3:0:1/3:0:1:0/block/sdc"));
        probe(&tree.sysroot()).controllers.into_iter().next().expect("a host")
    }

    #[test]
    fn a_port_at_16_of_32() {
        let host = host("Online\n", "");
        assert_eq!((host.name.as_str(), host.kind), ("host3", ControllerKind::FibreChannel));
        assert_eq!(host.transport, Fact::Known("fc".into()));
        assert_eq!(host.link_bits_per_second, Fact::Known(14_025_000_000));
        assert_eq!(host.link_max_bits_per_second, Fact::Known(28_050_000_000));
        assert_eq!((host.pci.as_deref(), host.disks), (Some("0000:05:00.0"), vec!["sdc".to_string()]));
    }

    #[test]
    fn a_port_that_is_down_and_a_virtual_one_have_no_rate() {
        let down = host("Linkdown\n", "");
        assert_eq!(down.link_bits_per_second.why(), Some("the port is Linkdown"));
        assert_eq!(down.link_max_bits_per_second, Fact::Known(28_050_000_000));
        let shared = host("Online\n", "host2/vport-2:0-0/");
        assert!(shared.link_bits_per_second.why().is_some_and(|why| why.contains("NPIV")));
    }

    #[test]
    fn a_bus_runs_at_the_rate_of_its_fastest_target() {
        let place = "sys/devices/pci0000:00/0000:02:01.0/host0";
        let mut tree = Tree::new(&[(&format!("{place}/scsi_host/host0/proc_name"), "aic79xx\n")]);
        for (target, period) in
            [("target0:0:0", "12.5\n"), ("target0:0:1", "6.25\n"), ("target1:0:0", "3.0\n")]
        {
            for (file, text) in
                [("period", period), ("min_period", "6.25\n"), ("width", "1\n"), ("max_width", "1\n")]
            {
                tree.put(&format!("sys/class/spi_transport/{target}/{file}"), text);
            }
        }
        tree.link("sys/class/scsi_host/host0", &format!("../../../{place}/scsi_host/host0"));
        tree.link("sys/class/spi_host/host0", &format!("../../../{place}/spi_host/host0"));
        let machine = probe(&tree.sysroot());
        let bus = &machine.controllers[0];
        assert_eq!(
            (bus.kind, bus.transport.known().map(String::as_str)),
            (ControllerKind::Scsi, Some("spi"))
        );
        assert_eq!(bus.link_bits_per_second, Fact::Known(2_560_000_000), "Ultra320");
        assert_eq!(bus.link_max_bits_per_second, Fact::Known(2_560_000_000));
    }

    #[test]
    fn the_words_of_the_kernel() {
        assert_eq!(serial_rate("6.0 Gbps"), Some(6_000_000_000));
        assert_eq!(serial_rate("22.5 Gbit\n"), Some(22_500_000_000));
        for none in
            ["<unknown>", "Unknown", "Phy disabled", "Link Rate failed", "Spin-up hold", "", "6.0", "7 Gbit"]
        {
            assert_eq!(serial_rate(none), None, "{none}");
        }
        assert_eq!(fibre_channel_rate("16 Gbit"), Some(14_025_000_000));
        assert_eq!(fibre_channel_rate("unknown"), None);
        assert_eq!(fibre_channel_rate("Not Negotiated"), None);
        assert_eq!(fastest_fibre_channel_rate("4 Gbit, 8 Gbit, 16 Gbit"), Some(14_025_000_000));
        // Names do not sort as their lines do.
        assert_eq!(fastest_fibre_channel_rate("16 Gbit, 32 Gbit, 8 Gbit"), Some(28_050_000_000));
    }

    #[test]
    fn parallel_scsi() {
        assert_eq!(parallel_rate("6.25", "1"), Some(2_560_000_000), "Ultra320: 320 MB/s");
        assert_eq!(parallel_rate("12.5", "1"), Some(1_280_000_000), "Ultra160");
        assert_eq!(parallel_rate("100", "0"), Some(80_000_000), "Fast SCSI: 10 MB/s");
        assert_eq!(parallel_rate("0", "1"), None);
        assert_eq!(parallel_rate("NaN", "1"), None);
    }

    #[test]
    fn the_generation_of_a_sata_drive() {
        let words = |word76: &str| {
            let mut words = vec!["0000"; 256];
            words[76] = word76;
            words.join(" ")
        };
        assert_eq!(identified_rate(&words("850e")), Fact::Known(6_000_000_000));
        assert_eq!(identified_rate(&words("0006")), Fact::Known(3_000_000_000));
        assert_eq!(identified_rate(&words("0002")), Fact::Known(1_500_000_000));
        for nothing in [words("0000"), words("ffff"), words("zzzz"), String::new()] {
            assert!(identified_rate(&nothing).why().is_some());
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_rate_or_none(text in ".{0,40}", wide in "[01]|.{0,3}") {
            let _ = (serial_rate(&text), fibre_channel_rate(&text), fastest_fibre_channel_rate(&text), identified_rate(&text));
            prop_assert!(parallel_rate(&text, &wide).is_none_or(|rate| rate <= 16_000_000_000));
        }

        #[test]
        fn any_number_is_a_parallel_rate_or_none(period: f64, wide in "[01]") {
            prop_assert!(parallel_rate(&period.to_string(), &wide).is_none_or(|rate| rate > 0));
        }
    }
}
