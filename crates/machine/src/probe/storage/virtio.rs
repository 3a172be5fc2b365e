//! Disks of a virtual machine that have a virtio device each (virtio-blk): `…/virtio1/block/vda`. virtio-scsi
//! is a SCSI host.

use super::{above, name, wholes};
use crate::probe::machine::{Controller, ControllerKind, Disk, DiskKind};
use crate::probe::pci;
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use std::path::{Path, PathBuf};

/// One controller for each disk.
pub(super) fn read(sysroot: &Sysroot, disks: &[(Disk, PathBuf)]) -> Vec<Controller> {
    wholes(disks)
        .filter(|(disk, _)| disk.kind == DiskKind::Virtio)
        .filter_map(|(disk, directory)| {
            Some(read_controller(sysroot, disk, directory, above(directory, "virtio")?))
        })
        .collect()
}

fn read_controller(sysroot: &Sysroot, disk: &Disk, directory: &Path, device: &Path) -> Controller {
    let why = "a virtual disk has no link";
    let queues = u32::try_from(sysroot.list(directory.join("mq")).len()).unwrap_or(u32::MAX);
    Controller {
        name: name(device),
        kind: ControllerKind::Other,
        pci: pci::nearest(device),
        model: Fact::Known("virtio_blk".into()),
        firmware: Fact::unknown("a virtual disk has no firmware"),
        transport: Fact::Known("virtio".into()),
        address: Fact::unknown("only NVMe over fabrics has one"),
        state: Fact::unknown("a virtual disk reports no state"),
        link_bits_per_second: Fact::unknown(why),
        link_max_bits_per_second: Fact::unknown(why),
        lanes: Fact::unknown(why),
        lanes_max: Fact::unknown(why),
        ports: Vec::new(),
        queues: Fact::from_option((queues > 0).then_some(queues), "the kernel shows no queues of this disk"),
        disks: vec![disk.name.clone()],
    }
}

#[cfg(test)]
mod tests {
    use crate::probe::probe;
    use linerate_facts::fact::Fact;
    use linerate_testing::Tree;

    #[test]
    fn a_disk_with_two_queues() {
        let place = "sys/devices/pci0000:00/0000:00:02.0/virtio1";
        let mut tree = Tree::new(&[
            (&format!("{place}/block/vda/size"), "8"),
            (&format!("{place}/block/vda/mq/0/cpu_list"), "0"),
            (&format!("{place}/block/vda/mq/1/cpu_list"), "1"),
        ]);
        tree.link("sys/block/vda", &format!("../../{place}/block/vda"));
        tree.link(&format!("{place}/block/vda/device/subsystem"), "../../../../bus/virtio");
        let machine = probe(&tree.sysroot());
        let [device] = machine.controllers.as_slice() else { panic!("{:?}", machine.controllers) };
        assert_eq!((device.name.as_str(), device.pci.as_deref()), ("virtio1", Some("0000:00:02.0")));
        assert_eq!(
            (device.queues.clone(), device.transport.clone()),
            (Fact::Known(2), Fact::Known("virtio".into()))
        );
        assert_eq!(machine.disks[0].controller.as_deref(), Some("virtio1"));
    }
}
