//! Rules of `--expect`: a file of them and each line alone, held to by a machine of which nothing is known.

use linerate::plan::Goal;
use linerate::probe::Machine;
use linerate::report::gate::{Expectations, History, Rule, judge, junit_page, rules_of_text};
use linerate::run::Run;

/// Any text as a file of rules, and each of its lines as a rule.
pub fn expectations(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut rules = match rules_of_text(&text, "node.toml") {
        Ok(rules) => rules,
        Err(error) => {
            is_one_sentence(&error.to_string());
            Vec::new()
        }
    };
    for line in text.lines() {
        match Rule::parse(line) {
            Ok(rule) => {
                assert_eq!(Rule::parse(rule.text()).as_ref(), Ok(&rule), "it reads the same again");
                rules.push(rule);
            }
            Err(error) => is_one_sentence(&error.to_string()),
        }
    }
    let Ok(expected) = Expectations::of(rules) else { return };
    let run = Run::begin(Machine::default(), Goal::default());
    let report = judge(&run, &expected, &History::default());
    let page = junit_page(std::slice::from_ref(&report));
    assert!(page.chars().chain(report.screen(80).chars()).all(|c| c == '\n' || !c.is_control()));
}

fn is_one_sentence(error: &str) {
    assert!(!error.is_empty() && error.len() < 1000 && !error.contains('\n'), "{error}");
}
