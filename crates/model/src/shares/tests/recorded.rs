//! Recorded flows with known limits. They are no part of this project: without `shares/records` in the reference
//! beside the workspace (`../shared/reference`, or where LINERATE_REFERENCE says) these tests are skipped and say so.

use super::super::*;
use crate::plan::ResourceKind;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Ticks of a prototype, by column.
struct Recorded {
    columns: BTreeMap<String, Vec<f64>>,
    takers: Vec<String>,
    /// What each taker was meant to take in a second: bytes or CPU time in seconds.
    rates: Vec<f64>,
}

fn recorded(name: &str) -> Option<Recorded> {
    let folder = std::env::var_os("LINERATE_REFERENCE").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference"),
        PathBuf::from,
    );
    let path = folder.join("shares/records").join(name);
    let Ok(text) = std::fs::read_to_string(path.with_extension("csv")) else {
        println!("skipped: no record {name} beside the workspace");
        return None;
    };
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next()?.split(',').collect();
    // The last line may end early.
    let rows: Vec<Vec<f64>> = lines
        .map(|line| line.split(',').filter_map(|value| value.parse().ok()).collect())
        .filter(|row: &Vec<f64>| row.len() == header.len())
        .collect();
    let column =
        |(index, name): (usize, &&str)| (name.to_string(), rows.iter().map(|row| row[index]).collect());
    let columns = header.iter().enumerate().map(column).collect();
    let takers: Vec<String> =
        header.iter().filter_map(|name| name.strip_prefix("a_")).map(str::to_string).collect();
    let rates = rates(&std::fs::read_to_string(path.with_extension("json")).expect("a command"), &takers);
    Some(Recorded { columns, takers, rates })
}

/// From the command that took, whose counters may have the names of takers.
fn rates(json: &str, takers: &[String]) -> Vec<f64> {
    let json: serde_json::Value = serde_json::from_str(json).expect("JSON");
    let args: Vec<&str> =
        json["cmd"].as_array().expect("a command").iter().filter_map(|arg| arg.as_str()).collect();
    let rate = |taker: &String| {
        let of = |pair: &&[&str]| pair[1] == taker && ["--disk", "--nic", "--cpu", "--cg"].contains(&pair[0]);
        let at = args.windows(2).position(|pair| of(&pair)).expect("the taker");
        let behind = if args[at] == "--cg" { 4 } else { 3 };
        args[at + behind].parse().expect("a rate")
    };
    takers.iter().map(rate).collect()
}

impl Recorded {
    fn value(&self, column: &str, row: usize) -> f64 {
        self.columns.get(column).map_or(0.0, |values| values[row])
    }

    /// The sum of all columns that begin so.
    fn sum(&self, prefix: &str, row: usize) -> f64 {
        self.columns.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, values)| values[row]).sum()
    }

    fn rows(&self) -> usize {
        self.columns["t"].len()
    }

    fn subflows(&self) -> usize {
        self.columns.keys().filter(|name| name.starts_with("k_F")).count()
    }

    /// Takers as columns of a record; those of two CPUs are one.
    fn groups(&self) -> Vec<(String, ResourceKind, Vec<usize>)> {
        let mut groups: Vec<(String, ResourceKind, Vec<usize>)> = Vec::new();
        for (index, name) in self.takers.iter().enumerate() {
            let kind = match name.trim_end_matches(char::is_numeric) {
                "disk" => ResourceKind::Disk,
                "nic" => ResourceKind::Nic,
                "cpu" => ResourceKind::Cpu,
                // A group of its own, whose counter holds no other taker.
                _ => ResourceKind::Receiver,
            };
            match groups.iter_mut().find(|group| kind == ResourceKind::Cpu && group.1 == kind) {
                Some(cpus) => cpus.2.push(index),
                None => groups.push((name.clone(), kind, vec![index])),
            }
        }
        groups
    }

    fn tick(&self, row: usize, groups: &[(String, ResourceKind, Vec<usize>)]) -> ShareCounts {
        let of = |prefix: &str, takers: &[usize]| -> f64 {
            takers.iter().map(|taker| self.value(&format!("{prefix}{}", self.takers[*taker]), row)).sum()
        };
        let seconds = self.value("dt", row);
        let flow = self.sum("k_F", row);
        let (all_cost, of_cpus) = (self.sum("c0_", row) + self.sum("c1_", row), self.sum("k_cpu", row));
        let disks = groups.iter().filter(|group| group.1 == ResourceKind::Disk).count() as f64;
        let used = |(name, kind, takers): &(String, ResourceKind, Vec<usize>)| {
            let (number, taken) = (name.trim_start_matches(char::is_alphabetic), of("a_", takers));
            match kind {
                ResourceKind::Disk if self.columns.contains_key(&format!("k_D{number}")) => {
                    self.value(&format!("k_D{number}"), row)
                }
                ResourceKind::Disk => flow / disks + taken,
                ResourceKind::Nic => self.value(&format!("k_N{number}"), row),
                ResourceKind::Cpu => of_cpus + all_cost,
                _ if name == "quota" => self.sum("k_cpuT", row) + taken,
                _ => self.sum("k_cpuR", row) + taken,
            }
        };
        let mask = self.value("mask", row) as u32;
        let wanted = |(_, kind, takers): &(String, ResourceKind, Vec<usize>)| {
            let unit = if matches!(kind, ResourceKind::Disk | ResourceKind::Nic) { 1.0 } else { 1e9 };
            let on = takers.iter().filter(|taker| mask >> **taker & 1 == 1);
            on.map(|taker| self.rates[*taker] * unit * seconds).sum()
        };
        let whole = |values: Vec<f64>| values.into_iter().map(|value| value.max(0.0) as u64).collect();
        ShareCounts {
            nanos: (seconds * 1e9) as u64,
            flow: (0..self.subflows()).map(|index| self.value(&format!("k_F{index}"), row) as u64).collect(),
            used: whole(groups.iter().map(used).collect()),
            taken: whole(groups.iter().map(|group| of("a_", &group.2)).collect()),
            wanted: whole(groups.iter().map(wanted).collect()),
            own_cpu_nanos: whole(
                groups.iter().map(|group| of("c0_", &group.2) + of("c1_", &group.2)).collect(),
            ),
        }
    }

    fn record(&self, settling_ms: u32, window_ms: u32, period_ms: Option<u32>) -> ShareRecord {
        let groups = self.groups();
        let timing = Timing { settling_ms, window_ms, period_ms };
        let slots = self.columns["slot"].iter().fold(0.0, |last: f64, slot| last.max(*slot)) as usize;
        let mut ticks: Vec<Vec<ShareCounts>> = vec![Vec::new(); slots + 1];
        let mut masks = vec![0u32; slots + 1];
        for row in 0..self.rows() {
            let (slot, mask) = (self.value("slot", row) as usize, self.value("mask", row) as u32);
            ticks[slot].push(self.tick(row, &groups));
            let is_on = |takers: &[usize]| takers.iter().any(|taker| mask >> taker & 1 == 1);
            masks[slot] = groups.iter().enumerate().map(|(bit, it)| u32::from(is_on(&it.2)) << bit).sum();
        }
        let cut = masks.iter().zip(&ticks).map(|(mask, ticks)| SlotRecord::cut(*mask, ticks, &timing));
        let disks = groups.iter().filter(|group| group.1 == ResourceKind::Disk).count();
        let taken = groups.iter().map(|(name, kind, _)| TakenResource {
            id: name.clone(),
            members: Vec::new(),
            kind: *kind,
            unit: match kind {
                ResourceKind::Disk | ResourceKind::Nic => TakenUnit::Bytes,
                _ => TakenUnit::CpuNanos,
            },
            pool: (*kind == ResourceKind::Disk && disks == 4).then(|| "the stripe".to_string()),
            busy: None,
        });
        ShareRecord {
            taken: taken.collect(),
            subflows: (0..self.subflows()).map(|index| index.to_string()).collect(),
            timing,
            slots: cut.map_while(|slot| slot).collect(),
            ..ShareRecord::default()
        }
    }

    fn ticks(&self, from: usize, count: usize) -> Vec<ShareCounts> {
        let groups = self.groups();
        (from..from + count).map(|row| self.tick(row, &groups)).collect()
    }
}

/// The shares of a record and what they decide; printed, for a test that fails.
fn estimated(name: &str, [settling_ms, window_ms]: [u32; 2], period_ms: Option<u32>) -> Option<Outcome> {
    let record = recorded(name)?.record(settling_ms, window_ms, period_ms);
    let report = estimate(&record, &[]);
    println!("{name}: {report:#?}");
    Some(Outcome { decision: decide(&record, &report), record, report })
}

struct Outcome {
    record: ShareRecord,
    report: ShareReport,
    decision: Decision,
}

/// Within the two figures' distance of what the study of these records found, whose estimator is another program.
fn is_share(report: &ShareReport, id: &str, value: f64, half_width: f64) -> bool {
    let resource = report.resources.iter().find(|it| it.id == id).expect("a resource");
    let share = resource.share.expect("a share");
    let widest = (1.4 * half_width).max(half_width + 0.02);
    (share.value - value).abs() <= (0.5 * half_width).max(0.015) && share.half_width <= widest
}

fn measured(id: &str, outcome: &Outcome) -> bool {
    let resource = outcome.record.taken.iter().position(|it| it.id == id).expect("a resource");
    outcome.decision == Decision::Measured(ShareLimit::Resource(resource))
}

#[test]
fn a_full_nic_has_all_of_it() {
    for settling_ms in [50, 100] {
        let Some(nic) = estimated("nic", [settling_ms, 200], None) else { return };
        assert!(is_share(&nic.report, "nic0", 0.99, 0.01) && is_share(&nic.report, "disk0", 0.0, 0.01));
        assert!(measured("nic0", &nic));
    }
}

#[test]
fn a_throttled_disk_has_all_of_it_in_whole_periods() {
    let Some(disk) = estimated("disk_jit", [100, 400], Some(100)) else { return };
    assert!(is_share(&disk.report, "disk0", 0.98, 0.04) && measured("disk0", &disk));
    let rises: Vec<f64> = disk.report.resources.iter().filter_map(|it| Some(it.rise?.value)).collect();
    assert!(
        rises[0].abs() < 0.05 && (rises[1] - 1.0).abs() < 0.1,
        "the NIC has room, the disk has none: {rises:?}"
    );
    let Some(long) = estimated("disk_s900", [100, 800], Some(100)) else { return };
    assert!(is_share(&long.report, "disk0", 0.99, 0.02));
    assert!(matches!(long.decision, Decision::Undecided(Undecided::TooFewSlots { slots: 30, .. })));
}

#[test]
fn slots_that_mislead_decide_nothing() {
    let Some(short) = estimated("disk_s150", [50, 100], Some(100)) else { return };
    let Decision::Undecided(Undecided::CarryOver(carry_over)) = &short.decision else { panic!() };
    assert!(carry_over.id == "disk0" && carry_over.lag.low() > 0.1, "{carry_over:?}");
    for (name, window) in [("disk", [150, 150]), ("disk_jit", [100, 350]), ("disk_s150", [50, 75])] {
        let Some(aliased) = estimated(name, window, Some(100)) else { return };
        assert!(matches!(aliased.decision, Decision::Undecided(Undecided::Aliased { .. })), "{name}");
    }
}

#[test]
fn a_virtual_disk_is_full_beside_a_hog_on_a_cpu_too() {
    let Some(vda) = estimated("vda", [100, 200], None) else { return };
    // The study has 1.16 ± 0.18, with all slots alike.
    assert!(is_share(&vda.report, "disk0", 1.06, 0.16) && measured("disk0", &vda));
    let Some(hog) = estimated("hog", [100, 200], None) else { return };
    assert!(is_share(&hog.report, "disk0", 1.20, 0.28) && is_share(&hog.report, "cpu0", 0.22, 0.15));
    assert!(measured("disk0", &hog));
}

/// Where nothing comes in slices, 60 ms tell as much as 200, and 40 ms settle it.
#[test]
fn short_windows_say_the_same_of_what_has_no_period() {
    for (name, full, disk) in [("vda", "disk0", 1.06), ("hog", "disk0", 1.24), ("nic", "nic0", 0.99)] {
        let [Some(short), Some(long)] = [[40, 60], [100, 200]].map(|window| estimated(name, window, None))
        else {
            return;
        };
        let of = |outcome: &Outcome| {
            let found = outcome.report.resources.iter().find(|it| it.id == full);
            found.and_then(|it| it.share.ok()).expect("a share")
        };
        let (short_share, long_share) = (of(&short), of(&long));
        assert!(
            (short_share.value - disk).abs() < short_share.half_width.max(0.02),
            "{name}: {short_share:?}"
        );
        assert!(short_share.half_width < 1.5 * long_share.half_width + 0.01, "{name}: {short_share:?}");
        assert!(measured(full, &short), "{name}: {:?}", short.decision);
    }
    // A throttled disk gives nothing for longer than that, which its period says before.
    let Some(throttled) = estimated("disk", [40, 60], None) else { return };
    assert!(!matches!(throttled.decision, Decision::Measured(_)), "{:?}", throttled.decision);
}

#[test]
fn full_cpus_have_their_share_and_a_quota_in_bursts_leaves_doubt() {
    let Some(cpu) = estimated("cpu2", [250, 300], None) else { return };
    assert!(is_share(&cpu.report, "cpu0", 0.74, 0.18));
    assert!(measured("cpu0", &cpu), "{:?}", cpu.decision);
    // What is taken from them is felt within 100 ms.
    let Some(soon) = estimated("cpu2", [100, 100], None) else { return };
    assert!(is_share(&soon.report, "cpu0", 0.80, 0.21));
    let Some(quota) = estimated("quota2", [100, 500], Some(100)) else { return };
    assert!(is_share(&quota.report, "quota", 0.87, 0.47));
    assert!(matches!(quota.decision, Decision::Undecided(Undecided::Wide(_))), "{:?}", quota.decision);
}

#[test]
fn one_slow_disk_stands_out_and_like_disks_are_full_together() {
    let Some(two) = estimated("disks2", [100, 200], Some(100)) else { return };
    assert!(is_share(&two.report, "disk0", 0.98, 0.08) && is_share(&two.report, "disk1", 0.13, 0.07));
    assert!(measured("disk0", &two));
    let Some(four) = estimated("disks4", [100, 200], Some(100)) else { return };
    let shares = [0.22, 0.23, 0.24, 0.15];
    assert!((0..4).all(|disk| is_share(&four.report, &format!("disk{disk}"), shares[disk], 0.14)));
    assert_eq!(four.decision, Decision::Measured(ShareLimit::Pool(0)));
}

#[test]
fn a_subflow_is_known_where_the_whole_is_not() {
    let Some(nics) = estimated("nics2", [100, 200], None) else { return };
    assert!(matches!(nics.decision, Decision::Undecided(Undecided::Wide(_))), "{:?}", nics.decision);
    let [full, paced] = [0, 1].map(|subflow| {
        let mut record = nics.record.clone();
        record.slots.iter_mut().for_each(|slot| slot.counted.flow = vec![slot.counted.flow[subflow]]);
        estimate(&record, &[])
    });
    assert!(is_share(&full, "nic0", 1.01, 0.04) && is_share(&full, "nic1", 0.02, 0.04));
    assert_eq!(decide(&nics.record, &full), Decision::Measured(ShareLimit::Resource(0)));
    assert!(!matches!(decide(&nics.record, &paced), Decision::Measured(_)));
}

#[test]
fn a_sender_at_a_rate_is_never_limited_by_what_it_uses() {
    let Some(demand) = estimated("demand", [100, 200], None) else { return };
    assert!(is_share(&demand.report, "disk0", 0.17, 0.40) && is_share(&demand.report, "cpu0", -0.08, 0.08));
    assert!(matches!(demand.decision, Decision::Undecided(Undecided::Wide(_))), "{:?}", demand.decision);
}

#[test]
fn periods_are_those_of_the_shapers() {
    let throttled = ["disk", "disk_jit", "disk_s150", "disk_s900", "disks2", "disks4", "quota2"];
    let expected = throttled.map(|name| (name, Some(100)));
    let none = ["nic", "vda", "hog", "cpu2"].map(|name| (name, None));
    // Steps of 4 MiB at 80 MB/s.
    for (name, period) in expected.into_iter().chain(none).chain([("demand", Some(52))]) {
        let Some(recorded) = recorded(name) else { return };
        for from in [0, 300, 600] {
            let ticks = recorded.ticks(from, 160);
            let flow = ObservedFlow { ticks: &ticks, dose: 0.1, budget_seconds: 1e4, ..Default::default() };
            let (noise, timing) = timing(&flow);
            let timing = timing.expect("times");
            assert_eq!(timing.period_ms, period, "{name} from {from}");
            assert!(timing.window_ms % period.unwrap_or(20) == 0 && timing.window_ms <= 2000);
            assert!(period.is_none() || timing.window_ms >= 400 && noise.forecast_seconds >= 17.0);
            assert!(noise.forecast_seconds >= 4.0 && !noise.allan.is_empty());
        }
    }
}
