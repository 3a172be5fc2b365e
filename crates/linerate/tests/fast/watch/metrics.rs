//! The metrics page against the rules of OpenMetrics 1.0 and, where it is installed, against Prometheus' own
//! checker.

use super::fixture::moment;
use crate::support::process::Ends;
use crate::support::rights::there;
use linerate::watch::{openmetrics, prometheus_text};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};

fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Labels between braces: names and values, unescaped.
fn labels(text: &str) -> Vec<(String, String)> {
    let (mut found, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"").expect("a label");
        assert!(is_name(name), "{name}");
        let (mut value, mut letters) = (String::new(), after.char_indices());
        let end = loop {
            match letters.next().expect("an end of the value") {
                (_, '\\') => match letters.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, letter @ ('\\' | '"'))) => value.push(letter),
                    other => panic!("no such escape: {other:?}"),
                },
                (at, '"') => break at + 1,
                (_, letter) => value.push(letter),
            }
        };
        found.push((name.to_string(), value));
        rest = after[end..].strip_prefix(',').unwrap_or(&after[end..]);
    }
    found
}

/// A sample's name, labels and value.
pub fn sample(line: &str) -> (String, Vec<(String, String)>, f64) {
    let (place, value) = line.rsplit_once(' ').expect("a value");
    let value = value.parse().expect("a number");
    match place.split_once('{') {
        Some((name, rest)) => (name.to_string(), labels(rest.strip_suffix('}').expect("a brace")), value),
        None => (place.to_string(), Vec::new(), value),
    }
}

/// Panics where the page breaks a rule; gives the names of the families.
fn check(page: &str) -> BTreeSet<String> {
    let body = page.strip_suffix("# EOF\n").expect("it ends in # EOF and a line end");
    let (mut families, mut series) = (BTreeSet::new(), BTreeSet::new());
    let mut now: BTreeMap<&str, String> = BTreeMap::new();
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.splitn(3, ' ');
            let (key, name, value) =
                (words.next().expect("a key"), words.next().expect("a name"), words.next().expect("a text"));
            if now.get("name").is_none_or(|current| current != name) {
                assert!(families.insert(name.to_string()), "{name}: a family stands in one piece");
                now = BTreeMap::from([("name", name.to_string())]);
            }
            assert!(is_name(name) && name.starts_with("linerate_") && !value.is_empty(), "{line}");
            assert!(now.insert(key, value.to_string()).is_none(), "{line}: told twice");
            match key {
                "HELP" => assert!(!value.contains('"') && value.ends_with('.'), "{line}"),
                "TYPE" => assert!(matches!(value, "counter" | "gauge"), "{line}"),
                "UNIT" => assert!(name.ends_with(&format!("_{value}")), "{line}: the unit ends the name"),
                other => panic!("no such line: {other}"),
            }
            continue;
        }
        let (name, labels, value) = sample(line);
        let family = &now["name"];
        let counter = now["TYPE"] == "counter";
        let expected = if counter { format!("{family}_total") } else { family.clone() };
        assert_eq!(name, expected, "{line}: a sample of its family");
        assert!(!family.ends_with("_total") && now.contains_key("HELP"), "{line}");
        assert!(value.is_finite() && (!counter || value >= 0.0), "{line}");
        let names: BTreeSet<&String> = labels.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), labels.len(), "{line}: a label stands once");
        let unit = ["bytes", "seconds", "joules", "watts", "ratio"]
            .iter()
            .any(|unit| family.ends_with(&format!("_{unit}")));
        assert_eq!(unit, now.contains_key("UNIT"), "{line}");
        assert!(series.insert((name, labels)), "{line}: a series stands once");
    }
    families
}

#[test]
fn the_page_keeps_the_rules() {
    let families = check(&openmetrics(&moment()));
    for name in "network_receive_bytes disk_read_time_seconds cpu_seconds drops power_watts energy_joules \
        pcie_link_width"
        .split(' ')
    {
        assert!(families.contains(&format!("linerate_{name}")), "{name} is missing among {families:?}");
    }
    assert_eq!(check(&openmetrics(&linerate::watch::Moment::default())).len(), 5, "nothing known");
    let mut without_times = moment();
    without_times.cpus.each.clear();
    let families = check(&openmetrics(&without_times));
    assert!(families.contains("linerate_interrupts") && !families.contains("linerate_intr"), "{families:?}");
}

#[test]
fn names_that_must_be_escaped_and_names_that_are_twice() {
    let mut moment = moment();
    moment.nics[0].name = "a\"b\\c\nd\u{7}".into();
    moment.nics[1].name = moment.nics[0].name.clone();
    let page = openmetrics(&moment);
    check(&page);
    let line =
        page.lines().find(|line| line.starts_with("linerate_network_receive_bytes_total")).expect("a sample");
    assert_eq!(sample(line).1, [("device".to_string(), "a\"b\\c\nd?".to_string())]);
}

#[test]
fn figures_are_on_the_page_as_in_the_moment() {
    let moment = moment();
    let page = openmetrics(&moment);
    let value = |start: &str| page.lines().find(|line| line.starts_with(start)).map(|line| sample(line).2);
    let disk = &moment.disks[0];
    assert_eq!(value("linerate_disk_read_bytes_total{device=\"nvme0n1\"}"), Some(disk.read.bytes as f64));
    assert_eq!(value("linerate_network_speed_bytes{device=\"enp23s0f0\"}"), Some(12.5e9));
    assert_eq!(value("linerate_power_watts{kind=\"hwmon\""), Some(412.0));
    assert_eq!(value("linerate_power_watts{kind=\"ipmi\""), None, "what is unknown is not 0");
    let energy = value("linerate_energy_joules_per_byte").expect("a figure");
    assert!((energy - 33.79e-9).abs() < 1e-15);
    let text = prometheus_text(&moment);
    assert!(
        text.contains("# TYPE linerate_disk_read_bytes_total counter\n")
            && !text.contains("EOF")
            && !text.contains("UNIT")
    );
}

#[test]
fn prometheus_own_checker_takes_it() {
    if !there("promtool") {
        return;
    }
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool starts");
    let mut input = child.stdin.take().expect("its input");
    input.write_all(prometheus_text(&moment()).as_bytes()).expect("written");
    drop(input);
    let output = child.ended();
    let told = output.stderr + &output.stdout;
    assert!(output.status.success(), "{told}");

    // Its parser of OpenMetrics: the same page, each sample with a time, as it takes files.
    let place = linerate_testing::folder_in_memory();
    let timed =
        |line: &str| if line.starts_with('#') { line.to_string() } else { format!("{line} 1795000072.345") };
    let page: Vec<String> = openmetrics(&moment()).lines().map(timed).collect();
    std::fs::write(place.path().join("page"), page.join("\n") + "\n").expect("a file");
    Command::new("promtool")
        .args(["tsdb", "create-blocks-from", "openmetrics"])
        .args([place.path().join("page"), place.path().join("blocks")])
        .ended()
        .gives(0);
}
