//! A host of the kernel's SCSI layer, whatever is behind it; and the two kinds that have little of their own:
//! Fibre Channel hosts, `/sys/class/fc_host` (drivers/scsi/scsi_transport_fc.c), and parallel SCSI, what each
//! target has agreed on with its host, `/sys/class/spi_transport` (drivers/scsi/scsi_transport_spi.c).

use super::{link_rate, numbered};
use crate::probe::machine::Controller;
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::{Sysroot, Unreadable};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

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
        _ => rate(text("speed"), link_rate::fibre_channel),
    };
    controller.link_max_bits_per_second = rate(text("supported_speeds"), link_rate::fastest_fibre_channel);
    controller.lanes = Fact::Known(1);
    controller.lanes_max = Fact::Known(1);
    controller
}

const TARGETS: &str = "/sys/class/spi_transport";

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
            link_rate::parallel(&text(period)?, &text(width)?)
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

#[cfg(test)]
mod tests {
    use crate::probe::machine::{Controller, ControllerKind};
    use crate::probe::probe;
    use linerate_facts::fact::Fact;
    use linerate_testing::Tree;

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
}
