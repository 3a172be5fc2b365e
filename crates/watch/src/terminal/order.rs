//! Which NICs and disks a screen shows, and in which order: the busiest first; idle ones that are virtual or have
//! no link are folded away, until the person asks for all.

use super::state::View;
use crate::history::{SeriesKind, Span};
use crate::model::{DiskRates, NicDirection, NicRates};

/// Drivers of interfaces that are not hardware (`ethtool -i`).
const VIRTUAL: [&str; 14] = [
    "veth",
    "bridge",
    "tun",
    "dummy",
    "ifb",
    "macvlan",
    "ipvlan",
    "vxlan",
    "geneve",
    "wireguard",
    "openvswitch",
    "nlmon",
    "ip6tnl",
    "802.1Q VLAN Support",
];
/// So many of the newest moments decide the order: rows that change places every second cannot be read.
const MOMENTS: usize = 10;

/// What is shown, and how many are folded away.
pub(crate) struct VisibleRows<'a, T> {
    pub(crate) rows: Vec<&'a T>,
    pub(crate) folded: usize,
}

/// The interfaces.
pub(crate) fn nics<'a>(view: &View<'a>) -> VisibleRows<'a, NicRates> {
    let moves = |nic: &NicRates| {
        let now = [nic.send.bits_per_second, nic.receive.bits_per_second];
        lately(view, [SeriesKind::NicSend, SeriesKind::NicReceive], &nic.name, now)
    };
    let is_folded = |nic: &NicRates, moved: f64| {
        let is_virtual = nic.driver.as_deref().is_none_or(|driver| VIRTUAL.contains(&driver));
        moved <= 0.0 && !nic_is_busy(nic) && (is_virtual || nic.carrier == Some(false))
    };
    shown(view, &view.moment.nics, moves, is_folded)
}

/// The disks.
pub(crate) fn disks<'a>(view: &View<'a>) -> VisibleRows<'a, DiskRates> {
    let moves = |disk: &DiskRates| {
        let now = [disk.read.bytes_per_second, disk.write.bytes_per_second];
        let moved = lately(view, [SeriesKind::DiskRead, SeriesKind::DiskWrite], &disk.name, now);
        // The bytes of a virtual one are those of the disks below, which come first.
        if disk.is_virtual { moved / 2.0 } else { moved }
    };
    let is_folded = |disk: &DiskRates, moved: f64| {
        let is_empty = disk.size_bytes == Some(0);
        moved <= 0.0 && !disk_is_busy(disk) && (disk.is_virtual || is_empty)
    };
    shown(view, &view.moment.disks, moves, is_folded)
}

/// It moves something, or loses something.
pub(crate) fn nic_is_busy(nic: &NicRates) -> bool {
    let some = |way: &NicDirection| {
        [way.bits_per_second, way.drops_per_second, way.errors_per_second]
            .iter()
            .flatten()
            .any(|rate| *rate > 0.0)
    };
    some(&nic.receive) || some(&nic.send)
}

/// Requests come to it.
pub(crate) fn disk_is_busy(disk: &DiskRates) -> bool {
    [&disk.read, &disk.write, &disk.discard]
        .iter()
        .any(|way| way.requests_per_second.is_some_and(|rate| rate > 0.0))
}

fn shown<'a, T>(
    view: &View<'_>,
    all: &'a [T],
    moves: impl Fn(&T) -> f64,
    is_folded: impl Fn(&T, f64) -> bool,
) -> VisibleRows<'a, T> {
    let mut rows: Vec<(f64, &T)> = all.iter().map(|one| (moves(one), one)).collect();
    // Those that move the same stay in the order of their names.
    rows.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let open: Vec<&T> =
        rows.iter().filter(|(moved, one)| !is_folded(one, *moved)).map(|(_, one)| *one).collect();
    // Where nothing is left, all of them were asked for, or there are no others.
    if view.state.all || open.is_empty() {
        return VisibleRows { rows: rows.into_iter().map(|(_, one)| one).collect(), folded: 0 };
    }
    VisibleRows { folded: all.len() - open.len(), rows: open }
}

/// What it moved in the last moments, both directions together; what is unknown counts as nothing.
fn lately(view: &View<'_>, kinds: [SeriesKind; 2], name: &str, now: [Option<f64>; 2]) -> f64 {
    let means = kinds.into_iter().zip(now).map(|(kind, now)| {
        let past = view.history.past(Span::Minute, kind, name);
        let past = past.map(|past| past.mean).unwrap_or_default();
        let newest = past.iter().rev().take(MOMENTS).flatten().map(|rate| f64::from(*rate));
        let (count, sum) = newest.fold((0.0, 0.0), |(count, sum), rate| (count + 1.0, sum + rate));
        if count > 0.0 { sum / count } else { now.unwrap_or(0.0) }
    });
    means.sum()
}
