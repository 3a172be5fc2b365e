//! The wall of the seeds, held against servers that carry it and servers that do not.

use super::*;
use linerate_facts::fact::Fact;
use linerate_machine::probe::Machine;
use linerate_model::plan::flow::FlowEndError;
use linerate_testing::{machine, nic};
use proptest::prelude::*;

/// 5 × 3 tiles of 2560 × 1600 at 24 frames a second.
fn seeds(mtu: u32) -> WallNeed {
    let size = Size { width: 2560, height: 1600 };
    let rate = FrameRate { numerator: 24, denominator: 1 };
    WallNeed::of(size, WallGrid { columns: 5, rows: 3 }, rate, mtu).expect("a need")
}

fn server(nics: usize, gigabits: u64) -> Machine {
    let mut server = machine(16);
    server.nics = (0..nics).map(|index| nic(&format!("eth{index}"), Some(gigabits), None)).collect();
    server
}

#[test]
fn the_wall_of_the_seeds_needs_what_it_is_known_to_need() {
    let need = seeds(9000);
    let gigabits = |bytes: f64| (bytes * 8.0 / 1e8).round() / 10.0;
    assert_eq!(gigabits(need.pixel_bytes_per_second), 35.4);
    assert_eq!(gigabits(need.wire_bytes_per_second), 35.8);
    assert_eq!((need.frame_bytes, need.datagrams_per_frame), (12_288_000, 1374));
    assert!(need.datagram_bytes <= 8972 && need.datagram_bytes > 8960);
    assert!((need.cpu_seconds_per_gb - 0.17).abs() < 0.005, "{}", need.cpu_seconds_per_gb);
    let narrow = seeds(1500);
    assert!((narrow.cpu_seconds_per_gb - 0.36).abs() < 0.01, "{}", narrow.cpu_seconds_per_gb);
    assert!(gigabits(narrow.wire_bytes_per_second) > 37.0, "{}", narrow.wire_bytes_per_second);
}

#[test]
fn too_few_nics_are_named_with_what_would_fit() {
    let verdict = seeds(9000).judge(&server(2, 10), &[], &[], &WallFigures::default()).expect("a verdict");
    assert_eq!(verdict.fits, Fits::No);
    assert!(
        verdict.sentence.starts_with("it cannot: NICs give 20.0 Gb/s of 35.8 Gb/s"),
        "{}",
        verdict.sentence
    );
    // Eight tiles on one of them.
    let fit = verdict.frames_per_second_that_fit.expect("a rate");
    assert!((fit - 24.0 * 10.0 / (8.0 * 35.76 / 15.0)).abs() < 0.1, "{fit}");
    assert_eq!(verdict.nics.iter().map(|dealt| dealt.tiles.len()).collect::<Vec<_>>(), [8, 7]);
}

#[test]
fn a_tile_is_not_cut_in_two() {
    // 40 Gb/s in all, but a tile takes 2.4.
    let verdict = seeds(9000).judge(&server(40, 1), &[], &[], &WallFigures::default()).expect("a verdict");
    assert_eq!(verdict.fits, Fits::No);
    assert!(verdict.sentence.contains("a tile goes over one NIC"), "{}", verdict.sentence);
}

#[test]
fn uneven_nics_get_uneven_shares() {
    let mut server = server(1, 10);
    server.nics.push(nic("fast", Some(40), None));
    let verdict = seeds(9000).judge(&server, &[], &[], &WallFigures::default()).expect("a verdict");
    assert_eq!(verdict.nics.iter().map(|dealt| dealt.tiles.len()).collect::<Vec<_>>(), [3, 12]);
    assert!(verdict.nics.iter().all(|dealt| dealt.fits() == Some(true)));
}

#[test]
fn what_nothing_reports_is_no_promise() {
    let verdict = seeds(9000).judge(&server(8, 10), &[], &[], &WallFigures::default()).expect("a verdict");
    // The disks of this machine, or its memory, tell no rate.
    assert_eq!(verdict.fits, Fits::Unknown, "{}", verdict.sentence);
    assert!(verdict.sentence.starts_with("unknown: what is known allows"), "{}", verdict.sentence);
    let mut blind = server(1, 10);
    blind.nics[0].speed_bits_per_second = Fact::unknown("virtual");
    let verdict = seeds(9000).judge(&blind, &[], &[], &WallFigures::default()).expect("a verdict");
    assert!(verdict.sentence.contains("nic:eth0"), "{}", verdict.sentence);
    assert_eq!(verdict.nics[0].tiles.len(), 15);
}

#[test]
fn few_cores_hold_it_as_well() {
    let mut small = server(1, 400);
    small.cpu.logical.truncate(1);
    // 15 tiles of 120 frames a second over small datagrams: more than one core's worth.
    let size = Size { width: 2560, height: 1600 };
    let rate = FrameRate { numerator: 120, denominator: 1 };
    let need = WallNeed::of(size, WallGrid { columns: 5, rows: 3 }, rate, 1500).expect("a need");
    let verdict = need.judge(&small, &[], &[], &WallFigures::default()).expect("a verdict");
    assert_eq!(verdict.fits, Fits::No);
    assert!(verdict.sentence.contains("cpu"), "{}", verdict.sentence);
}

#[test]
fn a_nic_that_is_not_there_and_an_mtu_without_room_are_refused() {
    assert!(
        seeds(9000)
            .judge(&server(2, 10), &[], &["eth9".into()], &WallFigures::default())
            .is_err_and(|why| matches!(why, FlowEndError::Absent { word, .. } if word == "nic:eth9"))
    );
    let named =
        seeds(9000).judge(&server(2, 10), &[], &["eth1".into()], &WallFigures::default()).expect("a verdict");
    assert_eq!(named.nics.len(), 1);
    assert!(seeds(9000).judge(&server(0, 0), &[], &[], &WallFigures::default()).is_err());
    let one = WallGrid { columns: 1, rows: 1 };
    let rate = FrameRate { numerator: 24, denominator: 1 };
    for mtu in [0, 28, 40] {
        assert!(WallNeed::of(Size { width: 8, height: 8 }, one, rate, mtu).is_err(), "{mtu}");
    }
}

proptest! {
    #[test]
    fn any_wall_has_a_verdict(
        (width, height) in (1u32..5000, 1u32..300), (columns, rows) in (1u16..8, 1u16..8), mtu in 100u32..70_000,
        nics in 1usize..5, gigabits in 1u64..400, per_second in 1u32..1000,
    ) {
        let rate = FrameRate { numerator: per_second, denominator: 1 };
        let need = WallNeed::of(Size { width, height }, WallGrid { columns, rows }, rate, mtu).expect("a need");
        prop_assert!(need.pixel_bytes_per_second < need.payload_bytes_per_second);
        prop_assert!(need.payload_bytes_per_second < need.wire_bytes_per_second);
        let verdict = need.judge(&server(nics, gigabits), &[], &[], &WallFigures::default()).expect("a verdict");
        let dealt: usize = verdict.nics.iter().map(|dealt| dealt.tiles.len()).sum();
        prop_assert_eq!(dealt, need.grid.len());
        let fit = verdict.frames_per_second_that_fit.expect("a rate");
        prop_assert_eq!(verdict.fits == Fits::No, fit < f64::from(per_second));
    }
}

#[test]
fn measured_figures_take_the_place_of_ratings_and_weak_ones_refuse_nothing() {
    let figure = |bytes_per_second, at_least| WallFigure { bytes_per_second, at_least };
    let nics = |rate: f64, at_least| {
        let parts = (0..4).map(|index| (format!("nic:eth{index}"), figure(rate, at_least))).collect();
        WallFigures { parts, cpu_seconds_per_gb: Some(0.1), ..WallFigures::default() }
    };
    // Four links of 10 Gb/s carry it by their data sheets, but measured they give 6 each.
    let server = server(4, 10);
    let judge = |measured: &WallFigures| seeds(9000).judge(&server, &[], &[], measured).expect("a verdict");
    assert_ne!(judge(&WallFigures::default()).fits, Fits::No);
    let slow = judge(&nics(6e9 / 8.0, false));
    assert_eq!(slow.fits, Fits::No);
    assert!(slow.sentence.contains("NICs give 24.2 Gb/s of 35.8 Gb/s"), "{}", slow.sentence);
    assert_eq!((slow.nics[0].link_origin, slow.need.cpu_origin), (Origin::Measured, Origin::Measured));
    assert!((slow.need.cpu_cores - 0.1 * slow.need.pixel_bytes_per_second / 1e9).abs() < 1e-9);
    let eth0 = slow.plan.resources.iter().find(|resource| resource.id == "nic:eth0").expect("a NIC");
    assert_eq!((eth0.origin, eth0.rated), (Origin::Measured, Some(1.25e9)));
    assert!(eth0.why.as_ref().is_some_and(|why| why.starts_with("measured")), "{eth0:?}");
    // Something else held them when they were measured: the rating counts.
    let held = judge(&nics(6e9 / 8.0, true));
    assert_eq!((held.fits, held.nics[0].link_origin), (judge(&WallFigures::default()).fits, Origin::Rated));
    // Without a rating a figure that was held says too little to refuse, and enough to accept.
    let mut veth = server.clone();
    for nic in &mut veth.nics {
        nic.speed_bits_per_second = Fact::unknown("a veth");
    }
    let judge = |rate| seeds(9000).judge(&veth, &[], &[], &nics(rate, true)).expect("a verdict");
    let weak = judge(6e9 / 8.0);
    assert!(
        weak.fits == Fits::Unknown && weak.sentence.contains("something else held it"),
        "{}",
        weak.sentence
    );
    assert_ne!(judge(20e9 / 8.0).fits, Fits::No);
}
