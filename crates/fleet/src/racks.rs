//! What racks carry between each other, held against what their hosts could: how far the network is oversubscribed.

use crate::fabric::FabricLinks;
use crate::sentence::listed;
use linerate_facts::units::show_bits_rate;
use linerate_measure::run::fleet::{FleetResult, RackPair};
use std::collections::BTreeMap;

/// Each rack towards each other one, the most oversubscribed first. Flows that failed are missing in both sums.
pub(crate) fn rack_pairs(result: &FleetResult) -> Vec<RackPair> {
    let groups = FabricLinks::new(&result.fabric, &result.members).groups();
    let group = |name: &String| {
        result.members.iter().position(|member| member.name == *name).map(|member| groups[member])
    };
    let mut sums: BTreeMap<(usize, usize), (f64, Option<f64>)> = BTreeMap::new();
    for cell in result.measured_cells() {
        let (Some(from), Some(to)) = (group(&cell.from), group(&cell.to)) else { continue };
        let Some(rate) = cell.figures.bytes_per_second.filter(|_| from != to) else { continue };
        let share = cell.fabric_share.filter(|share| *share > 0.0).unwrap_or(1.0);
        let free = cell.predicted_bytes_per_second.map(|predicted| predicted / share);
        let sum = sums.entry((from, to)).or_insert((0.0, Some(0.0)));
        sum.0 += rate;
        sum.1 = sum.1.zip(free).map(|(sum, free)| sum + free);
    }
    let hosts = |wanted: usize| {
        let members = result.members.iter().zip(&groups).filter(|(_, group)| **group == wanted);
        members.map(|(member, _)| member.name.clone()).collect::<Vec<String>>()
    };
    let pair = |((from, to), (rate, free)): ((usize, usize), (f64, Option<f64>))| RackPair {
        from: hosts(from),
        to: hosts(to),
        bytes_per_second: rate,
        hosts_bytes_per_second: free,
        oversubscription: free.filter(|_| rate > 0.0).map(|free| free / rate),
    };
    let mut pairs: Vec<RackPair> = sums.into_iter().map(pair).collect();
    let key = |pair: &RackPair| pair.oversubscription.unwrap_or_default();
    pairs.sort_by(|one, other| key(other).total_cmp(&key(one)));
    pairs
}

/// The pair that carries the least of what its hosts could.
pub(crate) fn rack_sentence(pairs: &[RackPair]) -> Option<String> {
    let worst = pairs.first()?;
    let over = match (worst.hosts_bytes_per_second, worst.oversubscription) {
        (Some(free), Some(ratio)) => {
            format!(", and their hosts could {}: oversubscribed {ratio:.1} : 1", show_bits_rate(free))
        }
        _ => String::new(),
    };
    Some(format!(
        "the worst of {} ways between racks, {} to {}, carries {}{over}",
        pairs.len(),
        listed(&worst.from),
        listed(&worst.to),
        show_bits_rate(worst.bytes_per_second)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::parse_rack;
    use linerate_measure::run::fleet::{FleetCell, FleetMember, FleetWindow, FlowFigures};

    #[test]
    fn oversubscription_is_what_hosts_could_by_what_the_racks_carry() {
        let mut result = FleetResult {
            fabric: ["h[1-2]:10G", "h[3-4]"].map(|rack| parse_rack(rack).expect("a rack")).to_vec(),
            windows: vec![FleetWindow::default()],
            ..FleetResult::default()
        };
        result.members = (1..=4)
            .map(|number| FleetMember { name: format!("h{number}"), ..FleetMember::default() })
            .collect();
        // Of one way the declared uplink is expected to take half, and takes two thirds.
        for (from, to, rate, share) in [
            ("h1", "h3", 40.0, 0.6),
            ("h2", "h4", 40.0, 0.6),
            ("h3", "h1", 100.0, 1.0),
            ("h4", "h2", 100.0, 1.0),
        ] {
            result.cells.push(FleetCell {
                from: from.into(),
                to: to.into(),
                predicted_bytes_per_second: Some(120.0 * share),
                fabric_share: Some(share),
                figures: FlowFigures { bytes_per_second: Some(rate), ..FlowFigures::default() },
                ..FleetCell::default()
            });
        }
        let pairs = rack_pairs(&result);
        assert_eq!(pairs.len(), 2);
        assert_eq!((pairs[0].from.join(","), pairs[0].to.join(",")), ("h1,h2".into(), "h3,h4".into()));
        assert_eq!((pairs[0].bytes_per_second, pairs[0].hosts_bytes_per_second), (80.0, Some(240.0)));
        assert_eq!((pairs[0].oversubscription, pairs[1].oversubscription), (Some(3.0), Some(1.2)));
        let sentence = rack_sentence(&pairs).expect("a sentence");
        assert!(
            sentence.contains("h1, h2 to h3, h4, carries 640 b/s")
                && sentence.ends_with("oversubscribed 3.0 : 1"),
            "{sentence}"
        );
        result.cells.clear();
        assert_eq!(rack_sentence(&rack_pairs(&result)), None);
    }
}
