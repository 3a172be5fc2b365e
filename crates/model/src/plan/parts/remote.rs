//! Disks of another host: their bytes come in through a port (NVMe over TCP or RDMA, iSCSI), which carries them beside
//! what it sends, and cross its card's links.

use super::{ByteDevice, Joint, JointKind, MachineParts, PartPlace};
use crate::plan::Resource;
use crate::plan::flow::{Method, device_figure};
use linerate_facts::protocol::Protocol;
use linerate_machine::probe::{Controller, Disk, Machine, Nic, network_contains};
use linerate_machine::rates::pcie::PayloadDirection;
use std::net::IpAddr;

/// The port that remote disks come in through.
#[derive(Clone, Debug, PartialEq)]
pub struct RemotePort {
    /// As it was when the disks were put behind it; the machine's own of that name counts where there is one.
    pub port: ByteDevice,
    /// The NIC packs and places the bytes; else TCP does, and the kernel copies them.
    pub rdma: bool,
}

impl RemotePort {
    /// What its disks are plugged into: a joint on the port's card.
    pub(in crate::plan) fn joint(self) -> Joint {
        let name = format!("{}/remote", self.port.name);
        let up = self.port.place.clone();
        let words = if self.rdma { "remote disks over RDMA" } else { "remote disks over TCP" };
        let mut joint = Joint::new(name, JointKind::Port, up);
        joint.words = words.into();
        joint.remote = Some(self);
        joint
    }

    /// Payload that it carries in one direction. What both ends of NVMe/TCP put around each block (a header of 24
    /// bytes before 128 KiB and more) is not taken off.
    pub(super) fn figure(
        &self,
        parts: &MachineParts,
        direction: PayloadDirection,
        joint: &Joint,
    ) -> Resource {
        let port = parts.devices.iter().find(|device| device.id() == self.port.id()).unwrap_or(&self.port);
        let method = if self.rdma { Method::Rdma } else { Method::Direct };
        let figure = device_figure(port, direction, Protocol::Tcp, method);
        let why = match &figure.why {
            Some(why) if !why.is_empty() => format!("{}; {why}", joint.words),
            _ => joint.words.clone(),
        };
        Resource { id: format!("nic:{}", joint.name), why: Some(why), ..figure }
    }
}

impl MachineParts {
    /// TCP of this host receives what a device behind this place reads, and copies it.
    pub(in crate::plan) fn is_received_by_tcp(&self, place: &PartPlace) -> bool {
        let is_tcp = |joint: &&Joint| joint.remote.as_ref().is_some_and(|remote| !remote.rdma);
        self.above(place).iter().any(is_tcp)
    }
}

/// The interface that a disk's bytes come in through, and whether RDMA carries them; none where the disk is this
/// host's own, where it comes over several interfaces (multipath), or where that is not known.
pub(super) fn port_of<'a>(machine: &'a Machine, disk: &Disk) -> Option<(&'a Nic, bool)> {
    let transport = |one: &Controller| match one.transport.known()?.as_str() {
        "tcp" => Some(false),
        "rdma" => Some(true),
        _ => None,
    };
    let mut found: Option<(&Nic, bool)> = None;
    for controller in controllers_of(machine, disk) {
        let rdma = transport(controller)?;
        let nic = interface(machine, controller.address.known()?)?;
        if found.is_some_and(|(other, _)| other.name != nic.name) {
            return None;
        }
        found = Some((nic, rdma));
    }
    found
}

/// TCP of this host receives what a disk reads, over whatever interfaces, and copies it.
pub(in crate::plan) fn is_received_by_tcp(machine: &Machine, disk: &Disk) -> bool {
    controllers_of(machine, disk).any(|one| one.transport.known().is_some_and(|transport| transport == "tcp"))
}

fn controllers_of<'a>(machine: &'a Machine, disk: &'a Disk) -> impl Iterator<Item = &'a Controller> {
    let is_behind =
        |one: &&Controller| disk.controller.as_deref() == Some(&one.name) || one.disks.contains(&disk.name);
    machine.controllers.iter().filter(is_behind)
}

/// Of an NVMe controller's address (`traddr=192.0.2.7,trsvcid=4420,src_addr=192.0.2.1`): the interface with the
/// address that it connects from, as Linux reports since 6.1, else the one whose network the target is in.
fn interface<'a>(machine: &'a Machine, address: &str) -> Option<&'a Nic> {
    let named = |key: &str| -> Option<IpAddr> {
        let word = address.split(',').find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        word?.parse().ok()
    };
    let nics = || machine.nics.iter().filter(|nic| !nic.loopback);
    let own = named("src_addr").or_else(|| named("host_traddr"));
    let from = own.and_then(|own| nics().find(|nic| nic.addresses.iter().any(|(one, _)| *one == own)));
    from.or_else(|| {
        let target = named("traddr")?;
        let reaches = |(own, prefix): &(IpAddr, u8)| network_contains(*own, *prefix, target);
        nics().find(|nic| nic.addresses.iter().any(reaches))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::flow::{Flow, FlowEnd, FlowPlan, Method, ends, plan_flow};
    use crate::plan::machine_file;
    use crate::plan::parts::ProbedParts;
    use linerate_facts::fact::Fact;

    const SERVER: &str = "[processor]\ncores = 64\n[memory]\nrate = \"200GB/s\"\n\
        [[nic]]\nname = \"out\"\npcie = \"4.0 x16\"\nrate = \"100G\"\nmtu = 9000\n\
        [[nic]]\nname = \"in\"\npcie = \"3.0 x8\"\nrate = \"50G\"\nmtu = 9000\n\
        [[disk]]\nname = \"remote\"\ncount = 4\non = \"in\"\nread = \"3GB/s\"\n";

    fn planned(text: &str, to: Option<&str>) -> FlowPlan {
        let parts = machine_file::parse(text).expect("a machine");
        let from = ends(&parts, "disk").expect("disks");
        let to = to.map_or_else(|| vec![FlowEnd::Memory], |to| ends(&parts, to).expect("a NIC"));
        let (protocol, method) = (Protocol::Tcp, Method::Direct);
        plan_flow(&parts, &Flow { from, to, volumes: Vec::new(), protocol, method })
    }

    fn likely(plan: &FlowPlan) -> f64 {
        *plan.likely.bytes_per_second.known().expect("a rate")
    }

    #[test]
    fn remote_disks_share_the_port_that_they_come_in_through() {
        let plan = planned(SERVER, Some("nic:out"));
        assert_eq!(plan.likely.cut, ["nic:in/remote"], "{}", plan.sentence);
        assert!((likely(&plan) * 8.0 / 1e9 - 49.5).abs() < 0.2, "{}", likely(&plan) * 8.0 / 1e9);
        assert!(plan.flow.contains("6 memory crossings"), "in, two copies, out: {}", plan.flow);
        let cpu = plan.resources.iter().find(|resource| resource.id == "cpu").expect("the CPU");
        assert!(cpu.why.as_deref().is_some_and(|why| why.contains("0.38 CPU seconds")), "{:?}", cpu.why);
        // Its card's link carries them to memory.
        assert!(plan.resources.iter().any(|resource| resource.id == "pcie:in"));
        let one = planned(&SERVER.replace("count = 4", "count = 1"), Some("nic:out"));
        assert_eq!(one.likely.cut, ["disk:remote0"]);
    }

    #[test]
    fn a_port_sends_and_takes_in_remote_disks_at_the_same_time() {
        let plan = planned(SERVER, Some("nic:in"));
        assert!((likely(&plan) * 8.0 / 1e9 - 49.5).abs() < 0.2, "{}", likely(&plan) * 8.0 / 1e9);
        let ids: Vec<&str> = plan.resources.iter().map(|resource| resource.id.as_str()).collect();
        assert!(ids.contains(&"nic:in/remote") && ids.contains(&"nic:in"), "{ids:?}");
    }

    #[test]
    fn rdma_places_them_without_a_copy() {
        let rdma = SERVER.replace("on = \"in\"", "on = \"in\"\ntransport = \"rdma\"");
        let plan = planned(&rdma, Some("nic:out"));
        assert!(plan.flow.contains("4 memory crossings"), "{}", plan.flow);
        assert!(planned(&rdma, None).flow.contains("1 memory crossings"));
    }

    #[test]
    fn a_remote_disk_needs_a_nic_and_has_no_link_of_its_own() {
        let wrong =
            |from: &str, to: &str| machine_file::parse(&SERVER.replace(from, to)).expect_err("wrong").message;
        let link = wrong("on = \"in\"", "on = \"in\"\npcie = \"3.0 x4\"");
        assert!(link.contains("in is a NIC") && link.contains("leave pcie out"), "{link}");
        let local = wrong("on = \"in\"", "on = \"node0\"\ntransport = \"tcp\"");
        assert!(local.contains("is of remote disks"), "{local}");
        let other = wrong("on = \"in\"", "on = \"in\"\ntransport = \"pigeon\"");
        assert!(other.contains("tcp") && other.contains("rdma"), "{other}");
    }

    fn probed(address: &str) -> Machine {
        let nic = |name: &str, own: &str| Nic {
            name: name.into(),
            addresses: vec![(own.parse().expect("an address"), 24)],
            speed_bits_per_second: Fact::Known(25_000_000_000),
            ..Nic::default()
        };
        let controller = Controller {
            name: "nvme0".into(),
            transport: Fact::Known("tcp".into()),
            address: Fact::Known(address.into()),
            disks: vec!["nvme0n1".into()],
            ..Controller::default()
        };
        let disk = Disk { name: "nvme0n1".into(), ..Disk::default() };
        Machine {
            nics: vec![nic("eth0", "192.0.2.1"), nic("eth1", "198.51.100.1")],
            controllers: vec![controller],
            disks: vec![disk],
            ..Machine::default()
        }
    }

    #[test]
    fn a_probed_disk_of_another_host_hangs_from_the_interface_to_it() {
        let of = |machine: &Machine| port_of(machine, &machine.disks[0]).map(|(nic, _)| nic.name.clone());
        assert_eq!(of(&probed("traddr=192.0.2.7,trsvcid=4420")).as_deref(), Some("eth0"));
        let from = "traddr=203.0.113.9,trsvcid=4420,src_addr=198.51.100.1";
        assert_eq!(of(&probed(from)).as_deref(), Some("eth1"));
        // A target behind a router, and one that comes over both.
        assert_eq!(of(&probed("traddr=203.0.113.9,trsvcid=4420")), None);
        let mut both = probed("traddr=192.0.2.7,trsvcid=4420");
        let address = Fact::Known("traddr=198.51.100.7,trsvcid=4420".into());
        let second = Controller { name: "nvme1".into(), address, ..both.controllers[0].clone() };
        both.controllers.push(second);
        assert_eq!(of(&both), None);
        assert!(is_received_by_tcp(&both, &both.disks[0]), "over whichever interface");
        let mut local = probed("0000:01:00.0");
        local.controllers[0].transport = Fact::Known("pcie".into());
        assert_eq!(of(&local), None);
        assert!(!is_received_by_tcp(&local, &local.disks[0]));
        let mut parts = ProbedParts::new(&both);
        let machine = probed("traddr=192.0.2.7,trsvcid=4420");
        let mut one = ProbedParts::new(&machine);
        for (parts, machine) in [(&mut parts, &both), (&mut one, &machine)] {
            parts.disk("nvme0n1".into(), Some(&machine.disks[0]), &machine.disks[0].node);
        }
        assert!(parts.done().joint("eth0/remote").is_none());
        assert!(one.done().joint("eth0/remote").is_some());
    }

    #[test]
    fn disks_are_dealt_over_the_ports_of_a_card() {
        let two = SERVER.replace("rate = \"50G\"", "rate = \"25G\"\nports = 2");
        let plan = planned(&two, Some("nic:out"));
        let mut cut = plan.likely.cut.clone();
        cut.sort();
        assert_eq!(cut, ["nic:inp0/remote", "nic:inp1/remote"]);
    }
}
