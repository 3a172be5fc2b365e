//! The gate over recorded runs: planted noise, planted faults, and what nobody can judge.

use super::*;
use linerate_facts::fact::Fact;
use linerate_machine::probe::{Array, Machine};
use linerate_measure::measure::statistics::{Interval, median};
use linerate_model::plan::Goal;
use linerate_testing::Dice;
use linerate_testing::server::{link, server};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

fn saved(name: &str) -> Run {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name);
    crate::read(&path).expect("a saved run")
}

/// A machine that carries next to all that its parts are likely to.
fn good() -> Run {
    let mut run = saved("run-lab-disks.json");
    let plan = run.plan.as_mut().expect("a plan");
    plan.ceiling.likely_bytes_per_second = Some(200e6);
    run
}

fn probed(machine: Machine) -> Run {
    Run::begin(machine, Goal::default())
}

fn expected(rules: &[&str]) -> Expectations {
    let rules = rules.iter().map(|rule| Rule::parse(rule).unwrap_or_else(|error| panic!("{rule}: {error}")));
    Expectations::of(rules.collect()).expect("they do not contradict each other")
}

fn held_to(run: &Run, rules: &[&str]) -> GateReport {
    judge(run, &expected(rules), &History::default())
}

/// Of one rule.
fn outcome(run: &Run, rule: &str) -> (RuleOutcome, String) {
    let mut report = held_to(run, &[rule]);
    let rule = report.rules.pop().expect("a rule");
    (rule.outcome, rule.text)
}

/// Another run of the same machine: all of it is off by half a percent, each round by one, and `factor` is planted.
fn another(run: &Run, dice: &mut Dice, factor: f64) -> Run {
    let mut run = run.clone();
    let factor = factor * (1.0 + 0.005 * dice.normal());
    for figure in &mut run.measurements {
        let rate = figure.bytes_per_second * factor;
        figure.samples = (0..6).map(|_| rate * (1.0 + 0.01 * dice.normal())).collect();
        figure.bytes_per_second = median(&figure.samples);
        figure.interval = Interval::of(&figure.samples).map(|within| [within.low, within.high]);
    }
    run.diagnosis = run.diagnose();
    run
}

/// Rules as they are written from a good result, and some by hand.
fn rules_of_good() -> Expectations {
    let mut rules = rules_of_text(&expectations_of_result(&good()), "good.toml").expect("what it wrote");
    rules.extend(expected(&["path >= 0.9 likely", "twins within 10%", "disk:* >= 45MB/s"]).rules);
    Expectations::of(rules).expect("rules")
}

fn like_good() -> Expectations {
    Expectations { results: vec![(PathBuf::from("good"), good())], ..expected(&["like good"]) }
}

#[test]
fn of_two_hundred_good_runs_none_fails() {
    let (good, mut dice) = (good(), Dice::new(41));
    let all = [rules_of_good(), like_good()];
    assert!(all[0].rules.len() >= 9, "{:?}", all[0].rules);
    for run in 0..200 {
        let now = another(&good, &mut dice, 1.0);
        for expected in &all {
            let report = judge(&now, expected, &History::default());
            assert_ne!(report.outcome, RuleOutcome::Failed, "run {run}: {}", report.screen(usize::MAX));
        }
    }
}

#[test]
fn eight_percent_less_is_found_and_two_are_not() {
    let (good, mut dice) = (good(), Dice::new(8));
    for expected in [rules_of_good(), like_good()] {
        let mut failed = |factor: f64| {
            let failed = (0..40).filter(|_| {
                let now = another(&good, &mut dice, factor);
                judge(&now, &expected, &History::default()).outcome == RuleOutcome::Failed
            });
            failed.count()
        };
        let (eight, two) = (failed(0.92), failed(0.98));
        assert!(eight >= 36 && two == 0, "{eight} and {two} of 40");
    }
}

/// A fault: where it is planted, the rule that has to fail, and words of its cause.
type Fault = (&'static str, Run, &'static str, &'static str);

fn of_machine(plant: impl FnOnce(&mut Machine)) -> Run {
    let mut machine = server();
    plant(&mut machine);
    probed(machine)
}

fn of_run(name: &str, plant: impl FnOnce(&mut Run)) -> Run {
    let mut run = saved(name);
    plant(&mut run);
    run.diagnosis = run.diagnose();
    run
}

fn degraded(machine: &mut Machine) {
    let array = Array { level: "raid6".into(), degraded: Fact::Known(1), ..Array::default() };
    machine
        .disks
        .iter_mut()
        .filter(|disk| disk.name == "md0")
        .for_each(|disk| disk.array = Some(array.clone()));
}

fn faults() -> Vec<Fault> {
    let eth0 = |machine: &mut Machine, bits: u64| {
        let nic = machine.nics.iter_mut().find(|nic| nic.name == "eth0").expect("a NIC");
        nic.speed_bits_per_second = Fact::Known(bits);
        nic.details.link_max_bits_per_second = Fact::Known(100_000_000_000);
    };
    vec![
        ("x8 in x4", of_machine(|_| ()), "probe: no link below its best", "8 GT/s x4 (31.5 Gb/s)"),
        ("disks far from the NIC", of_machine(|_| ()), "probe: no node-apart", "crosses the socket link"),
        ("a small ring", of_machine(|_| ()), "probe: receive ring of eth0 is 4096 of 4096", "is 512 of 4096"),
        (
            "another governor",
            of_machine(|machine| machine.cpu.governor = Fact::Known("powersave".into())),
            "probe: CPU governor is performance",
            "CPU governor is powersave",
        ),
        (
            "another queueing discipline",
            of_machine(|machine| machine.kernel.default_qdisc = Fact::Known("pfifo_fast".into())),
            "probe: net.core.default_qdisc is fq",
            "net.core.default_qdisc is pfifo_fast",
        ),
        (
            "a CPU quota",
            of_machine(|machine| machine.cpu.quota_cores = Fact::Known(0.5)),
            "probe: CPU quota is none",
            "CPU quota is 0.5 cores",
        ),
        ("a degraded array", of_machine(degraded), "probe: no array-degraded", "md0 (raid6) lacks 1"),
        (
            "a link of 100 Mb/s",
            of_machine(|machine| {
                machine.pci.iter_mut().filter(|one| one.address == "0000:31:00.0").for_each(|card| {
                    card.link = Fact::Known(link(8.0, 8));
                });
                eth0(machine, 100_000_000);
            }),
            "probe: no link below its best",
            "eth0 runs at 100 Mb/s; its card and module can do 100 Gb/s",
        ),
        (
            "another MTU",
            of_run("run-lab-disks.json", |run| run.machine.nics[0].mtu = Fact::Known(1500)),
            "probe: MTU of lr-v0 is 9000",
            "MTU of lr-v0 is 1500",
        ),
        ("a slow twin", of_run("run-unequal-nics.json", |_| ()), "twins within 10%", "lr-v1 carries half"),
        (
            "a slow disk",
            of_run("run-lab-disks.json", |run| {
                for figure in run.measurements.iter_mut().filter(|one| one.resource == "disk:loop2") {
                    figure.samples.iter_mut().for_each(|sample| *sample /= 2.0);
                    figure.interval = figure.interval.map(|within| within.map(|rate| rate / 2.0));
                    figure.bytes_per_second /= 2.0;
                }
            }),
            "disk:* >= 45MB/s",
            "loop2 reads half of",
        ),
        (
            "lost datagrams",
            of_run("run-unequal-nics.json", |_| ()),
            "network loss < 0.1%",
            "0.8 %, expected at most 0.1 %. ",
        ),
    ]
}

#[test]
fn each_planted_fault_fails_with_its_cause() {
    for (name, run, rule, cause) in faults() {
        let (outcome, text) = outcome(&run, rule);
        assert_eq!(outcome, RuleOutcome::Failed, "{name}: {text}");
        assert!(text.contains(cause), "{name}: {text}");
    }
}

/// The rules of the faults hold where nothing was planted.
#[test]
fn a_machine_without_a_fault_holds_to_the_same_rules() {
    let whole = of_machine(|machine| {
        let card = machine.pci.iter_mut().find(|one| one.address == "0000:31:00.0").expect("a card");
        card.link = Fact::Known(link(8.0, 8));
        machine.cpu.governor = Fact::Known("performance".into());
        machine.cpu.quota_cores = Fact::Known(0.0);
    });
    let rules = "probe: no link below its best|probe: CPU governor is performance|probe: CPU quota is none|\
                 probe: receive ring of eth0 is 512 of 4096|probe: no array-degraded";
    let report = held_to(&whole, &rules.split('|').collect::<Vec<_>>());
    assert_eq!(report.outcome, RuleOutcome::Held, "{}", report.screen(usize::MAX));
    let run = good();
    let rules =
        ["probe: MTU of lr-v0 is 9000", "twins within 10%", "network loss < 0.1%", "path >= 0.9 predicted"];
    let report = held_to(&run, &rules);
    assert_eq!(report.outcome, RuleOutcome::Held, "{}", report.screen(usize::MAX));
}

#[test]
fn a_path_that_is_too_slow_fails_with_its_bottleneck() {
    let (outcome, text) = outcome(&good(), "path >= 1.2 likely");
    assert_eq!(outcome, RuleOutcome::Failed, "{text}");
    let says =
        ["path tcp 197 MB/s (", "99 % of the 200 MB/s that its parts are likely to carry", "four disks"];
    assert!(says.iter().all(|words| text.contains(words)), "{text}");
}

#[test]
fn what_cannot_be_judged_never_fails() {
    use RuleOutcome::NotJudged;
    let mut run = good();
    let not_judged = |run: &Run, rule: &str, reason: &str| {
        let (outcome, text) = outcome(run, rule);
        assert!(outcome == NotJudged && text.contains(reason), "{rule}: {outcome}: {text}");
    };
    not_judged(&run, "path >= 197MB/s", "more repeats narrow it");
    not_judged(&run, "disk:nvme9 >= 1GB/s", "disk nvme9 is not in this machine; there is");
    not_judged(&run, "disk p99 < 10ms", "no such figure");
    not_judged(&run, "probe: MTU of lr-v9 is 9000", "nothing is known of that here");
    not_judged(&run, "probe: scheduler of loop0 is none", "nothing is known of that here");
    not_judged(&run, "as usual", "0 of the 8 earlier results");
    run.measurements.iter_mut().for_each(|figure| figure.flags.push("others".into()));
    not_judged(&run, "path >= 300MB/s", "other programs had the machine meanwhile");
    assert_eq!(outcome(&run, "path >= 100MB/s").0, RuleOutcome::Held, "in spite of them");
    run.measurements.iter_mut().for_each(|figure| {
        (figure.flags, figure.held_by) = (Vec::new(), Some(linerate_measure::measure::LimitedBy::Peer));
    });
    not_judged(&run, "network >= 100Gb/s", "it was limited by the receiver");
    run.measurements.iter_mut().for_each(|figure| {
        figure.held_by = None;
        figure.interval = None;
        figure.samples.truncate(2);
    });
    not_judged(&run, "path >= 300MB/s", "too few samples for an interval (2)");
    run.plan.as_mut().expect("a plan").ceiling.likely_bytes_per_second = None;
    not_judged(&run, "path >= 0.9 likely", "is not known");
    let nothing = probed(Machine::default());
    not_judged(&nothing, "path >= 1GB/s", "nothing was measured");
    not_judged(&nothing, "no straggler", "nothing was measured");
    not_judged(&nothing, "probe: no link below its best", "no link of this machine says");
    not_judged(&nothing, "twins within 10%", "no two parts of one kind");
    let mut twins = saved("run-unequal-nics.json");
    twins.measurements.iter_mut().for_each(|figure| figure.lower_bound = true);
    not_judged(&twins, "twins within 10%", "lr-v1 did less than its like");
    let other = Expectations {
        results: vec![("good".into(), saved("run-big-server.json"))],
        ..expected(&["like good"])
    };
    let report = judge(&good(), &other, &History::default());
    assert!(report.rules[0].text.starts_with("another machine: "), "{report:?}");
    assert_eq!(report.outcome, NotJudged);
}

#[test]
fn a_load_is_judged_by_its_answer() {
    let run = saved("stage-load.json");
    assert_eq!(outcome(&run, "load >= 100 IOPS").0, RuleOutcome::Held);
    assert_eq!(outcome(&run, "load >= 100k IOPS").0, RuleOutcome::Failed);
    assert_eq!(outcome(&run, "p99 < 1s").0, RuleOutcome::Held);
    let (outcome, text) = outcome(&run, "load p99 < 1ms");
    assert!(outcome == RuleOutcome::Failed && text.starts_with("load "), "{text}");
}

#[test]
fn as_usual_is_what_the_check_says() {
    let day = |day: u32, factor: f64| {
        let mut run = good();
        run.started = format!("2026-03-{day:02}T00:00:00Z");
        run.measurements.iter_mut().for_each(|figure| figure.bytes_per_second *= factor);
        run
    };
    let history: History =
        ((1..10).map(|number| day(number, 1.0 + 0.001 * f64::from(number % 3))).collect(), 0);
    let usual = expected(&["as usual"]);
    assert_eq!(judge(&day(11, 1.0), &usual, &history).outcome, RuleOutcome::Held);
    let slower = judge(&day(11, 0.6), &usual, &history);
    assert!(slower.rules[0].text.starts_with("slower than usual: "), "{slower:?}");
    assert_eq!(slower.outcome, RuleOutcome::Failed);
}

/// What is written holds where it was written, and reads again.
#[test]
fn rules_of_every_saved_result_hold_to_it() {
    for name in
        ["run-lab-disks", "run-big-server", "run-loopback", "stage-disk-xfs", "stage-load", "stage-memory"]
    {
        let run = saved(&format!("{name}.json"));
        let text = expectations_of_result(&run);
        let rules = rules_of_text(&text, name).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
        assert!(!rules.is_empty(), "{text}");
        let report = judge(&run, &Expectations::of(rules).expect("rules"), &History::default());
        assert_eq!(report.outcome, RuleOutcome::Held, "{name}: {}", report.screen(usize::MAX));
    }
}

#[test]
fn wrong_rules_are_refused_in_one_sentence() {
    let wrong = [
        ("path", "is not a rule"),
        ("", "is not a rule"),
        ("dsk >= 3GB/s", "names no part"),
        ("disk: >= 3GB/s", "names no part"),
        ("cpu:0 >= 3GB/s", "names no part"),
        (">= 3GB/s", "names no part"),
        ("disk:* >= 10ms", "is a rate, like 3GB/s"),
        ("disk:* >= 100", "is a rate"),
        ("disk >= 0.9 likely", "is a rate"),
        ("network >= 0.9 predicted", "is a rate"),
        ("p99 < 3GB/s", "is a time, like 10ms"),
        ("p99 < 10", "is a time"),
        ("network loss < 10ms", "is a share"),
        ("load >= 3GB/s", "like 100k IOPS"),
        ("disk loss < 1%", "has no loss"),
        ("path p99 < 1ms", "has no p99"),
        ("path >= -1GB/s", "is a rate"),
        ("path >= NaN likely", "is a rate"),
        ("twins within 10", "is not a share"),
        ("twins within 1000%", "is not a share"),
        ("like node3.json within much", "is not a share"),
        ("no such-thing", "is not a finding"),
        ("probe: MTU of eth0", "says nothing of the machine"),
        ("path >= 1GB/s\n", "letters that a screen cannot show"),
    ];
    for (rule, why) in wrong {
        let error = Rule::parse(rule).expect_err(rule).to_string();
        assert!(error.contains(why) && !error.contains('\n'), "{rule}: {error}");
    }
    assert!(Rule::parse(&"p".repeat(1000)).is_err());
    let contradict = |one: &str, other: &str| {
        Expectations::of([one, other].map(|rule| Rule::parse(rule).expect("a rule")).to_vec()).is_err()
    };
    assert!(contradict("path >= 5GB/s", "path <= 3GB/s") && contradict("path <= 3GB/s", "path >= 5GB/s"));
    assert!(contradict("probe: MTU of eth0 is 1500", "probe: MTU of eth0 is 9000"));
    assert!(
        !contradict("path >= 3GB/s", "path <= 5GB/s") && !contradict("disk:a >= 5GB/s", "disk:b <= 3GB/s")
    );
}

#[test]
fn files_are_refused_with_their_line() {
    let refused = |text: &str| rules_of_text(text, "node.toml").expect_err(text).to_string();
    assert!(refused("expect = [\n  \"path >= 1GB/s\",\n  5,\n]").starts_with("node.toml: line 3: "));
    assert!(refused("expects = []").contains("line 1"));
    assert!(refused("expect = [\"path >= 10ms\"]").starts_with("node.toml: “10ms” is another unit"));
    let many = format!("expect = [{}]", "\"as usual\",".repeat(2000));
    assert!(refused(&many).starts_with("more than 1024 rules"));
}

#[test]
fn a_page_for_a_ci_has_a_case_for_each_rule() {
    let run = Run { host: "a<b&\"c\"".into(), ..good() };
    let report = held_to(&run, &["path >= 100MB/s", "path >= 300MB/s", "disk:none >= 1GB/s"]);
    let page = junit_page(&[report.clone(), report]);
    let read = roxmltree::Document::parse(&page).unwrap_or_else(|error| panic!("{error}: {page}"));
    let count = |name: &str| read.descendants().filter(|node| node.has_tag_name(name)).count();
    assert_eq!([count("testsuite"), count("testcase"), count("failure"), count("skipped")], [2, 6, 2, 2]);
    let suite = read.descendants().find(|node| node.has_tag_name("testsuite")).expect("a suite");
    assert_eq!([suite.attribute("failures"), suite.attribute("skipped")], [Some("1"), Some("1")]);
}

/// Pieces that rules are made of, and some that they are not.
const PIECES: &str = "path, disk, disk:*, nic:eth0, network, load, p99, loss, >=, <, 3GB/s, 0.9 likely, 10%, 10ms, \
     100k IOPS, twins within, like, probe:, no, is, link below its best, as usual, ½, 1e999";

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_a_rule_or_one_sentence(text in ".{0,60}", pieces in prop::collection::vec(0usize..24, 0..7)) {
        let all: Vec<&str> = PIECES.split(", ").collect();
        let joined: Vec<&str> = pieces.iter().map(|piece| all[*piece]).collect();
        for text in [text, joined.join(" ")] {
            match Rule::parse(&text) {
                Ok(rule) => {
                    prop_assert_eq!(&Rule::parse(rule.text()), &Ok(rule.clone()));
                    let expected = Expectations::of(vec![rule]).expect("one rule");
                    let report = judge(&probed(Machine::default()), &expected, &History::default());
                    prop_assert!(!report.rules[0].text.is_empty() && !report.screen(60).is_empty());
                }
                Err(error) => {
                    let error = error.to_string();
                    prop_assert!(error.len() < 600 && !error.chars().any(char::is_control), "{}", error);
                }
            }
            let _ = rules_of_text(&text, "node.toml");
        }
    }
}
