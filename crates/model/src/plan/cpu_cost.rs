//! What a gigabyte costs the CPU where nobody has measured it: one default for `plan` and `wall plan`, labelled as
//! such wherever it is shown. The ceiling leaves it out: a rule of thumb does not limit a machine.

use super::flow::figures::{USUAL_MTU, receives_disks};
use super::flow::product::{Flow, Method};
use super::parts::MachineParts;
use super::product::{Origin, Resource, ResourceKind};
use linerate_facts::fact::Fact;
use linerate_facts::protocol::Protocol;
use linerate_facts::wording;
use linerate_machine::rates::ethernet::{Stack, payload_bytes};
use linerate_machine::rates::published::{self, CpuCost};

/// UDP: this program's own way from disk to NIC, what does not depend on the datagrams, and each datagram's part.
/// 0.36 at an MTU of 1500 and 0.17 at one of 9000 are the ceilings that it is held to.
const UDP_SECONDS_PER_GB: f64 = 0.133;
const UDP_SECONDS_PER_DATAGRAM: f64 = 0.33e-6;
const UDP_SOURCE: &str = "what linerate is held to, 0.36 at an MTU of 1500 and 0.17 at 9000";
/// That of the published figures of UDP.
const JUMBO_MTU: u32 = 9000;

/// CPU seconds per GB of payload that goes out as so many UDP datagrams a gigabyte.
pub fn udp_seconds_per_gb(datagrams_per_gb: f64) -> f64 {
    UDP_SECONDS_PER_GB + UDP_SECONDS_PER_DATAGRAM * datagrams_per_gb
}

/// Of a flow over a NIC whose bytes the CPU copies into the socket or out of it. Others have no default: without a
/// copy the cost is nearly nothing, encrypting depends on the processor.
pub(super) fn default_of(parts: &MachineParts, flow: &Flow) -> Option<CpuCost> {
    let copies = matches!(flow.method, Method::Direct | Method::Cached);
    if !flow.in_bits() || !copies {
        return None;
    }
    let mtus = flow.from.iter().chain(&flow.to).filter_map(|end| end.device(parts)?.mtu());
    let memory = parts.memory_kind.as_deref();
    let sent = sending(memory, flow.comes_from("disk:"), flow.protocol, mtus.min())?;
    // A remote disk's bytes are received before they are sent.
    let received = published(memory, false, Protocol::Tcp, None).filter(|_| receives_disks(parts, flow));
    let received = received.map_or(0.0, |cost| cost.seconds_per_gb);
    let range = sent.range.map(|end| end + received);
    Some(CpuCost { seconds_per_gb: sent.seconds_per_gb + received, range, ..sent })
}

/// Of a copy into the socket over a NIC with this MTU, on a server with this kind of memory; none where the MTU holds no
/// payload.
pub(super) fn sending(
    memory: Option<&str>,
    reads_disks: bool,
    protocol: Protocol,
    mtu: Option<u32>,
) -> Option<CpuCost> {
    published(memory, reads_disks, protocol, mtu).or_else(|| {
        let seconds_per_gb = own_udp(mtu)?;
        Some(CpuCost { seconds_per_gb, range: [seconds_per_gb; 2], source: UDP_SOURCE })
    })
}

/// What others measured on servers of this generation; of UDP at another MTU in proportion to this program's own.
pub fn published(
    memory: Option<&str>,
    reads_disks: bool,
    protocol: Protocol,
    mtu: Option<u32>,
) -> Option<CpuCost> {
    let cost = published::cpu_cost(memory.unwrap_or_default(), reads_disks, protocol)?;
    let scale = match protocol {
        Protocol::Tcp => 1.0,
        Protocol::Udp => own_udp(mtu)? / own_udp(Some(JUMBO_MTU))?,
    };
    let range = cost.range.map(|end| end * scale);
    Some(CpuCost { seconds_per_gb: cost.seconds_per_gb * scale, range, ..cost })
}

fn own_udp(mtu: Option<u32>) -> Option<f64> {
    let payload = payload_bytes(mtu.unwrap_or(USUAL_MTU), Stack::udp(false))?;
    Some(udp_seconds_per_gb(1e9 / f64::from(payload)))
}

/// Gives the nodes' CPUs the default where their cost is not known and their cores are.
pub(super) fn fill(resources: &mut [Resource], parts: &MachineParts, flow: &Flow) {
    if parts.cpu_seconds_per_gb.known().is_none() {
        fill_default(resources, parts, flow);
    }
}

/// The same whatever cost is known, which may be that of another flow.
pub(super) fn fill_default(resources: &mut [Resource], parts: &MachineParts, flow: &Flow) {
    let Some(cost) = default_of(parts, flow) else { return };
    let single = parts.nodes.len() == 1;
    for cpu in resources.iter_mut().filter(|resource| resource.kind == ResourceKind::Cpu) {
        let id = cpu.id.split_once(':').and_then(|(_, id)| id.parse::<u32>().ok());
        let node = if single { parts.nodes.first() } else { id.and_then(|id| parts.node(id)) };
        let Some(Fact::Known(cores)) = node.map(|node| &node.cores) else { continue };
        if *cores > 0.0 {
            cpu.capacity = cores / cost.seconds_per_gb * 1e9;
            cpu.rated = Some(cpu.capacity);
            cpu.origin = Origin::Rated;
            cpu.why = Some(format!(
                "{} at {:.2} CPU seconds per GB, a default",
                wording::cores(*cores),
                cost.seconds_per_gb
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::flow::{FlowEnd, FlowPlan, ends, plan_flow};
    use crate::plan::machine_file;

    const SERVER: &str = "[processor]\ncores = 2\n[memory]\nrate = \"200GB/s\"\n\
        [[nic]]\nname = \"eth0\"\npcie = \"5.0 x16\"\nrate = \"400G\"\nmtu = 9000\n";

    fn planned(text: &str, protocol: Protocol, method: Method) -> FlowPlan {
        let parts = machine_file::parse(text).expect("a machine");
        let to = ends(&parts, "nic").expect("a NIC");
        plan_flow(&parts, &Flow { from: vec![FlowEnd::Memory], to, volumes: Vec::new(), protocol, method })
    }

    fn cpu(plan: &FlowPlan) -> &Resource {
        plan.resources.iter().find(|resource| resource.id == "cpu").expect("the CPU")
    }

    #[test]
    fn a_default_cost_lowers_what_is_likely_and_not_the_ceiling() {
        let plan = planned(SERVER, Protocol::Tcp, Method::Direct);
        assert_eq!(plan.likely.cut, ["cpu"]);
        let likely = *plan.likely.bytes_per_second.known().expect("a rate");
        assert!((likely * 8.0 / 1e9 - 84.0).abs() < 0.1, "two cores of 42 Gb/s, not {likely}");
        let ceiling = *plan.ceiling.bytes_per_second.known().expect("a rate");
        assert!(ceiling * 8.0 / 1e9 > 390.0, "{ceiling}");
        assert!(plan.sentence.contains("0.19 CPU seconds per GB, a default)"), "{}", plan.sentence);
        assert!(plan.default_cost.is_some_and(|cost| cost.source.starts_with("Cai et al.")));
    }

    #[test]
    fn udp_costs_by_the_datagram_and_what_is_not_copied_has_no_default() {
        let udp = planned(SERVER, Protocol::Udp, Method::Direct);
        assert!(cpu(&udp).why.as_deref().is_some_and(|why| why.contains("at 0.17 CPU seconds")), "{udp:?}");
        let small = planned(&SERVER.replace("9000", "1500"), Protocol::Udp, Method::Direct);
        assert!(cpu(&small).why.as_deref().is_some_and(|why| why.contains("at 0.36 CPU seconds")));
        for method in [Method::Zerocopy, Method::Rdma, Method::TlsOffload, Method::Tls] {
            assert_eq!(cpu(&planned(SERVER, Protocol::Tcp, method)).origin, Origin::Unknown);
        }
    }

    #[test]
    fn a_cost_that_is_given_is_not_replaced() {
        let given = SERVER.replace("cores = 2", "cores = 2\ncpu_seconds_per_gb = 0.5");
        let plan = planned(&given, Protocol::Tcp, Method::Direct);
        assert_eq!((cpu(&plan).capacity, cpu(&plan).origin), (4e9, Origin::Effective));
    }
}
