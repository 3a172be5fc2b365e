//! What goes over a wire beside the user's bits. Line codes: the share of the bits on the wire that is the user's, before
//! any framing. RDMA: the share of a link's rate that is payload, with full packets.
//!
//! A packet of RDMA carries as much as the path MTU, a power of two up to 4,096 bytes (InfiniBand architecture
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

/// How bits are put on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
pub enum Coding {
    /// Every bit is the user's (parallel buses), or the code is counted in the modulation (BASE-T).
    #[strum(serialize = "none")]
    None,
    /// 8b/10b: PCIe 1 and 2, SATA, SAS to 12 Gb/s, Fibre Channel to 8GFC, 1000BASE-X.
    #[strum(serialize = "8b/10b")]
    B8b10,
    /// 64b/66b: IEEE 802.3 clause 49; with or without RS(528,514), which takes its room from the block
    /// headers.
    #[strum(serialize = "64b/66b")]
    B64b66,
    /// 64b/66b in the payload of an STS-192c, 260 of its 270 columns: 10GBASE-W, IEEE 802.3 clause 50.
    #[strum(serialize = "64b/66b in STS-192c")]
    B64b66InSts192c,
    /// 128b/130b: PCIe 3 to 5.
    #[strum(serialize = "128b/130b")]
    B128b130,
    /// 128b/132b: USB 3.2 generation 2.
    #[strum(serialize = "128b/132b")]
    B128b132,
    /// 128b/130b and 20 bits of forward error correction: SAS-4.
    #[strum(serialize = "128b/150b")]
    B128b150,
    /// 256b/257b and RS(528,514): 100GBASE-SR4, 32GFC.
    #[strum(serialize = "RS(528,514)")]
    Rs528,
    /// 256b/257b and RS(544,514): all PAM4 Ethernet, 64GFC, HDR and NDR InfiniBand.
    #[strum(serialize = "RS(544,514)")]
    Rs544,
    /// The same with the PMA frames of 100GBASE-KP4: 31,280 of 31,320 bits, 45 of 46 symbols (IEEE 802.3
    /// clause 94).
    #[strum(serialize = "RS(544,514), PMA")]
    Rs544Kp4,
}

impl Coding {
    /// User bits ÷ bits on the wire, 0 to 1.
    pub fn share(self) -> f64 {
        match self {
            Coding::None => 1.0,
            Coding::B8b10 => 8.0 / 10.0,
            Coding::B64b66 => 64.0 / 66.0,
            Coding::B64b66InSts192c => 260.0 / 270.0 * 64.0 / 66.0,
            Coding::B128b130 => 128.0 / 130.0,
            Coding::B128b132 => 128.0 / 132.0,
            Coding::B128b150 => 128.0 / 150.0,
            Coding::Rs528 => 256.0 / 257.0 * 514.0 / 528.0,
            Coding::Rs544 => 256.0 / 257.0 * 514.0 / 544.0,
            Coding::Rs544Kp4 => Coding::Rs544.share() * 31_280.0 / 31_320.0 * 45.0 / 46.0,
        }
    }

    /// As the field writes it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What one symbol on the wire carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
pub(crate) enum Modulation {
    /// Two levels.
    #[strum(serialize = "NRZ")]
    Nrz,
    /// Four levels.
    #[strum(serialize = "PAM4")]
    Pam4,
    /// Five levels, 2 user bits a symbol after the trellis code: 1000BASE-T.
    #[strum(serialize = "PAM5")]
    Pam5,
    /// Sixteen levels, 3.125 user bits a symbol after 64b/65b and LDPC: 2.5GBASE-T to 40GBASE-T (IEEE 802.3
    /// clause 55).
    #[strum(serialize = "PAM16")]
    Pam16,
}

impl Modulation {
    /// Bits a symbol: of the line for NRZ and PAM4, of the user for PAM5 and PAM16.
    pub(crate) fn bits(self) -> f64 {
        match self {
            Modulation::Nrz => 1.0,
            Modulation::Pam4 | Modulation::Pam5 => 2.0,
            Modulation::Pam16 => 3.125,
        }
    }

    /// As the field writes it.
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }
}

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
    fn forward_error_correction_gives_round_rates() {
        // 100GBASE-SR4 and -DR: 4 × 25.78125 GBd NRZ and 1 × 53.125 GBd PAM4 both carry 100 Gb/s.
        assert!((4.0 * 25.78125 * Coding::Rs528.share() - 100.0).abs() < 1e-9);
        assert!((4.0 * 25.78125 * Coding::B64b66.share() - 100.0).abs() < 1e-9);
        assert!((53.125 * Modulation::Pam4.bits() * Coding::Rs544.share() - 100.0).abs() < 1e-9);
        assert!((4.0 * 13.59375 * Modulation::Pam4.bits() * Coding::Rs544Kp4.share() - 100.0).abs() < 1e-9);
    }

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
