//! Every page against the rules of axe-core (<https://github.com/dequelabs/axe-core>) in a headless Chromium:
//! nothing serious, light and wide, dark and on a phone. Skipped where there is no Chromium, or no axe-core:
//! `./test` takes it out of its npm package, `AXE=FILE` names another `axe.min.js`.

use super::fleet::{ended, here};
use crate::support::browser::{Browser, chromium};
use crate::support::fake_wall::Fake;
use crate::support::process::Ends;
use crate::support::served::{Served, content, place};
use crate::support::{keep_apart, linerate, samples, text};
use linerate::agent::Key;
use linerate::report;
use linerate::run::Run;
use linerate::wall::control::{Conductor, Hub, HubSettings};
use linerate::watch::Moment;
use linerate::watch::history::LatestMoment;
use linerate::watch::page::{Page, PageSettings};
use serde_json::json;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Width, height and colours of a desk and of a phone.
const SCREENS: [(u32, u32, &str); 2] = [(1200, 900, "light"), (390, 844, "dark")];

/// What a user of a screen reader, or of the keyboard alone, cannot work with. The second screen is asked only for what
/// its colours and its size may change.
const LOOK: &str = "axe.run(document, { resultTypes: ['violations'], ...RULES }).then((found) => found.violations.filter((one) => \
                    ['serious', 'critical'].includes(one.impact)).map((one) => `${one.id}: ${one.nodes.length} \
                    times, ${one.nodes[0].html}: ${one.nodes[0].failureSummary}`))";

const OF_A_SCREEN: &str =
    "{ runOnly: ['color-contrast', 'link-in-text-block', 'scrollable-region-focusable', 'target-size'] }";

/// The text of axe-core.
fn axe() -> Option<String> {
    let taken = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a parent").join("tools/axe.min.js");
    let place = std::env::var_os("AXE").map_or(taken, PathBuf::from);
    let text = std::fs::read_to_string(&place).ok();
    if text.is_none() {
        println!("skipped: no axe-core at {}; AXE=FILE names an axe.min.js", place.display());
    }
    text
}

/// A browser and axe-core; none, with a message, where one is missing.
fn tools() -> Option<(Browser, String)> {
    let Some(program) = chromium() else {
        println!("skipped: no chromium");
        return None;
    };
    let axe = axe()?;
    Some((Browser::start(&program), axe))
}

/// The page at an address, on each screen. `ready` is true once all of it is there.
fn judge(browser: &mut Browser, axe: &str, name: &str, url: &str, ready: &str) {
    let tab = browser.open("about:blank", 800, 600);
    // axe-core is put into the page, whose policy lets nothing in.
    browser.tell(&tab, "Page.setBypassCSP", json!({ "enabled": true }));
    browser.tell(&tab, "Page.navigate", json!({ "url": url }));
    browser.until(&tab, &format!("location.href !== 'about:blank' && {ready}"));
    browser.value(&tab, &format!("{axe}; undefined"));
    for (width, height, scheme) in SCREENS {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        browser.tell(&tab, "Emulation.setEmulatedMedia", json!({ "features": features }));
        browser.resize(&tab, width, height);
        let has_it =
            format!("innerWidth === {width} && matchMedia('(prefers-color-scheme: {scheme})').matches");
        browser.until(&tab, &has_it);
        let rules = if scheme == SCREENS[0].2 { "{}" } else { OF_A_SCREEN };
        assert_eq!(
            browser.value(&tab, &LOOK.replace("RULES", rules)),
            json!([]),
            "{name}, {scheme}, {width} pixels"
        );
    }
    browser.tell(&tab, "Page.close", json!({}));
}

const LOADED: &str = "document.readyState === 'complete'";

fn file(browser: &mut Browser, axe: &str, name: &str, page: &Path) {
    judge(browser, axe, name, &format!("file://{}", page.display()), LOADED);
}

/// A run of one stage's command, as `linerate network` leaves it.
fn network(mut run: Run) -> Run {
    run.measurements.retain(|one| one.stage == linerate::measure::Stage::Network);
    run.diagnosis = None;
    run
}

/// One browser for all: its start takes a second of a processor.
#[test]
fn no_page_has_a_serious_violation() {
    let Some((mut browser, axe)) = tools() else { return };
    reports_of_every_kind(&mut browser, &axe);
    fleets(&mut browser, &axe);
    a_served_folder_and_a_transfer(&mut browser, &axe);
    the_watch(&mut browser, &axe);
    a_wall(&mut browser, &axe);
}

fn reports_of_every_kind(browser: &mut Browser, axe: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let stage = |name: &str| report::read(&fixtures.join(name)).expect("a fixture");
    let mut runs = vec![
        ("unequal-nics", samples::unequal_nics()),
        ("partial", samples::partial()),
        ("network", network(samples::unequal_nics())),
    ];
    for name in ["stage-disk-xfs.json", "stage-load.json", "stage-memory.json", "stage-scaling.json"] {
        runs.push((name, stage(name)));
    }
    for (name, run) in &runs {
        let page = folder.path().join("report.html");
        std::fs::write(&page, report::html(run)).expect("a page");
        file(browser, axe, name, &page);
    }
    let two = [("a.json", samples::lab_disks()), ("b.json", samples::lab_disks())];
    let two: Vec<(PathBuf, Run)> = two.into_iter().map(|(name, run)| (name.into(), run)).collect();
    let comparison = report::compare(&two).expect("a comparison");
    let page = folder.path().join("compare.html");
    std::fs::write(&page, report::compare_html(&comparison, &two)).expect("a page");
    file(browser, axe, "compare", &page);
}

fn fleets(browser: &mut Browser, axe: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    for pattern in ["pairs", "all-to-all"] {
        let output = folder.path().join(pattern);
        let (status, _, stderr) =
            ended(&mut here(pattern, "a[1-3]", &["--output", &output.to_string_lossy()]));
        assert_eq!(status, 0, "{stderr}");
        file(browser, axe, pattern, &output.join("report.html"));
    }
}

fn a_served_folder_and_a_transfer(browser: &mut Browser, axe: &str) {
    let (folder, data, out) = place(&content(3, 3 << 20));
    let server = Served::start(&[&data], &[]);
    judge(browser, axe, "listing", &server.url(""), LOADED);
    let state = folder.path().join("state");
    let page = folder.path().join("page.html");
    let url = server.url("file");
    for words in [&["get", &url, "--output", text(&out)][..], &["report", "@-1", "--html", text(&page)][..]] {
        let mut command = linerate();
        keep_apart(&mut command, &state);
        command.args(words).ended().gives(0);
    }
    file(browser, axe, "transfer", &page);
}

fn the_watch(browser: &mut Browser, axe: &str) {
    let latest = Arc::new(LatestMoment::default());
    let moment = include_str!("../../../../fixtures/watch-moment.json");
    latest.tell(serde_json::from_str::<Moment>(moment).expect("a moment"));
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let page = Page::start(latest, PageSettings { listen, token: None }).expect("a page");
    let shown =
        "!document.querySelector('main').hidden && document.querySelector('#process-list tr') !== null";
    judge(browser, axe, "watch", &page.url(), shown);
}

fn a_wall(browser: &mut Browser, axe: &str) {
    let conductor: Arc<dyn Conductor> = Fake::new(5, 3);
    let key = Key::from_hex(&"5a".repeat(32)).expect("a key");
    let settings = HubSettings { listen: Vec::new(), page: Some(SocketAddr::from(([127, 0, 0, 1], 0))), key };
    let hub = Hub::start(conductor, settings).expect("a hub");
    let shown = "document.getElementById('state').dataset.state === 'live' && \
                 !document.querySelector('main').hidden";
    judge(browser, axe, "wall", &hub.page_url().expect("a page"), shown);
}
