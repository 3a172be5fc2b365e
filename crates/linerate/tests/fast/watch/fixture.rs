//! The moment that the views are tested with.

use linerate::watch::{Moment, SCHEMA, bottleneck};

/// A rich one: two NICs, three disks, four cores, something lost, a link that changed, power.
pub fn moment() -> Moment {
    serde_json::from_str(include_str!("../../../../../fixtures/watch-moment.json")).expect("a moment")
}

#[test]
fn the_fixture_is_a_moment_and_names_every_field() {
    let value: serde_json::Value =
        serde_json::from_str(include_str!("../../../../../fixtures/watch-moment.json")).expect("JSON");
    let back = serde_json::to_value(moment()).expect("JSON");
    assert_eq!(back, value, "every field is in the fixture, and none that the model has not");
    assert_eq!(moment().schema, SCHEMA);
    for core in &moment().cpus.each {
        let eight = core.eight.expect("shares");
        assert!(eight.busy() <= 1.0);
    }
}

/// What follows from other figures of it is what the program would say.
#[test]
fn the_fixture_agrees_with_itself() {
    let moment = moment();
    assert_eq!(bottleneck::bottleneck_of(&moment), (moment.bottleneck.clone(), moment.bottleneck_by.clone()));
    for nic in &moment.nics {
        for way in [&nic.receive, &nic.send] {
            let (bytes, packets) =
                (way.bytes_per_second.expect("a rate"), way.packets_per_second.expect("a rate"));
            assert_eq!(way.bits_per_second, Some(bytes * 8.0));
            let link = nic.link_bits_per_second.known();
            // Preamble, checksum and gap of each packet are 24 bytes.
            let share = link.map(|link| (bytes + packets * 24.0) * 8.0 / link);
            let same = share
                .zip(way.share_of_link)
                .map_or(share == way.share_of_link, |(a, b)| (a - b).abs() < 1e-6);
            assert!(same, "{share:?} {:?}", way.share_of_link);
        }
        for (queues, way) in [
            (nic.queues.iter().filter_map(|queue| queue.send_packets_per_second).sum::<f64>(), &nic.send),
            (nic.queues.iter().filter_map(|queue| queue.receive_packets_per_second).sum(), &nic.receive),
        ] {
            assert!(queues <= way.packets_per_second.expect("a rate"), "{}: {queues}", nic.name);
        }
    }
    for disk in &moment.disks {
        for way in [&disk.read, &disk.write] {
            let (bytes, requests) =
                (way.bytes_per_second.expect("a rate"), way.requests_per_second.expect("a rate"));
            let each = way.request_bytes.unwrap_or(0.0);
            assert!(
                (bytes - requests * each).abs() <= bytes * 1e-3,
                "{}: {bytes} {requests} {each}",
                disk.name
            );
        }
    }
    let moved: f64 = moment
        .nics
        .iter()
        .flat_map(|nic| [&nic.receive, &nic.send])
        .filter_map(|way| way.bytes_per_second)
        .sum();
    assert_eq!(moment.energy.moved_bytes_per_second, Some(moved));
    let (watts, each) = (moment.energy.watts.expect("watts"), moment.energy.joules_per_gb.expect("joules"));
    assert!((watts / (moved / 1e9) - each).abs() < 0.01, "{each}");
}
