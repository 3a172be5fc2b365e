//! The link of an interface: duplex, port, negotiation, and the fastest mode that card and module can do.

use super::Ethtool;
use super::strings::Set;
use std::io;

const ETHTOOL_GLINKSETTINGS: u32 = 0x0000_004c;
/// `sizeof(struct ethtool_link_settings)`, in words; the masks follow.
const HEAD: usize = 12;
/// Masks that follow: supported, advertised, advertised by the partner.
const MASKS: usize = 3;

/// Both ways at once, or in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplex {
    /// In turn.
    Half,
    /// At once.
    Full,
}

/// A link as `ethtool INTERFACE` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Rate now, bits per second; `None` where the driver does not report it or the link is down.
    pub bits_per_second: Option<u64>,
    /// Duplex; `None` where the driver does not report it.
    pub duplex: Option<Duplex>,
    /// Name of the kind of port (`twisted pair`, `fibre`, `direct attach`); `None` for "other" and for what
    /// has no name.
    pub port: Option<&'static str>,
    /// Rate and duplex were negotiated.
    pub negotiated: bool,
    /// Rate of the fastest mode that it supports, bits per second; `None` where it reports no modes.
    pub fastest_bits_per_second: Option<u64>,
}

impl Ethtool {
    /// The link. Fails with `EOPNOTSUPP` where the driver has none (`lo`).
    pub fn link(&self, interface: &str) -> io::Result<Link> {
        let mut head = [0u32; HEAD];
        head[0] = ETHTOOL_GLINKSETTINGS;
        // SAFETY: with a mask length of 0 the kernel writes struct ethtool_link_settings alone, whose size is
        // HEAD words.
        unsafe { self.ask(interface, head.as_mut_ptr().cast()) }?;
        // The handshake of ethtool_get_link_ksettings(): it answers with the length that it wants, negated.
        let wanted = mask_words(&head);
        let Some(length) = wanted.checked_neg().filter(|length| *length > 0) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the kernel reports no length of its masks",
            ));
        };
        let mut words = vec![0u32; HEAD + MASKS * length as usize];
        words[0] = ETHTOOL_GLINKSETTINGS;
        set_mask_words(&mut words, length);
        // SAFETY: the kernel writes the head and three masks of the length that is in it, or the head
        // alone.
        unsafe { self.ask(interface, words.as_mut_ptr().cast()) }?;
        Ok(self.decode(interface, &words))
    }

    fn decode(&self, interface: &str, words: &[u32]) -> Link {
        let byte = |index: usize| words[index / 4].to_ne_bytes()[index % 4];
        let length = usize::try_from(mask_words(words)).unwrap_or(0);
        let supported = words.get(HEAD..HEAD + length).unwrap_or_default();
        Link {
            // SPEED_UNKNOWN is −1.
            bits_per_second: (words[1] != 0 && words[1] != u32::MAX).then(|| u64::from(words[1]) * 1_000_000),
            duplex: match byte(8) {
                0 => Some(Duplex::Half),
                1 => Some(Duplex::Full),
                _ => None,
            },
            port: port(byte(9)),
            negotiated: byte(11) == 1,
            fastest_bits_per_second: fastest(supported, self.link_mode_names(interface)),
        }
    }

    /// Empty on kernels that do not tell them.
    fn link_mode_names(&self, interface: &str) -> &[String] {
        self.link_mode_names.get_or_init(|| self.names(interface, Set::LinkModes).unwrap_or_default())
    }
}

/// `link_mode_masks_nwords`, the last byte of the fourth word.
fn mask_words(words: &[u32]) -> i8 {
    words[3].to_ne_bytes()[3] as i8
}

fn set_mask_words(words: &mut [u32], length: i8) {
    let mut bytes = words[3].to_ne_bytes();
    bytes[3] = length as u8;
    words[3] = u32::from_ne_bytes(bytes);
}

/// `PORT_*` of `ethtool.h`.
fn port(number: u8) -> Option<&'static str> {
    match number {
        0 => Some("twisted pair"),
        1 => Some("AUI"),
        2 => Some("MII"),
        3 => Some("fibre"),
        4 => Some("BNC"),
        5 => Some("direct attach"),
        0xef => Some("none"),
        _ => None,
    }
}

/// Rate of the fastest of the modes whose bit is set: their names begin with it (`100000baseKR4/Full`,
/// `10baseT/Half`); those that are not rates (`Autoneg`, `FIBRE`, `Pause`) do not.
fn fastest(mask: &[u32], names: &[String]) -> Option<u64> {
    let set = |index: usize| mask.get(index / 32).is_some_and(|word| word >> (index % 32) & 1 == 1);
    let megabits = |name: &str| name.split_once("base")?.0.parse::<u64>().ok()?.checked_mul(1_000_000);
    names.iter().enumerate().filter(|(index, _)| set(*index)).filter_map(|(_, name)| megabits(name)).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names() -> Vec<String> {
        ["10baseT/Half", "Autoneg", "100000baseKR4/Full", "25000baseCR/Full"].map(str::to_string).to_vec()
    }

    #[test]
    fn the_fastest_mode_by_its_name() {
        assert_eq!(fastest(&[0b1111], &names()), Some(100_000_000_000));
        assert_eq!(fastest(&[0b1011], &names()), Some(25_000_000_000));
        assert_eq!(fastest(&[0b0010], &names()), None);
        assert_eq!(fastest(&[], &names()), None);
    }

    #[test]
    fn a_link_as_the_kernel_writes_it() {
        let mut words = vec![0u32; HEAD + MASKS * 2];
        words[1] = 25_000;
        words[2] = u32::from_ne_bytes([1, 5, 0, 1]);
        set_mask_words(&mut words, 2);
        words[HEAD] = 0b1110;
        words[HEAD + 2] = u32::MAX;
        let ethtool = Ethtool::new().expect("a socket");
        ethtool.link_mode_names.set(names()).expect("still empty");
        let expected = Link {
            bits_per_second: Some(25_000_000_000),
            duplex: Some(Duplex::Full),
            port: Some("direct attach"),
            negotiated: true,
            fastest_bits_per_second: Some(100_000_000_000),
        };
        assert_eq!(ethtool.decode("lo", &words), expected);
    }

    proptest! {
        #[test]
        fn any_answer_is_decoded(words in proptest::collection::vec(any::<u32>(), HEAD..60)) {
            let ethtool = Ethtool::new().expect("a socket");
            ethtool.link_mode_names.set(names()).expect("still empty");
            let _ = ethtool.decode("lo", &words);
        }
    }
}
