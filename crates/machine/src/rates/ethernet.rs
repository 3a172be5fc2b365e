//! Ethernet: the share of a link's rate that is payload of TCP or UDP, and how many packets a second that is.
//!
//! A full frame takes MTU + 38 bytes of the wire: preamble and start 8, header 14, check sequence 4, gap 12
//! (IEEE 802.3); an 802.1Q tag 4 more. Of the MTU, the headers of IP and of the transport are not payload.
//!
//! Below that are Ethernet's physical layers: lanes × symbols × bits, what the line code leaves, the medium
//! and its reach.
//!
//! The rate of the MAC follows from the line: 4 lanes × 25.78125 GBd × 64/66 = 100 Gb/s. Media and reaches are
//! those of IEEE 802.3; a module of a maker may do more.

use super::overhead::{Coding, Modulation};
use super::rows;

/// Bytes on the wire besides the MTU: preamble and start 8, header 14, check sequence 4, gap 12.
const FRAME_OVERHEAD_BYTES: u32 = 38;
/// An 802.1Q tag.
const TAG_BYTES: u32 = 4;
/// Preamble, start and the gap after a frame: on the wire, but not of the frame.
const BETWEEN_FRAMES_BYTES: u32 = 20;
/// The smallest frame, from the header to the check sequence, tags included; shorter ones are padded (IEEE
/// 802.3, 4A.2.3.2.4).
const SMALLEST_FRAME_BYTES: u32 = 64;

/// Plaintext ÷ bytes of the TCP stream of TLS 1.3 (RFC 8446) with full records of 16,384 bytes: header 5, type of the
/// content 1, tag of AES-GCM 16.
pub const TLS_RECORD_SHARE: f64 = 16_384.0 / (16_384.0 + 22.0);

/// Headers above Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// TCP over IPv4 with timestamps (RFC 7323), Linux's default: 20 + 32.
    Tcp4Timestamps,
    /// TCP over IPv4 without options: 20 + 20.
    Tcp4,
    /// UDP over IPv4: 20 + 8.
    Udp4,
    /// TCP over IPv6 with timestamps: 40 + 32.
    Tcp6Timestamps,
    /// TCP over IPv6 without options: 40 + 20.
    Tcp6,
    /// UDP over IPv6: 40 + 8.
    Udp6,
}

impl Stack {
    /// TCP with timestamps as Linux sends it, over IPv4 or IPv6.
    pub fn tcp(ipv6: bool) -> Self {
        if ipv6 { Stack::Tcp6Timestamps } else { Stack::Tcp4Timestamps }
    }

    /// UDP over IPv4 or IPv6.
    pub fn udp(ipv6: bool) -> Self {
        if ipv6 { Stack::Udp6 } else { Stack::Udp4 }
    }

    /// Bytes of IP and transport headers in each packet.
    pub fn header_bytes(self) -> u32 {
        match self {
            Stack::Tcp4Timestamps => 52,
            Stack::Tcp4 => 40,
            Stack::Udp4 => 28,
            Stack::Tcp6Timestamps => 72,
            Stack::Tcp6 => 60,
            Stack::Udp6 => 48,
        }
    }
}

/// Payload bytes of one full packet; `None` where the MTU does not hold the headers and one byte.
pub fn payload_bytes(mtu: u32, stack: Stack) -> Option<u32> {
    mtu.checked_sub(stack.header_bytes()).filter(|bytes| *bytes > 0)
}

/// Share of the link's rate that is payload, 0 to 1, with full packets back to back.
pub fn goodput_share(mtu: u32, stack: Stack, vlan: bool) -> Option<f64> {
    let payload = payload_bytes(mtu, stack)?;
    Some(f64::from(payload) / frame_wire_bytes(mtu, u32::from(vlan)))
}

/// Bytes of the wire that a packet of `mtu` bytes takes behind this many VLAN tags.
pub fn frame_wire_bytes(mtu: u32, tags: u32) -> f64 {
    let tag_bytes = f64::from(tags) * f64::from(TAG_BYTES);
    let smallest = f64::from(BETWEEN_FRAMES_BYTES + SMALLEST_FRAME_BYTES);
    (f64::from(mtu) + f64::from(FRAME_OVERHEAD_BYTES) + tag_bytes).max(smallest)
}

/// The most frames per second that a link carries: the smallest ones, back to back. A router or firewall has
/// to keep up with these.
pub(crate) fn most_frames_per_second(link_bytes_per_second: f64) -> f64 {
    link_bytes_per_second / f64::from(BETWEEN_FRAMES_BYTES + SMALLEST_FRAME_BYTES)
}

/// A physical layer, or several that differ in the medium only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Phy {
    /// `40GBASE-SR4`, or a group `100GBASE-KR4/CR4/SR4`.
    pub name: &'static str,
    /// Amendment of IEEE 802.3 that brought it.
    pub standard: &'static str,
    /// Lanes (wavelengths, fibres, pairs) per direction.
    pub lanes: u32,
    /// Symbols per second and lane, giga.
    pub gigabaud: f64,
    /// What a symbol carries.
    pub modulation: Modulation,
    /// What the line code leaves.
    pub coding: Coding,
    /// Medium and reach.
    pub medium: &'static str,
}

impl Phy {
    /// Bytes per second and direction of all lanes, before the line code is taken off (BASE-T: after it).
    pub(crate) fn line_bytes_per_second(&self) -> f64 {
        f64::from(self.lanes) * self.gigabaud * 1e9 * self.modulation.bits() / 8.0
    }

    /// Bytes per second and direction of the MAC: the rate that the link is sold as.
    pub(crate) fn mac_bytes_per_second(&self) -> f64 {
        self.line_bytes_per_second() * self.coding.share()
    }
}

/// By rate and age.
pub(crate) fn all_phys() -> Vec<Phy> {
    rows(include_str!("phy.txt"), |[name, standard, lanes, gigabaud, modulation, coding, medium], _| {
        Some(Phy {
            name,
            standard,
            lanes: lanes.parse().ok()?,
            gigabaud: gigabaud.parse().ok()?,
            modulation: modulation.parse().ok()?,
            coding: coding.parse().ok()?,
            medium,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::tables;
    use super::*;

    const STACKS: [(&str, Stack); 6] = [
        ("tcp4_ts", Stack::Tcp4Timestamps),
        ("tcp4", Stack::Tcp4),
        ("udp4", Stack::Udp4),
        ("tcp6_ts", Stack::Tcp6Timestamps),
        ("tcp6", Stack::Tcp6),
        ("udp6", Stack::Udp6),
    ];

    #[test]
    fn literal_shares() {
        let share = |mtu, stack, vlan| goodput_share(mtu, stack, vlan).expect("a share");
        assert_eq!(share(9000, Stack::tcp(false), false), 8948.0 / 9038.0);
        assert_eq!(share(1500, Stack::udp(false), false), 1472.0 / 1538.0);
        assert_eq!(share(1500, Stack::tcp(true), true), 1428.0 / 1542.0);
    }

    #[test]
    fn an_mtu_without_room_for_payload_has_no_share() {
        assert_eq!(goodput_share(52, Stack::Tcp4Timestamps, false), None);
        assert_eq!(goodput_share(0, Stack::Udp4, true), None);
        assert!(goodput_share(u32::MAX, Stack::Udp4, true).is_some_and(|share| share <= 1.0));
    }

    #[test]
    fn packets_of_a_link() {
        assert_eq!(
            (payload_bytes(9000, Stack::Tcp4Timestamps), frame_wire_bytes(9000, 1)),
            (Some(8948), 9042.0)
        );
        // Two tags: IEEE 802.1ad. The smallest frame counts its tags.
        assert_eq!(frame_wire_bytes(1500, 2), 1546.0);
        assert_eq!(frame_wire_bytes(46, 0), 84.0);
        assert_eq!(frame_wire_bytes(40, 1), 84.0);
        assert_eq!(frame_wire_bytes(0, u32::MAX), 4.0 * f64::from(u32::MAX) + 38.0);
        assert!((most_frames_per_second(10e9 / 8.0) / 1e6 - 14.8810).abs() < 1e-4);
        assert_eq!(goodput_share(28, Stack::Udp4, false), None);
    }

    #[test]
    fn equal_to_the_reference_table_of_shares() {
        let Some(rows) = tables::rows("ethernet-efficiency") else { return };
        assert_eq!(rows.len(), 48);
        for row in &rows {
            let stack = STACKS.iter().find(|(name, _)| *name == row["stack"]).expect("a known stack").1;
            let mtu = tables::number(row, "mtu").expect("an MTU") as u32;
            let ours = goodput_share(mtu, stack, row["tag"] != "untagged").expect("a share");
            let theirs = tables::number(row, "efficiency").expect("a share");
            assert!((ours - theirs).abs() <= 5.1e-7, "{row:?}: {ours}");
            assert_eq!(payload_bytes(mtu, stack).map(f64::from), tables::number(row, "payload_bytes"));
            assert_eq!(tables::number(row, "l3l4_header_bytes"), Some(f64::from(stack.header_bytes())));
            let tags = u32::from(row["tag"] != "untagged");
            let wire = row.iter().find(|(column, _)| column.starts_with("wire_bytes")).expect("wire bytes").1;
            assert_eq!(wire.parse(), Ok(frame_wire_bytes(mtu, tags)));
        }
    }

    #[test]
    fn equal_to_the_goodput_of_every_phy() {
        let Some(rows) = tables::rows("ethernet") else { return };
        assert!(rows.len() > 30);
        for row in &rows {
            let gigabits = tables::number(row, "mac_gbps").expect("a rate");
            for (name, stack) in STACKS {
                for mtu in [1500, 9000] {
                    let ours = gigabits * goodput_share(mtu, stack, false).expect("a share");
                    let theirs =
                        tables::number(row, &format!("goodput_{name}_mtu{mtu}_gbps")).expect("a rate");
                    assert!((ours - theirs).abs() <= 5.1e-5, "{} {name}: {ours} {theirs}", row["phy"]);
                }
            }
            let rate = gigabits * 1e9 / 8.0;
            let million = |frames: f64, column: &str| {
                let theirs = tables::number(row, column).expect("a packet rate");
                assert!((frames / 1e6 - theirs).abs() <= 5.1e-5, "{} {column}: {frames}", row["phy"]);
            };
            million(most_frames_per_second(rate), "mpps_64B");
            for mtu in [1500, 9000] {
                million(rate / frame_wire_bytes(mtu, 0), &format!("mpps_mtu{mtu}"));
            }
        }
    }

    #[test]
    fn equal_to_the_reference_table() {
        let Some(rows) = tables::rows("ethernet") else { return };
        let phys = all_phys();
        assert_eq!(rows.len(), phys.len());
        for (row, phy) in rows.iter().zip(&phys) {
            let number = |column: &str| tables::number(row, column).expect("a number");
            assert_eq!((row["phy"].as_str(), row["ieee"].as_str()), (phy.name, phy.standard));
            assert_eq!(number("lanes"), f64::from(phy.lanes));
            assert_eq!(number("gbaud_per_lane"), phy.gigabaud);
            assert_eq!(row["modulation"], phy.modulation.name());
            let line = phy.line_bytes_per_second() * 8.0 / 1e9;
            assert!((number("line_gbps_total") - line).abs() < 5.1e-6, "{row:?} {line}");
            // 10GBASE-W is printed with three decimals, the others are whole or exact.
            let mac = phy.mac_bytes_per_second() * 8.0 / 1e9;
            let printed = if phy.coding == Coding::B64b66InSts192c { 5.1e-4 } else { 1e-9 };
            assert!((number("mac_gbps") - mac).abs() < printed, "{row:?} {mac}");
        }
    }
}
