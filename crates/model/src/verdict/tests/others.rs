//! What other programs take: of the CPUs and disks that the flow needs alone, and never a reason to be surer.

use super::certainty::claim;
use super::*;
use crate::verdict::thresholds::OTHERS_EXPLAIN;
use linerate_testing::cases;
use proptest::prelude::*;

/// A CPU of which the flow has so much in system calls, the kernel in interrupts, and others in their programs.
fn shared(core: u32, own: f64, interrupts: f64, others: f64) -> CoreUse {
    let idle = (1.0 - own - interrupts - others).max(0.0);
    CoreUse { core, system: own, softirq: interrupts, user: others, idle, ..CoreUse::default() }
}

/// A path on such CPUs, with a worker on the first, and a disk of which others have so much beside 200 MB/s.
fn beside(cpus: &[[f64; 3]], waits: [f64; 2], disk_of_others: f64) -> Evidence {
    let each: Vec<CoreUse> =
        (0..).zip(cpus).map(|(core, [own, kernel, others])| shared(core, *own, *kernel, *others)).collect();
    let mean = |at: usize| cpus.iter().map(|cpu| cpu[at]).sum::<f64>() / cpus.len() as f64;
    let disk = DiskEvidence {
        bytes_per_second: 200e6 + disk_of_others,
        others_bytes_per_second: Some(disk_of_others),
        asked_depth: Some(4.0),
        ..disk(Some(0.99), 4.0 + disk_of_others / 50e6)
    };
    Evidence {
        bytes_per_second: Some(200e6),
        worker_cpus: vec![0],
        others_by_cpu: (0..).zip(cpus).map(|(core, cpu)| (core, cpu[2])).collect(),
        cpu_users: Some(CpuUsers { own: mean(0), kernel: mean(1), others: mean(2) }),
        workers: Some(WorkerEvidence {
            busy: cpus[0][0],
            busiest: cpus[0][0],
            ..path(waits[0], waits[1]).workers.expect("workers")
        }),
        cpus: each,
        disks: vec![disk],
        ..path(waits[0], waits[1])
    }
}

#[test]
fn what_others_took_of_a_cpu_that_the_flow_needs_is_said_and_idle_or_strange_cpus_are_not() {
    let on_cpu = |cpus: &[[f64; 3]]| beside(cpus, [0.0, 0.7], 0.0).others_on_cpu();
    let one = on_cpu(&[[0.22, 0.0, 0.77], [0.1, 0.1, 0.0]]).expect("a hog on the worker's CPU");
    assert_eq!((one.cpu, one.of), (Some(0), 2));
    assert!((one.share - 0.77).abs() < 1e-9);
    let all = on_cpu(&[[0.3, 0.1, 0.55], [0.3, 0.2, 0.45]]).expect("hogs on both");
    assert!(all.cpu.is_none() && (all.share - 0.5).abs() < 1e-9, "{all:?}");
    assert_eq!(on_cpu(&[[0.3, 0.0, 0.0], [0.0, 0.0, 0.99], [0.0; 3]]), None, "the worker runs elsewhere");
    assert_eq!(on_cpu(&[[0.3, 0.0, 0.3], [0.0, 0.0, 0.0]]), None, "there is time left for both");
    assert_eq!(on_cpu(&[[0.9, 0.05, 0.02], [0.9, 0.05, 0.02]]), None, "quiet");
    let unknown = |cpus: &[[f64; 3]]| {
        Evidence { worker_cpus: Vec::new(), ..beside(cpus, [0.0, 0.7], 0.0) }.others_on_cpu()
    };
    assert_eq!(unknown(&[[0.0; 3], [0.0, 0.0, 0.99], [0.0; 3]]), None, "one of three is hardly its own");
    assert!(
        unknown(&[[0.1, 0.0, 0.0], [0.0, 0.0, 0.99]]).is_some(),
        "one of two is as likely its own as not"
    );
    // A CPU of the network's interrupts is needed as well.
    assert_eq!(on_cpu(&[[0.3, 0.0, 0.0], [0.0, 0.6, 0.35]]).and_then(|one| one.cpu), Some(1));
}

#[test]
fn what_others_took_of_a_disk_is_said_where_the_flow_waits_for_it() {
    let on_disk = |waits, others| beside(&[[0.1, 0.0, 0.0]], waits, others).others_on_disks();
    let found = &on_disk([0.8, 0.1], 100e6)[0];
    assert!((found.share - 1.0 / 3.0).abs() < 1e-9 && found.requests == Some(2.0), "{found:?}");
    assert!(on_disk([0.8, 0.1], 5e6).is_empty(), "quiet");
    assert!(on_disk([0.01, 0.9], 100e6).is_empty(), "it has all that it wants of the disk");
}

#[test]
fn full_cpus_of_which_nobody_can_see_whose_work_it_is_are_no_certain_limit() {
    let full = Evidence { hidden_cpu: Some(0.3), ..beside(&[[0.9, 0.1, 0.0]], [0.0, 0.0], 0.0) };
    assert!(full.cpu_is_hidden());
    assert!(!Evidence { hidden_cpu: None, ..full.clone() }.cpu_is_hidden());
    assert!(!Evidence { cpus: vec![shared(0, 0.3, 0.0, 0.0)], ..full }.cpu_is_hidden());
}

fn rank(verdict: Verdict) -> u32 {
    match verdict {
        Verdict::Confirmed => 2,
        Verdict::Tie => 1,
        Verdict::Contradicted | Verdict::Unexplained => 0,
    }
}

const KINDS: [LimitKind; 8] = {
    use LimitKind::*;
    [Disk, Nic, Cpu, Quota, Memory, Steal, Others, Receiver]
};

fn judged(evidence: &Evidence, (kind, tied, ratio): (usize, usize, f64)) -> (Verdict, Vec<String>) {
    let tied = [KINDS[tied % KINDS.len()]];
    let claim = Claim {
        others: evidence.others_explain(),
        of_predicted: Some(ratio),
        tied: if tied[0] == KINDS[kind] { &[] } else { &tied[..tied.len() * (kind % 2)] },
        ..claim(KINDS[kind])
    };
    let flow = judge(evidence);
    let (verdict, doubt) = verdict(&claim, &flow);
    let statement = Statement {
        kind: claim.kind,
        limit: NamedLimit::new("the CPU", "200 MB/s"),
        predicted: 200e6,
        achieved: FlowRate { bytes_per_second: 200e6, ..FlowRate::default() },
        of_predicted: ratio,
        verdict,
        unlike: None,
        doubt,
        flow: &flow,
        tied: "disk sda".into(),
        headroom: "More or faster cores would raise this to 300 MB/s, where disk sda limits".into(),
        least_rounds: 6,
        cut_short: false,
    };
    let sentences = match doubt {
        Some(Doubt::Others) => beside_others(&statement.achieved, "Other programs used some of it."),
        _ => statement.sentences(),
    };
    (verdict, sentences)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(10_000)))]

    /// Others get a further share of a CPU, or of the disk: nobody is surer then, and what they have is not to be
    /// bought.
    #[test]
    fn what_is_given_to_others_makes_nobody_surer_and_is_not_to_be_bought(
        mut cpus in prop::collection::vec(prop::array::uniform3(0.0f64..1.0), 1..5),
        (source, sink) in (0.0f64..1.0, 0.0f64..1.0),
        disk in 0.0f64..200e6,
        claimed in (0usize..KINDS.len(), 0usize..KINDS.len(), 0.7f64..1.3),
        (which, more, on_disk) in (0usize..4, OTHERS_EXPLAIN..1.0, any::<bool>()),
    ) {
        for cpu in &mut cpus {
            // Full ones are what this is about.
            let sum = cpu.iter().sum::<f64>().max(1.0);
            cpu.iter_mut().for_each(|part| *part /= sum);
        }
        let before = beside(&cpus, [source, sink], disk);
        let mut given = cpus.clone();
        let one = given.len().min(which + 1) - 1;
        let idle = 1.0 - given[one].iter().sum::<f64>();
        let cpu_given = !on_disk && idle >= OTHERS_EXPLAIN;
        if cpu_given {
            given[one][2] += more.min(idle);
        }
        let after = beside(&given, [source, sink], disk + if cpu_given { 0.0 } else { more * 200e6 });
        let ((was, _), (is, said)) = (judged(&before, claimed), judged(&after, claimed));
        prop_assert!(rank(is) <= rank(was), "{was} became {is}: {said:?}");
        if after.others_explain() {
            prop_assert!(rank(is) == 0, "{is}");
            prop_assert!(!said.iter().any(|text| text.contains("raise")), "{said:?}");
        }
    }
}
