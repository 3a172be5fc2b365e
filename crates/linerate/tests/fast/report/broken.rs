//! Runs that nobody measured: texts that want to be markup, numbers that are none, random changes of
//! everything.

use crate::support::samples;
use linerate::report;
use linerate::run::Run;
use linerate_testing::{cases, drawn};
use serde::Deserialize;
use serde_json::Value;

/// Puts a text into every string of a run that may hold any text.
fn poisoned(run: &Run, poison: &str) -> Run {
    let mut value = serde_json::to_value(run).expect("a run is JSON");
    let mut paths = Vec::new();
    string_paths(&value, String::new(), &mut paths);
    let mut kept = 0;
    for path in paths {
        let leaf = value.pointer_mut(&path).expect("a path that was just found");
        let before = std::mem::replace(leaf, Value::String(poison.into()));
        if Run::deserialize(&value).is_err() {
            *value.pointer_mut(&path).expect("a path that was just found") = before;
        } else {
            kept += 1;
        }
    }
    assert!(kept > 100, "only {kept} texts were replaced");
    serde_json::from_value(value).expect("a run")
}

fn string_paths(value: &Value, path: String, paths: &mut Vec<String>) {
    match value {
        Value::String(_) => paths.push(path),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(index, item)| string_paths(item, format!("{path}/{index}"), paths)),
        Value::Object(map) => map.iter().for_each(|(key, item)| {
            string_paths(item, format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")), paths)
        }),
        _ => {}
    }
}

#[test]
fn nothing_from_outside_is_markup() {
    let poison = "</title></style></text>\"'><script>alert(1)</script><img src=x \
                  onerror=alert(1)>&amp;\u{1b}[31m\u{202e}";
    for run in [samples::loopback(), samples::partial()] {
        let run = poisoned(&run, poison);
        let page = report::html(&run);
        assert!(page.contains("&lt;script&gt;"), "the texts are shown");
        for raw in ["<script", "<img", "\u{1b}", "\u{202e}", "onerror=alert(1)>"] {
            assert!(!page.contains(raw), "{raw:?} is in the page");
        }
        assert_eq!(page.matches("<title").count(), page.matches("</title>").count());
        for colour in [false, true] {
            let screen = report::terminal(&run, 80, colour);
            assert!(!screen.contains("\u{1b}[31m") && !screen.contains('\u{202e}'), "{screen}");
        }
    }
}

#[test]
fn evidence_keys_are_texts_from_outside_too() {
    let mut run = samples::unequal_nics();
    let diagnosis = run.diagnosis.as_mut().expect("a diagnosis");
    diagnosis.findings[0].evidence = serde_json::json!({ "<script>": { "<b>": ["<i>", 1e308, -1, null] } });
    let page = report::html(&run);
    assert!(page.contains("&lt;script&gt;") && !page.contains("<script"));
    assert!(page.contains("&lt;i&gt;") && !page.contains("<i>"));
}

/// A number that is none, as words of the page. (`inf` within a word is not a number.)
fn broken_number(text: &str) -> Option<String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.into_iter().find(|word| ["NaN", "nan", "inf", "Infinity"].contains(word)).map(String::from)
}

fn check(run: &Run, what: &str) {
    let page = report::html(run);
    assert_eq!(broken_number(&page), None, "{what}");
    for width in [60, 110] {
        let screen = report::terminal(run, width, false);
        assert_eq!(broken_number(&screen), None, "{what}");
        assert!(screen.lines().count() <= 45, "{what}: {} lines\n{screen}", screen.lines().count());
    }
}

#[test]
fn numbers_that_are_none_are_not_shown() {
    for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, -1.0] {
        let mut run = samples::unequal_nics();
        let diagnosis = run.diagnosis.as_mut().expect("a diagnosis");
        diagnosis.achieved.as_mut().expect("a diagnosis of the path").bytes_per_second = wrong;
        diagnosis.achieved.as_mut().expect("a diagnosis of the path").of_predicted = wrong;
        diagnosis.bottleneck.as_mut().expect("a diagnosis of the path").gain = wrong;
        diagnosis.predicted.as_mut().expect("a diagnosis of the path").bytes_per_second =
            linerate::fact::Fact::Known(wrong);
        diagnosis.findings[0].gain = wrong;
        for resource in &mut diagnosis.resources {
            resource.capacity = wrong;
            resource.utilisation = wrong;
            resource.rated = Some(wrong);
        }
        for m in &mut run.measurements {
            m.bytes_per_second = wrong;
            m.samples = vec![wrong, 1.0, wrong];
            m.spread = wrong;
            m.loss = wrong;
            m.cpu_seconds_per_gb = wrong;
            m.cpu_by_core.iter_mut().for_each(|core| (core.user, core.idle) = (wrong, wrong));
            m.workers.iter_mut().for_each(|worker| {
                (worker.bytes_per_second, worker.waiting_sink, worker.cpu_share) = (wrong, wrong, wrong)
            });
            m.receiver
                .iter_mut()
                .for_each(|receiver| (receiver.throttled, receiver.busiest_thread) = (wrong, wrong));
        }
        run.goal.seconds = Some(wrong);
        check(&run, &format!("{wrong}"));
    }
}

/// A small generator of random numbers that is the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        (linerate_testing::next(&mut self.0) % limit.max(1) as u64) as usize
    }
}

/// Changes one place of a run: a number to an extreme, a list to fewer or more items, a text to another, a
/// field to nothing.
fn mutate(value: &mut Value, random: &mut Random) {
    match value {
        Value::Array(items) if items.is_empty() || random.below(4) == 0 => {
            if random.below(2) == 0 {
                items.truncate(random.below(items.len() + 1));
            } else if let Some(item) = items.first().cloned() {
                items.extend(std::iter::repeat_n(item, random.below(40)));
            }
        }
        Value::Array(items) => {
            let index = random.below(items.len());
            mutate(&mut items[index], random);
        }
        Value::Object(map) if !map.is_empty() => {
            let index = random.below(map.len());
            let key = map.keys().nth(index).expect("a key below the length").clone();
            if random.below(12) == 0 {
                map.remove(&key);
            } else {
                mutate(&mut map[&key], random);
            }
        }
        Value::Number(_) => {
            let extremes = [0.0, 1.0, -1.0, 1e-300, 1e18, 1e300, 0.5, 4096.0, 18_446_744_073_709_551_615.0];
            let number: f64 = extremes[random.below(extremes.len())];
            *value = if number >= 0.0 && number.fract() == 0.0 && random.below(2) == 0 {
                (number as u64).into()
            } else {
                number.into()
            };
        }
        Value::String(text) => {
            let texts = "|disk:loop0|memory|cpu:lanes|磁盘 ünïcödé 🖴|a b c d e f g h i j k l m n o p q r s t";
            let texts: Vec<&str> = texts.split('|').collect();
            *text = texts[random.below(texts.len())].into();
        }
        other => *other = Value::Bool(random.below(2) == 0),
    }
}

#[test]
fn random_runs_are_shown_whole() {
    let mut shown = 0;
    for (name, run) in samples::all().into_iter().filter(|(name, _)| *name != "big-server") {
        for round in drawn(25) {
            let mut random = Random(0x5eed_0000 + 100 * name.len() as u64 + u64::from(round));
            let mut value = serde_json::to_value(&run).expect("a run is JSON");
            for _ in 0..1 + random.below(30) {
                let before = value.clone();
                mutate(&mut value, &mut random);
                if Run::deserialize(&value).is_err() {
                    value = before;
                }
            }
            check(&serde_json::from_value(value).expect("a run"), &format!("{name}, round {round}"));
            shown += 1;
        }
    }
    assert_eq!(shown, cases(100));
}

#[test]
fn a_resource_that_leads_to_itself_is_drawn() {
    let mut run = samples::lab_disks();
    let diagnosis = run.diagnosis.as_mut().expect("a diagnosis");
    for resource in &mut diagnosis.resources {
        resource.next = vec![resource.id.clone(), "pcie:loop".into(), "memory".into(), "not there".into()];
    }
    let mut link = diagnosis.resources[0].clone();
    link.id = "pcie:loop".into();
    link.kind = linerate::plan::ResourceKind::Pcie;
    diagnosis.resources.push(link);
    check(&run, "a circle");
}

#[test]
fn a_run_that_only_probed_draws_the_machine() {
    let mut run = samples::big_server();
    (run.plan, run.diagnosis) = (None, None);
    run.measurements.clear();
    let page = report::html(&run);
    assert!(page.contains("16 × nvme0n1 – nvme15n1") && !page.contains("BOTTLENECK"));
    assert!(page.contains("100 Gb/s") || page.contains("400 Gb/s"), "the NICs' speed is rated");
    assert!(page.contains("nothing was planned or measured"));
    check(&run, "probed only");
}

#[test]
fn two_protocols_two_nics_and_errors_still_fit_a_screen() {
    let mut run = samples::unequal_nics();
    run.errors = vec!["The peer is gone; start it again and repeat this run.".repeat(3); 5];
    let diagnosis = run.diagnosis.as_mut().expect("a diagnosis");
    for other in &mut diagnosis.by_protocol {
        other.bottleneck.resources = vec!["disk:loop0".into()];
        other.bottleneck.sentence =
            "Something else holds this one, and it takes many words to say so. ".repeat(9);
    }
    for width in [60, 80, 110] {
        let screen = report::terminal(&run, width, false);
        assert!(screen.lines().count() <= 40, "{} lines at {width}:\n{screen}", screen.lines().count());
        assert!(screen.contains("errors: the results are partial") && screen.contains("\npath"), "{screen}");
    }
    // A file that nobody measured: what is left out is counted.
    let diagnosis = run.diagnosis.as_mut().expect("a diagnosis");
    let mut many = diagnosis.by_protocol[0].clone();
    many.protocol = linerate::protocol::Protocol::Udp;
    diagnosis.by_protocol = vec![many; 500];
    let screen = report::terminal(&run, 80, false);
    assert!(screen.lines().count() == 40 && screen.contains("more lines, in the page"), "{screen}");
}

#[test]
fn a_foreign_schema_is_named_in_brief() {
    let text = serde_json::json!({ "schema": "x".repeat(1 << 20), "version": "\u{1b}[31m9" }).to_string();
    let failure =
        report::parse(text.as_bytes(), std::path::Path::new("run.json")).expect_err("another schema");
    let text = failure.to_string();
    assert!(text.len() < 300 && !text.contains('\u{1b}') && text.contains("schema"), "{text}");
}
