//! Disks that slow each other down, and those that do not.

use super::*;

#[test]
fn disks_that_share_a_controller() {
    let lab = Lab { disks: vec![200.0; 4], nics: vec![1237.5], ..Lab::default() };
    let mut case = lab.measured();
    let together = case.measurements.iter_mut().find(|figure| figure.name == "all disks").expect("all disks");
    together.bytes_per_second = 500e6;
    let diagnosis = case.diagnose();
    assert_eq!(bottleneck(&diagnosis).kind, LimitKind::Controller);
    assert_eq!(bottleneck(&diagnosis).resources, ["controller:disks"]);
    assert_eq!(bottleneck(&diagnosis).gain, 300e6);
    let disk = diagnosis.resources.iter().find(|resource| resource.id == "disk:loop0").expect("a disk");
    assert_eq!(disk.next, ["controller:disks"]);
}

/// Four disks of 500, two of them behind something that carries 500: the two that slowed down share it, and the
/// others do not.
#[test]
fn disks_that_slowed_down_are_named_and_the_others_not() {
    let lab = Lab { disks: vec![500.0; 4], nics: vec![2475.0], ..Lab::default() };
    let with = |rates: [f64; 4]| {
        let mut case = lab.measured();
        let together = case.measurements.iter_mut().find(|figure| figure.name == "all disks").expect("all");
        together.bytes_per_second = rates.iter().sum();
        together.workers = rates
            .iter()
            .enumerate()
            .map(|(n, rate)| WorkerResult {
                source: format!("disk:loop{n}"),
                bytes_per_second: *rate,
                ..idle_worker()
            })
            .collect();
        case.diagnose()
    };
    let two = with([500e6, 250e6, 500e6, 250e6]);
    assert_eq!(bottleneck(&two).resources, ["disk:loop0", "disk:loop2", "controller:disks"]);
    let said = "Probably the bottleneck is the two disks (loop0 and loop2, 500 MB/s each, together 1.00 GB/s; the worker \
                spent 90 % of the time waiting for them), together with what disks loop1 and loop3 share, a \
                controller or a link (together 500 MB/s, one by one 1.00 GB/s).";
    assert_eq!(bottleneck(&two).sentences[1], said);
    let controller = two.resources.iter().find(|resource| resource.id == "controller:disks").expect("it");
    assert_eq!(controller.capacity, 500e6);
    let why =
        "what disks loop1 and loop3 share, a controller or a link (together 500 MB/s, one by one 1.00 GB/s)";
    assert_eq!(controller.why.as_deref(), Some(why));
    let one = with([500e6, 500e6, 500e6, 250e6]);
    let predicted = one.predicted.as_ref().and_then(|bound| bound.bytes_per_second.known().copied());
    assert_eq!(predicted, Some(1750e6));
    assert!(one.resources.iter().all(|resource| resource.kind != ResourceKind::Controller));
    let all = with([300e6; 4]);
    assert_eq!(bottleneck(&all).resources, ["controller:disks"]);
}

#[test]
fn a_wild_figure_alone_makes_no_controller() {
    let lab = Lab { disks: vec![100.0, 20.0], nics: vec![1237.5], ..Lab::default() };
    let mut case = lab.measured();
    let alone =
        case.measurements.iter_mut().find(|figure| !figure.together && figure.resource == "disk:loop0");
    let alone = alone.expect("loop0 alone");
    (alone.bytes_per_second, alone.spread) = (188e6, 1.42);
    alone.samples = vec![53e6, 188e6, 321e6];
    let together = case.measurements.iter_mut().find(|figure| figure.name == "all disks").expect("all disks");
    let worker = |source: &str, bytes_per_second: f64| WorkerResult {
        source: source.into(),
        bytes_per_second,
        ..idle_worker()
    };
    together.workers = vec![worker("disk:loop0", 100e6), worker("disk:loop1", 20e6)];
    let diagnosis = case.diagnose();
    assert_eq!(bottleneck(&diagnosis).resources, ["disk:loop0", "disk:loop1"]);
    let disk = diagnosis.resources.iter().find(|resource| resource.id == "disk:loop0").expect("a disk");
    assert!((disk.capacity / 100e6 - 1.0).abs() < 0.02, "{}", disk.capacity);
}
