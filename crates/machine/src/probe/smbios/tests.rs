//! The table from a tree of files into a machine; any bytes and any text without a panic.

use super::*;
use crate::probe::{Confidence, MemoryChannel, PciLink, probe};
use linerate_testing::Tree;
use proptest::prelude::*;

/// A structure: type, formatted area behind the header, strings.
fn structure(kind: u8, handle: u16, area: &[u8], strings: &[&str]) -> Vec<u8> {
    let length = u8::try_from(area.len() + 4).expect("a short area");
    let mut bytes = vec![kind, length];
    bytes.extend(handle.to_le_bytes());
    bytes.extend(area);
    for string in strings {
        bytes.extend(string.as_bytes());
        bytes.push(0);
    }
    bytes.extend(if strings.is_empty() { &[0, 0][..] } else { &[0][..] });
    bytes
}

/// Type 17 of SMBIOS 3.3, 32 GiB by the extended size, 5600 MT/s rated.
fn module(locator: &str, configured: u16) -> Vec<u8> {
    let mut area = vec![0u8; 0x5C - 4];
    let mut put = |at: usize, bytes: &[u8]| area[at - 4..at - 4 + bytes.len()].copy_from_slice(bytes);
    put(0x04, &0x1000u16.to_le_bytes());
    put(0x08, &80u16.to_le_bytes());
    put(0x0A, &64u16.to_le_bytes());
    put(0x0C, &0x7FFFu16.to_le_bytes());
    put(0x0E, &[9, 0, 1, 2, 0x22]);
    put(0x15, &0xFFFFu16.to_le_bytes());
    put(0x17, &[3, 0, 0, 4, 2]);
    put(0x1C, &(32u32 << 10).to_le_bytes());
    put(0x20, &configured.to_le_bytes());
    put(0x54, &5600u32.to_le_bytes());
    put(0x58, &4800u32.to_le_bytes());
    structure(17, 0x1100, &area, &[locator, "NODE 0", "Samsung", "M321R4GA3BB6"])
}

fn server() -> Vec<u8> {
    let mut processor = vec![0u8; 0x30 - 4];
    processor[0] = 1;
    processor[1] = 3;
    processor[0x10 - 4] = 2;
    processor[0x14 - 4..0x18 - 4].copy_from_slice(&[0xA0, 0x0F, 0x34, 0x08]);
    processor[0x18 - 4] = 0x41;
    processor[0x23 - 4..0x26 - 4].copy_from_slice(&[0xFF, 0xFF, 0xFF]);
    processor[0x2A - 4..].copy_from_slice(&[0x2C, 0x01, 0x2B, 0x01, 0x58, 0x02]);
    let array = [3, 3, 6, 0, 0, 0, 0x80, 0xFE, 0xFF, 2, 0, 0, 0, 0, 0, 0, 8, 0, 0];
    // Of PCI Express 4 x16, eight lanes wired, available, number 6; without peers; its generation would be in the
    // last byte.
    let free = [1, 0xBD, 0x0B, 3, 4, 6, 0, 4, 1, 0, 0, 0x98, 0x08, 0x0B, 0, 0];
    // The type has no generation: one peer group, then 5.
    let used = [1, 0xA9, 0x0B, 4, 4, 7, 0, 4, 1, 0, 0, 0xFF, 0, 0x0B, 1, 0, 0, 0, 0, 8, 5];
    [
        structure(1, 1, &[1, 2, 0, 0], &["Supermicro", "SYS-221H"]),
        structure(9, 6, &free, &["AOC Slot 6"]),
        structure(9, 7, &used, &["AOC Slot 7"]),
        structure(4, 2, &processor, &["CPU1", "Intel(R) Xeon(R) Gold 6430"]),
        structure(16, 0x1000, &array, &[]),
        module("P1_DIMMA1", 0xFFFF),
        module("P1_DIMMB1", 4400),
        structure(127, 3, &[], &[]),
    ]
    .concat()
}

fn tree(table: &[u8]) -> (tempfile::TempDir, Sysroot) {
    let root = linerate_testing::folder_in_memory();
    let folder = root.path().join("sys/firmware/dmi/tables");
    std::fs::create_dir_all(&folder).expect("directories");
    std::fs::write(folder.join("DMI"), table).expect("a table");
    let sysroot = Sysroot::recorded(root.path());
    (root, sysroot)
}

#[test]
fn a_table_of_smbios_3_in_a_recorded_tree() {
    let (_root, sysroot) = tree(&server());
    let machine = probe(&sysroot);
    let [socket] = &machine.cpu.sockets[..] else { panic!("{:?}", machine.cpu.sockets) };
    assert!(socket.populated);
    assert_eq!((socket.max_mhz.known(), socket.current_mhz.known()), (Some(&4000), Some(&2100)));
    assert_eq!(
        (socket.cores.known(), socket.cores_enabled.known(), socket.threads.known()),
        (Some(&300), Some(&299), Some(&600))
    );
    assert_eq!(socket.memory_channels, Fact::Known(8));
    let [free, used] = &machine.slots[..] else { panic!("{:?}", machine.slots) };
    assert_eq!(
        (free.designation.as_str(), free.number.known(), free.in_use.known()),
        ("AOC Slot 6", Some(&6), Some(&false))
    );
    assert_eq!(free.link(), Some(PciLink { gt_per_second: 16.0, width: 8 }));
    assert_eq!(free.address.known().map(String::as_str), Some("0000:98:01.0"));
    assert_eq!(used.link(), Some(PciLink { gt_per_second: 32.0, width: 8 }));
    assert_eq!((used.in_use.known(), used.address.known()), (Some(&true), None));
    let memory = &machine.memory;
    assert_eq!(memory.arrays[0].max_bytes, Fact::Known(8 << 40));
    let [a, b] = &memory.modules[..] else { panic!("{:?}", memory.modules) };
    assert_eq!((a.size_bytes.known(), a.kind.as_str(), a.form.as_str()), (Some(&(32 << 30)), "DDR5", "DIMM"));
    assert_eq!(
        (a.rated_mt_per_second.known(), a.configured_mt_per_second.known()),
        (Some(&5600), Some(&4800))
    );
    assert_eq!((a.total_width_bits.known(), a.rank.known()), (Some(&80), Some(&2)));
    assert_eq!(a.part.known().map(String::as_str), Some("Samsung M321R4GA3BB6"));
    assert_eq!(b.channel, Fact::Known(MemoryChannel { socket: 0, channel: 1 }));
    assert_eq!((memory.channels.known(), memory.channels_confidence), (Some(&2), Confidence::Medium));
    assert_eq!(memory.rated_bytes_per_second, Fact::Known((4800.0 + 4400.0) * 8e6));
}

#[test]
fn the_layout_of_dump_bin() {
    let table = server();
    let mut dump = b"_SM3_\0\x18\x03\x03\x00\x01\0".to_vec();
    dump.extend(u32::try_from(table.len()).expect("small").to_le_bytes());
    dump.extend([0x20, 0, 0, 0, 0, 0, 0, 0]);
    dump.resize(0x20, 0);
    dump.extend(&table);
    assert_eq!(from_bytes(&dump), from_table(&table));
    let mut older = b"_SM_\0\x1f\x02\x08\0\0\0\0\0\0\0\0_DMI_\0".to_vec();
    older.extend(u16::try_from(table.len()).expect("small").to_le_bytes());
    older.resize(0x20, 0);
    older.extend(&table);
    assert_eq!(from_bytes(&older), from_table(&table));
}

#[test]
fn without_a_table_there_is_a_reason() {
    let machine = probe(&Tree::new(&[]).sysroot());
    assert_eq!(machine.memory.rated_bytes_per_second.why(), Some("no SMBIOS table describes the DIMMs"));
    assert_eq!(machine.memory.channels.why(), Some("no SMBIOS table describes the DIMMs"));
    let (_root, sysroot) = tree(b"");
    let why = probe(&sysroot).memory.rated_bytes_per_second.why().map(String::from);
    assert!(why.is_some_and(|why| why.contains("it is empty")));
}

#[test]
fn a_table_that_only_root_may_read_says_what_to_do() {
    use std::os::unix::fs::PermissionsExt;
    let (root, sysroot) = tree(&server());
    let file = root.path().join("sys/firmware/dmi/tables/DMI");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o000)).expect("a mode");
    if std::fs::read(&file).is_ok() {
        println!("skipped: root reads what it may not");
        return;
    }
    let why = probe(&sysroot).memory.channels.why().map(String::from).expect("a reason");
    assert!(
        why.ends_with("permission denied; run as root, or name a file with the output of dmidecode"),
        "{why}"
    );
}

#[test]
fn the_dimms_of_a_virtual_machine_say_nothing() {
    let table = [structure(1, 1, &[1, 2], &["QEMU", "Standard PC"]), module("P1_DIMMA1", 4800)].concat();
    let mut machine = Machine::default();
    apply(from_table(&table), &mut machine);
    assert_eq!(
        machine.memory.rated_bytes_per_second.why(),
        Some("memory channels: a virtual machine (QEMU): its DIMMs are made up")
    );
    assert_eq!(machine.memory.modules.len(), 1);
    let made_up = [structure(1, 1, &[1, 2], &["QEMU", "Standard PC"]), server()].concat();
    apply(from_table(&made_up), &mut machine);
    assert!(machine.slots.is_empty());
    let (_root, sysroot) = tree(&server());
    let found = |name: &str| read(&sysroot, &Fact::Known(name.into())).expect("a table").hypervisor;
    assert_eq!((found("kvm").as_deref(), found("none")), (Some("kvm"), None), "what the processor tells");
}

#[test]
fn slots_without_a_processor_are_no_empty_channels() {
    let text = |status: &str| {
        let socket = |name: &str, status: &str| {
            format!(
                "Handle 0x1, DMI type 4, 48 bytes\n\tSocket Designation: {name}\n\tType: Central Processor\n\
                \tVersion: Intel(R) Xeon(R) CPU E5-2660 v3 @ 2.60GHz\n\tStatus: {status}\n"
            )
        };
        let slot = |name: &str, size: &str| {
            format!(
                "Handle 0x2, DMI type 17, 40 bytes\n\tSize: {size}\n\tForm Factor: DIMM\n\tLocator: \
                 {name}\n\tType: DDR4\n\
                \tConfigured Memory Speed: 2133 MT/s\n"
            )
        };
        [
            socket("CPU1", "Populated, Enabled"),
            socket("CPU2", status),
            slot("P1-DIMMA1", "8 GB"),
            slot("P1-DIMMB1", "No Module Installed"),
            slot("P2-DIMMA1", "No Module Installed"),
        ]
        .concat()
    };
    let states = |status: &str| {
        let mut machine = Machine::default();
        apply(from_dmidecode(&text(status)), &mut machine);
        machine.memory.channel_states.len()
    };
    assert_eq!(states("Unpopulated"), 2);
    assert_eq!(states("Populated, Enabled"), 3, "a processor without memory of its own");
}

#[test]
fn more_slots_than_any_machine_has() {
    let table = module("A1", 4800).repeat(5000);
    let why = from_table(&table).expect_err("too many").to_string();
    assert!(why.starts_with("more than 4096 memory devices (type 17)"), "{why}");
}

/// What holds for any firmware that was read.
fn sound(firmware: Result<Firmware, FirmwareError>) {
    let mut machine = Machine::default();
    apply(firmware, &mut machine);
    let json = serde_json::to_string(&machine).expect("JSON");
    assert_eq!(serde_json::from_str::<Machine>(&json).expect("the machine again"), machine);
    if let Fact::Known(rate) = machine.memory.rated_bytes_per_second {
        assert!(rate.is_finite() && rate >= 0.0);
    }
    for state in &machine.memory.channel_states {
        assert!(state.populated <= state.slots);
    }
}

proptest! {
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        sound(from_bytes(&bytes));
        sound(from_table(&bytes));
    }

    #[test]
    fn a_table_with_bytes_changed(changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..20), cut in any::<proptest::sample::Index>()) {
        let mut table = server();
        for (at, byte) in changes {
            let at = at.index(table.len());
            table[at] = byte;
        }
        sound(from_table(&table));
        table.truncate(cut.index(table.len()));
        sound(from_table(&table));
    }

    #[test]
    fn any_text(lines in proptest::collection::vec(
        "(Handle 0x[0-9A-F]{1,9}, DMI type (4|9|16|17|[0-9]{1,4}), 4 bytes|\tSize: ([0-9]{1,22} \
         [kMGT]B|.{0,9})|\tLocator: [A-C][0-3]|\tType: (DDR4|.{0,5})\
         |\tConfigured Memory Speed: [0-9]{1,12} MT/s|\tStatus: Populated|\tType: (x[0-9]{1,3} )?PCI Express( [1-9]| x[0-9]{1,11}){0,2}|\tID: [0-9]{1,11}\
         |\tBus Address: [0-9a-f]{1,6}:[0-9a-f]{1,4}:[0-9a-f]{1,3}.[0-9]|\tNumber Of Devices: \
         [0-9]{1,12}|.{0,20})", 0..40)) {
        sound(from_dmidecode(&lines.join("\n")));
    }
}
