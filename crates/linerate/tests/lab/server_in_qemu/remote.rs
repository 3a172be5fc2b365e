//! A disk of another host on a server in QEMU: NVMe over TCP, through a NIC.

use super::guest::{PEER_HOST, QemuServer};
use super::thorough;

/// The other host's kernel gives out a drive; it is a disk here, which comes by eth0.
const REMOTE_DISK: &str = r"
modprobe -a configfs nvmet nvmet-tcp nvme-tcp && mount -t configfs configfs /sys/kernel/config
target=/sys/kernel/config/nvmet
mkdir -p $target/subsystems/far/namespaces/1 $target/ports/1
echo 1 >$target/subsystems/far/attr_allow_any_host
echo -n /dev/nvme3n1 >$target/subsystems/far/namespaces/1/device_path
echo 1 >$target/subsystems/far/namespaces/1/enable
echo tcp >$target/ports/1/addr_trtype; echo ipv4 >$target/ports/1/addr_adrfam
echo $net.9 >$target/ports/1/addr_traddr; echo 4420 >$target/ports/1/addr_trsvcid
ip netns exec peer bash -c 'mount -t configfs configfs /sys/kernel/config
  ln -s /sys/kernel/config/nvmet/subsystems/far /sys/kernel/config/nvmet/ports/1/subsystems/far'
nvme connect -t tcp -a $net.9 -s 4420 -n far --hostnqn=nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555
for ((i = 0; i < 100; i++)); do [[ -e /sys/block/nvme4n1 ]] && break; sleep 0.1; done
";

#[test]
fn a_disk_over_tcp_comes_by_a_nic() {
    if !thorough() {
        eprintln!("skipped: NVMe over TCP on a server in QEMU: ./test --thorough");
        return;
    }
    let Some(guest) = QemuServer::up("remote", &[]) else { return };
    if guest.shell("command -v nvme").stdout.is_empty() {
        eprintln!("skipped: NVMe over TCP in a guest: apt install nvme-cli");
        return;
    }
    guest.succeed(&format!("{PEER_HOST}{REMOTE_DISK}"));
    let machine = guest.linerate("probe");
    let controllers = machine["controllers"].as_array().expect("controllers");
    let far = controllers.iter().find(|one| one["transport"] == "tcp").expect("a controller over TCP");
    assert_eq!(far["disks"], serde_json::json!(["nvme4n1"]));
    assert!(far["address"].as_str().is_some_and(|address| address.contains("trsvcid=4420")), "{far}");
    let plan = guest.linerate("plan");
    assert!(plan.to_string().contains("\"nic:eth0/remote\""), "{plan}");
    guest.down();
}
