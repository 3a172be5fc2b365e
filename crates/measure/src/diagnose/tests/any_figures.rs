//! Noise, and input that is not a measurement at all.

use super::*;
use crate::measure::{CoreUse, ReceiverResult};
use linerate_facts::random::{Random, mixed};
use linerate_testing::cases;
use proptest::prelude::*;

fn jitter(seed: u64, n: usize) -> f64 {
    // One number for each figure of each seed, ±3 %.
    0.97 + 0.06 * Random::new(mixed(seed).wrapping_add(n as u64)).unit()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(256)))]

    #[test]
    fn noise_of_three_percent_changes_no_name(seed in any::<u64>()) {
        for (name, lab, kind, ids, predicted) in rows() {
            let mut case = lab.measured();
            for (n, figure) in case.measurements.iter_mut().enumerate() {
                figure.bytes_per_second *= jitter(seed, 2 * n);
                figure.cpu_seconds_per_gb *= jitter(seed, 2 * n + 1);
            }
            let diagnosis = case.diagnose();
            for one in &diagnosis.by_protocol {
                prop_assert_eq!(one.bottleneck.kind, kind, "{}: {}", name, one.bottleneck.sentence);
                prop_assert_eq!(&one.bottleneck.resources, &ids, "{}", name);
                let ours = *one.predicted.bytes_per_second.known().expect("a prediction") / 1e6;
                prop_assert!((ours / predicted - 1.0).abs() < 0.05, "{name}: {ours} for {predicted}");
            }
            prop_assert_eq!(diagnosis.findings.iter().any(|finding| finding.id == "straggler"), name == "100 \
                + 20");
        }
    }

    #[test]
    fn any_measurements_give_a_diagnosis_that_json_can_hold(
        measurements in prop::collection::vec(any_measurement(), 0..14), protocols in any_protocols(), loopback in any::<bool>(),
    ) {
        let mut case = Lab { disks: vec![50.0; 3], nics: vec![100.0; 2], ..Lab::default() }.measured();
        case.goal.protocols = protocols;
        case.plan.loopback = loopback;
        case.measurements = measurements;
        let value = serde_json::to_value(case.diagnose()).expect("JSON");
        let again: Diagnosis = serde_json::from_value(value).expect("no NaN or infinity became null");
        let sentence = &bottleneck(&again).sentence;
        prop_assert!(!sentence.contains("NaN") && !sentence.contains("inf "));
        for finding in &again.findings {
            prop_assert!(!finding.text.contains("NaN") && !finding.text.contains("inf"), "{}", finding.text);
        }
    }

    #[test]
    fn a_plan_that_somebody_edited_does_no_harm(
        capacity in any_number(), core in any::<u32>(), drop in any::<prop::sample::Index>(),
    ) {
        let mut case = Lab { disks: vec![50.0; 3], nics: vec![100.0; 2], ..Lab::default() }.measured();
        let at = drop.index(case.plan.resources.len());
        (case.plan.resources[at].capacity, case.plan.resources[at].origin) = (capacity, Origin::Rated);
        case.plan.workers[0].core = core;
        case.plan.ceiling.bytes_per_second = Fact::Known(capacity);
        let value = serde_json::to_value(case.diagnose()).expect("JSON");
        prop_assert!(serde_json::from_value::<Diagnosis>(value).is_ok(), "no NaN or infinity became null");
        case.plan.resources.remove(at);
        let _ = case.diagnose();
        case.plan.workers.clear();
        let _ = case.diagnose();
    }
}

/// Numbers that a broken measurement may hold.
fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => 0.0f64..2e9,
        1 => any::<f64>(),
        1 => prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(-1.0), Just(0.0), Just(1e-300), Just(f64::MAX)],
    ]
}

fn any_protocols() -> impl Strategy<Value = Vec<Protocol>> {
    prop::collection::vec(prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp)], 0..3)
}

prop_compose! {
    fn any_measurement()(
        stage in prop_oneof![Just(Stage::Memory), Just(Stage::Disk), Just(Stage::Network), Just(Stage::Path)],
        resource in prop_oneof![Just("all"), Just("disk:loop0"), Just("disk:loop1"), Just("disk:loop2"), Just("nic:eth0"), Just("nic:eth1"), Just("nobody")],
        name in prop_oneof![Just("copy all cores"), Just("read all cores"), Just("x")],
        numbers in prop::collection::vec(any_number(), 14),
        (together, with_file, lower_bound, told) in any::<(bool, bool, bool, bool)>(),
        held_by in prop::option::of(prop_oneof![Just(LimitedBy::Cpu), Just(LimitedBy::Quota), Just(LimitedBy::Peer), Just(LimitedBy::Generator)]),
        protocol in prop::option::of(prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp)]),
        flags in prop::collection::vec(prop_oneof![Just("quota"), Just("steal"), Just("page-cache"), Just("read-again")], 0..3),
        (socket_drops, segment_bytes, worker) in any::<(u64, u32, usize)>(),
    ) -> Measurement {
        let core = |core| CoreUse { core, user: numbers[2], idle: numbers[3], steal: numbers[4], ..CoreUse::default() };
        Measurement {
            together, with_file, lower_bound, held_by, protocol,
            bytes_per_second: numbers[0],
            samples: numbers[..4].to_vec(),
            spread: numbers[1],
            cpu_seconds_per_gb: numbers[5],
            cpu_by_core: vec![core(0), core(1)],
            flags: flags.iter().map(|flag| flag.to_string()).collect(),
            seconds: numbers[6],
            workers: vec![WorkerResult {
                worker, source: resource.into(), path: Some(resource.into()), bytes_per_second: numbers[7], cpu_share: numbers[8],
                waiting_source: numbers[9], waiting_sink: numbers[10], segment_bytes, ..WorkerResult::default()
            }],
            receiver: told.then(|| ReceiverResult {
                cpu_seconds_per_gb: numbers[11], busiest_thread: numbers[12], throttled: numbers[13], quota_cores: numbers[1],
                socket_drops, receive_buffer_bytes: socket_drops, cpu_by_core: vec![core(0)], ..ReceiverResult::default()
            }),
            loss: numbers[12],
            ..figure(stage, name, resource, 0.0)
        }
    }
}
