//! Sends without a copy on a server in QEMU, whose NICs have a real driver: packets leave from where the block lies.

use super::guest::{PEER_HOST, QemuServer};
use super::thorough;
use crate::support::program;
use serde_json::Value;

/// A file of random bytes lies on a drive.
const DATA: &str = r"
modprobe ext4 && mkfs.ext4 -q -F /dev/nvme0n1 && mkdir -p /mnt/drive && mount /dev/nvme0n1 /mnt/drive
head -c 64M /dev/urandom >/mnt/drive/data && sync
";

/// In the peer's network where it is to go over the NICs.
fn run(guest: &QemuServer, agent_in: &str, peer: &str) -> Value {
    let program = program();
    let text = guest.succeed(&format!(
        r"net=$(ip -4 -o addr show dev eth0 | sed -E 's|.*inet ([0-9]+[.][0-9]+[.][0-9]+)[.].*|\1|')
key=$(mktemp -d)/key; cd $(mktemp -d)
{agent_in} {program} agent --listen 0.0.0.0:7411 --key-file $key >/dev/null 2>&1 &
for ((i = 0; i < 300; i++)); do [[ -s $key ]] && break; sleep 0.1; done
{program} run --json --no-save --key-file $key --peer {peer} --source /mnt/drive/data --protocol tcp \
  --method zerocopy --budget 12
status=$?; kill %1; exit $status"
    ));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Blocks of the path of which the kernel said what came of them, those that it copied, and how that is said.
fn path(result: &Value) -> (u64, u64, String) {
    let all = result["measurements"].as_array().expect("measurements");
    let path = all.iter().find(|one| one["stage"] == "path").expect("a path");
    let count = |name: &str| path["zero_copy"][name].as_u64().unwrap_or_else(|| panic!("{path}"));
    (count("sends"), count("copied"), path["method"].to_string())
}

#[test]
fn blocks_leave_by_a_nic_without_a_copy_and_are_copied_on_loopback() {
    if !thorough() {
        eprintln!("skipped: sends without a copy on a server in QEMU: ./test --thorough");
        return;
    }
    let Some(guest) = QemuServer::up("zero-copy", &[]) else { return };
    guest.succeed(&format!("{PEER_HOST}{DATA}"));
    let (sends, copied, method) = path(&run(&guest, "ip netns exec peer", "$net.9"));
    assert!(sends > 0 && copied == 0 && method.contains("100 % without a copy"), "{sends} {copied} {method}");
    let (sends, copied, method) = path(&run(&guest, "", "127.0.0.1"));
    assert!(
        sends > 0 && copied == sends && method.contains(", 0 % without a copy"),
        "{sends} {copied} {method}"
    );
    guest.down();
}
