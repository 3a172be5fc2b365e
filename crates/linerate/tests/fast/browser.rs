//! The page in a real browser, from a file, with nothing to reach: light, dark and on paper; wide and narrow.
//!
//! Skipped where there is no Chromium. All sample runs are put into frames of one page, so that a browser
//! starts only once; a script that only the test adds measures each and tells the outer page.

use crate::support::browser::{Browser, Tab, chromium, unbase64};
use crate::support::samples;
use linerate::report;
use linerate::run::Run;
use serde_json::{Value, json};
use std::path::Path;

/// Widths of a desk and of a phone, pixels.
const WIDTHS: [u32; 2] = [1200, 390];

/// What A4 leaves between the page's margins at 96 pixels an inch.
const PAPER_WIDTH: u32 = 702;

/// Run in the report's page: what does not fit, which words do not fit their box, what went wrong.
const PROBE: &str = include_str!("browser_probe.html");

/// The report with the probe, which the page's own policy would not run.
fn probed(page: &str, name: &str, paper: bool) -> String {
    let policy = page.find("<meta http-equiv").expect("the policy");
    let end = policy + page[policy..].find('>').expect("its end") + 1;
    let probe =
        PROBE.replace("NAME", &format!("{name:?}")).replace("PAPER", if paper { "true" } else { "false" });
    let mut page =
        format!("{}{}", &page[..policy], &page[end..]).replacen("<style>", &format!("{probe}\n<style>"), 1);
    if paper {
        page = page.replace("@media print", "@media all");
    }
    page
}

/// All sample runs in frames of one page, in the widths of screens and of paper, first in light colours, then in dark
/// ones; gives what each frame told of both.
fn look(browser: &mut Browser) -> [Vec<Value>; 2] {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut outer = String::from(
        "<!doctype html><meta charset=utf-8><script>const \
         all=[];addEventListener('message',e=>all.push(e.data))</script>",
    );
    let mut frames = 0;
    let mut runs = samples::all();
    runs.push(("odd-names", odd_names()));
    for (name, run) in runs {
        let page = report::html(&run);
        for (width, paper) in [(WIDTHS[0], false), (WIDTHS[1], false), (PAPER_WIDTH, true)] {
            let name = format!("{name}-{width}");
            let file = folder.path().join(format!("{name}.html"));
            std::fs::write(&file, probed(&page, &name, paper)).expect("a page");
            outer += &format!(
                "<iframe src=\"{name}.html\" style=\"width:{width}px;height:900px;border:0\"></iframe>"
            );
            frames += 1;
        }
    }
    let file = folder.path().join("outer.html");
    std::fs::write(&file, outer).expect("the outer page");
    let tab = browser.open("about:blank", 1300, 1000);
    let reported = |browser: &mut Browser, scheme: &str| {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        browser.tell(&tab, "Emulation.setEmulatedMedia", json!({ "features": features }));
        if scheme == "light" {
            browser.tell(&tab, "Page.navigate", json!({ "url": format!("file://{}", file.display()) }));
        } else {
            browser.value(&tab, "[...document.querySelectorAll('iframe')].forEach(frame => frame.contentWindow.postMessage('again', '*'))");
        }
        // A frame that never loads is none that is told of.
        browser.until(&tab, &format!("all.length === {frames}"));
        browser.value(&tab, "all.splice(0)").as_array().expect("what the frames told").clone()
    };
    [reported(browser, "light"), reported(browser, "dark")]
}

/// A run whose names are as long and as strange as files and hosts allow.
fn odd_names() -> Run {
    let long = "x".repeat(200);
    let odd = "磁盘·ünïcödé·🖴·عربى".repeat(6);
    let mut run = samples::unequal_nics();
    run.host = long.clone();
    run.errors = vec![long.clone(), odd.clone()];
    run.changes = vec![long.clone()];
    run.machine.nics[0].name = odd.clone();
    run.goal.sources = vec![long.clone().into(), odd.clone().into()];
    for (index, m) in run.measurements.iter_mut().enumerate() {
        (m.name, m.method) =
            if index % 2 == 0 { (long.clone(), odd.clone()) } else { (odd.clone(), long.clone()) };
        m.flags = vec![long.clone(), odd.clone()];
        m.receiver.iter_mut().for_each(|receiver| receiver.host = long.clone());
        m.workers.iter_mut().for_each(|worker| worker.source = format!("disk:{odd}"));
    }
    let diagnosis = run.diagnosis.as_mut().expect("a diagnosis");
    diagnosis.bottleneck.as_mut().expect("a diagnosis of the path").sentence = format!("{odd} {long}");
    diagnosis.predicted.as_mut().expect("a diagnosis of the path").cut = vec![long.clone(), odd.clone()];
    for (index, resource) in diagnosis.resources.iter_mut().enumerate() {
        resource.id = format!(
            "{}:{index}{}",
            resource.id.split(':').next().unwrap_or_default(),
            if index % 2 == 0 { &long } else { &odd }
        );
    }
    for finding in &mut diagnosis.findings {
        (finding.id, finding.text, finding.remedy) = (long.clone(), odd.clone(), format!("`{long}`"));
        finding.evidence = json!({ long.clone(): odd.clone() });
    }
    run
}

fn judge(told: &[Value], dark: bool) {
    for frame in told {
        let name = frame["name"].as_str().expect("a name");
        assert_eq!(frame["wrong"], json!([]), "{name}");
        assert!(
            frame["title"].as_str().is_some_and(|title| title.ends_with("– linerate")),
            "{name}: {}",
            frame["title"]
        );
        assert!(
            frame["heading"].as_str().is_some_and(|heading| heading.len() > 20),
            "{name}: {}",
            frame["heading"]
        );
        assert!(
            frame["pictures"].as_u64().is_some_and(|pictures| pictures > 5),
            "{name}: {}",
            frame["pictures"]
        );
        let background = frame["background"].as_f64().expect("a background");
        let ink = frame["ink"].as_f64().expect("a colour of text");
        let paper = name.ends_with(&PAPER_WIDTH.to_string());
        if dark && !paper {
            assert!(background < 0.2 && ink > 0.8, "{name} in dark: {background} {ink}");
        } else {
            assert!(background > 0.9 && ink < 0.2, "{name}: {background} {ink}");
        }
    }
}

/// One browser for all: its start takes a second of a processor.
#[test]
fn the_page_fits_in_light_in_dark_and_on_paper_and_prints() {
    let Some(program) = chromium() else {
        println!("skipped: no chromium");
        return;
    };
    let mut browser = Browser::start(&program);
    let [light, dark] = look(&mut browser);
    judge(&light, false);
    judge(&dark, true);
    it_prints(&mut browser);
    it_renders_with_its_policy(&mut browser);
}

/// A report in a tab.
fn report_in(browser: &mut Browser, folder: &Path, run: &Run) -> Tab {
    let page = folder.join("report.html");
    std::fs::write(&page, report::html(run)).expect("the page");
    let tab = browser.open(&format!("file://{}", page.display()), 1300, 1000);
    browser.until(&tab, "location.protocol === 'file:' && document.readyState === 'complete'");
    tab
}

fn it_prints(browser: &mut Browser) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let tab = report_in(browser, folder.path(), &samples::unequal_nics());
    let printed = browser.tell(&tab, "Page.printToPDF", json!({}));
    let bytes = unbase64(printed["data"].as_str().expect("a printed page"));
    assert!(bytes.starts_with(b"%PDF-") && bytes.len() > 20_000, "{} bytes", bytes.len());
}

/// The report as it is, its policy included, must run without a complaint of the browser.
fn it_renders_with_its_policy(browser: &mut Browser) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    browser.complaints.clear();
    let tab = report_in(browser, folder.path(), &samples::big_server());
    let title = "dtn-07.example.org: 188 GB/s from disk to network – linerate";
    assert_eq!(browser.value(&tab, "document.title"), title);
    assert_eq!(browser.value(&tab, "document.getElementById('again') !== null"), true, "the page is whole");
    assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
}
