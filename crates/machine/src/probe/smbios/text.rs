//! The text that `dmidecode` prints, versions 2 and 3: the same types as from bytes, errors with the line.

use super::decode::{self, LONGEST_STRING};
use super::slot::{self, SlotFacts};
use super::{Firmware, FirmwareError, NOT_TOLD, by_identity, part};
use crate::probe::{CardSlot, MemoryArray, MemoryModule, Socket};
use linerate_facts::fact::Fact;

/// No structure that is read here has this many lines; more are passed over, so that a hostile text costs no
/// memory.
const MOST_LINES: usize = 1000;

/// One structure as printed: its type, handle and lines `Key: value` by line number, from 1.
struct Record<'a> {
    kind: u8,
    handle: u32,
    lines: Vec<(usize, &'a str)>,
}

/// Reads the text; lines before the first structure (a banner, a complaint) are passed over.
pub(super) fn read(text: &str) -> Result<Firmware, FirmwareError> {
    let mut firmware = Firmware::default();
    let mut record: Option<Record> = None;
    let mut handle = 0;
    let mut seen = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if let Some(header) =
            header(line, &mut handle).map_err(|what| FirmwareError::Line { line: number, what })?
        {
            add(&mut firmware, record.replace(header))?;
            seen = true;
        } else if line.contains("DMI table is broken") || line.starts_with("Wrong DMI structures") {
            firmware.damage.get_or_insert_with(|| format!("line {number}: {}", cut(line)));
        } else if let Some(record) = record.as_mut().filter(|record| record.takes_lines()) {
            record.lines.push((number, line));
        }
    }
    add(&mut firmware, record)?;
    if !seen {
        return Err(no_structure(text));
    }
    firmware.hypervisor = by_identity(&firmware);
    Ok(firmware)
}

/// The start of a structure: `Handle 0x1100, DMI type 17, 84 bytes`; before version 2.9 in two lines, handle
/// first.
fn header<'a>(line: &str, handle: &mut u32) -> Result<Option<Record<'a>>, String> {
    let mut rest = line;
    if let Some(after) = line.strip_prefix("Handle 0x") {
        let (digits, behind) = after.split_once(',').unwrap_or((after, ""));
        *handle = u32::from_str_radix(digits.trim(), 16).map_err(|_| {
            format!("“{}” has no handle in hexadecimal digits; is the file whole?", cut(line))
        })?;
        rest = behind.trim_start();
    }
    let Some(after) = rest.strip_prefix("DMI type ") else { return Ok(None) };
    let digits = after.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    match digits.parse() {
        Ok(kind) => Ok(Some(Record { kind, handle: *handle, lines: Vec::new() })),
        Err(_) => Err(format!("“{}” has no type between 0 and 255; is the file whole?", cut(line))),
    }
}

fn no_structure(text: &str) -> FirmwareError {
    let because = if text.contains("Permission denied") {
        "dmidecode was not allowed to read the table: run it as root".into()
    } else if text.contains("No SMBIOS nor DMI entry point") {
        "dmidecode found no table on that machine".into()
    } else {
        let first = text.lines().next().unwrap_or_default();
        format!(
            "it begins with “{}” and has no line “Handle 0x…, DMI type …”: make it with `dmidecode > FILE`, \
             as root",
            cut(first)
        )
    };
    FirmwareError::Line { line: 1, what: format!("no output of dmidecode: {because}") }
}

fn cut(line: &str) -> String {
    line.chars().filter(|c| !c.is_control()).take(60).collect()
}

fn add(firmware: &mut Firmware, record: Option<Record>) -> Result<(), FirmwareError> {
    let Some(record) = record else { return Ok(()) };
    match record.kind {
        0 => firmware.add_builder(&record.text("Vendor")),
        2 => firmware.add_builder(&record.text("Manufacturer")),
        1 if firmware.maker.is_empty() && firmware.product.is_empty() => {
            firmware.maker = record.text("Manufacturer");
            firmware.product = record.text("Product Name");
        }
        4 => firmware.add_socket(record.socket())?,
        9 => firmware.add_slot(record.card_slot())?,
        16 => firmware.add_array(record.array())?,
        17 => firmware.add_module(record.module())?,
        _ => {}
    }
    Ok(())
}

impl Record<'_> {
    fn takes_lines(&self) -> bool {
        matches!(self.kind, 0 | 1 | 2 | 4 | 9 | 16 | 17) && self.lines.len() < MOST_LINES
    }

    /// The value of a key, with its line.
    fn value(&self, key: &str) -> Option<(usize, &str)> {
        self.lines
            .iter()
            .find_map(|(number, line)| Some((*number, line.strip_prefix(key)?.strip_prefix(':')?.trim())))
    }

    fn raw(&self, key: &str) -> Option<&str> {
        self.value(key).map(|(_, value)| value)
    }

    /// A string, empty where it says nothing.
    fn text(&self, key: &str) -> String {
        let said = self.raw(key).and_then(decode::stated).unwrap_or_default();
        let end = (0..=LONGEST_STRING.min(said.len())).rev().find(|at| said.is_char_boundary(*at));
        said[..end.unwrap_or(0)].into()
    }

    /// A value that a function understands; unknown where it is not there, says nothing or is not understood.
    fn fact<T>(&self, key: &str, what: &str, read: impl Fn(&str) -> Option<T>) -> Fact<T> {
        let Some((number, value)) = self.value(key) else { return Fact::unknown(NOT_TOLD) };
        match (read(value), decode::stated(value)) {
            (Some(read), _) => Fact::Known(read),
            (None, None) => Fact::unknown(NOT_TOLD),
            (None, Some(value)) => {
                Fact::unknown(format!("line {number}: {key} “{}” is not a {what}", cut(value)))
            }
        }
    }

    fn number(&self, key: &str, units: &[&str]) -> Fact<u32> {
        self.fact(key, "number", |value| number(value, units))
    }

    fn socket(&self) -> Option<Socket> {
        (self.raw("Type")? == "Central Processor").then(|| Socket {
            designation: self.text("Socket Designation"),
            populated: self.raw("Status").is_some_and(|status| status.starts_with("Populated")),
            version: match self.text("Version") {
                none if none.is_empty() => Fact::unknown(NOT_TOLD),
                version => Fact::Known(version),
            },
            max_mhz: self.number("Max Speed", &["MHz"]),
            current_mhz: self.number("Current Speed", &["MHz"]),
            cores: self.number("Core Count", &[]),
            cores_enabled: self.number("Core Enabled", &[]),
            threads: self.number("Thread Count", &[]),
            ..Default::default()
        })
    }

    fn card_slot(&self) -> Option<CardSlot> {
        let (wired, kind) = slot::by_words(self.raw("Type")?)?;
        Some(kind.slot(SlotFacts {
            designation: self.text("Designation"),
            number: self.number("ID", &[]).known().copied(),
            wired,
            generation: self.number("PCI Express Generation", &[]).known().copied(),
            in_use: match self.raw("Current Usage") {
                Some("Available") => Some(false),
                Some("In Use") => Some(true),
                _ => None,
            },
            address: self.raw("Bus Address").and_then(slot::address),
        }))
    }

    fn array(&self) -> Option<MemoryArray> {
        (self.raw("Use")? == "System Memory").then(|| MemoryArray {
            handle: self.handle,
            max_bytes: self.fact("Maximum Capacity", "size", size),
            slots: self.number("Number Of Devices", &[]),
        })
    }

    fn module(&self) -> Option<MemoryModule> {
        let kind = self.text_as_is("Type");
        const SPEED: [&str; 2] = ["MT/s", "MHz"];
        (!decode::holds_firmware(&kind)).then(|| MemoryModule {
            locator: self.text("Locator"),
            bank: self.text("Bank Locator"),
            size_bytes: self.fact("Size", "size", |value| match value {
                "No Module Installed" => Some(0),
                value => size(value),
            }),
            form: self.text_as_is("Form Factor"),
            rated_mt_per_second: self.number("Speed", &SPEED),
            // "Memory" since version 3.2, "Clock" before.
            configured_mt_per_second: match self.value("Configured Memory Speed") {
                Some(_) => self.number("Configured Memory Speed", &SPEED),
                None => self.number("Configured Clock Speed", &SPEED),
            },
            data_width_bits: self.number("Data Width", &["bits"]),
            total_width_bits: self.number("Total Width", &["bits"]),
            rank: self.number("Rank", &[]),
            part: part(Some(&self.text("Manufacturer")), Some(&self.text("Part Number"))),
            array: self.fact("Array Handle", "handle", |value| {
                u32::from_str_radix(value.strip_prefix("0x")?, 16).ok()
            }),
            kind,
            ..Default::default()
        })
    }

    /// A word of the specification, fillers (`Unknown`) included.
    fn text_as_is(&self, key: &str) -> String {
        self.raw(key).unwrap_or("Unknown").chars().take(LONGEST_STRING).collect()
    }
}

/// A number above 0 with one of these units behind it (or none, where none is named); `667 MHz (1.5 ns)` is
/// 667.
fn number(value: &str, units: &[&str]) -> Option<u32> {
    let mut words = value.split_ascii_whitespace();
    let number = words.next()?.parse().ok().filter(|number| *number > 0)?;
    let fits = match words.next() {
        None => units.is_empty(),
        Some(unit) => units.contains(&unit),
    };
    fits.then_some(number)
}

/// `16384 MB`, `16 GB`, `16 GiB`: powers of 1,024 all, as dmidecode counts them.
fn size(value: &str) -> Option<u64> {
    let (number, unit) = value.split_once(' ')?;
    let shift = match unit.trim() {
        "bytes" => 0,
        "kB" | "KiB" | "kiB" => 10,
        "MB" | "MiB" => 20,
        "GB" | "GiB" => 30,
        "TB" | "TiB" => 40,
        "PB" | "PiB" => 50,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::PciLink;

    const TEXT: &str = "# dmidecode 3.3\nSMBIOS 3.2.1 present.\n\nHandle 0x0400, DMI type 4, 48 \
                        bytes\nProcessor Information\n\
        \tSocket Designation: CPU1\n\tType: Central Processor\n\tVersion: Intel(R) Xeon(R) Gold 6230R CPU @ \
        2.10GHz\n\
        \tMax Speed: 4000 MHz\n\tCurrent Speed: 76 ns\n\tStatus: Populated, Enabled\n\tCore Count: 26\n\n\
        Handle 0x1000, DMI type 16, 23 bytes\nPhysical Memory Array\n\tUse: System Memory\n\tMaximum \
        Capacity: 3 TB\n\
        \tNumber Of Devices: 24\n\nHandle 0x1100, DMI type 17, 84 bytes\nMemory Device\n\tArray Handle: \
        0x1000\n\
        \tTotal Width: 72 bits\n\tData Width: 64 bits\n\tSize: 32 GB\n\tForm Factor: DIMM\n\tLocator: A1\n\
        \tBank Locator: Not Specified\n\tType: DDR4\n\tSpeed: 2933 MT/s\n\tManufacturer: 00AD063200AD\n\
        \tPart Number: HMA84GR7CJR4N-WM    \n\tRank: 2\n\tConfigured Memory Speed: 2666 MT/s\n\n\
        Handle 0x1101, DMI type 17, 84 bytes\nMemory Device\n\tSize: No Module Installed\n\tLocator: \
        A2\n\tType: Unknown\n\n\
        Handle 0x1102, DMI type 17, 84 bytes\nMemory Device\n\tSize: lots\n\tSpeed: 667 MHz (1.5 \
        ns)\n\tType: DDR2\n\n\
        Handle 0x1103, DMI type 17, 84 bytes\nMemory Device\n\tSize: 8 MB\n\tType: Flash\n\n\
        Handle 0x0900, DMI type 9, 17 bytes\nSystem Slot Information\n\tDesignation: PCIe Slot 3\n\
        \tType: x8 PCI Express 3 x16\n\tCurrent Usage: Available\n\tLength: Long\n\tID: 3\n\
        \tCharacteristics:\n\t\t3.3 V is provided\n\tBus Address: 0000:3b:00.0\n\n\
        Handle 0x0901, DMI type 9, 17 bytes\nSystem Slot Information\n\tDesignation: PCIe Slot 4\n\
        \tType: x16 PCI Express\n\tCurrent Usage: Unavailable\n\tID: 4\n\tBus Address: 0000:ff:00.0\n\n\
        Handle 0x0902, DMI type 9, 17 bytes\nSystem Slot Information\n\tDesignation: M2\n\tType: x4 M.2 Socket 3\n";

    #[test]
    fn a_server() {
        let firmware = read(TEXT).expect("a text of dmidecode");
        let [socket] = &firmware.sockets[..] else { panic!("{:?}", firmware.sockets) };
        assert!(socket.populated);
        assert_eq!((socket.max_mhz.known(), socket.cores.known()), (Some(&4000), Some(&26)));
        assert_eq!(socket.current_mhz.why(), Some("line 10: Current Speed “76 ns” is not a number"));
        assert_eq!(firmware.arrays[0].max_bytes, Fact::Known(3 << 40));
        let [one, empty, odd] = &firmware.modules[..] else { panic!("the flash chip is not a module") };
        assert_eq!((one.size_bytes.known(), one.kind.as_str()), (Some(&(32 << 30)), "DDR4"));
        assert_eq!(
            (one.rated_mt_per_second.known(), one.configured_mt_per_second.known()),
            (Some(&2933), Some(&2666))
        );
        assert_eq!((one.bank.as_str(), one.array.known()), ("", Some(&0x1000)));
        assert_eq!(one.part.known().map(String::as_str), Some("00AD063200AD HMA84GR7CJR4N-WM"));
        assert!(one.populated() && !empty.populated() && !odd.populated());
        assert_eq!(empty.size_bytes, Fact::Known(0));
        assert_eq!(odd.size_bytes.why(), Some("line 44: Size “lots” is not a size"));
        assert_eq!(odd.rated_mt_per_second, Fact::Known(667));
        assert_eq!(odd.configured_mt_per_second.why(), Some(NOT_TOLD));
    }

    #[test]
    fn slots_for_cards() {
        let firmware = read(TEXT).expect("a text of dmidecode");
        let [free, unusable] = &firmware.slots[..] else { panic!("{:?}", firmware.slots) };
        assert_eq!((free.designation.as_str(), free.number.known()), ("PCIe Slot 3", Some(&3)));
        assert_eq!(
            free.link(),
            Some(PciLink { gt_per_second: 8.0, width: 8 }),
            "eight of the connector's lanes are wired"
        );
        assert_eq!(
            (free.in_use.known(), free.address.known().map(String::as_str)),
            (Some(&false), Some("0000:3b:00.0"))
        );
        assert_eq!(
            (unusable.in_use.known(), unusable.address.known(), unusable.lanes.known()),
            (None, None, Some(&16))
        );
        assert_eq!(unusable.gt_per_second.why(), Some(NOT_TOLD), "of any generation");
    }

    #[test]
    fn the_older_form() {
        let text = "Handle 0x1100\n\tDMI type 17, 27 bytes.\n\tMemory Device\n\t\tArray Handle: \
                    0x1000\n\t\tSize: 1024 MB\n";
        let firmware = read(text).expect("a text of dmidecode 2");
        assert_eq!(firmware.modules[0].size_bytes, Fact::Known(1 << 30));
    }

    #[test]
    fn what_is_no_text_of_dmidecode_says_why() {
        for (text, why) in [
            ("", "line 1: no output of dmidecode: it begins with “”"),
            ("/dev/mem: Permission denied\n", "run it as root"),
            (
                "# dmidecode 3.5\n# No SMBIOS nor DMI entry point found, sorry.\n",
                "found no table on that machine",
            ),
            (
                "x\nHandle 0xZZ, DMI type 1, 2 bytes",
                "line 2: “Handle 0xZZ, DMI type 1, 2 bytes” has no handle",
            ),
            ("Handle 0x1, DMI type 999, 2 bytes", "line 1: “Handle 0x1, DMI type 999, 2 bytes” has no type"),
        ] {
            let error = read(text).expect_err("an error").to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
