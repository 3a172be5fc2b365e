//! What a server is and how it is set, as words that can be compared: between runs that are set side by side,
//! and between a run and the earlier ones of the same host.

use linerate_facts::fact::Fact;
use linerate_facts::printable::printable;
use linerate_facts::units;
use linerate_facts::wording::cores;
use linerate_machine::probe::{Array, Controller, Disk, DiskKind, FileSystem, Machine, Nic, PciDevice};
use linerate_measure::run::Run;
use std::collections::BTreeSet;
use std::fmt::Display;

/// What is asked and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MachineFact {
    pub(super) what: String,
    pub(super) value: String,
}

/// Of the server as a whole: always the same facts in the same order.
pub(super) fn of_server(run: &Run) -> Vec<MachineFact> {
    of_machine(&run.machine).compared()
}

/// The same hardware under the same kernel.
pub(super) fn is_same_server(one: &Machine, other: &Machine) -> bool {
    of_machine(one).compared() == of_machine(other).compared()
}

/// What a page shows of a machine and how it is set; what cannot be read has its reason.
pub(super) fn of_page(machine: &Machine) -> Vec<(String, Fact<String>)> {
    let mut facts = Facts { unknown: true, ..of_machine(machine) };
    facts.add("NUMA nodes", machine.memory.nodes.len().to_string());
    cpu_settings(&mut facts, machine);
    kernel_settings(&mut facts, machine);
    facts.all
}

fn of_machine(machine: &Machine) -> Facts {
    let (cpu, memory, kernel) = (&machine.cpu, &machine.memory, &machine.kernel);
    let online = cpu.online().count();
    let quota = |count: &f64| if *count > 0.0 { cores(*count) } else { "none".into() };
    // What the kernel keeps for itself differs by some megabytes from boot to boot.
    let gib = |bytes: &u64| format!("{} GiB", (*bytes as f64 / (1u64 << 30) as f64).round());
    let mut facts = Facts::default();
    facts.fact("CPU model", &cpu.model, String::clone);
    facts.fact("packages", &cpu.packages, u32::to_string);
    facts.fact("cores", &cpu.physical_cores, u32::to_string);
    facts.add("CPUs online", online.to_string());
    facts.fact("CPU quota", &cpu.quota_cores, quota);
    facts.fact("memory", &memory.total_bytes, gib);
    let rated = &memory.rated_bytes_per_second;
    facts.fact("rated memory bandwidth", rated, |rate| units::show_bytes_rate(*rate));
    facts.fact("virtualisation", &machine.virtualisation, String::clone);
    facts.fact("kernel", &kernel.release, String::clone);
    facts
}

/// Of its settings and of the devices that a flow may cross; what does not apply is left out.
pub(super) fn of_settings(run: &Run) -> Vec<MachineFact> {
    let machine = &run.machine;
    let mut facts = Facts::default();
    cpu_settings(&mut facts, machine);
    kernel_settings(&mut facts, machine);
    let measured = measured_names(run);
    let nics = machine.nics.iter().filter(|nic| nic.pci.is_some() || measured.contains(nic.name.as_str()));
    let disks: Vec<&Disk> = machine.disks.iter().filter(|disk| is_concerned(disk, &measured)).collect();
    let mut functions: BTreeSet<&str> = disks.iter().filter_map(|disk| disk.pci.as_deref()).collect();
    for nic in nics {
        functions.extend(nic.pci.as_deref());
        of_nic(&mut facts, nic);
    }
    disks.iter().for_each(|disk| of_disk(&mut facts, disk));
    for controller in &machine.controllers {
        functions.extend(controller.pci.as_deref());
        of_controller(&mut facts, controller);
    }
    let is_on_the_way = |device: &&PciDevice| functions.contains(device.address.as_str());
    machine.pci.iter().filter(is_on_the_way).for_each(|device| of_link(&mut facts, device));
    let names: BTreeSet<&str> = disks.iter().map(|disk| disk.name.as_str()).collect();
    for mounted in with_devices(machine, &names) {
        let mount_point = printable(&mounted.mount_point.to_string_lossy());
        facts.add(&format!("file system of {mount_point}"), printable(&mounted.kind));
        facts.add(&format!("mount options of {mount_point}"), printable(&mounted.options));
        of_array(&mut facts, &mount_point, mounted.array.as_ref());
    }
    facts.compared()
}

/// How full the file systems below the measured disks are: mount point and share.
pub(super) fn fill(run: &Run) -> Vec<(String, f64)> {
    let measured = measured_names(run);
    let disks = run.machine.disks.iter().filter(|disk| is_concerned(disk, &measured));
    let names: BTreeSet<&str> = disks.map(|disk| disk.name.as_str()).collect();
    let full = |mounted: &FileSystem| {
        let (all, free) = (*mounted.size_bytes.known()?, *mounted.free_bytes.known()?);
        (all > 0).then(|| 1.0 - free as f64 / all as f64)
    };
    with_devices(&run.machine, &names)
        .filter_map(|mounted| Some((printable(&mounted.mount_point.to_string_lossy()), full(mounted)?)))
        .collect()
}

fn with_devices<'a>(machine: &'a Machine, names: &BTreeSet<&'a str>) -> impl Iterator<Item = &'a FileSystem> {
    let on_them = |mounted: &FileSystem| mounted.devices.iter().any(|device| names.contains(device.as_str()));
    machine.file_systems.iter().filter(move |mounted| on_them(mounted))
}

/// Facts in the order in which they are shown, each under its label.
#[derive(Default)]
struct Facts {
    all: Vec<(String, Fact<String>)>,
    /// Lists facts that cannot be read as well, also those that many devices do not have.
    unknown: bool,
}

impl Facts {
    /// What cannot be read is called unknown: its reason may change from boot to boot.
    fn compared(self) -> Vec<MachineFact> {
        let value = |fact: Fact<String>| fact.known().cloned().unwrap_or_else(|| "unknown".into());
        self.all.into_iter().map(|(what, fact)| MachineFact { what, value: value(fact) }).collect()
    }

    fn add(&mut self, what: &str, value: String) {
        self.all.push((what.to_string(), Fact::Known(value)));
    }

    fn fact<T>(&mut self, what: &str, fact: &Fact<T>, show: impl Fn(&T) -> String) {
        let shown = match fact {
            Fact::Known(value) => Fact::Known(printable(&show(value))),
            Fact::Unknown { why } => Fact::unknown(why.clone()),
        };
        self.all.push((what.to_string(), shown));
    }

    /// One that many devices do not have.
    fn optional<T>(&mut self, what: &str, fact: &Fact<T>, show: impl Fn(&T) -> String) {
        if self.unknown || fact.known().is_some() {
            self.fact(what, fact, show);
        }
    }

    fn known<T: Display>(&mut self, what: &str, fact: &Fact<T>) {
        self.optional(what, fact, T::to_string);
    }

    fn size(&mut self, what: &str, fact: &Fact<u64>) {
        let show =
            |bytes: &u64| if *bytes == u64::MAX { "unlimited".into() } else { units::show_size(*bytes) };
        self.optional(what, fact, show);
    }

    fn switch(&mut self, what: &str, fact: &Fact<bool>) {
        self.optional(what, fact, |on| if *on { "on" } else { "off" }.into());
    }

    fn list(&mut self, what: &str, fact: &Fact<Vec<String>>) {
        self.optional(what, fact, |all| all.join(" "));
    }

    fn pair(&mut self, what: &str, fact: &Fact<(u32, u32)>) {
        self.optional(what, fact, |(set, most)| format!("{set} of {most}"));
    }

    fn bits(&mut self, what: &str, fact: &Fact<u64>) {
        self.optional(what, fact, |bits| units::show_bits_rate(units::bytes_per_second(*bits)));
    }
}

fn cpu_settings(facts: &mut Facts, machine: &Machine) {
    let cpu = &machine.cpu;
    facts.optional("CPUs allowed to linerate", &cpu.allowed, |allowed| allowed.len().to_string());
    facts.switch("SMT", &cpu.smt);
    facts.known("CPU governor", &cpu.governor);
    facts.switch("CPU boost", &cpu.boost);
    let mhz = |hertz: &u64| hertz / 1_000_000;
    let clock = &cpu.frequency_allowed_hertz;
    facts.optional("CPU clock allowed", clock, |(low, high)| format!("{} to {} MHz", mhz(low), mhz(high)));
    let enabled = cpu.idle_states.iter().filter(|state| state.disabled.known() == Some(&false));
    if !cpu.idle_states.is_empty() {
        let enabled: Vec<String> = enabled.map(|state| printable(&state.name)).collect();
        facts.add("CPU idle states", enabled.join(" "));
    }
    let modules = machine.memory.modules.iter().filter(|module| module.populated());
    let clocks: Vec<u32> =
        modules.clone().filter_map(|module| module.configured_mt_per_second.known().copied()).collect();
    if !machine.memory.modules.is_empty() {
        facts.add("memory modules", modules.count().to_string());
    }
    if let Some(slowest) = clocks.iter().min() {
        facts.add("slowest memory module", format!("{slowest} MT/s"));
    }
}

fn kernel_settings(facts: &mut Facts, machine: &Machine) {
    let kernel = &machine.kernel;
    facts.known("kernel.io_uring_disabled", &kernel.io_uring_disabled);
    facts.size("locked memory", &kernel.memlock_bytes);
    facts.size("net.core.rmem_max", &kernel.rmem_max_bytes);
    facts.size("net.core.wmem_max", &kernel.wmem_max_bytes);
    facts.size("net.ipv4.tcp_rmem", &kernel.tcp_rmem_max_bytes);
    facts.size("net.ipv4.tcp_wmem", &kernel.tcp_wmem_max_bytes);
    facts.known("TCP congestion control", &kernel.tcp_congestion_control);
    facts.known("net.core.netdev_max_backlog", &kernel.netdev_max_backlog);
    facts.known("net.core.netdev_budget", &kernel.netdev_budget);
    facts.known("net.core.default_qdisc", &kernel.default_qdisc);
    facts.size("net.core.optmem_max", &kernel.optmem_max_bytes);
    facts.known("net.ipv4.tcp_mtu_probing", &kernel.tcp_mtu_probing);
    facts.known("transparent huge pages", &kernel.transparent_huge_pages);
    for pages in &kernel.huge_pages {
        facts.known(&format!("huge pages of {}", units::show_size(pages.page_bytes)), &pages.total);
    }
    facts.switch("NUMA balancing", &kernel.numa_balancing);
    facts.known("vm.zone_reclaim_mode", &kernel.zone_reclaim_mode);
    facts.switch("irqbalance", &kernel.irqbalance);
    facts.list("IOMMU", &kernel.iommu);
    facts.list("boot options", &kernel.boot_options);
}

fn of_nic(facts: &mut Facts, nic: &Nic) {
    let name = printable(&nic.name);
    let of = |what: &str| format!("{what} of {name}");
    let details = &nic.details;
    facts.known(&of("MTU"), &nic.mtu);
    facts.bits(&of("link speed"), &nic.speed_bits_per_second);
    facts.known(&of("link"), &nic.state);
    facts.known(&of("driver"), &nic.driver);
    facts.known(&of("driver version"), &details.driver_version);
    facts.known(&of("firmware"), &details.firmware);
    facts.pair(&of("channels"), &details.channels);
    facts.pair(&of("receive ring"), &details.rx_ring);
    facts.pair(&of("send ring"), &details.tx_ring);
    facts.list(&of("offloads"), &details.offloads);
    facts.known(&of("receive coalescing (µs)"), &details.rx_coalesce_us);
    facts.switch(&of("adaptive receive coalescing"), &details.adaptive_rx);
    facts.known(&of("FEC"), &details.fec);
    facts.switch(&of("full duplex"), &details.full_duplex);
    if let Some((receive, send)) = details.pause.known() {
        facts.add(&of("pause frames"), format!("receive {receive}, send {send}"));
    }
}

fn of_disk(facts: &mut Facts, disk: &Disk) {
    let name = printable(&disk.name);
    let of = |what: &str| format!("{what} of {name}");
    facts.known(&of("model"), &disk.model);
    facts.size(&of("size"), &disk.size_bytes);
    facts.known(&of("scheduler"), &disk.scheduler);
    facts.size(&of("read-ahead"), &disk.read_ahead_bytes);
    facts.known(&of("request queue"), &disk.requests);
    facts.size(&of("largest request"), &disk.max_request_bytes);
    facts.known(&of("write cache"), &disk.write_cache);
    facts.bits(&of("link speed"), &disk.link_bits_per_second);
    if !disk.members.is_empty() {
        facts.add(&of("members"), printable(&disk.members.join(" ")));
    }
    of_array(facts, &name, disk.array.as_ref());
}

fn of_array(facts: &mut Facts, name: &str, array: Option<&Array>) {
    let Some(array) = array else { return };
    facts.known(&format!("disks missing of {name}"), &array.degraded);
    facts.known(&format!("state of {name}"), &array.state);
    facts.known(&format!("background work of {name}"), &array.sync_action);
}

fn of_controller(facts: &mut Facts, controller: &Controller) {
    let name = printable(&controller.name);
    let of = |what: &str| format!("{what} of {name}");
    facts.known(&of("firmware"), &controller.firmware);
    facts.known(&of("state"), &controller.state);
    facts.bits(&of("link speed"), &controller.link_bits_per_second);
    facts.known(&of("lanes"), &controller.lanes);
}

fn of_link(facts: &mut Facts, device: &PciDevice) {
    let address = printable(&device.address);
    if let Some(link) = device.link.known() {
        facts
            .add(&format!("PCIe link of {address}"), format!("{} GT/s × {}", link.gt_per_second, link.width));
    }
    facts.known(&format!("PCIe payload of {address}"), &device.express.max_payload_bytes);
}

/// Disks and NICs that were measured, by name.
fn measured_names(run: &Run) -> BTreeSet<&str> {
    let planned = run.plan.iter().flat_map(|plan| {
        let sources = plan.sources.iter().map(|source| source.resource.as_str());
        sources.chain(plan.paths.iter().map(|path| path.resource.as_str()))
    });
    let measured = run.measurements.iter().map(|measurement| measurement.resource.as_str());
    let names =
        planned.chain(measured).filter_map(|id| id.split_once(':')).flat_map(|(_, name)| name.split('+'));
    let read = run.measurements.iter().flat_map(|measurement| &measurement.devices);
    names.chain(read.map(|device| device.name.as_str())).collect()
}

/// Whether a disk may have had a part in what was measured: it was measured itself, or it is a device or an array, on
/// which a measured volume may lie.
fn is_concerned(disk: &Disk, measured: &BTreeSet<&str>) -> bool {
    let real = [DiskKind::Nvme, DiskKind::Scsi, DiskKind::Virtio, DiskKind::Md, DiskKind::Partition];
    real.contains(&disk.kind) || measured.contains(disk.name.as_str())
}
