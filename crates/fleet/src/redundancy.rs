//! What a store of several servers would carry, if it kept what it holds as copies or in an erasure code: arithmetic on
//! what was measured, as plain as that.
//!
//! One server takes an object from its client whole, keeps one part, and sends the others to as many other servers; it
//! gathers the parts again for who reads it. With `k` data parts and `m` more, a byte that is read crosses the network
//! 1 + (k − 1) / k times and one that is written 1 + (k + m − 1) / k times; disks write (k + m) / k. Copies are a code with
//! one data part. So Ceph and most others do it; a client that codes by itself sends less to the servers.

use crate::predict::{MemberCapacities, disks_alone};
use linerate_measure::run::fleet::{
    DiskDirection, FleetResult, Redundancy, StoreEstimate, StoreLimit, StoreRate,
};

/// What one byte that a client reads or writes costs.
fn cost(scheme: Redundancy, writes: bool) -> TrafficCost {
    let (data, parity) = (f64::from(scheme.data), f64::from(scheme.parity));
    match writes {
        false => TrafficCost { between: (data - 1.0) / data, disks: 1.0 },
        true => TrafficCost { between: (data + parity - 1.0) / data, disks: (data + parity) / data },
    }
}

/// Bytes for each byte of a client.
#[derive(Clone, Copy)]
struct TrafficCost {
    /// From server to server.
    between: f64,
    disks: f64,
}

/// The servers and clients of a fleet, as each was measured alone.
struct StoreMembers {
    servers: f64,
    /// What one server does: all hold the same share, so the slowest says when all are full. Infinite: not measured.
    send: f64,
    receive: f64,
    disks_read: f64,
    disks_write: f64,
    disks_written: bool,
    clients_send: f64,
    clients_receive: f64,
}

impl StoreMembers {
    fn of(result: &FleetResult) -> Option<StoreMembers> {
        let own = MemberCapacities::of(result)?;
        let (read, write) =
            (disks_alone(result, DiskDirection::Read), disks_alone(result, DiskDirection::Write));
        let (servers, clients): (Vec<usize>, Vec<usize>) =
            (0..result.members.len()).partition(|at| result.servers.contains(&result.members[*at].name));
        if servers.is_empty() || clients.is_empty() {
            return None;
        }
        let least = |of: &[f64]| servers.iter().map(|at| of[*at]).fold(f64::INFINITY, f64::min);
        let sum = |of: &[f64]| clients.iter().map(|at| of[*at]).sum::<f64>();
        Some(StoreMembers {
            servers: servers.len() as f64,
            send: least(&own.send),
            receive: least(&own.receive),
            disks_read: least(&read),
            disks_write: least(&write),
            disks_written: result.disks.iter().any(|disk| disk.direction == DiskDirection::Write),
            clients_send: sum(&own.send),
            clients_receive: sum(&own.receive),
        })
    }

    fn rate(&self, scheme: Redundancy, writes: bool) -> Option<StoreRate> {
        let TrafficCost { between, disks } = cost(scheme, writes);
        let disk = if writes { self.disks_write } else { self.disks_read };
        // What the clients read the servers send, what they write the servers receive.
        let (sends, receives) = if writes { (between, 1.0 + between) } else { (1.0 + between, between) };
        let clients = if writes { self.clients_send } else { self.clients_receive };
        let limits = [
            (StoreLimit::Disks, self.servers * disk / disks),
            (StoreLimit::ServersSend, self.servers * self.send / sends),
            (StoreLimit::ServersReceive, self.servers * self.receive / receives),
            (StoreLimit::Clients, clients),
        ];
        let least = limits.into_iter().min_by(|one, other| one.1.total_cmp(&other.1));
        let (limit, bytes_per_second) = least.filter(|(_, rate)| rate.is_finite() && *rate > 0.0)?;
        Some(StoreRate { traffic_factor: 1.0 + between, bytes_per_second, limit })
    }
}

/// What each of these ways would leave of what was measured.
pub(crate) fn estimates(ways: &[Redundancy], result: &FleetResult) -> Vec<StoreEstimate> {
    let Some(members) = StoreMembers::of(result) else { return Vec::new() };
    let of = |scheme: &Redundancy| StoreEstimate {
        redundancy: *scheme,
        read: members.rate(*scheme, false),
        write: members.rate(*scheme, true),
        disks_written: members.disks_written,
    };
    ways.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scheme(text: &str) -> Redundancy {
        text.parse().expect("a way to keep data")
    }

    #[test]
    fn copies_are_a_code_of_one_part() {
        let factors = |text: &str| {
            let (read, write) = (cost(scheme(text), false), cost(scheme(text), true));
            (1.0 + read.between, 1.0 + write.between, write.disks)
        };
        assert_eq!(factors("1"), (1.0, 1.0, 1.0));
        assert_eq!(factors("3"), (1.0, 3.0, 3.0));
        assert_eq!(factors("4+2"), (1.75, 2.25, 1.5));
        assert_eq!(factors("8+3"), (1.875, 2.25, 1.375));
        assert_eq!((scheme("3").to_string(), scheme("4+2").to_string()), ("3 copies".into(), "4+2".into()));
        assert_eq!((scheme("3").servers(), scheme("4+2").servers()), (3, 6));
        for wrong in ["", "0", "0+2", "4+", "+2", "4+2+1", "three", "200+56", "4294967295+1"] {
            assert!(wrong.parse::<Redundancy>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_fullest_first_limits() {
        let members = StoreMembers {
            servers: 6.0,
            send: 100.0,
            receive: 100.0,
            disks_read: 80.0,
            disks_write: 60.0,
            disks_written: true,
            clients_send: 1000.0,
            clients_receive: 1000.0,
        };
        let rate = |text: &str, writes| {
            let rate = members.rate(scheme(text), writes).expect("a rate");
            (rate.bytes_per_second.round(), rate.limit)
        };
        assert_eq!(rate("1", false), (480.0, StoreLimit::Disks));
        // 600 ÷ 1.75.
        assert_eq!(rate("4+2", false), (343.0, StoreLimit::ServersSend));
        // 6 × 60 ÷ 3, and 600 ÷ 3 of the network.
        assert_eq!(rate("3", true), (120.0, StoreLimit::Disks));
        assert_eq!(rate("4+2", true), (240.0, StoreLimit::Disks));
        let unwritten = StoreMembers { disks_write: f64::INFINITY, ..members };
        let rate = unwritten.rate(scheme("4+2"), true).expect("a rate");
        assert_eq!((rate.bytes_per_second.round(), rate.limit), (267.0, StoreLimit::ServersReceive));
        let few = StoreMembers { clients_send: 50.0, ..unwritten };
        assert_eq!(few.rate(scheme("3"), true).map(|rate| rate.limit), Some(StoreLimit::Clients));
    }
}
