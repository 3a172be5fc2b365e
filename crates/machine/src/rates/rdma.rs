//! RDMA: the share of a link's rate that is payload, with full packets.
//!
//! A packet carries as much as the path MTU, a power of two up to 4,096 bytes (InfiniBand architecture
//! specification, volume 1, 9.5). Over InfiniBand 26 bytes go beside it, over Ethernet (RoCE v2) 82. The
//! extended headers of a message's first packet are not counted: a message has hundreds.

/// Local route header 8, base transport header 12, invariant check 4, variant check 2.
const INFINIBAND_BYTES: f64 = 26.0;
/// Ethernet with preamble and gap 38, IPv4 20, UDP 8, base transport header 12, invariant check 4.
const ROCE_BYTES: f64 = 82.0;
const LARGEST_PATH_MTU: u32 = 4096;
const SMALLEST_PATH_MTU: u32 = 256;
/// An interface over InfiniBand has 4 bytes less than the path (RFC 4391): 4,092 of 4,096.
const BELOW_PATH_MTU: u32 = 4;

/// Bytes of payload in a full packet: the largest size that the interface's MTU holds; 4,096 where that is not
/// known.
pub fn path_mtu(interface_mtu: Option<u32>) -> u32 {
    let room = interface_mtu.map_or(LARGEST_PATH_MTU, |mtu| mtu.saturating_add(BELOW_PATH_MTU));
    let mut size = LARGEST_PATH_MTU;
    while size > SMALLEST_PATH_MTU && size > room {
        size /= 2;
    }
    size
}

/// Payload ÷ link rate over InfiniBand.
pub fn infiniband_share(path_mtu: u32) -> f64 {
    f64::from(path_mtu) / (f64::from(path_mtu) + INFINIBAND_BYTES)
}

/// Payload ÷ line rate over Ethernet.
pub fn roce_share(path_mtu: u32) -> f64 {
    f64::from(path_mtu) / (f64::from(path_mtu) + ROCE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_as_large_as_the_interface_allows() {
        let sizes = [None, Some(9000), Some(4092), Some(4096), Some(2044), Some(1500), Some(576), Some(68)];
        assert_eq!(sizes.map(path_mtu), [4096, 4096, 4096, 4096, 2048, 1024, 512, 256]);
    }

    #[test]
    fn infiniband_has_fewer_headers_than_ethernet() {
        assert!((infiniband_share(4096) - 0.99369).abs() < 1e-5);
        assert!((roce_share(4096) - 0.98037).abs() < 1e-5);
        assert!(roce_share(1024) < roce_share(4096));
    }
}
