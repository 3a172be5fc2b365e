//! Settings of an interface: rings, channels, coalescing, pause frames, forward error correction.
//!
//! Changes of rings, channels, adaptive coalescing and features are the only requests of `ethtool` that need a
//! privilege (CAP_NET_ADMIN). Some drivers take the link down for a moment.

use super::Ethtool;
use std::io;

const ETHTOOL_GCOALESCE: u32 = 0x0000_000e;
const ETHTOOL_SCOALESCE: u32 = 0x0000_000f;
const ETHTOOL_GRINGPARAM: u32 = 0x0000_0010;
const ETHTOOL_SRINGPARAM: u32 = 0x0000_0011;
const ETHTOOL_GPAUSEPARAM: u32 = 0x0000_0012;
const ETHTOOL_SPAUSEPARAM: u32 = 0x0000_0013;
const ETHTOOL_GCHANNELS: u32 = 0x0000_003c;
const ETHTOOL_SCHANNELS: u32 = 0x0000_003d;
const ETHTOOL_GFECPARAM: u32 = 0x0000_0050;

/// Descriptors of the rings; 0 at most: the interface has no such ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rings {
    /// Receive, now.
    pub rx: u32,
    /// Receive, at most.
    pub rx_max: u32,
    /// Transmit, now.
    pub tx: u32,
    /// Transmit, at most.
    pub tx_max: u32,
}

/// Channels, each with an interrupt and its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channels {
    /// Receiving only, now.
    pub rx: u32,
    /// Receiving only, at most.
    pub rx_max: u32,
    /// Transmitting only, now.
    pub tx: u32,
    /// Transmitting only, at most.
    pub tx_max: u32,
    /// Both, now.
    pub combined: u32,
    /// Both, at most.
    pub combined_max: u32,
}

/// How long interrupts are held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalescing {
    /// Receive, microseconds.
    pub rx_us: u32,
    /// Receive, frames.
    pub rx_frames: u32,
    /// Transmit, microseconds.
    pub tx_us: u32,
    /// The driver adapts the receive side to the load.
    pub adaptive_rx: bool,
    /// The driver adapts the transmit side to the load.
    pub adaptive_tx: bool,
}

/// Pause frames (IEEE 802.3 annex 31B).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Negotiated with the other end.
    pub negotiated: bool,
    /// Obeys those that arrive.
    pub rx: bool,
    /// Sends its own.
    pub tx: bool,
}

/// Forward error correction, each a set of `ETHTOOL_FEC_*` bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fec {
    /// In use on the link; empty while the link is down.
    pub active: u32,
    /// What the administrator asked for.
    pub configured: u32,
}

impl Fec {
    /// Name of the mode in use, as `ethtool --show-fec` has it; `None` where none is in use that has a name.
    pub fn active_name(&self) -> Option<&'static str> {
        // Bits of `enum ethtool_fec_config_bits`; auto and none are configured, never in use.
        let names = [(2, "off"), (3, "rs"), (4, "baser"), (5, "llrs")];
        names.iter().find(|(bit, _)| self.active >> bit & 1 == 1).map(|(_, name)| *name)
    }
}

/// `struct ethtool_ringparam`.
#[repr(C)]
#[derive(Default)]
struct RingParameters {
    command: u32,
    rx_max_pending: u32,
    rx_mini_max_pending: u32,
    rx_jumbo_max_pending: u32,
    tx_max_pending: u32,
    rx_pending: u32,
    rx_mini_pending: u32,
    rx_jumbo_pending: u32,
    tx_pending: u32,
}

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct ChannelCounts {
    command: u32,
    max_rx: u32,
    max_tx: u32,
    max_other: u32,
    max_combined: u32,
    rx_count: u32,
    tx_count: u32,
    other_count: u32,
    combined_count: u32,
}

/// `struct ethtool_coalesce`.
#[repr(C)]
#[derive(Default)]
struct CoalesceParameters {
    command: u32,
    rx_coalesce_usecs: u32,
    rx_max_coalesced_frames: u32,
    rx_coalesce_usecs_irq: u32,
    rx_max_coalesced_frames_irq: u32,
    tx_coalesce_usecs: u32,
    tx_max_coalesced_frames: u32,
    tx_coalesce_usecs_irq: u32,
    tx_max_coalesced_frames_irq: u32,
    stats_block_coalesce_usecs: u32,
    use_adaptive_rx_coalesce: u32,
    use_adaptive_tx_coalesce: u32,
    /// Rates at which the figures for low and high load begin, and those figures.
    by_load: [u32; 11],
}

/// `struct ethtool_pauseparam`.
#[repr(C)]
#[derive(Default)]
struct PauseParameters {
    command: u32,
    autoneg: u32,
    rx_pause: u32,
    tx_pause: u32,
}

/// `struct ethtool_fecparam`.
#[repr(C)]
#[derive(Default)]
struct FecParameters {
    command: u32,
    active_fec: u32,
    fec: u32,
    reserved: u32,
}

impl Ethtool {
    /// Ring sizes, as `ethtool -g` shows them.
    pub fn rings(&self, interface: &str) -> io::Result<Rings> {
        let request = RingParameters { command: ETHTOOL_GRINGPARAM, ..Default::default() };
        // SAFETY: RingParameters is struct ethtool_ringparam, which ETHTOOL_GRINGPARAM fills.
        let rings = unsafe { self.fixed(interface, request) }?;
        Ok(Rings {
            rx: rings.rx_pending,
            rx_max: rings.rx_max_pending,
            tx: rings.tx_pending,
            tx_max: rings.tx_max_pending,
        })
    }

    /// Channels, as `ethtool -l` shows them.
    pub fn channels(&self, interface: &str) -> io::Result<Channels> {
        let request = ChannelCounts { command: ETHTOOL_GCHANNELS, ..Default::default() };
        // SAFETY: ChannelCounts is struct ethtool_channels, which ETHTOOL_GCHANNELS fills.
        let counts = unsafe { self.fixed(interface, request) }?;
        Ok(Channels {
            rx: counts.rx_count,
            rx_max: counts.max_rx,
            tx: counts.tx_count,
            tx_max: counts.max_tx,
            combined: counts.combined_count,
            combined_max: counts.max_combined,
        })
    }

    /// Interrupt coalescing, as `ethtool -c` shows it.
    pub fn coalescing(&self, interface: &str) -> io::Result<Coalescing> {
        let request = CoalesceParameters { command: ETHTOOL_GCOALESCE, ..Default::default() };
        // SAFETY: CoalesceParameters is struct ethtool_coalesce, which ETHTOOL_GCOALESCE fills.
        let found = unsafe { self.fixed(interface, request) }?;
        Ok(Coalescing {
            rx_us: found.rx_coalesce_usecs,
            rx_frames: found.rx_max_coalesced_frames,
            tx_us: found.tx_coalesce_usecs,
            adaptive_rx: found.use_adaptive_rx_coalesce != 0,
            adaptive_tx: found.use_adaptive_tx_coalesce != 0,
        })
    }

    /// Pause frames, as `ethtool -a` shows them.
    pub fn pause(&self, interface: &str) -> io::Result<Pause> {
        let request = PauseParameters { command: ETHTOOL_GPAUSEPARAM, ..Default::default() };
        // SAFETY: PauseParameters is struct ethtool_pauseparam, which ETHTOOL_GPAUSEPARAM fills.
        let found = unsafe { self.fixed(interface, request) }?;
        Ok(Pause { negotiated: found.autoneg != 0, rx: found.rx_pause != 0, tx: found.tx_pause != 0 })
    }

    /// Forward error correction, as `ethtool --show-fec` shows it.
    pub fn fec(&self, interface: &str) -> io::Result<Fec> {
        let request = FecParameters { command: ETHTOOL_GFECPARAM, ..Default::default() };
        // SAFETY: FecParameters is struct ethtool_fecparam, which ETHTOOL_GFECPARAM fills.
        let found = unsafe { self.fixed(interface, request) }?;
        Ok(Fec { active: found.active_fec, configured: found.fec })
    }

    /// Sets the descriptors of both rings; all else in the kernel's structure stays.
    pub fn set_rings(&self, interface: &str, rx: u32, tx: u32) -> io::Result<()> {
        let request = RingParameters { command: ETHTOOL_GRINGPARAM, ..Default::default() };
        // SAFETY: as in `rings`.
        let found = unsafe { self.fixed(interface, request) }?;
        let wanted = RingParameters { command: ETHTOOL_SRINGPARAM, rx_pending: rx, tx_pending: tx, ..found };
        // SAFETY: ETHTOOL_SRINGPARAM reads struct ethtool_ringparam.
        unsafe { self.fixed(interface, wanted) }.map(drop)
    }

    /// Sets the channels that both receive and transmit; the others stay.
    pub fn set_combined_channels(&self, interface: &str, combined: u32) -> io::Result<()> {
        let request = ChannelCounts { command: ETHTOOL_GCHANNELS, ..Default::default() };
        // SAFETY: as in `channels`.
        let found = unsafe { self.fixed(interface, request) }?;
        let wanted = ChannelCounts { command: ETHTOOL_SCHANNELS, combined_count: combined, ..found };
        // SAFETY: ETHTOOL_SCHANNELS reads struct ethtool_channels.
        unsafe { self.fixed(interface, wanted) }.map(drop)
    }

    /// Lets the driver adapt the receive coalescing, or not; the others stay.
    pub fn set_adaptive_rx(&self, interface: &str, on: bool) -> io::Result<()> {
        let request = CoalesceParameters { command: ETHTOOL_GCOALESCE, ..Default::default() };
        // SAFETY: as in `coalescing`.
        let found = unsafe { self.fixed(interface, request) }?;
        let wanted = CoalesceParameters {
            command: ETHTOOL_SCOALESCE,
            use_adaptive_rx_coalesce: u32::from(on),
            ..found
        };
        // SAFETY: ETHTOOL_SCOALESCE reads struct ethtool_coalesce.
        unsafe { self.fixed(interface, wanted) }.map(drop)
    }

    /// Whether the interface heeds pause frames and sends some; what it negotiates stays as it is.
    pub fn set_pause(&self, interface: &str, rx: bool, tx: bool) -> io::Result<()> {
        let request = PauseParameters { command: ETHTOOL_GPAUSEPARAM, ..Default::default() };
        // SAFETY: as in `pause`.
        let found = unsafe { self.fixed(interface, request) }?;
        let wanted = PauseParameters {
            command: ETHTOOL_SPAUSEPARAM,
            rx_pause: u32::from(rx),
            tx_pause: u32::from(tx),
            ..found
        };
        // SAFETY: ETHTOOL_SPAUSEPARAM reads struct ethtool_pauseparam.
        unsafe { self.fixed(interface, wanted) }.map(drop)
    }
}

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

    /// A structure smaller than the kernel's would have the stack behind it overwritten.
    #[test]
    fn the_structures_have_the_sizes_that_the_kernel_copies() {
        assert_eq!(size_of::<RingParameters>(), 36);
        assert_eq!(size_of::<ChannelCounts>(), 36);
        assert_eq!(size_of::<CoalesceParameters>(), 92);
        assert_eq!(size_of::<PauseParameters>(), 16);
        assert_eq!(size_of::<FecParameters>(), 16);
    }

    #[test]
    fn names_of_forward_error_correction() {
        let name = |active| Fec { active, configured: 2 }.active_name();
        assert_eq!(name(1 << 2), Some("off"));
        assert_eq!(name(1 << 3), Some("rs"));
        assert_eq!(name(1 << 4), Some("baser"));
        assert_eq!(name(1 << 5), Some("llrs"));
        assert_eq!((name(0), name(2)), (None, None));
    }

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
