//! One CPU takes the interrupts of the network, and is full of them while others have time.

use super::lab::{Case, Lab};
use super::{UNSHAPED, bottleneck};
use crate::measure::{CoreUse, LimitedBy, Measurement, Stage, WorkerResult};
use linerate_facts::fact::Fact;
use linerate_model::plan::Origin;
use linerate_model::verdict::{LimitKind, Verdict};

const RATE: f64 = 306.0;

/// Both programs may run on CPU 0 alone; CPU 1 has the interrupts. Beside a cached file it was 94 % busy, elsewhere 98.
pub(super) fn case() -> Case {
    let lab = Lab { disks: vec![8000.0], nics: vec![RATE], receiver: UNSHAPED, ..Lab::default() };
    let mut case = lab.measured();
    case.machine.cpu.allowed = Fact::Known(vec![0]);
    case.plan.workers.iter_mut().for_each(|worker| worker.core = 0);
    for figure in case.measurements.iter_mut().filter(|figure| figure.stage != Stage::Disk) {
        let busy = if figure.with_file { 0.94 } else { 0.98 };
        on_cpus(figure, busy);
        if !figure.with_file {
            (figure.held_by, figure.lower_bound) = (Some(LimitedBy::Cpu), true);
        }
    }
    case
}

fn on_cpus(figure: &mut Measurement, busy: f64) {
    let own = CoreUse { core: 0, system: 0.25, idle: 0.75, ..CoreUse::default() };
    let interrupts =
        CoreUse { core: 1, system: 0.01, softirq: busy - 0.01, idle: 1.0 - busy, ..CoreUse::default() };
    figure.cpu_by_core = vec![own, interrupts];
    figure.busy_seconds_per_gb = (0.25 + busy) / (figure.bytes_per_second / 1e9);
    figure.workers.iter_mut().for_each(|worker| worker.core = Some(0));
}

#[test]
fn it_is_the_bottleneck_by_what_it_did_for_a_byte() {
    let diagnosis = case().diagnose();
    let bottleneck = bottleneck(&diagnosis);
    let tcp = &diagnosis.by_protocol[0];
    assert_eq!((tcp.verdict, bottleneck.kind), (Verdict::Confirmed, LimitKind::Cpu), "{bottleneck:?}");
    let predicted = tcp.predicted.bytes_per_second.known().expect("a prediction") / 1e6;
    assert!((predicted - RATE / 0.98).abs() < 0.01, "{predicted}");
    for part in [
        "CPU 1, which takes the interrupts of the network (3.20 CPU seconds per GB",
        "The network's interrupts on more cores would raise this to about 498 MB/s, where the CPU limits",
    ] {
        assert!(bottleneck.sentence.contains(part), "{part}: {}", bottleneck.sentence);
    }
    let nic = tcp.resources.iter().find(|resource| resource.id == "nic:eth0").expect("the NIC");
    assert!(nic.lower_bound || nic.origin != Origin::Measured, "what the CPU held says nothing of it");
}

/// A core on which a worker runs, a worker whose own core is full, and loopback, where both ends make the interrupts,
/// are judged by what a byte costs.
#[test]
fn interrupts_that_are_not_all_of_a_core_are_no_limit_of_their_own() {
    let on_its_core: fn(&mut Case) = |case| {
        for worker in case.measurements.iter_mut().flat_map(|figure| &mut figure.workers) {
            worker.core = Some(1);
        }
        case.plan.workers.iter_mut().for_each(|worker| worker.core = 1);
    };
    let full_worker: fn(&mut Case) = |case| {
        for figure in case.measurements.iter_mut().filter(|figure| figure.stage == Stage::Network) {
            figure.workers = vec![WorkerResult { cpu_share: 0.95, core: Some(0), ..WorkerResult::default() }];
        }
    };
    for change in [on_its_core, full_worker, |case| case.plan.loopback = true] {
        let mut case = case();
        change(&mut case);
        let sentence = &bottleneck(&case.diagnose()).sentence.clone();
        assert!(!sentence.contains("which takes the interrupts"), "{sentence}");
    }
}

/// As fast with a CPU that has time: then it is the NIC.
#[test]
fn a_nic_that_is_as_fast_with_idle_cpus_keeps_its_figure() {
    let mut case = case();
    for figure in case.measurements.iter_mut().filter(|figure| figure.with_file) {
        on_cpus(figure, 0.6);
    }
    let diagnosis = case.diagnose();
    let nic = diagnosis.by_protocol[0].resources.iter().find(|resource| resource.id == "nic:eth0");
    assert!(nic.is_some_and(|nic| !nic.lower_bound && nic.measured == Some(RATE * 1e6)), "{nic:?}");
}
