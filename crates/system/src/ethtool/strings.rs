//! What a driver has names for. Sets of names: features of interfaces and link modes, which the kernel keeps,
//! and a driver's counters. By these: offloads and other features that are on, and what a driver counts, as
//! `ethtool -S` shows it. Who the driver is, and the firmware of its card.
//!
//! A virtual interface (veth, ifb, bond) has no `device/driver` link in sysfs; this question is the only way
//! to its driver's name.

use super::{Ethtool, text};
use std::io;

const ETHTOOL_GSTRINGS: u32 = 0x0000_001b;
const ETHTOOL_GSSET_INFO: u32 = 0x0000_0037;
/// ETH_GSTRING_LEN, in words.
const NAME_WORDS: usize = 8;
/// The kernel has 64 features and some 130 link modes; a set that claims more than this is not asked for.
const MOST_NAMES: u32 = 4096;

/// Room for the names of a driver, of which nobody knows that their number stays: 2 MiB of pages that are
/// mostly never touched.
const ROOM_NAMES: usize = 16 * MOST_NAMES as usize;

/// Sets of names (`enum ethtool_stringset`).
#[derive(Clone, Copy)]
pub(super) enum Set {
    /// ETH_SS_STATS: the driver's own, and as many as it likes.
    Statistics = 1,
    /// ETH_SS_FEATURES.
    Features = 4,
    /// ETH_SS_LINK_MODES; kernels before 5.7 have none.
    LinkModes = 9,
}

/// `struct ethtool_sset_info` with room for one length.
#[repr(C)]
struct SetInfo {
    command: u32,
    reserved: u32,
    set_mask: u64,
    length: u32,
}

impl Set {
    /// How many names to have room for, where the kernel says that there are `length`: the kernel's own never
    /// change while it runs.
    pub(super) fn room(self, length: u32) -> usize {
        match self {
            Set::Statistics => ROOM_NAMES,
            Set::Features | Set::LinkModes => length as usize,
        }
    }
}

impl Ethtool {
    /// The names of a set, by the number of their bit. Any interface may be asked.
    pub(super) fn names(&self, interface: &str, set: Set) -> io::Result<Vec<String>> {
        let length = self.length(interface, set)?;
        if length > MOST_NAMES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel claims thousands of names"));
        }
        // struct ethtool_gstrings: command, set, length, then the names.
        let mut words = vec![0u32; 3 + set.room(length) * NAME_WORDS];
        words[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, set as u32, length]);
        // SAFETY: the kernel writes the three words and as many names of 32 bytes as the set has. Of the
        // kernel's own sets `length`, asked for just now, is a constant while it runs; a driver would have to
        // get 16 times more in between.
        unsafe { self.ask(interface, words.as_mut_ptr().cast()) }?;
        let names = words[3..].chunks_exact(NAME_WORDS).take(words[2].min(length) as usize);
        Ok(names
            .map(|name| {
                let bytes: Vec<u8> = name.iter().flat_map(|word| word.to_ne_bytes()).collect();
                text(&bytes)
            })
            .collect())
    }

    fn length(&self, interface: &str, set: Set) -> io::Result<u32> {
        let mut info =
            SetInfo { command: ETHTOOL_GSSET_INFO, reserved: 0, set_mask: 1 << (set as u32), length: 0 };
        // SAFETY: one bit of the mask is set, so the kernel writes at most one length behind struct
        // ethtool_sset_info.
        unsafe { self.ask(interface, (&raw mut info).cast()) }?;
        // The kernel clears the bit of a set that it does not have.
        match info.set_mask {
            0 => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
            _ => Ok(info.length),
        }
    }
}

const ETHTOOL_GFEATURES: u32 = 0x0000_003a;
/// Words before the blocks in `struct ethtool_gfeatures`: command, number of blocks.
const FEATURES_HEAD: usize = 2;

/// `struct ethtool_get_features_block`: available, requested, active, never changed; 32 features each.
const FEATURE_BLOCK_WORDS: usize = 4;
const ACTIVE_WORD: usize = 2;

impl Ethtool {
    /// Names of the features that are on (`tx-udp-segmentation`, `rx-gro`), in the kernel's order.
    pub fn features(&self, interface: &str) -> io::Result<Vec<String>> {
        let names = self.feature_names(interface)?;
        let blocks = names.len().div_ceil(32);
        let mut words = vec![0u32; FEATURES_HEAD + blocks * FEATURE_BLOCK_WORDS];
        words[0] = ETHTOOL_GFEATURES;
        words[1] = blocks as u32;
        // SAFETY: struct ethtool_gfeatures says how many blocks there is room for; the kernel writes no more
        // of them.
        unsafe { self.ask(interface, words.as_mut_ptr().cast()) }?;
        Ok(active(&words[FEATURES_HEAD..], names))
    }

    pub(super) fn feature_names(&self, interface: &str) -> io::Result<&[String]> {
        if self.feature_names.get().is_none() {
            let names = self.names(interface, Set::Features)?;
            return Ok(self.feature_names.get_or_init(|| names));
        }
        Ok(self.feature_names.get().map_or(&[], Vec::as_slice))
    }
}

/// The names whose bit is set in the `active` words; a bit without a name is left out.
fn active(blocks: &[u32], names: &[String]) -> Vec<String> {
    let on = |index: usize| {
        let word = blocks.get(index / 32 * FEATURE_BLOCK_WORDS + ACTIVE_WORD);
        word.is_some_and(|word| word >> (index % 32) & 1 == 1)
    };
    let named = names.iter().enumerate().filter(|(index, name)| !name.is_empty() && on(*index));
    named.map(|(_, name)| name.clone()).collect()
}

const ETHTOOL_GSTATS: u32 = 0x0000_001d;
/// Words before the counts in `struct ethtool_stats`: command and number, as one of 64 bits.
const STATISTICS_HEAD_WORDS: usize = 1;

impl Ethtool {
    /// Name and count, in the driver's order. Fails with `EOPNOTSUPP` where the driver counts nothing of its
    /// own (`lo`).
    pub fn statistics(&self, interface: &str) -> io::Result<Vec<(String, u64)>> {
        let names = self.names(interface, Set::Statistics)?;
        // The kernel writes as many as the driver has now, whatever number it was given: there is room for more than
        // any has.
        let mut words = vec![0u64; STATISTICS_HEAD_WORDS + Set::Statistics.room(0)];
        words[0] = command(ETHTOOL_GSTATS, names.len() as u32);
        // SAFETY: struct ethtool_stats is 8 bytes and as many counts of 8 bytes as the driver has; it had no
        // more than MOST_NAMES when its names were read just now, and there is room for 16 times as many.
        unsafe { self.ask(interface, words.as_mut_ptr().cast()) }?;
        // A driver that has got more or fewer in between, or says another number, is not matched by guessing.
        match count(words[0]) as usize == names.len() {
            true => Ok(names.into_iter().zip(words.into_iter().skip(STATISTICS_HEAD_WORDS)).collect()),
            false => Err(io::Error::new(io::ErrorKind::Interrupted, "the driver's counters changed")),
        }
    }
}

/// Two fields of 32 bits, in the order of memory.
fn command(command: u32, count: u32) -> u64 {
    let [a, b, c, d] = command.to_ne_bytes();
    let [e, f, g, h] = count.to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// The second field.
fn count(word: u64) -> u32 {
    let [_, _, _, _, a, b, c, d] = word.to_ne_bytes();
    u32::from_ne_bytes([a, b, c, d])
}

const ETHTOOL_GDRVINFO: u32 = 0x0000_0003;

/// Who drives an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// Name of the driver (`mlx5_core`, `veth`).
    pub name: String,
    /// Its version; drivers of the kernel's own give the kernel's.
    pub version: String,
    /// Firmware of the card; empty where there is none.
    pub firmware: String,
    /// Where it sits (`0000:03:00.0`); empty for what sits nowhere.
    pub bus: String,
}

/// `struct ethtool_drvinfo`.
#[derive(Default)]
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    version: [u8; 32],
    firmware_version: [u8; 32],
    bus_info: [u8; 32],
    expansion_rom_version: [u8; 32],
    reserved: [u8; 12],
    private_flags: u32,
    statistics: u32,
    test_info_bytes: u32,
    eeprom_bytes: u32,
    register_dump_bytes: u32,
}

impl Ethtool {
    /// Driver and firmware, as `ethtool -i` shows them. Fails with `EOPNOTSUPP` where the driver names itself
    /// nowhere (`lo`).
    pub fn driver(&self, interface: &str) -> io::Result<Driver> {
        let request = DriverInfo { command: ETHTOOL_GDRVINFO, ..DriverInfo::default() };
        // SAFETY: DriverInfo is struct ethtool_drvinfo, which ETHTOOL_GDRVINFO fills.
        let info = unsafe { self.fixed(interface, request) }?;
        Ok(Driver {
            name: text(&info.driver),
            version: text(&info.version),
            firmware: text(&info.firmware_version),
            bus: text(&info.bus_info),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::mem::offset_of;

    #[test]
    fn the_length_is_where_the_kernel_writes_it() {
        assert_eq!((offset_of!(SetInfo, set_mask), offset_of!(SetInfo, length)), (8, 16));
    }

    #[test]
    fn names_of_features_and_link_modes() {
        let ethtool = Ethtool::new().expect("a socket");
        let Ok(features) = ethtool.names("lo", Set::Features) else {
            println!("skipped: no ethtool on lo");
            return;
        };
        assert!(features.iter().any(|name| name == "tx-udp-segmentation"), "{features:?}");
        match ethtool.names("lo", Set::LinkModes) {
            Ok(modes) => assert_eq!(modes[0], "10baseT/Half"),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP), "{error}"),
        }
    }

    #[test]
    fn the_bit_of_the_second_block() {
        let names: Vec<String> = (0..40).map(|index| format!("f{index}")).collect();
        let blocks = [!0, 0, 0b101, 0, 0, 0, 1 << 7 | 1 << 31, 0];
        assert_eq!(active(&blocks, &names), ["f0", "f2", "f39"]);
    }

    proptest! {
        #[test]
        fn any_blocks_give_names(blocks in proptest::collection::vec(any::<u32>(), 0..20), count in 0usize..200) {
            let names: Vec<String> = (0..count).map(|index| index.to_string()).collect();
            prop_assert!(active(&blocks, &names).len() <= count);
        }
    }

    #[test]
    fn the_fields_lie_as_in_the_structure() {
        let word = command(ETHTOOL_GSTATS, 42);
        assert_eq!(word.to_ne_bytes()[..4], ETHTOOL_GSTATS.to_ne_bytes());
        assert_eq!(count(word), 42);
    }

    #[test]
    fn loopback_has_none() {
        let ethtool = Ethtool::new().expect("a socket");
        if let Err(error) = ethtool.statistics("lo") {
            assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP), "{error}");
        }
    }

    /// A structure smaller than the kernel's would have the stack behind it overwritten.
    #[test]
    fn the_structure_has_the_size_that_the_kernel_copies() {
        assert_eq!(size_of::<DriverInfo>(), 196);
    }
}
