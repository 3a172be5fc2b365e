//! Every counter of node_exporter's recorded `/proc` as node_exporter itself read it (`e2e-output.txt`), and
//! procfs' files without a stumble.

use super::metrics::sample;
use crate::support::place::{captures, unpack, unpack_ttar_gz};
use linerate::counters::{parse_diskstats, parse_net_dev, parse_stat};
use linerate::sysroot::Sysroot;
use linerate::watch::{MomentBuilder, Sampler, WatchSpec, openmetrics};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Families of node_exporter that stand on our page under the same name and labels.
const SAME: &str = "disk_read_bytes_total disk_written_bytes_total disk_reads_completed_total \
    disk_writes_completed_total disk_discards_completed_total disk_reads_merged_total \
    disk_writes_merged_total disk_read_time_seconds_total disk_write_time_seconds_total \
    disk_io_time_seconds_total disk_io_time_weighted_seconds_total disk_io_now cpu_seconds_total \
    intr_total context_switches_total procs_running procs_blocked softnet_times_squeezed_total \
    softnet_dropped_total";
/// … under another.
const OTHER: [(&str, &str); 14] = [
    ("softnet_processed_total", "softnet_processed_total"),
    ("softnet_backlog_len", "softnet_backlog_len"),
    ("memory_MemTotal_bytes", "memory_size_bytes"),
    ("memory_MemFree_bytes", "memory_free_bytes"),
    ("memory_Cached_bytes", "memory_cached_bytes"),
    ("memory_Dirty_bytes", "memory_dirty_bytes"),
    ("memory_Writeback_bytes", "memory_writeback_bytes"),
    ("memory_SwapFree_bytes", "memory_swap_free_bytes"),
    ("netstat_Tcp_CurrEstab", "tcp_connections"),
    ("netstat_Tcp_InSegs", "tcp_segments_in_total"),
    ("netstat_Tcp_OutSegs", "tcp_segments_out_total"),
    ("netstat_Tcp_RetransSegs", "tcp_retransmits_total"),
    ("pressure_io_waiting_seconds_total", "pressure_waiting_seconds_total"),
    ("pressure_memory_stalled_seconds_total", "pressure_stalled_seconds_total"),
];

type Series = BTreeMap<(String, Vec<(String, String)>), f64>;

fn series(page: &str) -> Series {
    let samples = page.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(sample);
    samples
        .map(|(name, mut labels, value)| {
            labels.sort();
            ((name, labels), value)
        })
        .collect()
}

#[test]
fn node_exporters_figures_are_our_own() {
    let Some(captures) = captures() else { return };
    let archive = captures.join("node_exporter/node_exporter-fixtures.tar.xz");
    let Some(place) = unpack(&archive, &[]) else { return };
    let root = place.path().join("collector/fixtures");
    let theirs = series(&std::fs::read_to_string(root.join("e2e-output.txt")).expect("their page"));
    let ours = series(&openmetrics(&moment_of(&root)));
    let mut compared = 0;
    let names = SAME.split(' ').map(|name| (name, name)).chain(OTHER);
    for (theirs_name, ours_name) in names {
        for ((_, labels), value) in
            theirs.iter().filter(|((name, _), _)| *name == format!("node_{theirs_name}"))
        {
            let mut labels = labels.clone();
            if ours_name.starts_with("pressure") {
                labels = vec![("resource".into(), theirs_name.split('_').nth(1).expect("a resource").into())];
            }
            let Some(own) = ours.get(&(format!("linerate_{ours_name}"), labels.clone())) else {
                // A disk that never did anything is not shown; what an old kernel does not report is not
                // shown as 0.
                let left_out = theirs_name.starts_with("disk_") || theirs_name == "softnet_backlog_len";
                assert!(left_out && *value == 0.0, "{theirs_name} {labels:?} = {value} is missing");
                continue;
            };
            assert!(
                (own - value).abs() <= value.abs() * 1e-9,
                "{theirs_name} {labels:?}: {own}, node_exporter {value}"
            );
            compared += 1;
        }
    }
    println!("{compared} figures compared");
    assert!(compared > 240, "only {compared} figures were compared");
}

#[test]
fn procfs_files_are_read_to_their_last_line() {
    let Some(captures) = captures() else { return };
    let Some(place) = unpack_ttar_gz(&captures.join("procfs/fixtures.ttar.gz")) else { return };
    let proc = place.path().join("fixtures/proc");
    let file =
        |path: &str| std::fs::read_to_string(proc.join(path)).unwrap_or_else(|why| panic!("{path}: {why}"));
    let disks = parse_diskstats(&file("diskstats")).expect("disks");
    assert_eq!(
        disks.len(),
        file("diskstats").lines().filter(|line| line.split_whitespace().count() >= 14).count()
    );
    let nics = parse_net_dev(&file("net/dev")).expect("interfaces");
    assert_eq!(nics.len(), file("net/dev").lines().count() - 2);
    let stat = parse_stat(&file("stat")).expect("processors");
    assert_eq!(stat.cores.cores(), file("stat").lines().filter(|line| line.starts_with("cpu")).count() - 1);
    // The whole tree, as a machine.
    let moment = moment_of(&place.path().join("fixtures"));
    assert_eq!(moment.nics.len(), nics.iter().filter(|nic| nic.name != "lo").count());
    assert!(!moment.power.is_empty(), "RAPL is in the tree");
}

/// A first moment of a recorded machine.
pub(crate) fn moment_of(root: &Path) -> linerate::watch::Moment {
    let spec = WatchSpec { interval: Duration::from_secs(1), ..WatchSpec::default() };
    let mut sampler =
        Sampler::start(&Sysroot::at(root).expect("a recorded machine"), &spec).expect("a sampler");
    MomentBuilder::new("x".into(), &spec).moment(&sampler.sample())
}
