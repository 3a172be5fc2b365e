//! Sets of names: features of interfaces and link modes, which the kernel keeps, and a driver's counters.

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

#[cfg(test)]
mod tests {
    use super::*;
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
}
