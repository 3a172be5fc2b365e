//! The page in a real browser, from a file, with nothing to reach: light, dark and on paper; wide and narrow.
//!
//! Skipped where there is no Chromium. All sample runs are put into frames of one page, so that a browser
//! starts only a few times; a script that only the test adds measures each and tells the outer page.

use crate::support::samples;
use linerate::report;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Widths of a desk and of a phone, pixels.
const WIDTHS: [u32; 2] = [1200, 390];

/// What A4 leaves between the page's margins at 96 pixels an inch.
const PAPER_WIDTH: u32 = 702;

/// A browser that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(90);

/// Run in the report's page: what does not fit, which words do not fit their box, what went wrong.
const PROBE: &str = r#"<script>
const wrong = [];
addEventListener('error', e => wrong.push('error: ' + e.message));
addEventListener('load', () => {
  const root = document.documentElement, wide = innerWidth;
  if (root.scrollWidth > wide) {
    wrong.push('page is ' + root.scrollWidth + ' wide in ' + wide);
    for (const e of document.querySelectorAll('body *')) {
      if (!e.closest('.scroll') && e.getBoundingClientRect().right > wide + 1) wrong.push(e.tagName + '.' + e.className);
    }
  }
  for (const svg of document.querySelectorAll('svg')) {
    const frame = svg.getBoundingClientRect();
    for (const text of svg.querySelectorAll('text')) {
      const box = text.getBoundingClientRect();
      if (box.width && (box.left < frame.left - 2 || box.right > frame.right + 2 || box.bottom > frame.bottom + 2))
        wrong.push('text leaves its picture: ' + text.textContent);
    }
  }
  for (const block of document.querySelectorAll('.map g.block')) {
    const frame = block.querySelector('rect').getBoundingClientRect();
    for (const text of block.querySelectorAll('text')) {
      if (text.getBoundingClientRect().right > frame.right + 1) wrong.push('text leaves its block: ' + text.textContent);
    }
  }
  const clipped = e => e.scrollWidth > e.clientWidth + 1 && !e.closest('.scroll');
  for (const e of document.querySelectorAll('h1,h2,h3,p,li,dt,dd,.tile,.finding')) if (clipped(e)) wrong.push('clipped: ' + e.textContent.slice(0, 60));
  if (PAPER) for (const e of document.querySelectorAll('.scroll')) if (e.scrollWidth > e.clientWidth + 1) wrong.push('cut on paper: ' + e.textContent.slice(0, 60));
  for (const e of document.querySelectorAll('.scroll')) {
    e.focus();
    const focused = document.activeElement === e, scrolls = e.scrollWidth > e.clientWidth;
    if (scrolls && !focused) wrong.push('scrolls, but not by keyboard: ' + e.textContent.slice(0, 60));
    e.blur();
  }
  const luminance = colour => { const [r, g, b] = colour.match(/[\d.]+/g).map(Number); return (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255; };
  const style = getComputedStyle(root);
  parent.postMessage({ name: NAME, title: document.title, heading: document.querySelector('h1').textContent,
    background: luminance(style.backgroundColor), ink: luminance(getComputedStyle(document.body).color),
    pictures: document.querySelectorAll('svg').length, wrong }, '*');
});
</script>"#;

fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|file| file.is_file())
}

/// Runs the browser with all networks off; gives what it printed.
fn browse(browser: &Path, folder: &Path, arguments: &[&str], page: &Path) -> String {
    let profile = folder.join("profile");
    let output = folder.join("output");
    let file = std::fs::File::create(&output).expect("a file for the output");
    let mut child = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-sync",
        ])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"])
        .args(["--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=127.0.0.1:9"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(arguments)
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(Stdio::null())
        .spawn()
        .expect("the browser starts");
    let start = Instant::now();
    while child.try_wait().expect("the browser's state").is_none() {
        if start.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            panic!("the browser did not end within {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    std::fs::read_to_string(output).expect("what the browser printed")
}

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

/// All sample runs in frames of one page, in the widths of screens and of paper; gives what each frame told.
fn look(browser: &Path, arguments: &[&str]) -> Vec<serde_json::Value> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut outer = String::from(
        "<!doctype html><meta charset=utf-8><pre id=told></pre><script>const \
         all=[];addEventListener('message',e=>{all.push(e.data);\
         document.getElementById('told').textContent=encodeURIComponent(JSON.stringify(all))})</script>",
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
    let mut arguments = arguments.to_vec();
    arguments.extend(["--dump-dom", "--virtual-time-budget=10000", "--window-size=1300,1000"]);
    let dom = browse(browser, folder.path(), &arguments, &file);
    let start = dom.find("id=\"told\">").expect("the outer page") + "id=\"told\">".len();
    let told = &dom[start..start + dom[start..].find('<').expect("the end of what was told")];
    let told: Vec<serde_json::Value> = serde_json::from_str(&decoded(told)).expect("JSON of the frames");
    assert_eq!(told.len(), frames, "every page must have loaded");
    told
}

/// A run whose names are as long and as strange as files and hosts allow.
fn odd_names() -> linerate::run::Run {
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
        finding.evidence = serde_json::json!({ long.clone(): odd.clone() });
    }
    run
}

/// Percent-decoding of `encodeURIComponent`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits: Vec<u8> = rest.by_ref().take(2).collect();
        let digits = String::from_utf8(digits).expect("two digits");
        bytes.push(u8::from_str_radix(&digits, 16).expect("a hexadecimal byte"));
    }
    String::from_utf8(bytes).expect("UTF-8")
}

fn judge(told: &[serde_json::Value], dark: bool) {
    for frame in told {
        let name = frame["name"].as_str().expect("a name");
        assert_eq!(frame["wrong"], serde_json::json!([]), "{name}");
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

#[test]
fn the_page_fits_in_light_in_dark_and_on_paper() {
    let Some(browser) = chromium() else {
        println!("skipped: no chromium");
        return;
    };
    judge(&look(&browser, &["--blink-settings=preferredColorScheme=1"]), false);
    judge(&look(&browser, &["--blink-settings=preferredColorScheme=0"]), true);
}

#[test]
fn the_page_prints() {
    let Some(browser) = chromium() else {
        println!("skipped: no chromium");
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary directory");
    let page = folder.path().join("report.html");
    std::fs::write(&page, report::html(&samples::unequal_nics())).expect("the page");
    let paper = folder.path().join("report.pdf");
    browse(
        &browser,
        folder.path(),
        &["--no-pdf-header-footer", &format!("--print-to-pdf={}", paper.display())],
        &page,
    );
    let bytes = std::fs::read(paper).expect("the printed page");
    assert!(bytes.starts_with(b"%PDF-") && bytes.len() > 20_000, "{} bytes", bytes.len());
}

/// The report as it is, its policy included, must run without a complaint of the browser.
#[test]
fn the_page_as_it_is_renders_with_its_policy() {
    let Some(browser) = chromium() else {
        println!("skipped: no chromium");
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary directory");
    let page = folder.path().join("report.html");
    std::fs::write(&page, report::html(&samples::big_server())).expect("the page");
    let dom = browse(&browser, folder.path(), &["--dump-dom", "--virtual-time-budget=2000"], &page);
    assert!(dom.contains("<title>dtn-07.example.org: 188 GB/s from disk to network – linerate</title>"));
    assert!(dom.contains("id=\"again\"") && dom.trim_end().ends_with("</html>"), "the page is whole");
}
