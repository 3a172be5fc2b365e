//! Properties of any evidence, however wild its numbers.

use super::*;
use linerate_testing::cases;
use proptest::prelude::*;

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => 0.0f64..=1.0,
        1 => prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(-1.0), Just(f64::MAX), Just(0.0)],
    ]
}

prop_compose! {
    fn any_evidence()(
        n in proptest::collection::vec(number(), 20),
        (route, counts, with) in (0usize..7, any::<[u64; 3]>(), any::<u8>()),
    ) -> Evidence {
        use Route::*;
        let has = |bit: u8| with & (1 << bit) != 0;
        Evidence {
            route: [Machine, Memory, Disks, Network, DisksToNetwork, NetworkToDisks, Unknown][route],
            bytes_per_second: has(0).then_some(n[0] * 1e9),
            rate_limit: has(7).then_some(n[5] * 1e9),
            left_out: has(1).then_some(LeftOut {
                by_disk: counts[0], by_network: counts[1], by_cpu: counts[2],
            }),
            sink: has(5).then(|| SinkEvidence {
                host: "h".into(), disk: None, busy: Some(n[17]), waiting_network: n[18], waiting_disk: n[19],
            }),
            receiver: has(2).then_some(ReceiverEvidence {
                busiest_thread: n[1],
                quota: Some(QuotaEvidence { throttled: n[2], used: None }),
                rate_limit: Some(n[3] * 1e9),
                full: has(6),
                interrupts: has(3).then_some((1, n[2])),
            }),
            sender: has(1).then_some(ReceiverEvidence {
                busiest_thread: n[4],
                quota: None,
                rate_limit: has(4).then_some(n[6] * 1e9),
                full: has(3),
                interrupts: has(6).then_some((0, n[1])),
            }),
            quota: has(3).then_some(QuotaEvidence { throttled: n[4], used: Some(n[5]) }),
            own_cpu: has(4).then_some(n[6]),
            workers: has(5).then_some(WorkerEvidence {
                count: 2, busy: n[7], busiest: n[8], waiting_source: n[9], waiting_sink: n[10], paced: has(7),
            }),
            cpus: vec![cpu(0, n[11], n[12])],
            worker_cpus: if has(7) { vec![0] } else { Vec::new() },
            cpu_users: has(4).then_some(CpuUsers { own: n[7], kernel: n[8], others: n[9] }),
            others_by_cpu: if has(2) { vec![(0, n[10])] } else { Vec::new() },
            hidden_cpu: has(3).then_some(n[11]),
            memory_stalled: Some(n[13]),
            devices: None,
            links: vec![LinkEvidence {
                nic: "eth0".into(), sends: has(6), share: n[14], bits_per_second: 1e9, bytes_per_second: n[13] * 1e9,
                shaper: has(5).then(|| ("tbf".into(), n[16] * 20.0)),
            }],
            disks: vec![disk(has(6).then_some(n[15]), n[16] * 8.0)],
            volumes: if has(4) {
                let members = vec![disk(Some(n[15]), n[16]), disk(Some(n[14]), n[17])];
                vec![VolumeEvidence { name: "sda".into(), members }]
            } else {
                Vec::new()
            },
            reads: has(5).then_some(ReadsEvidence { reads: 8, fewer: 4, gain: n[13] * 2.0 }),
            program: has(6).then(|| ProgramEvidence {
                waiting_cpu: n[6], sleeping: n[2], idle: n[3], pipe_empty: n[4], pipe_full: n[5],
                pipe_peer: has(7).then(|| "nc (pid 7)".into()),
            }),
            requests: has(7).then_some(RequestsEvidence {
                at_once: counts[1] as f64, seconds: n[12], flush_seconds: n[12] * n[13], least_seconds: has(5).then_some(n[12] * n[4]),
            }),
            stream_windows: [(1, n[5]), (1, n[6]), (4, n[7])].map(|(streams, seconds)| ArrivalCount {
                streams, seconds, bytes: counts[2],
            }).to_vec(),
            stream_rates: vec![n[8] * 1e7, n[9] * 1e7],
            drops: vec![DropEvidence { per_second: n[17] * 20.0, ..DropEvidence::default() }],
            tcp: TcpEvidence {
                zero_windows_per_second: Some(n[18] * 20.0),
                retransmits_per_second: Some(n[19] * 20.0),
                retransmit_share: Some(n[0]),
                receive_window_share: has(1).then_some(n[1]),
                send_buffer_share: has(2).then_some(n[2]),
                round_trip_seconds: has(3).then_some(n[3]),
                least_round_trip_seconds: has(5).then_some(n[3] * n[4]),
                receive_buffer_bytes: has(2).then_some(n[17] * 1e6),
                segment_bytes: has(4).then_some(n[18] * 9000.0),
                losses: None,
                connections: counts[0] as u32,
                datagrams: has(6),
                window_bytes: has(5).then_some(n[14] * 1e6),
                window_was_set: has(4),
            },
        }
    }
}

proptest! {
    /// A limit with its rule, or what is missing: never neither, never both.
    #[test]
    fn any_evidence_has_an_answer(evidence in any_evidence()) {
        let judged = judge(&evidence);
        prop_assert_eq!(judged.limits.is_empty(), judged.missing.is_some());
        for limit in &judged.limits {
            let (what, rule) = (limit.to_string(), limit.rule());
            prop_assert!(!what.is_empty() && !rule.is_empty() && !what.contains('\n'), "{what}: {rule}");
        }
        prop_assert!(judged.missing.is_none_or(|missing| !missing.to_string().is_empty()));
    }

    /// What a quota throttles more is limited by it all the more.
    #[test]
    fn more_throttling_never_unlimits(evidence in any_evidence(), less in 0.0f64..1.0, more in 0.0f64..1.0) {
        let of = |throttled| {
            let quota = Some(QuotaEvidence { throttled, used: None });
            let judged = judge(&Evidence { quota, ..evidence.clone() });
            judged.limits.iter().any(|limit| limit.kind() == LimitKind::Quota)
        };
        prop_assert!(!of(less.min(more)) || of(less.max(more)));
    }
}

prop_compose! {
    /// What others do with what the flow does not use.
    fn any_bystander()(
        n in proptest::collection::vec(number(), 10),
        (sends, with, front) in (any::<bool>(), 1u8..32, any::<bool>()),
    ) -> (Evidence, bool) {
        let has = |bit: u8| with & (1 << bit) != 0;
        let name = || "bystander".to_string();
        let other = |busy, depth| DiskEvidence { name: name(), ..disk(busy, depth) };
        let evidence = Evidence {
            links: vec![LinkEvidence {
                nic: name(), sends, share: n[0] * 1.2, bits_per_second: 1e9, bytes_per_second: n[1] * 1e10,
                shaper: has(0).then(|| ("tbf".into(), n[2] * 1e4)),
            }],
            disks: if has(1) { vec![other(has(4).then_some(n[3]), n[4] * 64.0)] } else { Vec::new() },
            volumes: if has(2) {
                vec![VolumeEvidence { name: name(), members: vec![other(Some(n[5]), n[6])] }]
            } else {
                Vec::new()
            },
            drops: if has(3) {
                vec![DropEvidence { interface: Some(name()), per_second: n[7] * 1e6, ..DropEvidence::default() }]
            } else {
                Vec::new()
            },
            cpus: if has(4) { vec![cpu(9, share(n[8]), 0.0)] } else { Vec::new() },
            ..Evidence::default()
        };
        (evidence, front)
    }
}

/// A share of time, where the number is one.
fn share(number: f64) -> f64 {
    if (0.0..=1.0).contains(&number) { number } else { 0.0 }
}

/// Both lists in any order.
fn beside<T>(own: Vec<T>, others: Vec<T>, front: bool) -> Vec<T> {
    if front { others.into_iter().chain(own).collect() } else { own.into_iter().chain(others).collect() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(10_000)))]

    /// NICs, disks, volumes and drops of others change nothing of a verdict; a program on a CPU on which the flow has
    /// no thread is not a bottleneck of it.
    #[test]
    fn a_bystander_is_never_the_bottleneck(evidence in any_evidence(), (others, front) in any_bystander()) {
        let route = if evidence.route == Route::Machine { Route::DisksToNetwork } else { evidence.route };
        let interfaces = ["eth0".to_string()].into();
        let disks = ["sda".to_string()].into();
        let unknown = Default::default();
        let devices = Some(FlowDevices { interfaces, disks, unknown });
        let cpu_users = evidence.cpu_users.map(|users| CpuUsers {
            own: share(users.own),
            kernel: share(users.kernel),
            others: share(users.others),
        });
        let alone = Evidence { route, devices, cpu_users, worker_cpus: vec![0], ..evidence };
        // Shares of all CPUs: with one more, of others, they are shares of more.
        let count = alone.cpus.len() as f64;
        let of_all = |users: CpuUsers| match others.cpus.first() {
            Some(cpu) => CpuUsers {
                own: users.own * count / (count + 1.0),
                kernel: users.kernel * count / (count + 1.0),
                others: (users.others * count + cpu.busy()) / (count + 1.0),
            },
            None => users,
        };
        let both = Evidence {
            cpu_users: alone.cpu_users.map(of_all),
            links: beside(alone.links.clone(), others.links, front),
            disks: beside(alone.disks.clone(), others.disks, front),
            volumes: beside(alone.volumes.clone(), others.volumes, front),
            drops: beside(alone.drops.clone(), others.drops, front),
            cpus: beside(alone.cpus.clone(), others.cpus.clone(), front),
            ..alone.clone()
        };
        let (before, after) = (judge(&alone), judge(&both));
        let said = format!("{after:?}");
        prop_assert!(!said.contains("bystander"), "{}", said);
        if others.cpus.is_empty() {
            // As text: what is not a number is not equal to itself.
            prop_assert_eq!(&format!("{before:?}"), &said);
        }
        let blamed = |judged: &Judgement| {
            judged.limits.iter().any(|limit| matches!(limit.kind(), LimitKind::Cpu | LimitKind::Steal))
        };
        prop_assert!(blamed(&before) || !blamed(&after), "{}", said);
    }
}
