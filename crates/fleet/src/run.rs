//! A fleet as a run, so that it is kept, listed, reported and compared as any other result.

use linerate_facts::wording::counted;
use linerate_machine::probe::Machine;
use linerate_measure::measure::{Measurement, Stage};
use linerate_measure::run::Run;
use linerate_measure::run::fleet::{DiskDirection, FleetResult};
use linerate_model::plan::Goal;

/// A fleet as a run: a measurement for each pair of members and for each source of a member. The machines are those of
/// the members, for a run has one.
pub fn run_of(fleet: &FleetResult) -> Run {
    Run {
        host: counted(fleet.members.len() as u64, "host"),
        measurements: [flows(fleet), sources(fleet)].concat(),
        errors: fleet.errors.clone(),
        fleet: Some(Box::new(fleet.clone())),
        ..Run::begin_stage(Stage::Fleet, fleet.pattern.name().into(), Machine::default(), Goal::default())
    }
}

fn flows(fleet: &FleetResult) -> Vec<Measurement> {
    let names = || fleet.members.iter().map(|member| &member.name);
    let pairs = names().flat_map(|from| names().map(move |to| (from, to)));
    let flow = |(from, to): (&String, &String)| {
        Some(Measurement {
            stage: Stage::Network,
            name: format!("{from} to {to}"),
            bytes_per_second: fleet.rate(from, to)?,
            samples: fleet.samples(from, to),
            ..Measurement::default()
        })
    };
    pairs.filter_map(flow).collect()
}

/// Windows of a source differ in how many hosts were busy, so they are not samples of one rate.
fn sources(fleet: &FleetResult) -> Vec<Measurement> {
    let mut measurements: Vec<Measurement> = Vec::new();
    for disk in &fleet.disks {
        let does = match disk.direction {
            DiskDirection::Read => "reads",
            DiskDirection::Write => "writes",
        };
        let name = format!("{} {does} {}", disk.member, disk.source);
        let rate = fleet.disk_rate(&disk.member, &disk.source, disk.direction);
        if let Some(rate) = rate.filter(|_| measurements.iter().all(|known| known.name != name)) {
            measurements.push(Measurement {
                stage: Stage::Disk,
                name,
                bytes_per_second: rate,
                samples: vec![rate],
                ..Measurement::default()
            });
        }
    }
    measurements
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{cell, member};
    use linerate_measure::run::fleet::{FleetDisk, FleetWindow};

    #[test]
    fn each_flow_and_each_source_is_one_measurement() {
        let cell = |rate: f64| {
            let mut cell = cell(0, "h1", "h2", Some(rate));
            cell.figures.samples = vec![rate - 1.0, rate + 1.0];
            cell
        };
        let disk = |rate: f64| FleetDisk {
            member: "h1".into(),
            source: "/data".into(),
            bytes_per_second: Some(rate),
            ..FleetDisk::default()
        };
        let fleet = FleetResult {
            members: vec![member("h1"), member("h2")],
            windows: vec![FleetWindow { flows: 1, ..FleetWindow::default() }],
            cells: vec![cell(10.0), cell(20.0)],
            disks: vec![disk(5.0), disk(7.0)],
            ..FleetResult::default()
        };
        let run = run_of(&fleet);
        let rates: Vec<_> =
            run.measurements.iter().map(|one| (one.name.as_str(), one.bytes_per_second)).collect();
        assert_eq!(rates, [("h1 to h2", 15.0), ("h1 reads /data", 6.0)]);
        assert_eq!(run.measurements[0].samples, [9.0, 11.0, 19.0, 21.0]);
        assert_eq!((run.name.as_str(), run.host.as_str()), ("pairs", "2 hosts"));
        let text = serde_json::to_string(&run).expect("JSON");
        let read: FleetResult = serde_json::from_str(&text).expect("a fleet");
        assert_eq!(read, fleet, "its fields are beside those of the run");
        assert!(text.contains(r#","pattern":"pairs","seconds":0.0,"#), "{text}");
    }
}
