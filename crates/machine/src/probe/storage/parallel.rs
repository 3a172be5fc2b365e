//! Parallel SCSI: what each target has agreed on with its host (`/sys/class/spi_transport`,
//! drivers/scsi/scsi_transport_spi.c).

use super::link_rate;
use crate::probe::machine::Controller;
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use std::collections::BTreeMap;

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
pub(super) fn read(sysroot: &Sysroot, targets: &[String], mut controller: Controller) -> Controller {
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
    use crate::probe::machine::ControllerKind;
    use crate::probe::probe;
    use linerate_facts::fact::Fact;
    use linerate_testing::Tree;

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
