//! A filter in front of the watched interface (XDP) that drops frames of one length: the only way to make the
//! driver of a veth count losses of its own. Made here as an object file, because no compiler for BPF can be
//! asked for.

use crate::support::namespaces::Namespaces;
use crate::support::process::Ends;

/// Frames of so many bytes, with their Ethernet header, are dropped: datagrams of 6 bytes, and nothing else
/// that is sent here.
const DROPPED_BYTES: u8 = 48;

/// Eight bytes each: code, registers, offset, constant.
#[rustfmt::skip]
const PROGRAM: [[u8; 8]; 7] = [
    [0x61, 0x12, 4, 0, 0, 0, 0, 0],             // r2 = end of the frame
    [0x61, 0x13, 0, 0, 0, 0, 0, 0],             // r3 = its start
    [0x1f, 0x32, 0, 0, 0, 0, 0, 0],             // r2 -= r3
    [0xb7, 0x00, 0, 0, 2, 0, 0, 0],             // r0 = XDP_PASS
    [0x55, 0x02, 1, 0, DROPPED_BYTES, 0, 0, 0], // if r2 is another length, leave
    [0xb7, 0x00, 0, 0, 1, 0, 0, 0],             // r0 = XDP_DROP
    [0x95, 0x00, 0, 0, 0, 0, 0, 0],             // exit
];

/// Names of sections and of the program, each ended by a zero.
const NAMES: &[u8] = b"\0.strtab\0xdp\0license\0.symtab\0drop\0";

/// Puts it in front of `watched`; false, with a message, where the kernel or `ip` does not let it.
pub fn attach(pair: &Namespaces) -> bool {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("filter.o");
    std::fs::write(&file, object()).expect("an object file");
    let file = file.to_str().expect("a path");
    let set = ["ip", "link", "set", "watched", "xdp", "object", file, "section", "xdp"];
    let done = pair.inside("b", &set).ended();
    if !done.status.success() {
        println!("skipped: no XDP here, so the driver of a veth counts no losses to compare");
    }
    done.status.success()
}

/// A part of the file, as its table tells of it (elf(5)).
struct Section<'a> {
    name: u32,
    kind: u32,
    flags: u64,
    content: &'a [u8],
    symbols: bool,
}

/// A relocatable ELF file for BPF, 64 bit, little-endian: the program, its licence, one symbol.
fn object() -> Vec<u8> {
    let name = |word: &str| {
        let word = word.as_bytes();
        NAMES.windows(word.len()).position(|part| part == word).expect("a name") as u32
    };
    let program = PROGRAM.concat();
    let mut symbols = vec![0; 24];
    symbols.extend(name("drop").to_le_bytes());
    // A global function in section 2.
    symbols.extend([0x12, 0, 2, 0]);
    symbols.extend([0_u64, program.len() as u64].map(u64::to_le_bytes).concat());
    let section =
        |word: &str, kind, flags, content| Section { name: name(word), kind, flags, content, symbols: false };
    let sections = [
        section(".strtab", 3, 0, NAMES),
        section("xdp", 1, 6, &program),
        section("license", 1, 3, b"GPL\0"),
        Section { symbols: true, ..section(".symtab", 2, 0, &symbols) },
    ];
    let mut contents = Vec::new();
    let mut table = vec![0; 64];
    for Section { name, kind, flags, content, symbols } in sections {
        // Names of symbols are in section 1, the first global one is number 1, each has 24 bytes.
        let (link, info, entry) = if symbols { (1, 1, 24) } else { (0, 0, 0) };
        let place = 64 + contents.len() as u64;
        table.extend([name, kind].map(u32::to_le_bytes).concat());
        table.extend([flags, 0, place, content.len() as u64].map(u64::to_le_bytes).concat());
        table.extend([link, info].map(u32::to_le_bytes).concat());
        table.extend([8, entry].map(u64::to_le_bytes).concat());
        contents.extend(content);
        contents.resize(contents.len().next_multiple_of(8), 0);
    }
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\xf7\0\x01\0\0\0".to_vec();
    file.extend([0, 0, 64 + contents.len() as u64].map(u64::to_le_bytes).concat());
    file.extend([0; 4]);
    file.extend([64_u16, 0, 0, 64, 5, 1].map(u16::to_le_bytes).concat());
    file.extend(contents);
    file.extend(table);
    file
}
