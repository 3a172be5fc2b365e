//! The page itself, in a headless Chromium; one for all, because its start takes a second.

use super::{digits, page, rich, settings};
use crate::support::browser::{Browser, Tab, chromium};
use linerate::watch::history::LatestMoment;
use linerate::watch::page::Page;
use serde_json::json;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_millis() as i64
}

/// A minute of moments, up to now.
fn fill(latest: &LatestMoment) {
    let now = now_ms();
    for second in 0..60 {
        let mut moment = rich();
        moment.at_ms = now - (59 - second) * 1000;
        let wave = 0.8 + 0.19 * (second as f64 / 6.0).sin();
        for way in moment.nics.iter_mut().flat_map(|nic| [&mut nic.send, &mut nic.receive]) {
            way.bits_per_second = way.bits_per_second.map(|rate| rate * wave);
        }
        for disk in &mut moment.disks {
            disk.read.bytes_per_second = disk.read.bytes_per_second.map(|rate| rate * wave);
        }
        latest.tell(moment);
    }
    tell(latest);
}

/// The rich moment, now.
fn tell(latest: &LatestMoment) {
    let mut moment = rich();
    moment.at_ms = now_ms();
    latest.tell(moment);
}

const LIVE: &str =
    "document.getElementById('state').dataset.state === 'live' && !document.querySelector('main').hidden";

#[test]
fn the_page_in_a_real_browser() {
    let Some(program) = chromium() else {
        println!("skipped: no chromium");
        return;
    };
    let latest = Arc::new(LatestMoment::default());
    fill(&latest);
    let server = Page::start(latest.clone(), settings("127.0.0.1:0", false)).expect("a page");
    let mut browser = Browser::start(&program);
    let tab = browser.open(&server.url(), 1200, 900);
    browser.until(&tab, LIVE);
    everything_is_shown(&mut browser, &tab);
    browser.picture(&tab, "watch-light", true);
    nothing_comes_from_elsewhere(&mut browser, &tab, &server);
    spans_and_keys(&mut browser, &tab, &latest);
    the_keyboard_alone(&mut browser, &tab);
    names_are_text_and_what_leaves_is_gone(&mut browser, &tab, &latest);
    an_old_tab_does_not_grow(&mut browser, &tab, &latest);
    dark_and_narrow(&mut browser, &tab);
    assert_eq!(browser.complaints, Vec::<String>::new(), "no errors, no violations of the policy");
    // A server that comes back is found again, with its past; that it was gone is all that the browser
    // complains of.
    let again = settings(&server.address().to_string(), false);
    drop(server);
    browser.until(&tab, "document.getElementById('state').textContent === 'reconnecting'");
    let _server = Page::start(latest.clone(), again).expect("a page");
    browser.until(&tab, LIVE);
    tell(&latest);
    browser.until(&tab, "document.getElementById('sum-send').textContent === '96.6 Gb/s'");
    browser.complaints.clear();
    the_login(&mut browser);
    the_end_of_a_recording(&mut browser);
}

fn everything_is_shown(browser: &mut Browser, tab: &Tab) {
    browser.until(tab, "document.querySelectorAll('.chart .uplot canvas').length === 5");
    let drawn = "Array.from(document.querySelectorAll('canvas')).every((canvas) => { \
        const data = new Uint32Array(canvas.getContext('2d').getImageData(0, 0, canvas.width, \
        canvas.height).data.buffer); \
        return canvas.width > 100 && new Set(data).size > 3; })";
    browser.until(tab, drawn);
    let text = browser.value(tab, "document.body.innerText").to_string();
    let shown = "streamer7; 96.6 Gb/s; 968 Mb/s; enp23s0f0; link 100 Gb/s; link rate unknown; no carrier; \
                 12 drops/s; 3 errors/s; nvme0n1; 6.43 GB/s; 0.61 ms; 46 % busy; RcvbufErrors; rmem_max; \
                 412 W; 33.8 J; Pressure: io; TCP retransmits; UDP drops: receive buffer full; \
                 was 16 GT/s x16";
    for expected in shown.split("; ") {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    // By NIC and summed: the line of all, and one each.
    let legend = browser.value(
        tab,
        "Array.from(document.querySelectorAll('#chart-send .u-label')).map((label) => label.textContent)",
    );
    assert_eq!(legend, json!(["at", "all", "eno1", "enp23s0f0"]));
    // On the scale of the link.
    let bar = "parseFloat(document.querySelector('[data-key=enp23s0f0] .way .bar i').style.width)";
    let width = browser.value(tab, bar).as_f64().expect("a width");
    assert!((97.5..98.5).contains(&width), "{width}");
    let columns =
        browser.value(tab, "document.getElementById('cores').getAttribute('aria-label')").to_string();
    assert!(columns.contains("softirq 14 %"), "{columns}");
}

fn nothing_comes_from_elsewhere(browser: &mut Browser, tab: &Tab, server: &Page) {
    let asked = browser.value(tab, "performance.getEntriesByType('resource').map((entry) => entry.name)");
    let asked = asked.as_array().expect("names");
    assert!(asked.len() > 10, "{asked:?}");
    for name in asked {
        assert!(name.as_str().is_some_and(|name| name.starts_with(&server.url())), "{name}");
    }
}

fn spans_and_keys(browser: &mut Browser, tab: &Tab, latest: &LatestMoment) {
    let label = |span: &str| {
        format!(
            "document.getElementById('chart-send').getAttribute('aria-label').startsWith('Sent, last {span}: \
             all now')"
        )
    };
    browser.until(tab, &label("minute"));
    browser.click(tab, "[data-span=hour]");
    browser.until(tab, &label("hour"));
    let pressed = "document.querySelector('[data-span][aria-pressed=true]').dataset.span";
    assert_eq!(browser.value(tab, pressed), "hour");
    browser.until(tab, "!document.getElementById('peak-note').hidden");
    browser.press(tab, "d");
    browser.until(tab, &label("day"));
    browser.press(tab, "m");
    browser.until(tab, &label("minute"));
    // Paused, nothing moves.
    browser.press(tab, "p");
    browser.until(tab, "document.getElementById('state').textContent === 'paused'");
    let mut other = rich();
    other.at_ms = now_ms();
    other.nics[0].send.bits_per_second = Some(1e9);
    latest.tell(other.clone());
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(browser.value(tab, "document.getElementById('sum-send').textContent"), "96.6 Gb/s");
    browser.click(tab, "#pause");
    other.at_ms = now_ms() + 5;
    latest.tell(other);
    browser.until(tab, "document.getElementById('sum-send').textContent === '1.00 Gb/s'");
    tell(latest);
    browser.press(tab, "?");
    browser.until(tab, "document.getElementById('help').open");
    browser.press(tab, "Escape");
    browser.until(tab, "!document.getElementById('help').open");
}

fn the_keyboard_alone(browser: &mut Browser, tab: &Tab) {
    browser.value(tab, "document.getElementById('pause').focus(); true");
    let mut order = Vec::new();
    // Once around.
    while order.len() < 40 {
        let focused = browser.value(
            tab,
            "(() => { const one = document.activeElement; return [one.id || one.dataset.span || one.tagName, \
             getComputedStyle(one).outlineStyle, \
              one.getAttribute('aria-label') || one.getAttribute('aria-labelledby') || one.textContent]; \
              })()",
        );
        if focused[0] == "BODY" {
            break;
        }
        assert_ne!(focused[1], "none", "the focus is seen: {focused}");
        assert_ne!(focused[2], "", "it has a name: {focused}");
        order.push(focused[0].as_str().unwrap_or_default().to_string());
        browser.press(tab, "Tab");
    }
    for expected in ["pause", "help-open", "minute", "hour", "day", "SUMMARY"] {
        assert!(order.iter().any(|one| one == expected), "{expected} is reached: {order:?}");
    }
    // A list opens by key, and is filled.
    browser.value(tab, "document.querySelector('[data-key=enp23s0f0] summary').focus(); true");
    browser.press(tab, "Enter");
    browser.until(tab, "document.querySelector('[data-key=enp23s0f0] details').open");
    browser.value(
        tab,
        "document.getElementById('by-core').open = document.getElementById('by-interrupt').open = true",
    );
    browser.value(tab, "document.activeElement.blur(); true");
}

fn names_are_text_and_what_leaves_is_gone(browser: &mut Browser, tab: &Tab, latest: &LatestMoment) {
    let mut moment = rich();
    moment.at_ms = now_ms() + 10;
    moment.nics[1].name = "<img src=x onerror=alert(1)>".into();
    moment.host = "<b>host</b>".into();
    moment.disks.remove(1);
    moment.drops[0].cure = "<script>alert(2)</script>".into();
    latest.tell(moment);
    browser.until(tab, "document.getElementById('host').textContent === '<b>host</b>'");
    assert_eq!(browser.value(tab, "document.querySelectorAll('#nic-list img, #drop-list script').length"), 0);
    assert_eq!(browser.value(tab, "document.querySelectorAll('#nic-list > .nic').length"), 2);
    assert_eq!(browser.value(tab, "document.querySelectorAll('#disk-list tr').length"), 2);
    let queues =
        browser.value(tab, "document.querySelectorAll('[data-key=enp23s0f0] details tbody tr').length");
    assert_eq!(queues, 4, "by queue");
    assert_eq!(browser.value(tab, "document.querySelectorAll('#core-list tr').length"), 4);
    assert_eq!(browser.value(tab, "document.querySelectorAll('#irq-list tr').length"), 5);
    tell(latest);
    browser.until(tab, "document.querySelectorAll('#disk-list tr').length === 3");
}

fn an_old_tab_does_not_grow(browser: &mut Browser, tab: &Tab, latest: &LatestMoment) {
    let elements = "document.getElementsByTagName('*').length";
    tell(latest);
    browser.until(tab, "document.getElementById('host').textContent === 'streamer7'");
    let before = browser.value(tab, elements);
    for number in 0..400 {
        let mut moment = rich();
        moment.at_ms = now_ms() + number;
        moment.interval_ms = 5.0;
        latest.tell(moment);
        std::thread::sleep(std::time::Duration::from_millis(4));
    }
    assert_eq!(browser.value(tab, elements), before);
    // The same list that the page keeps, over a day of seconds and with devices that come and go.
    let kept = browser.value(
        tab,
        "(async () => { const { Past } = await import('/past.js'); const past = new Past(); \
         for (let second = 0; second < 20000; second += 1) { \
           past.add({ at_ms: 1e12 + second * 25, interval_ms: 25, nics: [{ name: `veth${Math.floor(second / \
           100)}`, \
             send: { bits_per_second: second }, receive: { bits_per_second: 1 } }], disks: [], energy: { \
             watts: null } }); } \
         return [past.times.length, past.means.size, Math.max(...[...past.means.values()].map((list) => \
         list.length)), past.peaks.size]; })()",
    );
    let kept: Vec<u64> = serde_json::from_value(kept).expect("numbers");
    assert!(kept[0] <= 1200 && kept[2] == kept[0] && kept[1] <= 40 && kept[1] == kept[3], "{kept:?}");
}

fn dark_and_narrow(browser: &mut Browser, tab: &Tab) {
    let background = "getComputedStyle(document.documentElement).backgroundColor";
    let light = browser.value(tab, background);
    let dark = json!({ "features": [{ "name": "prefers-color-scheme", "value": "dark" }] });
    browser.tell(tab, "Emulation.setEmulatedMedia", dark);
    assert_ne!(browser.value(tab, background), light);
    browser.picture(tab, "watch-dark", true);
    for width in [390, 800, 2000] {
        browser.resize(tab, width, 800);
        browser.until(tab, "document.documentElement.scrollWidth <= innerWidth");
        browser.until(
            tab,
            "Array.from(document.querySelectorAll('.chart:not([hidden])')).every((chart) => \
                            chart.querySelector('canvas').clientWidth <= chart.clientWidth + 1)",
        );
        if width == 390 {
            browser.picture(tab, "watch-narrow", true);
        }
    }
}

/// It is said, also to a page that is opened afterwards; figures and graphs stay.
fn the_end_of_a_recording(browser: &mut Browser) {
    let (latest, server, _) = page(false);
    let early = browser.open(&server.url(), 900, 700);
    browser.until(&early, LIVE);
    latest.end();
    let said = "document.getElementById('state').textContent === 'the recording has ended' && \
        document.getElementById('sum-send').textContent === '96.6 Gb/s'";
    browser.until(&early, said);
    let late = browser.open(&server.url(), 900, 700);
    browser.until(&late, said);
}

/// With a token: the form, and the address with the token behind its “#”.
fn the_login(browser: &mut Browser) {
    let (_board, server, _) = page(true);
    let tab = browser.open(&server.url(), 900, 700);
    browser.until(
        &tab,
        "document.readyState === 'complete' && document.getElementById('token') === document.activeElement",
    );
    let digits = digits();
    let type_in = |text: &str| {
        format!(
            "document.getElementById('token').value = '{text}'; document.querySelector('#login-form \
             button').click(); true"
        )
    };
    browser.value(&tab, &type_in("nonsense"));
    browser.until(&tab, "document.getElementById('why').textContent.startsWith('That is not a token')");
    browser.value(&tab, &type_in(&"5b".repeat(32)));
    browser.until(&tab, "document.getElementById('why').textContent === 'The server has another token.'");
    browser.value(&tab, &type_in(&digits));
    browser.until(&tab, LIVE);
    browser.tell(&tab, "Network.clearBrowserCookies", json!({}));
    let linked = browser.open(&format!("{}#{digits}", server.url()), 900, 700);
    browser.until(&linked, LIVE);
    assert_eq!(browser.value(&linked, "location.hash"), "", "the token leaves the address");
}
