//! What a NIC's driver reports over ethtool: rings, channels, offloads, coalescing, firmware, error correction.
//! Only of the live machine.

use crate::probe::machine::NicDetails;
use linerate_facts::fact::Fact;
use linerate_system::Errno;
use linerate_system::ethtool::{Channels, Duplex, Ethtool, Link};
use std::io;

/// Why no driver can be asked, as a phrase.
#[derive(Debug, thiserror::Error)]
pub enum DriversUnasked {
    #[error("a recorded tree does not hold what the driver reports")]
    Recorded,
    #[error("no socket to ask the drivers over: {0}")]
    NoSocket(io::Error),
}

const NOT_TOLD: &str = "the driver does not report";

/// Asks the driver, or says why it cannot be asked.
pub(crate) fn read(ethtool: &Result<Ethtool, DriversUnasked>, name: &str) -> NicDetails {
    let ethtool = match ethtool {
        Ok(ethtool) => ethtool,
        Err(why) => return unknown(&why.to_string()),
    };
    // A bond writes the version of its interface to ifenslave there, which is not firmware.
    let driver = ethtool.driver(name);
    let rings = ethtool.rings(name);
    let coalescing = ethtool.coalescing(name);
    let link = ethtool.link(name);
    NicDetails {
        rx_ring: answer(&rings, |rings| (rings.rx_max > 0).then_some((rings.rx, rings.rx_max))),
        tx_ring: answer(&rings, |rings| (rings.tx_max > 0).then_some((rings.tx, rings.tx_max))),
        channels: answer(&ethtool.channels(name), receiving),
        offloads: answer(&ethtool.features(name), |names| Some(names.clone())),
        rx_coalesce_us: answer(&coalescing, |found| Some(found.rx_us)),
        adaptive_rx: answer(&coalescing, |found| Some(found.adaptive_rx)),
        firmware: answer(&driver, |driver| real_name(&driver.firmware).filter(|_| driver.name != "bonding")),
        driver_version: answer(&driver, |driver| real_name(&driver.version)),
        fec: answer(&ethtool.fec(name), |fec| fec.active_name().map(str::to_string)),
        pause: answer(&ethtool.pause(name), |pause| Some((pause.rx, pause.tx))),
        port: answer(&link, |link| link.port.map(str::to_string)),
        full_duplex: answer(&link, |link| Some(link.duplex? == Duplex::Full)),
        negotiated: answer(&link, |link| Some(link.negotiated)),
        link_max_bits_per_second: fastest(&link),
    }
}

/// All unknown for one reason.
fn unknown(why: &str) -> NicDetails {
    NicDetails {
        rx_ring: Fact::unknown(why),
        tx_ring: Fact::unknown(why),
        channels: Fact::unknown(why),
        offloads: Fact::unknown(why),
        rx_coalesce_us: Fact::unknown(why),
        adaptive_rx: Fact::unknown(why),
        firmware: Fact::unknown(why),
        driver_version: Fact::unknown(why),
        fec: Fact::unknown(why),
        pause: Fact::unknown(why),
        port: Fact::unknown(why),
        full_duplex: Fact::unknown(why),
        negotiated: Fact::unknown(why),
        link_max_bits_per_second: Fact::unknown(why),
    }
}

/// An answer as a fact; `None` from `take` is an answer that reports nothing.
fn answer<A, T>(answer: &io::Result<A>, take: impl FnOnce(&A) -> Option<T>) -> Fact<T> {
    match answer {
        Ok(found) => Fact::from_option(take(found), NOT_TOLD),
        Err(error) => Fact::unknown(why(error)),
    }
}

/// Why a driver does not answer, as a phrase.
fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::Unsupported => NOT_TOLD.into(),
        io::ErrorKind::PermissionDenied => "only root may ask the driver".into(),
        // ENODEV has no kind of its own.
        _ if Errno::from_io_error(error) == Some(Errno::NODEV) => {
            "the interface is gone, or in another network namespace".into()
        }
        _ => format!("{NOT_TOLD} ({error})"),
    }
}

fn real_name(text: &str) -> Option<String> {
    // Drivers without firmware leave it empty, or write this.
    (!text.is_empty() && text != "N/A").then(|| text.to_string())
}

/// Channels that receive, now and at most. A card that offers combined channels *or* separate ones counts its
/// interrupts in both (bnxt_en): the larger maximum is the truth.
fn receiving(channels: &Channels) -> Option<(u32, u32)> {
    let now = channels.combined.saturating_add(channels.rx);
    let most = channels.combined_max.max(channels.rx_max).max(now);
    (most > 0).then_some((now, most))
}

fn fastest(link: &io::Result<Link>) -> Fact<u64> {
    match link {
        Ok(link) => Fact::from_option(link.fastest_bits_per_second, "the driver reports no link modes"),
        Err(error) => Fact::unknown(why(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channels(rx: (u32, u32), tx: (u32, u32), combined: (u32, u32)) -> Channels {
        Channels {
            rx: rx.0,
            rx_max: rx.1,
            tx: tx.0,
            tx_max: tx.1,
            combined: combined.0,
            combined_max: combined.1,
        }
    }

    #[test]
    fn channels_that_receive() {
        assert_eq!(receiving(&channels((0, 0), (0, 0), (8, 63))), Some((8, 63)), "mlx5");
        assert_eq!(receiving(&channels((0, 37), (0, 37), (16, 74))), Some((16, 74)), "bnxt_en");
        assert_eq!(receiving(&channels((4, 4), (2, 2), (0, 0))), Some((4, 4)), "veth");
        assert_eq!(receiving(&channels((0, 0), (1, 1), (0, 0))), None);
        assert_eq!(receiving(&channels((u32::MAX, 1), (0, 0), (1, 1))), Some((u32::MAX, u32::MAX)));
    }

    #[test]
    fn why_a_driver_does_not_answer() {
        let of = |errno: Errno| why(&errno.into());
        assert_eq!(of(Errno::OPNOTSUPP), "the driver does not report");
        assert_eq!(of(Errno::PERM), "only root may ask the driver");
        assert_eq!(of(Errno::NODEV), "the interface is gone, or in another network namespace");
        assert!(of(Errno::IO).starts_with("the driver does not report (Input/output error"));
    }

    #[test]
    fn loopback_has_offloads_and_no_rings() {
        let details = read(&Ethtool::new().map_err(DriversUnasked::NoSocket), "lo");
        if let Some(offloads) = details.offloads.known() {
            assert!(offloads.iter().any(|name| name == "tx-tcp-segmentation"), "{offloads:?}");
            assert_eq!(details.rx_ring.why(), Some(NOT_TOLD));
            assert_eq!(details.fec.why(), Some(NOT_TOLD));
        }
        assert_eq!(
            read(&Err(DriversUnasked::Recorded), "lo"),
            unknown(&DriversUnasked::Recorded.to_string())
        );
    }
}
