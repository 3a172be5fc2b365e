//! What `lab up --qemu` builds of a machine file, and what it refuses.

#[path = "../../examples/qemu-server/lines.rs"]
mod server;

use linerate::plan::machine_file;
use std::path::Path;

/// The lines for this machine file.
fn lines(file: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    let text = std::fs::read_to_string(path).expect("a machine file");
    server::lines(&machine_file::parse(&text).expect("a machine")).expect("QEMU can build it")
}

/// The sentence on a machine that QEMU cannot build.
fn refusal(text: &str) -> String {
    server::lines(&machine_file::parse(text).expect("a machine"))
        .expect_err("QEMU cannot build it")
        .to_string()
}

const ONE_NODE: &str = "[processor]\nsockets = 1\ncores = 4\n";
const DISK: &str = "\n[[disk]]\nname = \"nvme\"\nread = \"7GB/s\"\n";

#[test]
fn the_labs_server_has_its_parts_at_their_places() {
    let lines = lines("lab/server.toml");
    let count = |begin: &str| lines.iter().filter(|line| line.starts_with(begin)).count();
    assert_eq!(lines[..2], ["nodes 2", "cores 2"]);
    assert_eq!((count("device nvme"), count("device e1000e"), count("device ide-hd")), (4, 2, 2));
    assert_eq!((count("disk "), count("nic ")), (6, 2));
    let at = |text: &str| lines.iter().position(|line| line.contains(text)).expect(text);
    // The narrow, slow port of node 0, and the drive in it.
    let slow = at("x-speed=8,x-width=2");
    assert!(lines[slow].contains("id=port2,bus=node0"), "{}", lines[slow]);
    assert_eq!(lines[slow + 2], "device nvme,bus=port2,addr=0.0,drive=disk2,serial=nvme1");
    // The switch of node 1 has two drives below ports of its own.
    let switch = at("x3130-upstream");
    assert!(switch > at("pxb-pcie,id=node1"));
    assert_eq!(lines[switch..].iter().filter(|line| line.contains("xio3130-downstream")).count(), 2);
}

#[test]
fn published_servers_are_built_as_far_as_qemu_goes_and_it_says_how_far() {
    let server = lines("examples/machines/gen5-two-socket.toml");
    assert_eq!(server.iter().filter(|line| line.starts_with("device nvme")).count(), 24);
    assert!(server.contains(&"note 2 of the 64 cores of each node: emulation is slow".into()), "{server:?}");
    assert!(server.contains(&"note 16 GT/s at 28 ports: QEMU draws none faster".into()), "{server:?}");
    let server = lines("examples/machines/dell-t610.toml");
    assert!(server.iter().any(|line| line.starts_with("device megasas-gen2")));
    assert_eq!(server.iter().filter(|line| line.starts_with("device scsi-hd")).count(), 6);
}

#[test]
fn what_qemu_cannot_build_is_refused_with_one_sentence() {
    let drives = "on = \"node0\"\ncount = 64\npcie = \"4.0 x4\"\n";
    let said = refusal(&format!("{ONE_NODE}{DISK}{drives}"));
    assert_eq!(said, "node0 has 64 cards and slots: QEMU's root has room for 32");
    let said = refusal(&format!("{ONE_NODE}\n[[gpu]]\nname = \"a100\"\npcie = \"4.0 x16\"\n"));
    assert!(said.contains("QEMU cannot build a100: it has no GPU"), "{said}");
    let said = refusal(&format!("{ONE_NODE}\n[[bus]]\nname = \"scsi\"\nrate = \"320MB/s\"\n"));
    assert!(said.contains("QEMU cannot build scsi: it has no bus"), "{said}");
    assert!(refusal(&format!("{ONE_NODE}{DISK}")).contains("nvme has no place that QEMU can build"));
    let said = refusal("[processor]\nsockets = 32\ncores = 1\n");
    assert!(said.contains("32 nodes are more than QEMU builds here"), "{said}");
    let sata = "\n[[controller]]\nname = \"sata\"\nkind = \"SATA\"\npcie = \"3.0 x1\"\n";
    let said = refusal(&format!("{ONE_NODE}{sata}{DISK}on = \"sata\"\ncount = 7\n"));
    assert!(said.contains("sata has 7 disks: QEMU's AHCI takes 6"), "{said}");
}
