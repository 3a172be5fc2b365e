//! Changes of an interface: rings, channels, adaptive coalescing, features. The only requests of this module
//! that need a privilege (CAP_NET_ADMIN). Some drivers take the link down for a moment.

use super::Ethtool;
use std::io;

const ETHTOOL_SFEATURES: u32 = 0x0000_003b;
/// `ETHTOOL_F_UNSUPPORTED`, `ETHTOOL_F_WISH`: the kernel could not do all of it.
const NOT_DONE: i32 = 0b11;

/// `struct ethtool_sfeatures` with as many blocks as any kernel has (`NETDEV_FEATURE_COUNT` is below 128).
#[repr(C)]
struct FeatureRequest {
    command: u32,
    blocks: u32,
    /// Valid and requested, 32 features each.
    words: [[u32; 2]; 4],
}

impl Ethtool {
    /// Switches a feature by the kernel's name (`rx-gro`).
    pub fn set_feature(&self, interface: &str, name: &str, on: bool) -> io::Result<()> {
        let names = self.feature_names(interface)?;
        let index = names.iter().position(|other| other == name && !name.is_empty());
        let (Some(index), true) = (index, names.len() <= 128) else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let mut request = FeatureRequest {
            command: ETHTOOL_SFEATURES,
            blocks: names.len().div_ceil(32) as u32,
            words: [[0; 2]; 4],
        };
        let bit = 1u32 << (index % 32);
        request.words[index / 32] = [bit, if on { bit } else { 0 }];
        // SAFETY: struct ethtool_sfeatures says how many blocks follow; there is room for four, and there are
        // no more than that.
        let status = unsafe { self.ask_for_status(interface, (&raw mut request).cast()) }?;
        if status & NOT_DONE != 0 {
            return Err(io::Error::other("the driver keeps the feature as it is"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_has_the_size_that_the_kernel_reads() {
        assert_eq!(size_of::<FeatureRequest>(), 8 + 4 * 8);
    }

    #[test]
    fn an_unknown_feature_is_refused_before_the_kernel_is_asked() {
        let ethtool = Ethtool::new().expect("a socket");
        assert!(ethtool.set_feature("lo", "linerate-none", true).is_err());
        assert!(ethtool.set_feature("linerate-none", "rx-gro", true).is_err());
    }
}
