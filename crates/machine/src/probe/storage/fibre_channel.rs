//! Fibre Channel hosts: `/sys/class/fc_host` (drivers/scsi/scsi_transport_fc.c).

use super::{link_rate, scsi_host::Host};
use crate::probe::machine::Controller;
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;

/// Fills in the state of the port and its link.
pub(super) fn read(sysroot: &Sysroot, host: &Host, mut controller: Controller) -> Controller {
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
}
