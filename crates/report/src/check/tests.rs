use super::usual::{History, RatePosition, judge};
use super::*;
use linerate_facts::fact::Fact;
use linerate_machine::probe::Machine;
use linerate_testing::Dice;
use proptest::prelude::*;
use std::path::Path;

const USUALLY: f64 = 2.5e9;

/// A rate of one run: noise of its own, and what changes over the days for all.
fn noisy(dice: &mut Dice, day: usize, noise: f64) -> f64 {
    let week = (day as f64 / 7.0 * std::f64::consts::TAU).sin();
    USUALLY * (1.0 + noise * dice.normal() + noise * 0.5 * week)
}

/// Always the same dice: what has a small chance must not fail now and then.
#[test]
fn stable_runs_give_no_alarm() {
    for (seed, noise) in [0.001, 0.003, 0.006, 0.01, 0.015].into_iter().enumerate() {
        let (mut dice, mut history) = (Dice::new(seed as u64), History::default());
        for day in 0..200 {
            let rate = noisy(&mut dice, day, noise);
            let position = history.judge(rate).position;
            let is_calm = position != RatePosition::Below && position != RatePosition::Unclear;
            assert!(is_calm, "noise {noise}, day {day}: {position:?}");
            history.add(rate);
        }
    }
}

#[test]
fn eight_percent_less_is_found_in_three_runs() {
    for seed in 0..40 {
        let (mut dice, noise, days) = (Dice::new(seed), 0.001 + 0.0002 * seed as f64, 20 + seed as usize);
        let mut rates: Vec<f64> = (0..days).map(|day| noisy(&mut dice, day, noise)).collect();
        let found = (0..3).any(|more| {
            rates.push(0.92 * noisy(&mut dice, days + more, noise));
            judge(&rates).position == RatePosition::Below
        });
        assert!(found, "seed {seed}: {rates:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn any_rates_are_judged_and_more_is_never_slower(
        rates in proptest::collection::vec(1.0f64..1e12, 1..40), more in 1.0f64..10.0,
    ) {
        let judged = judge(&rates);
        prop_assert_eq!(judged.position == RatePosition::TooFew, judged.usual.is_none());
        let mut faster = rates.clone();
        faster.iter_mut().next_back().into_iter().for_each(|last| *last *= more);
        prop_assert!(judge(&faster).position != RatePosition::Below || judged.position == RatePosition::Below);
        if let Some(usual) = judged.usual {
            prop_assert!(usual.far_low <= usual.low && usual.low <= usual.median && usual.median <= usual.high);
        }
    }
}

#[test]
fn a_machine_that_changes_its_own_speed_is_not_judged() {
    let mut dice = Dice::new(7);
    let mut rates = Vec::new();
    for day in 0..40 {
        let speed = if dice.uniform() < 0.5 { 0.6 } else { 1.0 };
        rates.push(speed * noisy(&mut dice, day, 0.01));
    }
    assert_eq!(judge(&rates).position, RatePosition::Unclear);
    // Far below even that is slower all the same.
    rates.push(0.02 * USUALLY);
    assert_eq!(judge(&rates).position, RatePosition::Below);
}

#[test]
fn what_lasts_is_the_new_usual_and_what_passes_is_part_of_the_old() {
    let (mut dice, mut history) = (Dice::new(3), History::default());
    for day in 0..20 {
        history.add(noisy(&mut dice, day, 0.005));
    }
    let mut places = Vec::new();
    for day in 0..22 {
        let rate = 0.8 * noisy(&mut dice, day, 0.005);
        places.push(history.judge(rate).position);
        history.add(rate);
    }
    assert!(places[..20].iter().all(|position| *position == RatePosition::Below), "{places:?}");
    assert_eq!(places[20..], [RatePosition::Within; 2]);
    let back = history.judge(USUALLY);
    assert_eq!((back.position, back.usual_results.len()), (RatePosition::Above, 22));
}

/// The lab's run so many days after its first, at these rates.
fn lab_run(day: usize, rate: f64) -> Run {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/run-lab-disks.json");
    let mut run = crate::json::read(&file).expect("a sample run");
    run.started = format!("2026-03-{:02}T09:30:00Z", day + 1);
    for measurement in run.measurements.iter_mut().filter(|one| one.stage == Stage::Path) {
        measurement.bytes_per_second *= rate;
    }
    run
}

fn lab_history(days: usize) -> Vec<Run> {
    let mut dice = Dice::new(1);
    (0..days).map(|day| lab_run(day, 1.0 + 0.01 * dice.normal())).collect()
}

#[test]
fn one_line_says_all() {
    let said = |run: &Run, earlier: &[Run]| check(run, earlier, 0).sentence;
    let history = lab_history(12);
    insta::assert_snapshot!(said(&lab_run(12, 1.0), &history), @r"as usual: disk to network over tcp 197 MB/s (usually 191–204 MB/s, 12 results); disk to network over udp 196 MB/s (usually 190–203 MB/s, 12 results).");
    insta::assert_snapshot!(said(&lab_run(12, 0.7), &history), @r"slower than usual: disk to network over tcp 138 MB/s, 30 % below the usual 197 MB/s (191–204 MB/s, 12 results); disk to network over udp 137 MB/s, 30 % below the usual 197 MB/s (190–203 MB/s, 12 results). Nothing that linerate reads of the machine has changed since 2026-03-12.");
    insta::assert_snapshot!(said(&lab_run(12, 1.4), &history), @r"faster than usual: disk to network over tcp 276 MB/s, 40 % above the usual 197 MB/s (191–204 MB/s, 12 results); disk to network over udp 275 MB/s, 40 % above the usual 197 MB/s (190–203 MB/s, 12 results). Nothing that linerate reads of the machine has changed since 2026-03-12.");
    let mut changed = lab_run(12, 0.7);
    changed.machine.kernel.release = Fact::Known("6.18.5".into());
    changed.machine.nics[0].mtu = Fact::Known(1500);
    for disk in changed.measurements.iter_mut().filter(|one| one.stage == Stage::Disk) {
        disk.bytes_per_second *= 0.75;
    }
    insta::assert_snapshot!(said(&changed, &history), @r"slower than usual: disk to network over tcp 138 MB/s, 30 % below the usual 197 MB/s (191–204 MB/s, 12 results); disk to network over udp 137 MB/s, 30 % below the usual 197 MB/s (190–203 MB/s, 12 results). Slower, too: disk loop0 alone (−25 %); disk loop1 alone (−25 %); disk loop2 alone (−25 %); disk loop3 alone (−25 %); 1 more (--json). Changed since 2026-03-12: MTU of lr-v0 9000 → 1500; kernel 6.12.0 → 6.18.5.");
    insta::assert_snapshot!(said(&lab_run(12, 1.0), &history[..3]), @r"no judgement yet: 3 of the 8 earlier results are kept that it needs.");
    let mut failed = lab_run(12, 0.7);
    failed.errors.push("the agent has gone away.".into());
    insta::assert_snapshot!(said(&failed, &history), @r"not judged, something failed: the agent has gone away.");
    let wide: Vec<Run> = (0..12).map(|day| lab_run(day, if day % 3 == 0 { 0.6 } else { 1.0 })).collect();
    insta::assert_snapshot!(said(&lab_run(12, 1.0), &wide), @r"cannot judge, this machine changes its own speed: disk to network over tcp is 197 MB/s now, and by 12 earlier results anything within 108–359 MB/s is usual; below 19.8 MB/s it would be slower.");
}

#[test]
fn only_repeats_of_the_same_flow_on_the_same_machine_count() {
    let of = |change: fn(&mut Run)| {
        let mut other = lab_run(0, 1.0);
        change(&mut other);
        check(&lab_run(12, 1.0), &[other], 0).history
    };
    let counts = |history: KeptHistory| (history.results, history.other_flows, history.other_machines);
    assert_eq!(counts(of(|_| {})), (1, 0, 0));
    assert_eq!(counts(of(|run| run.goal.budget_seconds += 1.0)), (0, 1, 0));
    assert_eq!(counts(of(|run| run.goal.peers.clear())), (0, 1, 0));
    assert_eq!(counts(of(|run| run.errors.push("cut".into()))), (0, 1, 0));
    assert_eq!(counts(of(|run| run.host = "other".into())), (0, 0, 1));
    assert_eq!(counts(of(|run| run.machine.cpu.model = Fact::Known("other".into()))), (0, 0, 1));
    let other_disk = |run: &mut Run| {
        run.plan.iter_mut().for_each(|plan| plan.sources[0].resource = "disk:sdz".into());
    };
    assert_eq!(counts(of(other_disk)), (0, 1, 0));
    let elsewhere = check(&lab_run(12, 1.0), &[], 7);
    assert!(elsewhere.sentence.contains("7 results are of another machine"), "{}", elsewhere.sentence);
}

/// A change that was planted, and the word that names it.
type Planted = (&'static str, fn(&mut Run));

const PLANTED: [Planted; 16] = [
    ("kernel", |run| run.machine.kernel.release = Fact::Known("9.9".into())),
    ("MTU of eth0", |run| run.machine.nics[0].mtu = Fact::Known(1400)),
    ("link speed of eth0", |run| run.machine.nics[0].speed_bits_per_second = Fact::Known(10_000_000_000)),
    ("driver of eth0", |run| run.machine.nics[0].driver = Fact::Known("other".into())),
    ("firmware of eth0", |run| run.machine.nics[0].details.firmware = Fact::Known("0.1".into())),
    ("PCIe link of 0000:17:00.0", |run| {
        let card = run.machine.pci.iter_mut().find(|one| one.address == "0000:17:00.0");
        card.expect("the card").link = Fact::Known(linerate_testing::server::link(8.0, 4));
    }),
    ("net.core.rmem_max", |run| run.machine.kernel.rmem_max_bytes = Fact::Known(212_992)),
    ("CPU governor", |run| run.machine.cpu.governor = Fact::Known("powersave".into())),
    ("CPUs online", |run| run.machine.cpu.logical[7].online = false),
    ("disks missing of md0", |run| {
        let md = run.machine.disks.iter_mut().find(|disk| disk.name == "md0").expect("the array");
        md.array.as_mut().expect("an array").degraded = Fact::Known(1);
    }),
    ("scheduler of nvme0n1", |run| run.machine.disks[0].scheduler = Fact::Known("bfq".into())),
    ("mount options of /data", |run| run.machine.file_systems[0].options = "rw,sync".into()),
    ("fill of /data", |run| run.machine.file_systems[0].free_bytes = Fact::Known(1 << 30)),
    ("memory", |run| run.machine.memory.total_bytes = Fact::Known(64 << 30)),
    ("other work", |run| run.measurements[0].cpu_share.others = 0.5),
    ("link of eth1", |run| run.machine.nics.retain(|nic| nic.name != "eth1")),
];

/// A run of a real server, whose path is this fast.
fn server_run(day: usize, rate: f64) -> Run {
    let mut run = lab_run(day, rate);
    run.machine = Machine { host: run.machine.host.clone(), ..linerate_testing::server::server() };
    let data = &mut run.machine.file_systems[0];
    (data.size_bytes, data.free_bytes) = (Fact::Known(1 << 40), Fact::Known(1 << 39));
    run
}

#[test]
fn a_planted_change_is_named_and_nothing_else() {
    let mut dice = Dice::new(5);
    let mut history: Vec<Run> = (0..20).map(|day| server_run(day, 1.0 + 0.01 * dice.normal())).collect();
    // What changed at times without a change of the rate is not a cause.
    for run in history.iter_mut().take(4) {
        run.machine.kernel.default_qdisc = Fact::Known("pfifo_fast".into());
    }
    for (what, plant) in PLANTED {
        let mut run = server_run(25, 0.8);
        run.machine.kernel.default_qdisc = Fact::Known("pfifo_fast".into());
        plant(&mut run);
        let found = check(&run, &history, 0);
        assert_eq!(found.verdict, CheckVerdict::Slower, "{what}");
        let named: Vec<&str> = found.changes.iter().map(|change| change.what.as_str()).collect();
        assert!(named.contains(&what), "{what}: {named:?}");
        let of_the_same = |name: &&str| what.contains("eth1") || *name == what;
        assert!(named.iter().all(of_the_same), "{what}: {named:?}");
        assert!(found.sentence.contains("Changed since 2026-03-20: "), "{}", found.sentence);
    }
}

#[test]
fn prometheus_reads_the_figures_and_the_verdict() {
    let found = check(&lab_run(12, 0.7), &lab_history(12), 0);
    let text = found.prometheus_text();
    for line in [
        "# TYPE linerate_check_slower gauge",
        "linerate_check_slower{stage=\"path\",name=\"tcp\"} 1",
        "linerate_check_slower{stage=\"disk\",name=\"all disks\"} 0",
        "linerate_check_bytes_per_second{stage=\"path\",name=\"tcp\"} 137970000",
        "linerate_check_judged 1",
        "linerate_check_failed 0",
        "linerate_check_timestamp_seconds 1773394200",
    ] {
        assert!(text.lines().any(|one| one == line), "no {line} in\n{text}");
    }
}
