//! What a driver counts by names of its own, as `ethtool -S` shows it.

use super::Ethtool;
use super::strings::Set;
use std::io;

const ETHTOOL_GSTATS: u32 = 0x0000_001d;
/// Words before the counts in `struct ethtool_stats`: command and number, as one of 64 bits.
const HEAD: usize = 1;

impl Ethtool {
    /// Name and count, in the driver's order. Fails with `EOPNOTSUPP` where the driver counts nothing of its
    /// own (`lo`).
    pub fn statistics(&self, interface: &str) -> io::Result<Vec<(String, u64)>> {
        let names = self.names(interface, Set::Statistics)?;
        // The kernel writes as many as the driver has now, whatever number it was given: there is room for more than
        // any has.
        let mut words = vec![0u64; HEAD + Set::Statistics.room(0)];
        words[0] = command(ETHTOOL_GSTATS, names.len() as u32);
        // SAFETY: struct ethtool_stats is 8 bytes and as many counts of 8 bytes as the driver has; it had no
        // more than MOST_NAMES when its names were read just now, and there is room for 16 times as many.
        unsafe { self.ask(interface, words.as_mut_ptr().cast()) }?;
        // A driver that has got more or fewer in between, or says another number, is not matched by guessing.
        match count(words[0]) as usize == names.len() {
            true => Ok(names.into_iter().zip(words.into_iter().skip(HEAD)).collect()),
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
