//! What a terminal shows of a saved result is on its page, too.

use super::{fixtures, saved};
use crate::{NO_SCREEN, compare, compare_html, compare_terminal, html, read, terminal};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Words in lower case without what stands around them.
fn words(text: &str) -> BTreeSet<String> {
    let around = |letter: char| "()[]:;,.→`|".contains(letter);
    let words = text.split_whitespace().map(|word| word.trim_matches(around).to_lowercase());
    words.filter(|word| word.contains(char::is_alphanumeric)).collect()
}

/// What a reader sees of a page.
fn text_of(page: &str) -> String {
    let (_, body) = page.split_once("<body>").expect("a body");
    let parts = body.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    let text = parts.collect::<Vec<_>>().join(" ").replace('\u{a0}', " ");
    let escaped = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")];
    escaped.iter().fold(text, |text, (entity, letter)| text.replace(entity, letter))
}

fn missing(screen: &str, page: &str) -> Vec<String> {
    let page = words(&text_of(page));
    words(screen).into_iter().filter(|word| !page.contains(word)).collect()
}

#[test]
fn what_a_screen_shows_of_a_run_is_on_its_page() {
    for path in fixtures() {
        let run = read(&path).expect("a saved run");
        let missing = missing(&terminal(&run, NO_SCREEN, false), &html(&run));
        assert!(missing.is_empty(), "{}: {missing:?}", path.display());
    }
}

#[test]
fn what_a_screen_shows_of_a_comparison_is_on_its_page() {
    for names in [["run-lab-disks", "run-unequal-nics"], ["stage-disk-xfs", "stage-disk-btrfs"]] {
        let two = names.map(|name| (PathBuf::from(name), saved(name)));
        let comparison = compare(&two).expect("a comparison");
        let screen = compare_terminal(&comparison, NO_SCREEN, false);
        let missing = missing(&screen, &compare_html(&comparison, &two));
        assert!(missing.is_empty(), "{names:?}: {missing:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, max_shrink_iters: 50, ..ProptestConfig::default() })]

    #[test]
    fn the_page_has_the_figures_of_the_screen_and_of_the_json(rate in 1e3..1e12f64, which in 0..8usize) {
        let mut run = saved("stage-disk-xfs");
        let access = run.measurements[which].access.as_mut().expect("of files");
        access.reads.as_mut().expect("of reads").bytes_per_second = rate;
        let json: serde_json::Value = serde_json::from_str(&crate::json(&run)).expect("JSON");
        let kept = &json["measurements"][which]["access"]["reads"]["bytes_per_second"];
        let shown = linerate_facts::units::show_bytes_rate(kept.as_f64().expect("a rate"));
        let (screen, page) = (terminal(&run, NO_SCREEN, false), html(&run));
        let name = run.measurements[which].name.as_str();
        let line = screen.lines().find(|line| line.starts_with(name)).expect("its row");
        prop_assert!(line.contains(&shown), "{shown}: {line}");
        for figure in line[name.len()..].split("  ").map(str::trim).filter(|figure| !figure.is_empty()) {
            prop_assert!(page.contains(&format!(">{figure}</td>")), "{figure}: {line}");
        }
    }
}
