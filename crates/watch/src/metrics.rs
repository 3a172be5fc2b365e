//! A moment as metrics: OpenMetrics 1.0 (`application/openmetrics-text; version=1.0.0; charset=utf-8`), or the
//! older text that every Prometheus takes (`text/plain; version=0.0.4`). Names and labels follow
//! node_exporter's, with `linerate_` before them; counters are the kernel's own, so that a scrape more or less
//! loses nothing.

use super::model::{DiskRates, Eight, MemoryUse, Moment, NicDirection, NicRates, SoftnetCore};
use MetricKind::{Counter, Gauge};
use linerate_facts::metrics::{MetricKind, MetricsForm, MetricsPage};
use std::collections::BTreeMap;

/// Programs are labels of their own making, and come and go: so many, the busiest, have figures.
const MOST_PROGRAMS: usize = 10;

/// The page for `Accept: application/openmetrics-text`.
pub fn openmetrics(moment: &Moment) -> String {
    show(moment, MetricsForm::OpenMetrics)
}

/// The page for whoever does not ask for OpenMetrics.
pub fn prometheus_text(moment: &Moment) -> String {
    show(moment, MetricsForm::Text)
}

fn show(moment: &Moment, form: MetricsForm) -> String {
    let mut page = MetricsPage::new(form);
    about(&mut page, moment);
    nics(&mut page, moment);
    disks(&mut page, moment);
    cpus(&mut page, moment);
    memory(&mut page, moment);
    network(&mut page, moment);
    programs(&mut page, moment);
    links(&mut page, moment);
    power(&mut page, moment);
    page.end()
}

/// A name, a help text, a figure of `T`.
type Count<T> = (&'static str, &'static str, fn(&T) -> u64);
type Real<T> = (&'static str, &'static str, fn(&T) -> f64);
type StateGauge<T> = (&'static str, &'static str, fn(&T) -> Option<bool>);
/// A word for a label, and the part that it stands for.
type Labelled<T, P> = (&'static str, fn(&T) -> P);
type LabelledRef<T, P> = (&'static str, fn(&T) -> &P);

fn about(page: &mut MetricsPage, moment: &Moment) {
    page.family(Gauge, "build_info", "The linerate that watches, always 1.")
        .sample(&[("version", env!("CARGO_PKG_VERSION")), ("host", &moment.host)], 1.0);
    page.family(Gauge, "sample_timestamp_seconds", "Unix time of the sample.")
        .sample(&[], moment.at_ms as f64 / 1e3);
    page.family(
        Gauge,
        "sample_interval_seconds",
        "Time since the sample before; what is not a counter is of this time.",
    )
    .sample(&[], moment.interval_ms / 1e3);
    page.family(Gauge, "slow_sources", "Sources that did not answer in time.")
        .sample(&[], moment.slow.len() as f64);
    page.family(Gauge, "bottleneck", "1 while something is at its limit.")
        .sample(&[], f64::from(u8::from(moment.bottleneck.is_some())));
}

fn nics(page: &mut MetricsPage, moment: &Moment) {
    let directions: [LabelledRef<NicRates, NicDirection>; 2] =
        [("receive", |nic| &nic.receive), ("transmit", |nic| &nic.send)];
    let counts: [Count<NicDirection>; 4] = [
        ("bytes", "Bytes of the frames, without preamble, gap and checksum.", |rates| rates.bytes),
        ("packets", "Packets.", |rates| rates.packets),
        ("drop", "Packets that were dropped or missed.", |rates| rates.drops),
        ("errs", "Packets with errors.", |rates| rates.errors),
    ];
    for (verb, rates) in directions {
        for (name, help, count) in counts {
            let mut family = page.family(Counter, &format!("network_{verb}_{name}"), help);
            for nic in &moment.nics {
                family.count(&[("device", &nic.name)], count(rates(nic)));
            }
        }
    }
    let mut family = page.family(
        Gauge,
        "network_link_usage_ratio",
        "Share of the link, with what each packet costs on the wire.",
    );
    for nic in &moment.nics {
        for (verb, rates) in directions {
            family.sample(&[("device", &nic.name), ("direction", verb)], rates(nic).share_of_link);
        }
    }
    let mut family = page.family(Gauge, "network_speed_bytes", "Rate of the link, bytes per second.");
    for nic in &moment.nics {
        family.sample(&[("device", &nic.name)], nic.link_bits_per_second.known().map(|bits| bits / 8.0));
    }
    let states: [StateGauge<NicRates>; 2] = [
        ("network_up", "1 while the interface is up.", |nic| nic.up),
        ("network_carrier", "1 while it has a link partner.", |nic| nic.carrier),
    ];
    for (name, help, state) in states {
        let mut family = page.family(Gauge, name, help);
        for nic in &moment.nics {
            family.sample(&[("device", &nic.name)], state(nic).map(|state| f64::from(u8::from(state))));
        }
    }
    let mut family =
        page.family(Counter, "network_driver_events", "What the driver counts of losses, by its own names.");
    for nic in &moment.nics {
        for one in &nic.ethtool {
            family.count(&[("device", &nic.name), ("name", &one.name)], one.total);
        }
    }
}

fn disks(page: &mut MetricsPage, moment: &Moment) {
    let counts: [Count<DiskRates>; 8] = [
        ("read_bytes", "Bytes read.", |disk| disk.read.bytes),
        ("written_bytes", "Bytes written.", |disk| disk.write.bytes),
        ("discarded_bytes", "Bytes discarded.", |disk| disk.discard.bytes),
        ("reads_completed", "Reads completed.", |disk| disk.read.requests),
        ("writes_completed", "Writes completed.", |disk| disk.write.requests),
        ("discards_completed", "Discards completed.", |disk| disk.discard.requests),
        ("reads_merged", "Reads merged with others.", |disk| disk.read.merged),
        ("writes_merged", "Writes merged with others.", |disk| disk.write.merged),
    ];
    for (name, help, count) in counts {
        let mut family = page.family(Counter, &format!("disk_{name}"), help);
        for disk in &moment.disks {
            family.count(&[("device", &disk.name)], count(disk));
        }
    }
    let times: [Real<DiskRates>; 5] = [
        ("read_time_seconds", "Time of all reads together.", |disk| disk.read.seconds),
        ("write_time_seconds", "Time of all writes together.", |disk| disk.write.seconds),
        ("discard_time_seconds", "Time of all discards together.", |disk| disk.discard.seconds),
        ("io_time_seconds", "Time with at least one request in the disk.", |disk| disk.busy_seconds),
        ("io_time_weighted_seconds", "Time of all requests together.", |disk| disk.weighted_seconds),
    ];
    for (name, help, seconds) in times {
        let mut family = page.family(Counter, &format!("disk_{name}"), help);
        for disk in &moment.disks {
            family.sample(&[("device", &disk.name)], seconds(disk));
        }
    }
    let mut family = page.family(Gauge, "disk_io_now", "Requests in the disk now.");
    for disk in &moment.disks {
        family.count(&[("device", &disk.name)], disk.in_flight);
    }
    let mut family = page.family(Gauge, "disk_queue_depth", "Mean number of requests over the interval.");
    for disk in &moment.disks {
        family.sample(&[("device", &disk.name)], disk.queue_depth);
    }
}

fn cpus(page: &mut MetricsPage, moment: &Moment) {
    let modes: [Labelled<Eight, f64>; 8] = [
        ("user", |eight| eight.user),
        ("nice", |eight| eight.nice),
        ("system", |eight| eight.system),
        ("idle", |eight| eight.idle),
        ("iowait", |eight| eight.iowait),
        ("irq", |eight| eight.irq),
        ("softirq", |eight| eight.softirq),
        ("steal", |eight| eight.steal),
    ];
    let mut family = page.family(Counter, "cpu_seconds", "Time of each CPU by what it did.");
    for core in &moment.cpus.each {
        for (mode, seconds) in modes {
            family.sample(&[("cpu", &core.number.to_string()), ("mode", mode)], seconds(&core.seconds));
        }
    }
    let mut family = page.family(Counter, "interrupts", "Interrupts of NICs, disks, and the busiest others.");
    for irq in &moment.irqs {
        let device = irq.device.as_deref().unwrap_or("");
        family.count(&[("irq", &irq.number), ("info", &irq.name), ("device", device)], irq.total);
    }
    // They are of the same file as the CPUs' times: where that could not be read, they would be zeros.
    if moment.cpus.each.is_empty() {
        return;
    }
    page.family(Counter, "intr", "Interrupts of all kinds.").count(&[], moment.cpus.interrupts);
    page.family(Counter, "context_switches", "Context switches.").count(&[], moment.cpus.context_switches);
    page.family(Gauge, "procs_running", "Threads that run or could.").count(&[], moment.cpus.running);
    page.family(Gauge, "procs_blocked", "Threads that wait for a disk.").count(&[], moment.cpus.blocked);
}

fn memory(page: &mut MetricsPage, moment: &Moment) {
    let parts: [Count<MemoryUse>; 10] = [
        ("size", "Memory of the machine.", |memory| memory.total),
        ("free", "Memory that nobody uses.", |memory| memory.free),
        ("available", "Memory that programs could get without swapping.", |memory| memory.available),
        ("cached", "Page cache.", |memory| memory.cached),
        ("dirty", "Waits to be written to disks.", |memory| memory.dirty),
        ("writeback", "Is being written to disks.", |memory| memory.writeback),
        ("swap_size", "Swap space.", |memory| memory.swap_total),
        ("swap_free", "Swap space that is free.", |memory| memory.swap_free),
        ("huge_pages", "Set aside as huge pages.", |memory| memory.huge_total),
        ("huge_pages_free", "Set aside as huge pages and not in use.", |memory| memory.huge_free),
    ];
    for (name, help, bytes) in parts.into_iter().filter(|_| moment.memory.total > 0) {
        page.family(Gauge, &format!("memory_{name}_bytes"), help).count(&[], bytes(&moment.memory));
    }
    for full in [false, true] {
        let (name, help) = match full {
            false => ("pressure_waiting_seconds", "Time in which some task waited for the resource."),
            true => ("pressure_stalled_seconds", "Time in which all tasks waited for the resource."),
        };
        let mut family = page.family(Counter, name, help);
        for one in &moment.pressure {
            let micros = if full { one.full_total_us } else { one.some_total_us };
            family.sample(&[("resource", &one.resource)], micros.map(|micros| micros as f64 / 1e6));
        }
    }
}

fn network(page: &mut MetricsPage, moment: &Moment) {
    let counts: [Count<SoftnetCore>; 3] = [
        ("processed", "Packets that the softirq took.", |core| core.processed),
        ("dropped", "Packets dropped because the backlog was full.", |core| core.dropped),
        ("times_squeezed", "Rounds that ended with packets left.", |core| core.squeezed),
    ];
    for (name, help, count) in counts {
        let mut family = page.family(Counter, &format!("softnet_{name}"), help);
        for core in &moment.softnet {
            family.count(&[("cpu", &core.core.to_string())], count(core));
        }
    }
    let mut family = page.family(Gauge, "softnet_backlog_len", "Packets that wait now.");
    for core in &moment.softnet {
        family.count(&[("cpu", &core.core.to_string())], core.backlog);
    }
    let (tcp, udp) = (&moment.tcp, &moment.udp);
    page.family(Gauge, "tcp_connections", "TCP connections now.").count(&[], tcp.established);
    page.family(Counter, "tcp_segments_in", "TCP segments received.").count(&[], tcp.segments_in);
    page.family(Counter, "tcp_segments_out", "TCP segments sent.").count(&[], tcp.segments_out);
    page.family(Counter, "tcp_retransmits", "TCP segments retransmitted.").count(&[], tcp.retransmits);
    page.family(Counter, "udp_datagrams_in", "UDP datagrams taken by programs.").count(&[], udp.datagrams_in);
    page.family(Counter, "udp_datagrams_out", "UDP datagrams sent.").count(&[], udp.datagrams_out);
    let mut family =
        page.family(Counter, "drops", "The loss ledger: what each layer dropped, by the kernel's names.");
    for line in &moment.drops {
        let device = line.interface.as_deref().unwrap_or("");
        let labels = [
            ("layer", line.layer.as_str()),
            ("device", device),
            ("counter", &line.counter),
            ("unit", &line.unit),
        ];
        family.count(&labels, line.total);
    }
}

/// Processes of one name together: a PID would be a new series with each start. Rates, because those that are
/// shown change.
fn programs(page: &mut MetricsPage, moment: &Moment) {
    let processes = &moment.processes;
    let mut programs: BTreeMap<&str, [f64; 4]> = BTreeMap::new();
    for process in &processes.busiest {
        let sums = programs.entry(&process.name).or_default();
        for (sum, rate) in sums.iter_mut().zip(process.rates()) {
            *sum += rate.unwrap_or(0.0);
        }
    }
    let mut busiest: Vec<(&str, [f64; 4])> = programs.into_iter().collect();
    busiest.sort_by(|(_, a), (_, b)| b.iter().sum::<f64>().total_cmp(&a.iter().sum()));
    busiest.truncate(MOST_PROGRAMS);
    let families = [
        ("program_read_bytes_per_second", "Read from storage by the busiest programs."),
        ("program_written_bytes_per_second", "Written to storage by them."),
        ("program_tcp_transmit_bytes_per_second", "Sent by their TCP connections."),
        ("program_tcp_receive_bytes_per_second", "Received by them."),
    ];
    for (at, (name, help)) in families.into_iter().enumerate() {
        let mut family = page.family(Gauge, name, help);
        for (program, rates) in &busiest {
            family.sample(&[("program", program)], rates[at]);
        }
    }
    let mut computing: BTreeMap<&str, f64> = BTreeMap::new();
    for process in processes.busiest_by_cpu() {
        *computing.entry(&process.name).or_default() += process.cpus.unwrap_or(0.0);
    }
    let mut family =
        page.family(Gauge, "program_cpus", "CPUs that the five processes with most CPU time use.");
    for (program, cpus) in computing {
        family.sample(&[("program", program)], cpus);
    }
    page.family(Gauge, "processes", "Processes of the host, as far as this user sees them.")
        .count(&[], processes.count);
    page.family(Gauge, "processes_unreadable", "Those whose storage counters this user may not read.")
        .count(&[], processes.count.map(|_| processes.unreadable));
}

fn links(page: &mut MetricsPage, moment: &Moment) {
    for best in [false, true] {
        let (lanes, speed) = match best {
            false => (
                ("pcie_link_width", "Lanes of a link that changed or is below its best."),
                ("pcie_link_transfers_per_second", "Speed of such a link."),
            ),
            true => (
                ("pcie_link_best_width", "Lanes that both ends have."),
                ("pcie_link_best_transfers_per_second", "Speed that both ends can."),
            ),
        };
        let mut family = page.family(Gauge, lanes.0, lanes.1);
        for link in &moment.links {
            let device = link.device.as_deref().unwrap_or("");
            let width = if best { link.best_width } else { link.width };
            family.sample(&[("address", &link.address), ("device", device)], f64::from(width));
        }
        let mut family = page.family(Gauge, speed.0, speed.1);
        for link in &moment.links {
            let device = link.device.as_deref().unwrap_or("");
            let rate = if best { link.best_gigatransfers_per_second } else { link.gigatransfers_per_second };
            family.sample(&[("address", &link.address), ("device", device)], rate * 1e9);
        }
    }
}

fn power(page: &mut MetricsPage, moment: &Moment) {
    let mut family = page.family(Gauge, "power_watts", "What a meter shows.");
    for one in &moment.power {
        family.sample(&[("kind", one.kind.into()), ("meter", &one.name)], one.watts.known().copied());
    }
    let mut family =
        page.family(Gauge, "power_idle_watts", "The least that it showed while the machine was idle.");
    for one in &moment.power {
        family.sample(&[("kind", one.kind.into()), ("meter", &one.name)], one.idle_watts);
    }
    let mut family = page.family(Counter, "energy_joules", "Energy since the watch began.");
    for one in &moment.power {
        family.sample(&[("kind", one.kind.into()), ("meter", &one.name)], one.joules);
    }
    page.family(Gauge, "energy_joules_per_byte", "Energy for each byte that the NICs move.")
        .sample(&[], moment.energy.joules_per_gb.map(|joules| joules / 1e9));
}
