//! Packet sizes of PCIe: MaxPayload and MaxReadRequest smaller than both ends can do.

use super::super::super::product::{Finding, Severity};
use super::{card_name, devices, listed};
use linerate_machine::probe::{PciDevice, PciLink};
use linerate_machine::rates::pcie::{self, PayloadDirection};
use linerate_machine::topology::{LinkCondition, LinkEnds, Topology, payload_rate};
use serde_json::json;

/// What the kernel leaves at its default, and what it costs to leave it there.
const SMALL_PAYLOAD: u32 = 128;
/// Read requests below this keep a fast card from having enough in flight; the value after a reset.
const USUAL_READ_REQUEST: u32 = 512;
/// Cards with slower links lose nothing by it.
const FAST: f64 = 1e9;

/// `pcie-max-payload`: packets of 128 bytes on a way of which every part can do more.
pub(super) fn max_payload(tree: &Topology) -> Vec<Finding> {
    let edges = tree.links();
    let small: Vec<(&LinkEnds, u32)> =
        edges.iter().filter_map(|edge| Some((edge, could(tree, edge)?))).collect();
    let Some((first, most)) = small.first() else { return Vec::new() };
    let gain = |(edge, most): &(&LinkEnds, u32)| {
        let rate = |most| {
            let PciLink { gt_per_second, width } = edge.now();
            pcie::payload_bytes_per_second(gt_per_second, width, Some(most), PayloadDirection::ToMemory)
                .unwrap_or(0.0)
        };
        let wanted = tree.port_rate(edge.device).unwrap_or(0.0);
        (rate(*most).min(wanted) - rate(SMALL_PAYLOAD).min(wanted)).max(0.0)
    };
    let gain: f64 = small.iter().map(gain).sum();
    let share = |most| {
        100.0
            * pcie::payload_share(first.now().gt_per_second, Some(most), PayloadDirection::ToMemory)
                .unwrap_or(0.0)
    };
    let names: Vec<String> = small.iter().map(|(edge, _)| card_name(tree, edge.device)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    vec![Finding::new(if gain > 0.0 { Severity::Slow } else { Severity::Note }, "pcie-max-payload", format!(
            "MaxPayload of {} is {SMALL_PAYLOAD} bytes, and every port above can do {most}: {:.0} % of the \
             link is payload, not {:.0} %",
            listed(&names),
            share(SMALL_PAYLOAD),
            share(*most)
        )).evidence(json!({
            "devices": small.iter().flat_map(|(edge, _)| devices(tree, edge.device)).collect::<Vec<_>>(),
            "max_payload_bytes": SMALL_PAYLOAD, "possible_bytes": most,
        })).remedy("boot with the kernel's `pci=pcie_bus_perf` (or `pci=pcie_bus_safe`), or set it in the BIOS; \
                 not with setpci: every part of the way has to agree").gain(gain)]
}

/// The MaxPayload that the device and all ports above can do, where it is set to 128.
fn could(tree: &Topology, edge: &LinkEnds) -> Option<u32> {
    let device = edge.device;
    if tree.is_bridge(device) || !busy(tree, device) || matches!(edge.condition, LinkCondition::Formality(_))
    {
        return None;
    }
    let payload = tree.max_payload(device);
    // A port that does not report it is no port that can; without a port nothing is known of the way.
    let most = *payload.able.known().filter(|_| tree.parent(device).is_some())?;
    (*payload.set.known()? <= SMALL_PAYLOAD && most > SMALL_PAYLOAD).then_some(most)
}

/// `pcie-max-read-request`: a fast card asks memory for less than 512 bytes at a time.
pub(super) fn max_read_request(tree: &Topology) -> Vec<Finding> {
    let asks = |edge: &LinkEnds| {
        let bytes = *edge.device.express.max_read_request_bytes.known()?;
        let fast = payload_rate(edge.now(), edge.device, PayloadDirection::FromMemory)? >= FAST;
        (bytes < USUAL_READ_REQUEST && fast && busy(tree, edge.device)).then_some(bytes)
    };
    let edges = tree.links();
    let small: Vec<(&LinkEnds, u32)> = edges
        .iter()
        .filter(|edge| !tree.is_bridge(edge.device))
        .filter_map(|edge| Some((edge, asks(edge)?)))
        .collect();
    let Some((first, bytes)) = small.first() else { return Vec::new() };
    let names: Vec<String> = small.iter().map(|(edge, _)| card_name(tree, edge.device)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // Bits 14:12 of Device Control, 5 is 4096 bytes (PCIe base specification, 7.5.3.4).
    vec![Finding::note("pcie-max-read-request", format!(
            "MaxReadRequest of {} is {bytes} bytes: a card that sends asks memory for so much at a time, and \
             waits",
            listed(&names)
        )).evidence(json!({
            "devices": small.iter().flat_map(|(edge, _)| devices(tree, edge.device)).collect::<Vec<_>>(), "max_read_request_bytes": bytes,
        })).remedy(format!(
            "try 4096: `setpci -s {} CAP_EXP+8.w=5000:7000`, until the next boot",
            first.device.address
        ))]
}

fn busy(tree: &Topology, device: &PciDevice) -> bool {
    !tree.nics(device).is_empty() || !tree.disks(device).is_empty()
}
