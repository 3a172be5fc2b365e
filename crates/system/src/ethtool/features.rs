//! Offloads and other features of an interface that are on, by the kernel's names.

use super::Ethtool;
use super::strings::Set;
use std::io;

const ETHTOOL_GFEATURES: u32 = 0x0000_003a;
/// Words before the blocks in `struct ethtool_gfeatures`: command, number of blocks.
const HEAD: usize = 2;
/// `struct ethtool_get_features_block`: available, requested, active, never changed; 32 features each.
const BLOCK: usize = 4;
const ACTIVE: usize = 2;

impl Ethtool {
    /// Names of the features that are on (`tx-udp-segmentation`, `rx-gro`), in the kernel's order.
    pub fn features(&self, interface: &str) -> io::Result<Vec<String>> {
        let names = self.feature_names(interface)?;
        let blocks = names.len().div_ceil(32);
        let mut words = vec![0u32; HEAD + blocks * BLOCK];
        words[0] = ETHTOOL_GFEATURES;
        words[1] = blocks as u32;
        // SAFETY: struct ethtool_gfeatures says how many blocks there is room for; the kernel writes no more
        // of them.
        unsafe { self.ask(interface, words.as_mut_ptr().cast()) }?;
        Ok(active(&words[HEAD..], names))
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
        let word = blocks.get(index / 32 * BLOCK + ACTIVE);
        word.is_some_and(|word| word >> (index % 32) & 1 == 1)
    };
    let named = names.iter().enumerate().filter(|(index, name)| !name.is_empty() && on(*index));
    named.map(|(_, name)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
}
