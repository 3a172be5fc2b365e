//! What was published of the CPU time of a gigabyte over a NIC, by the kind of a server's memory, which tells its age.
//!
//! D1.1: 1.079 and 1.075 CPUs were busy at 25.21 and 26.77 Gb/s. In its table 4 the idle time of CPU 1 lacks a digit (9.8 %
//! where the others leave 59.7): its busy times count. The slides: 70 % of eight cores at 32.5 Gb/s, all else that the host
//! did with it. A flow of TCP may use two cores: of 30 Gb/s it is the least. The range of 2003's rule is 3.6 to 2 GHz.

use super::rows;
use linerate_facts::protocol::Protocol;
use serde::Serialize;

/// A copy into the socket or out of it, and all that goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CpuCost {
    pub seconds_per_gb: f64,
    /// The lowest and the highest that fits such servers.
    pub range: [f64; 2],
    pub source: &'static str,
}

/// Of a server with this kind of memory (empty: unknown). Where disks are read, a row that counts that goes before.
pub fn published(memory: &str, reads_disks: bool, protocol: Protocol) -> Option<CpuCost> {
    let all = rows(include_str!("cpu_cost.txt"), |[of, from, over, usual, least, most], source| {
        let fits = |cell: &str, word: &str| cell.is_empty() || cell.eq_ignore_ascii_case(word);
        let fits = fits(of, memory.trim()) && fits(over, &protocol.to_string());
        let number = |cell: &str| cell.parse().ok();
        let cost = CpuCost { seconds_per_gb: number(usual)?, range: [number(least)?, number(most)?], source };
        Some((fits && (from.is_empty() || reads_disks), cost))
    });
    all.into_iter().find_map(|(fits, cost)| fits.then_some(cost))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_server_costs_what_was_published_of_its_generation() {
        let cost = |memory, reads_disks, protocol| {
            published(memory, reads_disks, protocol).map(|cost| cost.seconds_per_gb)
        };
        assert_eq!(cost("ddr3", true, Protocol::Udp), Some(1.38));
        assert_eq!(cost("DDR3", false, Protocol::Udp), Some(0.33));
        assert_eq!(cost("DDR3", true, Protocol::Tcp), Some(0.267));
        assert_eq!(cost("DDR2", false, Protocol::Udp), Some(2.67));
        // 42 Gb/s a core, whatever the memory; of UDP nobody published one.
        assert_eq!((cost("DDR5", false, Protocol::Tcp), cost("", true, Protocol::Udp)), (Some(0.1905), None));
        for memory in ["DDR", "DDR2", "DDR3", "DDR4"] {
            let cost = published(memory, true, Protocol::Tcp).expect("a row");
            let [least, most] = cost.range;
            assert!((least..=most).contains(&cost.seconds_per_gb) && !cost.source.is_empty(), "{cost:?}");
        }
    }
}
