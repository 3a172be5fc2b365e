//! The TCP connections of a program, with what TCP counted of each (`sock_diag`): bytes, the time with data to send, and
//! what limited it in that time.

use crate::descriptors::Descriptors;
use crate::pace::LookPace;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::flow_devices::{FlowDevices, InterfacePath, interfaces_of};
use linerate_system::socket::TcpInfo;
use linerate_system::tcp_sockets::{self, TcpSocket};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

/// Routes are asked for of the busiest connections.
const MOST_ROUTES: usize = 32;
/// Share of the readings between which a connection sends that does so all the time.
const ALL_THE_TIME: f64 = 0.75;
/// Connections that the result lists one by one.
const MOST_SHOWN: usize = 20;

/// The connections of a program, over some time.
#[derive(Debug, Default)]
pub(crate) struct ProgramConnections {
    all: BTreeMap<u64, ConnectionRecord>,
    readings: u32,
    last_at: Option<Instant>,
    pace: LookPace,
    /// Why none can be listed.
    unknown: Option<String>,
}

#[derive(Clone, Debug)]
struct ConnectionRecord {
    ends: Option<[SocketAddr; 2]>,
    bound_to: u32,
    /// It was not there when it was looked at alone.
    ended: bool,
    first: TcpInfo,
    last: TcpInfo,
    least_rtt_us: u32,
    /// From the reading before the first that has it to the last one.
    present: [Instant; 2],
    /// Readings in which something was unread, and those before which it had sent something.
    unread: u32,
    sending: u32,
    readings: u32,
    last_reading: u32,
}

/// One connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ConnectionUse {
    pub local: Option<SocketAddr>,
    pub peer: Option<SocketAddr>,
    /// By which it goes, the nearest first; empty where that is not known.
    pub interfaces: Vec<String>,
    /// Bytes per second.
    pub sent: f64,
    pub received: f64,
    /// Share of the time with data to send, of that in which it was there.
    pub busy: f64,
    /// Of that, shares in which the receiver's window, and our own send buffer, were full.
    pub receive_window_limited: f64,
    pub send_buffer_limited: f64,
    /// Share of the time without data to send: its program gave none.
    pub application_limited: f64,
    pub round_trip_seconds: f64,
    pub least_round_trip_seconds: Option<f64>,
    pub retransmits: u32,
    /// Share of the looks at which received bytes waited for the program.
    pub unread: f64,
    #[serde(skip)]
    pub(crate) segment_bytes: u32,
    /// It sent all the time, and nothing came that asked for it.
    #[serde(skip)]
    pub(crate) sends_unasked: bool,
}

/// All of them together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ConnectionsUse {
    pub count: usize,
    /// Of them, those that ended meanwhile: their last bytes are unknown.
    pub ended: usize,
    /// Bytes per second.
    pub sent: f64,
    pub received: f64,
    /// The busiest.
    pub busiest: Vec<ConnectionUse>,
    /// Why they are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    #[serde(skip)]
    pub(crate) devices: FlowDevices,
}

impl ProgramConnections {
    /// None can be listed, and why.
    pub(crate) fn unknown(why: String) -> Self {
        ProgramConnections { unknown: Some(why), ..ProgramConnections::default() }
    }

    /// Reads all of the namespace, and keeps those of these descriptors, where it is time to.
    pub(crate) fn look(&mut self, descriptors: &Descriptors, is_last: bool) {
        let Some(look) = self.pace.begin(is_last).filter(|_| self.unknown.is_none()) else { return };
        self.take(tcp_sockets::read(), look.at, descriptors.sockets());
        self.pace.end(look);
    }

    fn take(&mut self, read: io::Result<Vec<TcpSocket>>, at: Instant, own: &BTreeSet<u32>) {
        let sockets = match read {
            Ok(sockets) => sockets,
            Err(error) if self.readings == 0 => {
                self.unknown = Some(format!("the kernel lists no TCP connections: {error}"));
                return;
            }
            // A namespace that has ended has no more of them.
            Err(_) => return,
        };
        self.readings += 1;
        for socket in sockets {
            let known = self.all.contains_key(&socket.cookie);
            if !known && (socket.inode == 0 || !own.contains(&socket.inode)) {
                continue;
            }
            // One that was not there at first has been opened since; its SYN counts as a byte.
            let new = TcpInfo { acknowledged_bytes: 1, ..TcpInfo::default() };
            let first = if self.readings == 1 { socket.info } else { new };
            let record = self.all.entry(socket.cookie).or_insert(ConnectionRecord {
                ends: socket.ends,
                bound_to: socket.bound_to,
                ended: false,
                first,
                last: socket.info,
                least_rtt_us: socket.least_rtt_us,
                present: [self.last_at.unwrap_or(at), at],
                unread: 0,
                sending: 0,
                readings: 0,
                last_reading: 0,
            });
            record.present[1] = at;
            let sent = socket.info.acknowledged_bytes > record.last.acknowledged_bytes;
            record.sending += u32::from(sent);
            record.last = socket.info;
            record.least_rtt_us = socket.least_rtt_us;
            record.readings += 1;
            record.last_reading = self.readings;
            record.unread += u32::from(socket.unread_bytes > 0);
        }
        self.last_at = Some(at);
    }

    /// Looks at those that are known, one by one: of few that costs less than to list all of the namespace.
    pub(crate) fn look_at_known(&mut self) {
        for (cookie, record) in self.all.iter_mut().filter(|(_, record)| !record.ended) {
            let (ends, bound_to) = (record.ends, record.bound_to);
            let known = TcpSocket { cookie: *cookie, ends, bound_to, ..TcpSocket::default() };
            match tcp_sockets::read_again(&known) {
                Some(now) => record.last = now.info,
                None => record.ended = true,
            }
        }
    }

    /// Bytes of all of them since the first reading.
    pub(crate) fn moved(&self, sends: bool) -> u64 {
        let of = |info: &TcpInfo| if sends { info.acknowledged_bytes } else { info.received_bytes };
        self.all.values().map(|record| of(&record.last).saturating_sub(of(&record.first))).sum()
    }

    /// What each moved.
    pub(crate) fn end(&self, sysroot: &Sysroot, seconds: f64) -> ConnectionsUse {
        let mut records: Vec<(ConnectionUse, u32)> =
            self.all.values().map(|record| (record.used(seconds), record.bound_to)).collect();
        records.sort_by(|(a, _), (b, _)| (b.sent + b.received).total_cmp(&(a.sent + a.received)));
        let devices = self.route(sysroot, &mut records);
        let mut all: Vec<ConnectionUse> = records.into_iter().map(|(used, _)| used).collect();
        let sum = |of: fn(&ConnectionUse) -> f64| all.iter().map(of).fold(0.0, |sum, one| sum + one);
        let (sent, received) = (sum(|one| one.sent), sum(|one| one.received));
        let count = all.len();
        all.truncate(MOST_SHOWN.max(all.iter().filter(|one| one.sent + one.received > 0.0).count()));
        let ended = self.all.values().filter(|record| record.last_reading < self.readings).count();
        ConnectionsUse { count, ended, sent, received, busiest: all, unknown: self.unknown.clone(), devices }
    }

    /// Asks by which interfaces those go that moved anything, and names these in each.
    fn route(&self, sysroot: &Sysroot, records: &mut [(ConnectionUse, u32)]) -> FlowDevices {
        let mut devices = FlowDevices::default();
        let mut asked: BTreeMap<(IpAddr, IpAddr, u32), InterfacePath> = BTreeMap::new();
        for (used, bound_to) in records.iter_mut().filter(|(used, _)| used.sent + used.received > 0.0) {
            let Some((local, peer)) = used.local.zip(used.peer) else { continue };
            let key = (local.ip(), peer.ip(), *bound_to);
            if !asked.contains_key(&key) && asked.len() < MOST_ROUTES {
                let both = interfaces_of(sysroot, local, peer, *bound_to);
                asked.insert(key, if used.sent >= used.received { both.sends } else { both.receives });
            }
            if let Some(path) = asked.get(&key) {
                devices.add(path);
                used.interfaces.clone_from(&path.interfaces);
            }
        }
        devices
    }
}

impl ConnectionRecord {
    fn used(&self, seconds: f64) -> ConnectionUse {
        let (first, last) = (self.first, self.last);
        let rate = |then: u64, now: u64| now.saturating_sub(then) as f64 / seconds.max(1e-3);
        let busy_us = last.busy_us.saturating_sub(first.busy_us);
        let share =
            |then: u64, now: u64| (now.saturating_sub(then) as f64 / (busy_us as f64).max(1.0)).min(1.0);
        let present = (self.present[1] - self.present[0]).as_secs_f64();
        let busy = (busy_us as f64 / 1e6 / present.max(1e-3)).min(1.0);
        ConnectionUse {
            local: self.ends.map(|ends| ends[0]),
            peer: self.ends.map(|ends| ends[1]),
            interfaces: Vec::new(),
            sent: rate(first.acknowledged_bytes, last.acknowledged_bytes),
            received: rate(first.received_bytes, last.received_bytes),
            busy,
            receive_window_limited: share(first.receiver_limited_us, last.receiver_limited_us),
            send_buffer_limited: share(first.send_buffer_limited_us, last.send_buffer_limited_us),
            application_limited: 1.0 - busy,
            round_trip_seconds: f64::from(last.rtt_us) / 1e6,
            least_round_trip_seconds: (self.least_rtt_us > 0 && self.least_rtt_us < u32::MAX)
                .then(|| f64::from(self.least_rtt_us) / 1e6),
            retransmits: last.retransmits.saturating_sub(first.retransmits),
            unread: f64::from(self.unread) / f64::from(self.readings.max(1)),
            segment_bytes: last.segment_bytes,
            sends_unasked: last.received_bytes == first.received_bytes
                && f64::from(self.sending) >= ALL_THE_TIME * f64::from(self.readings),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_system::clock;
    use std::time::Duration;

    fn socket(inode: u32, info: TcpInfo) -> TcpSocket {
        TcpSocket { cookie: u64::from(inode), inode, info, ..TcpSocket::default() }
    }

    #[test]
    fn counters_of_two_readings_are_rates_and_shares_and_others_are_left_out() {
        let own: BTreeSet<u32> = [1, 2].into();
        let info = |acknowledged_bytes, busy_us, receiver_limited_us| TcpInfo {
            acknowledged_bytes,
            busy_us,
            receiver_limited_us,
            ..TcpInfo::default()
        };
        let mut all = ProgramConnections::default();
        let (begin, second) = (clock::now(), Duration::from_secs(1));
        all.take(Ok(vec![socket(1, info(1000, 0, 0)), socket(9, info(5, 0, 0))]), begin, &own);
        let late = info(2_001, 0, 0);
        all.take(
            Ok(vec![socket(1, info(21_000, 1_000_000, 600_000)), socket(2, late), socket(9, late)]),
            begin + 2 * second,
            &own,
        );
        let used = all.end(&Sysroot::recorded("/nonexistent"), 2.0);
        assert_eq!((used.count, used.sent), (2, 11_000.0));
        let first = &used.busiest[0];
        assert_eq!(used.ended, 0);
        all.take(Ok(vec![socket(2, late)]), begin + 4 * second, &own);
        assert_eq!(all.end(&Sysroot::recorded("/nonexistent"), 2.0).ended, 1);
        assert_eq!(all.moved(true), 20_000 + 2_000);
        assert_eq!((first.busy, first.receive_window_limited, first.application_limited), (0.5, 0.6, 0.5));
    }
}
