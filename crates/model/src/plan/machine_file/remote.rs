//! Disks on a NIC: those of another host.

use super::Wrong;
use super::build::Builder;
use super::tables::{self, RemoteTransport};
use crate::plan::parts::{ByteDevice, DeviceKind, PartPlace, RemotePort};
use toml::Spanned;

impl Builder {
    /// A disk on a NIC has no link of its own; one elsewhere has no transport.
    pub(super) fn check_local_or_remote(&self, disk: &tables::Disk) -> Result<(), Wrong> {
        let places = disk.on.as_ref().map(|on| on.get_ref().0.as_slice()).unwrap_or_default();
        let nic = places.iter().find(|place| self.kinds.get(*place) == Some(&"nic"));
        match (nic, &disk.pcie, &disk.transport) {
            (Some(nic), Some(pcie), _) => {
                let message = format!("{nic} is a NIC, and a disk on it is another host's: leave pcie out");
                Err((pcie.span(), message))
            }
            (None, _, Some(transport)) => {
                let message =
                    "transport is of remote disks: put the disk on the NIC that it comes in through";
                Err((transport.span(), message.into()))
            }
            _ => Ok(()),
        }
    }

    /// Where the disks that come in through a NIC are plugged in: dealt over its ports.
    pub(super) fn behind_port(
        &mut self,
        nic: &str,
        index: usize,
        disk: &tables::Disk,
    ) -> Result<PartPlace, Wrong> {
        let card = PartPlace::Joint(nic.to_string());
        let is_port =
            |device: &&ByteDevice| device.place == card && matches!(device.what, DeviceKind::Nic { .. });
        let ports: Vec<ByteDevice> = self.parts.devices.iter().filter(is_port).cloned().collect();
        let Some(port) = ports.get(index % ports.len().max(1)).cloned() else { return Ok(card) };
        let rdma = disk.transport.as_ref().is_some_and(|one| *one.get_ref() == RemoteTransport::Rdma);
        let joint = RemotePort { port, rdma }.joint();
        let name = joint.name.clone();
        match self.parts.joint(&name) {
            None => self.parts.joints.push(joint),
            Some(there) if there.remote != joint.remote => {
                let span = disk.transport.as_ref().map_or(disk.name.span(), Spanned::span);
                return Err((span, format!("the remote disks on {nic} have two transports: give them one")));
            }
            Some(_) => {}
        }
        Ok(PartPlace::Joint(name))
    }
}
