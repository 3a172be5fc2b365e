//! What links and ports carry, bytes per second.

use crate::probe::{Controller, ControllerKind, Nic, PciDevice, PciLink};
use crate::rates::pcie::{self, Direction};
use crate::units::bytes_per_second;

/// Share of a SATA or SAS line rate that is data: 8b/10b.
const SERIAL_CODE: f64 = 0.8;
/// Drivers whose link rate is a constant, of no wire.
const WITHOUT_WIRE: [&str; 4] = ["veth", "tun", "tap", "dummy"];

/// Bytes per second of a link that is up and has a wire; what crosses PCIe of it is the frame without preamble, check sequence and gap.
pub(crate) fn nic_rate(nic: &Nic) -> Option<f64> {
    let driver = nic.driver.known().map_or("", String::as_str);
    let bits = nic.speed_bits_per_second.known().copied().filter(|bits| *bits > 0)?;
    if nic.loopback || WITHOUT_WIRE.contains(&driver) {
        return None;
    }
    let mtu = f64::from(nic.mtu.known().copied().unwrap_or(1500));
    Some(bytes_per_second(bits) * (mtu + 14.0) / (mtu + 38.0))
}

/// Data rate of a SATA, SAS or Fibre Channel port as it runs; NVMe has no port but its PCIe link.
pub(crate) fn port_payload(controller: &Controller) -> Option<f64> {
    let line = bytes_per_second(*controller.link_bits_per_second.known()?);
    match controller.kind {
        ControllerKind::Sata | ControllerKind::Sas => Some(line * SERIAL_CODE),
        ControllerKind::FibreChannel => Some(line),
        ControllerKind::Nvme | ControllerKind::Scsi | ControllerKind::Other => None,
    }
}

/// Rate after the encoding, bytes per second one way.
pub(crate) fn raw(link: PciLink) -> Option<f64> {
    pcie::raw_bytes_per_second(link.gt_per_second, link.width)
}

/// Payload one way with the function's MaxPayload.
pub(crate) fn payload(link: PciLink, device: &PciDevice, direction: Direction) -> Option<f64> {
    let most = device.express.max_payload_bytes.known().copied();
    pcie::payload_bytes_per_second(link.gt_per_second, link.width, most, direction)
}
