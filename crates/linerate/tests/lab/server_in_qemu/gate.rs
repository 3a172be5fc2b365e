//! `--expect` on a server in QEMU: faults that a lab of namespaces cannot have fail with their cause.

use super::guest::QemuServer;
use crate::support::program;

/// The NIC of the first node is gone. QEMU's cards have one lane: what the kernel shows of the drive in bay0 is another
/// card's, that runs at what its slot can do.
const PLANT: &str = r#"ip link set eth0 down
    at=$(readlink -f /sys/bus/pci/devices/0000:11:00.0)
    show() { echo "$2" >/run/${1//\//-}; mount --bind /run/${1//\//-} $at/$1; }
    show max_link_width 8; show max_link_speed '8.0 GT/s PCIe'
    for end in . ..; do show $end/current_link_width 4; show $end/current_link_speed '8.0 GT/s PCIe'; done"#;
const REMOVE: &str =
    "ip link set eth0 up; umount $at/max_link_{width,speed} $at/{.,..}/current_link_{width,speed}";

/// Where an array lacks a disk already.
pub(super) fn faults_fail_with_their_cause(guest: &QemuServer) {
    let rules =
        ["link below its best", "node-apart", "array-degraded"].map(|rule| format!("'probe: no {rule}'"));
    let probe = format!("{} probe --expect {}", program(), rules.join(" --expect "));
    let ended = guest.shell(&format!("{PLANT}\n{probe}; status=$?; {REMOVE}; exit $status"));
    let causes = ["the slot is narrower than the card", "crosses the socket link", "lacks 1 of its disks"];
    ended.gives(5).shows(&causes).shows(&["3 failed"]);
}
