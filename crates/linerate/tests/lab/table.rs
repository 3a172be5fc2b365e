//! The acceptance table: in a server of known speeds, `linerate run` names what limits the flow, predicts it
//! and reaches it.
//!
//! One test a row; TCP and UDP in one run each. LINERATE_LAB_ROUNDS=5 repeats each row, and the same thing
//! must be named every time. Needs root and the tools of `lab/lab up`, else each test says that it is skipped
//! (LINERATE_LAB as in `lab/script.rs`).

use crate::support::lab::Lab;
use crate::support::neighbours::{MOST_SPOILT, Neighbours};
use crate::support::process::Ends;
use serde_json::Value;
use std::sync::{Mutex, PoisonError};

/// Payload of a TCP segment (with timestamps) and of a datagram in a frame of MTU 9000, which tbf counts with
/// its 14-byte header.
const TCP_SHARE: f64 = 8948.0 / 9014.0;
const UDP_SHARE: f64 = 8972.0 / 9014.0;
/// What MTU 9000 leaves of a link: 38 bytes of frame around it.
const GOODPUT_SHARE: f64 = 8948.0 / 9038.0;

/// The rows measure: one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Achieved ÷ predicted of a limit that has no one rate, at least.
const LEAST_OF_UNSTEADY: f64 = 0.7;

/// A row whose figures fall short is measured so often.
const MOST_RUNS: usize = 5;

struct AcceptanceRow {
    name: &'static str,
    up: &'static [&'static str],
    kind: &'static str,
    /// Number of resources in the bottleneck.
    resources: usize,
    /// Bytes per second that at least arrive; 0: only the prediction counts.
    achieves: f64,
    /// The true limit by protocol (TCP, UDP), where it is known.
    limit: Option<(f64, f64)>,
    /// Achieved ÷ predicted, at least.
    of_predicted: f64,
    /// Whether what limits has one rate; else the upper end of the run's own interval of that ratio has to reach it,
    /// and the ratio itself `LEAST_OF_UNSTEADY`.
    steady: bool,
}

fn check(row: &AcceptanceRow) {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let rounds =
        std::env::var("LINERATE_LAB_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1);
    let Some(lab) = Lab::up(&format!("table-{}", row.name), row.up) else { return };
    for round in 0..rounds {
        one_row(row, &lab, round);
    }
}

/// What is named must be the same every time. Figures that fall short are measured five times, and their
/// medians count; not those that the host's other guests spoilt.
fn one_row(row: &AcceptanceRow, lab: &Lab, round: u32) {
    let (mut runs, mut spoilt) = (Vec::new(), 0);
    loop {
        let neighbours = Neighbours::watch();
        let run = one_run(lab);
        let beside = beside_others(&run);
        let (figures, short) = match &beside {
            Some(_) => (Vec::new(), Vec::new()),
            None => {
                let figures = one_round(row, &run, round);
                let short = missed(std::slice::from_ref(&figures));
                (figures, short)
            }
        };
        if beside.is_some() || !short.is_empty() && neighbours.spoilt() {
            let why = beside.unwrap_or_else(|| {
                format!("{:.3} of the CPU time was stolen: {}", neighbours.took(), short.join("; "))
            });
            eprintln!("spoilt: row {}: {why}", row.name);
            spoilt += 1;
            if spoilt < MOST_SPOILT {
                continue;
            }
            eprintln!("skipped: the figures of row {}: each time others took CPU time away", row.name);
            return;
        }
        runs.push(figures);
        let missed = missed(&runs);
        if missed.is_empty() {
            return;
        }
        assert!(runs.len() < MOST_RUNS, "row {}, round {round}: {}", row.name, missed.join("; "));
        eprintln!("measured again: row {}, round {round}: {}", row.name, missed.join("; "));
    }
}

/// A figure of one run, and what it must at least be.
struct Figure {
    what: String,
    value: f64,
    least: f64,
}

/// The figures of a run in which the right thing was named.
fn one_round(row: &AcceptanceRow, run: &Value, round: u32) -> Vec<Figure> {
    right_name(row, run).unwrap_or_else(|wrong| {
        let text = serde_json::to_string_pretty(&run["diagnosis"]).expect("text");
        panic!("{wrong}: row {}, round {round}:\n{text}", row.name)
    });
    figures(row, run)
}

/// What linerate says of other programs that took a part of this machine, where they really had a good part of its
/// CPUs: it names no limit then, and the row says nothing.
fn beside_others(run: &Value) -> Option<String> {
    let bottleneck = &run["diagnosis"]["bottleneck"];
    let shares = run["measurements"].as_array().expect("figures").iter();
    let most = shares.filter_map(|figure| figure["cpu_share"]["others"].as_f64()).fold(0.0, f64::max);
    let busy = bottleneck["kind"] == "others" && most >= 0.1;
    busy.then(|| bottleneck["sentence"].as_str().unwrap_or_default().to_string())
}

/// The figures whose median over the runs falls short (of an even number of runs, the lower middle one
/// counts).
fn missed(runs: &[Vec<Figure>]) -> Vec<String> {
    let short = |which: usize| {
        let mut values: Vec<f64> = runs.iter().map(|run| run[which].value).collect();
        values.sort_by(f64::total_cmp);
        let Figure { what, least, .. } = &runs[0][which];
        let median = values[(values.len() - 1) / 2];
        (median < *least)
            .then(|| format!("{what}: median {median:.4e} of {values:.4?}, at least {least:.4e}"))
    };
    (0..runs[0].len()).filter_map(short).collect()
}

fn one_run(lab: &Lab) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("run");
    let words = ["--", "--json", "--budget", "30", "--stages", "disk,network,path", "--output"];
    let ran = lab.command("demo", &words).arg(&output).ended();
    assert!(ran.status.success(), "linerate run: {}", ran.stderr);
    ran.json()
}

fn ensure(holds: bool, wrong: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(wrong()) }
}

fn by_protocol<'a>(run: &'a Value, protocol: &str) -> &'a Value {
    let parts = run["diagnosis"]["by_protocol"].as_array().expect("by protocol");
    parts.iter().find(|part| part["protocol"] == protocol).expect("the protocol")
}

fn right_name(row: &AcceptanceRow, run: &Value) -> Result<(), String> {
    let bottleneck = &run["diagnosis"]["bottleneck"];
    ensure(run["schema"] == 2, || "another schema".into())?;
    ensure(bottleneck["kind"] == row.kind, || format!("{} is named", bottleneck["kind"]))?;
    let named = bottleneck["resources"].as_array().map_or(0, Vec::len);
    ensure(named == row.resources, || format!("{named} resources are named"))?;
    for protocol in ["tcp", "udp"] {
        let kind = &by_protocol(run, protocol)["bottleneck"]["kind"];
        ensure(*kind == row.kind, || format!("{protocol}: {kind} is named"))?;
    }
    if row.name == "straggler" || row.name == "nics" {
        let list = if row.kind == "disk" { "sources" } else { "paths" };
        let second = &run["plan"][list][1]["resource"];
        // Of what is slower than its like nothing is to be bought.
        let sentence = bottleneck["sentence"].as_str().unwrap_or_default();
        ensure(!sentence.contains("Faster or more"), || sentence.to_string())?;
        let findings = run["diagnosis"]["findings"].as_array().expect("findings");
        let found: Vec<&Value> = findings.iter().filter(|finding| finding["id"] == "straggler").collect();
        let it = found.len() == 1 && found[0]["evidence"]["resource"] == *second;
        ensure(it, || format!("stragglers: {found:?}"))?;
    }
    if row.kind == "receiver" {
        let sentence = bottleneck["sentence"].as_str().unwrap_or_default();
        let says_so = sentence.contains("not the NIC") && sentence.contains("not the disks");
        ensure(says_so, || sentence.to_string())?;
    }
    Ok(())
}

fn figures(row: &AcceptanceRow, run: &Value) -> Vec<Figure> {
    let mut figures = Vec::new();
    let limits = [("tcp", row.limit.map(|limit| limit.0)), ("udp", row.limit.map(|limit| limit.1))];
    for (protocol, limit) in limits {
        let part = by_protocol(run, protocol);
        // Unknown where other programs used what limits: measured again.
        let predicted = part["predicted"]["bytes_per_second"].as_f64().unwrap_or(f64::INFINITY);
        let achieved = part["achieved"]["bytes_per_second"].as_f64().expect("achieved");
        let mut figure =
            |what, value, least| figures.push(Figure { what: format!("{protocol} {what}"), value, least });
        figure("achieved", achieved, row.achieves);
        if row.steady {
            figure("achieved / predicted", achieved / predicted, row.of_predicted);
        } else {
            // UDP is measured once beside an experiment: its ratio has no upper end then.
            let highest = part["achieved"]["of_predicted_interval"][1].as_f64();
            let highest = highest.or((protocol == "udp").then_some(f64::INFINITY));
            figure("the upper end of that ratio", highest.expect("an interval"), row.of_predicted);
            figure("achieved / predicted", achieved / predicted, LEAST_OF_UNSTEADY);
        }
        if row.limit.is_some() && protocol == "udp" {
            figure("arrived, as a share of what was sent", 1.0 - most_lost(run), 0.995);
        }
        if let Some(limit) = limit {
            figure("predicted, 1 - its share off the truth", 1.0 - (predicted / limit - 1.0).abs(), 0.95);
        }
    }
    figures
}

/// The largest share of datagrams that a stage or the path lost.
fn most_lost(run: &Value) -> f64 {
    let measurements = run["measurements"].as_array().expect("measurements");
    measurements.iter().filter_map(|it| it["loss"].as_f64()).fold(0.0, f64::max)
}

fn row(
    name: &'static str,
    up: &'static [&'static str],
    kind: &'static str,
    resources: usize,
) -> AcceptanceRow {
    AcceptanceRow { name, up, kind, resources, achieves: 0.0, limit: None, of_predicted: 0.95, steady: true }
}

#[test]
fn four_slow_disks_are_named_all_four() {
    let up = &["--disks", "4x50", "--nics", "10000"];
    check(&AcceptanceRow { achieves: 190e6, limit: Some((200e6, 200e6)), ..row("disks", up, "disk", 4) });
}

#[test]
fn one_slow_nic_is_named() {
    let up = &["--disks", "4x200", "--nics", "1000"];
    let gigabit = 125e6;
    let limit = Some((gigabit * TCP_SHARE, gigabit * UDP_SHARE));
    check(&AcceptanceRow { achieves: 0.97 * gigabit * GOODPUT_SHARE, limit, ..row("nic", up, "nic", 1) });
}

#[test]
fn two_unequal_nics_are_named_both_and_the_split_follows_them() {
    let up = &["--disks", "2x200", "--nics", "1000,500"];
    let both = 187.5e6;
    let limit = Some((both * TCP_SHARE, both * UDP_SHARE));
    check(&AcceptanceRow { achieves: 0.95 * both * GOODPUT_SHARE, limit, ..row("nics", up, "nic", 2) });
}

#[test]
fn a_straggler_is_found_and_both_disks_are_named() {
    let up = &["--disks", "100,20", "--nics", "10000"];
    let straggler =
        AcceptanceRow { achieves: 114e6, limit: Some((120e6, 120e6)), ..row("straggler", up, "disk", 2) };
    check(&straggler);
}

#[test]
fn a_cpu_quota_on_the_server_is_named() {
    let up = &["--disks", "4x0", "--nics", "0", "--server-cpu", "40"];
    check(&AcceptanceRow { of_predicted: 0.9, ..row("cpu", up, "quota", 1) });
}

#[test]
fn a_starved_receiver_is_named_not_the_nic_and_not_the_disks() {
    // A tenth of a core takes 0.4 GB/s of TCP and 0.9 GB/s of UDP. Which thread pays for the softirqs of both hosts
    // differs from window to window, so that it has no one rate: the run says how wide its own ratio is.
    let up = &["--disks", "4x400", "--nics", "20000", "--peer-cpu", "10"];
    check(&AcceptanceRow { steady: false, ..row("receiver", up, "receiver", 1) });
}
