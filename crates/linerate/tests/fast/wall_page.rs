//! The control page: what its server lets in, and the page itself in a real browser (skipped where there is
//! no Chromium).

mod server;

use super::wall_control::key;
use crate::support::browser::{Browser, PATIENCE, Tab, chromium};
use crate::support::fake_wall as fake;
use crate::support::fake_wall::{FRAMES, Fake, all_that_is_done};
use crate::support::process::until;
use linerate::wall::control::{
    Conductor, ControlMessage, ControlRequest, Hub, HubSettings, ScreenReport, View,
};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn hub_at(fake: &Arc<Fake>, page: SocketAddr) -> Hub {
    let conductor: Arc<dyn Conductor> = fake.clone();
    let settings = HubSettings { listen: Vec::new(), page: Some(page), key: key() };
    Hub::start(conductor, settings).expect("a hub")
}

/// A wall of so many columns and rows, and its hub.
fn served(columns: u16, rows: u16) -> (Arc<Fake>, Hub) {
    let fake = Fake::new(columns, rows);
    let hub = hub_at(&fake, SocketAddr::from(([127, 0, 0, 1], 0)));
    (fake, hub)
}

/// Address and secret.
fn parts(hub: &Hub) -> (String, String) {
    let url = hub.page_url().expect("a page");
    let (address, secret) =
        url.strip_prefix("http://").and_then(|rest| rest.split_once("/#")).expect("its parts");
    (address.to_string(), secret.to_string())
}

/// Clicks, keys and pointers in a browser; one for all, because its start takes a second.
#[test]
fn the_page_in_a_real_browser() {
    let Some(program) = chromium() else {
        println!("skipped: no chromium");
        return;
    };
    let (fake, hub) = served(5, 3);
    let mut browser = Browser::start(&program);
    let tab = browser.open(&hub.page_url().expect("a page"), 1200, 900);
    browser.until(
        &tab,
        "document.getElementById('state').dataset.state === 'live' && !document.querySelector('main').hidden",
    );
    everything_is_drawn(&mut browser, &tab);
    the_transport(&mut browser, &tab, &fake);
    the_joystick(&mut browser, &tab, &fake);
    the_keyboard_alone(&mut browser, &tab, &fake);
    trouble_is_seen(&mut browser, &tab, &fake);
    names_are_text(&mut browser, &tab, &fake);
    it_fits(&mut browser, &tab);
    assert_eq!(browser.complaints, Vec::<String>::new(), "no errors, no violations of the policy");
    secrets(&mut browser, &hub);
    assert_eq!(browser.complaints, Vec::<String>::new());
    // A server that comes back is found again; that it was gone is all that the browser complains of.
    let address = parts(&hub).0.parse().expect("an address");
    drop(hub);
    browser.until(&tab, "document.getElementById('state').textContent === 'reconnecting'");
    let again = hub_at(&fake, address);
    browser.until(&tab, "document.getElementById('state').dataset.state === 'live'");
    let before = fake.asked().len();
    browser.press(&tab, " ");
    until("the page plays on", || fake.asked().len() > before);
    drop(again);
}

/// Previews and graphs have pixels of more than one colour.
fn everything_is_drawn(browser: &mut Browser, tab: &Tab) {
    let colours = |selector: &str| {
        format!(
            "Array.from(document.querySelectorAll('{selector}')).every((canvas) => {{ \
               if (canvas.width < 20) return false; \
               const data = new Uint32Array(canvas.getContext('2d').getImageData(0, 0, canvas.width, \
               canvas.height).data.buffer); \
               return new Set(data).size > 3; }})"
        )
    };
    assert_eq!(browser.value(tab, "document.querySelectorAll('#wall canvas').length"), 15);
    browser.until(tab, &colours("#wall canvas"));
    assert_eq!(browser.value(tab, "document.querySelectorAll('#nics canvas').length"), 4);
    assert_eq!(browser.value(tab, "document.querySelectorAll('#streams canvas').length"), 15);
    browser.until(tab, &colours("#nics canvas"));
    browser.until(tab, &colours("#streams canvas"));
    assert_eq!(browser.value(tab, "document.querySelectorAll('.tile[data-health=ok]').length"), 15);
    let text = browser.value(tab, "document.querySelector('main').innerText").to_string();
    for expected in
        ["15 ok", "35.4 Gb/s", "link 10.0 Gb/s", "link rate unknown", "no power meter", "10.0.2.14:5004"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

fn the_transport(browser: &mut Browser, tab: &Tab, fake: &Arc<Fake>) {
    browser.click(tab, "#play");
    until("pause", || fake.asked().contains(&ControlRequest::Pause));
    browser.until(tab, "document.getElementById('play').getAttribute('aria-label') === 'Play'");
    browser.click(tab, "#play");
    until("play", || fake.asked().contains(&ControlRequest::Play));
    browser.until(tab, "document.getElementById('play').getAttribute('aria-label') === 'Pause'");
    // The middle of the bar is the middle of the movie.
    browser.click(tab, "#seek");
    let sought = |asked: &ControlRequest| matches!(asked, ControlRequest::Seek { frame } if frame.abs_diff(FRAMES / 2) < 60);
    until("seek", || fake.asked().iter().any(sought));
    browser.until(tab, "/^1:00|^0:59|^1:01/.test(document.getElementById('time').textContent)");
    browser.click(tab, "#to-start");
    until("the first frame", || fake.asked().contains(&ControlRequest::Seek { frame: 0 }));
    browser.click(tab, "#loop");
    until("loop", || fake.asked().contains(&ControlRequest::Loop { on: false }));
    browser.until(tab, "document.getElementById('loop').getAttribute('aria-pressed') === 'false'");
    let choose = |select: &str, value: &str| {
        format!(
            "(() => {{ const s = document.getElementById('{select}'); s.value = '{value}'; \
             s.dispatchEvent(new Event('change', {{ bubbles: true }})); return s.value; }})()"
        )
    };
    assert_eq!(browser.value(tab, &choose("speed", "0.5")), "0.5");
    until("speed", || fake.asked().contains(&ControlRequest::Speed { speed: 0.5 }));
    assert_eq!(browser.value(tab, &choose("movies", "holiday")), "holiday");
    until("another movie", || fake.asked().contains(&ControlRequest::Open { movie: "holiday".into() }));
    browser.until(tab, "document.getElementById('movie').textContent === 'holiday'");
}

fn pans(fake: &Fake) -> Vec<(f64, f64, f64)> {
    let pan = |asked: ControlRequest| match asked {
        ControlRequest::Pan { right, down, zoom } => Some((right, down, zoom)),
        _ => None,
    };
    fake.asked().into_iter().filter_map(pan).collect()
}

fn the_joystick(browser: &mut Browser, tab: &Tab, fake: &Arc<Fake>) {
    let (x, y, width, _) = browser.middle(tab, "#stick");
    let begun = Instant::now();
    browser.mouse(tab, "mousePressed", x, y);
    browser.mouse(tab, "mouseMoved", x + width * 0.2, y);
    until("some pans", || pans(fake).len() > 3);
    browser.mouse(tab, "mouseMoved", x + width * 0.45, y);
    let first = pans(fake)[0].0;
    until("further is faster", || pans(fake).last().is_some_and(|(right, _, _)| *right > first * 2.0));
    std::thread::sleep(Duration::from_millis(400));
    let all = pans(fake);
    assert!(all.iter().all(|(right, down, zoom)| *right > 0.0 && *down == 0.0 && *zoom == 1.0), "{all:?}");
    let most = begun.elapsed().as_secs_f64() * 30.0 + 1.0;
    assert!(all.len() as f64 <= most, "{} in {:?}", all.len(), begun.elapsed());
    assert_ne!(browser.value(tab, "document.getElementById('knob').style.transform"), "");
    browser.mouse(tab, "mouseReleased", x + width * 0.45, y);
    assert_eq!(browser.value(tab, "document.getElementById('knob').style.transform"), "translate(0px, 0px)");
    let (mut told, mut since) = (pans(fake).len(), Instant::now());
    let let_go = Instant::now();
    while since.elapsed() < Duration::from_millis(300) {
        assert!(let_go.elapsed() < PATIENCE, "it went back to the middle, but still moves");
        std::thread::sleep(Duration::from_millis(10));
        if pans(fake).len() != told {
            (told, since) = (pans(fake).len(), Instant::now());
        }
    }
    browser.click(tab, "#reset");
    until("the view is as it was", || fake.view() == View::WHOLE);
    // A gamepad, as the browser would show it.
    browser.value(
        tab,
        "{ const pad = { id: 'test pad', connected: true, axes: [0.02, 1, 0, 0], buttons: [{ \
                        pressed: true, value: 1 }] }; \
         navigator.getGamepads = () => [pad]; dispatchEvent(new Event('gamepadconnected')); true }",
    );
    until("down", || pans(fake).last().is_some_and(|(right, down, _)| *right == 0.0 && *down > 0.0));
    assert_eq!(browser.value(tab, "document.getElementById('pad').textContent"), "Gamepad: test pad");
    let paused =
        |fake: &Fake| fake.asked().iter().filter(|asked| matches!(asked, ControlRequest::Pause)).count();
    until("its button pauses", || paused(fake) == 2);
    browser.value(tab, "navigator.getGamepads = () => []; true");
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(paused(fake), 2, "once each time that it goes down");
}

fn the_keyboard_alone(browser: &mut Browser, tab: &Tab, fake: &Arc<Fake>) {
    browser.value(tab, "document.getElementById('help-open').focus(); true");
    let mut order = vec!["help-open".to_string()];
    for _ in 0..15 {
        browser.press(tab, "Tab");
        let focused = browser.value(
            tab,
            "[document.activeElement.id, getComputedStyle(document.activeElement).outlineStyle, \
              document.activeElement.labels?.[0]?.textContent || \
              document.activeElement.getAttribute('aria-label') || document.activeElement.textContent]",
        );
        assert_ne!(focused[1], "none", "the focus is seen: {focused}");
        assert_ne!(focused[2], "", "it has a name: {focused}");
        order.push(focused[0].as_str().unwrap_or_default().to_string());
    }
    let place = |id: &str| {
        order.iter().position(|one| one == id).unwrap_or_else(|| panic!("{id} is reached: {order:?}"))
    };
    let expected =
        ["help-open", "seek", "to-start", "play", "speed", "loop", "movies", "stick", "zoom", "reset"];
    assert!(expected.windows(2).all(|pair| place(pair[0]) < place(pair[1])), "{order:?}");
    browser.value(tab, "document.activeElement.blur(); true");
    let asked_last = |fake: &Fake, wanted: &ControlRequest| {
        fake.asked().iter().rev().take(12).any(|asked| asked == wanted)
    };
    let plays = |fake: &Fake| fake.timeline().segment_at(u64::MAX).playing;
    assert!(!plays(fake), "the gamepad has paused it");
    for (label, playing) in [("Play", true), ("Pause", false)] {
        let shown = format!("document.getElementById('play').getAttribute('aria-label') === '{label}'");
        browser.until(tab, &shown);
        browser.press(tab, " ");
        until("space plays and pauses", || plays(fake) == playing);
    }
    // An arrow that is held moves, and stops when it is let go.
    let before = pans(fake).len();
    browser.key(tab, "keyDown", "ArrowLeft");
    until("left", || pans(fake)[before..].iter().filter(|(right, _, _)| *right < 0.0).count() > 4);
    browser.key(tab, "keyUp", "ArrowLeft");
    browser.key(tab, "keyDown", "+");
    until("in", || pans(fake).last().is_some_and(|(_, _, zoom)| *zoom > 1.0));
    browser.key(tab, "keyUp", "+");
    browser.press(tab, "0");
    until("the view is reset", || asked_last(fake, &ControlRequest::View(View::WHOLE)));
    browser.press(tab, "End");
    until("the last frame", || asked_last(fake, &ControlRequest::Seek { frame: FRAMES - 1 }));
    browser.press(tab, ",");
    until("one back", || asked_last(fake, &ControlRequest::Seek { frame: FRAMES - 2 }));
    browser.press(tab, "Home");
    until("the first frame", || {
        fake.asked().iter().filter(|asked| **asked == ControlRequest::Seek { frame: 0 }).count() > 1
    });
    browser.press(tab, ".");
    until("one on", || asked_last(fake, &ControlRequest::Seek { frame: 1 }));
    browser.press(tab, "]");
    until("faster", || asked_last(fake, &ControlRequest::Speed { speed: 0.75 }));
    browser.press(tab, "[");
    until("slower", || {
        fake.asked().iter().filter(|asked| **asked == ControlRequest::Speed { speed: 0.5 }).count() > 1
    });
    browser.press(tab, "?");
    browser.until(tab, "document.getElementById('help').open");
    let before = fake.asked().len();
    browser.press(tab, "l");
    browser.press(tab, "Escape");
    browser.until(tab, "!document.getElementById('help').open");
    assert_eq!(fake.asked().len(), before, "while the help is read, keys do nothing");
    // A slider that has the focus keeps its arrows.
    browser.value(tab, "document.getElementById('seek').focus(); true");
    browser.press(tab, "ArrowRight");
    until("the slider seeks", || fake.asked().len() > before);
    assert!(!matches!(fake.asked().last(), Some(ControlRequest::Pan { .. })));
    browser.value(tab, "document.activeElement.blur(); true");
    browser.press(tab, "]");
    browser.press(tab, "]");
    until("as it was made", || asked_last(fake, &ControlRequest::Speed { speed: 1.0 }));
    fake.change(|timeline| timeline.play(fake::now()));
}

fn trouble_is_seen(browser: &mut Browser, tab: &Tab, fake: &Arc<Fake>) {
    assert_eq!(browser.value(tab, "document.getElementById('banner').hidden"), true);
    browser.picture(tab, "light", true);
    fake.trouble(true);
    browser.until(
        tab,
        "!document.getElementById('banner').hidden && \
                        document.querySelectorAll('.tile[data-health=failed]').length === 3",
    );
    let banner = browser.value(tab, "document.getElementById('banner').textContent").to_string();
    assert!(banner.contains("eth3 carries 0.4") && banner.contains("has not told of itself"), "{banner}");
    let failed = browser
        .value(tab, "document.querySelector('.tile[data-health=failed]').getAttribute('aria-label')")
        .to_string();
    assert!(failed.contains("failed"), "in words: {failed}");
    assert_eq!(browser.value(tab, "document.querySelectorAll('#nics .graph.bad').length"), 1);
    browser.until(
        tab,
        "document.querySelectorAll('.tile[data-health=untold], .tile[data-health=watch]').length > 0",
    );
    for (scheme, name) in [("light", "light-trouble"), ("dark", "dark-trouble")] {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        browser.tell(tab, "Emulation.setEmulatedMedia", features);
        browser.picture(tab, name, true);
    }
    fake.trouble(false);
    browser.until(tab, "document.getElementById('banner').hidden");
}

fn names_are_text(browser: &mut Browser, tab: &Tab, fake: &Arc<Fake>) {
    fake.odd_names();
    browser.until(tab, "document.getElementById('movie').textContent.startsWith('<img src=x')");
    assert_eq!(browser.value(tab, "document.querySelectorAll('img').length"), 1, "the icon");
    assert_eq!(browser.value(tab, "document.querySelectorAll('table b').length"), 0);
    browser.until(tab, "document.querySelector('tbody').textContent.includes('<b>screen</b>14:5004')");
}

/// Nothing is wider than the window, on a desk and on a phone, in light and in dark.
fn it_fits(browser: &mut Browser, tab: &Tab) {
    for (scheme, width, height) in [("dark", 1200, 900), ("light", 390, 844), ("dark", 390, 844)] {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        browser.tell(tab, "Emulation.setEmulatedMedia", features);
        browser.resize(tab, width, height);
        browser.until(tab, &format!("innerWidth === {width}"));
        std::thread::sleep(Duration::from_millis(300));
        browser.picture(tab, &format!("{scheme}-{width}"), true);
        let wide = browser.value(
            tab,
            "Array.from(document.querySelectorAll('body *')).filter((e) => !e.closest('.scroll, .unseen') && \
             e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.tagName + '#' + e.id)",
        );
        assert_eq!(wide, json!([]), "{scheme} {width}");
        let luminance = browser.value(
            tab,
            "getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/g).map(Number).reduce((a, b) => a + b) / 765",
        );
        let luminance = luminance.as_f64().expect("a number");
        assert!(if scheme == "dark" { luminance < 0.2 } else { luminance > 0.9 }, "{scheme}: {luminance}");
    }
}

/// Without, with a wrong one, with the right one typed in.
fn secrets(browser: &mut Browser, hub: &Hub) {
    let (address, secret) = parts(hub);
    let tab = browser.open(&format!("http://{address}/#{}", "0".repeat(64)), 1000, 700);
    browser.until(
        &tab,
        "document.getElementById('key-why')?.textContent.includes('another key') && \
                         !document.getElementById('key').hidden",
    );
    assert_eq!(browser.value(&tab, "document.getElementById('state').textContent"), "refused");
    browser.picture(&tab, "wrong-secret", false);
    let none = browser.open(&format!("http://{address}/"), 1000, 700);
    browser.until(
        &none,
        "document.readyState === 'complete' && document.getElementById('key')?.hidden === false",
    );
    browser.until(&none, "document.activeElement.id === 'key-text'");
    browser.tell(&none, "Input.insertText", json!({ "text": format!("http://{address}/#{secret}") }));
    browser.press(&none, "Enter");
    browser.until(&none, "document.getElementById('state').dataset.state === 'live'");
}
