//! The report on sample runs and on broken ones: the screen fits and says what is needed, the page shows
//! nothing as markup that came from outside, and a `run.json` that is none is told so.

mod anonymous;
mod broken;

use crate::support::samples;
use linerate::failure::Failure;
use linerate::report::{self, NO_SCREEN};
use linerate::run::Run;
use linerate::verdict::Verdict;

/// `LINERATE_WRITE_FIXTURES=1 cargo test` writes them again.
#[test]
fn the_fixtures_have_the_diagnosis_of_today() {
    for (name, run) in samples::all() {
        let again = samples::diagnosed_again(&run);
        if std::env::var_os("LINERATE_WRITE_FIXTURES").is_some() {
            std::fs::write(samples::file(name), report::json(&again)).expect("the fixture can be written");
        }
        assert!(again == run, "run-{name}.json has another diagnosis: LINERATE_WRITE_FIXTURES=1 cargo test");
    }
}

/// Its words, however its lines end.
pub fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn screen(run: &Run, width: usize) -> String {
    report::terminal(run, width, false)
}

#[test]
fn the_screen_fits() {
    for (name, run) in samples::all() {
        for width in [60, 72, 80, 100, 110, 300] {
            let screen = screen(&run, width);
            let limit = width.min(110);
            for line in screen.lines() {
                assert!(line.chars().count() <= limit, "{name} at {width}: {line}");
                assert_eq!(line.trim_end(), line, "{name}: no blanks at the end");
            }
            assert!(screen.lines().count() <= 40, "{name} at {width}: {} lines", screen.lines().count());
        }
    }
}

#[test]
fn colour_adds_attributes_and_no_text() {
    for (name, run) in samples::all() {
        let coloured = report::terminal(&run, 100, true);
        assert!(coloured.contains("\x1b[1;31m"), "{name}: the cut or the errors are red");
        let mut plain = String::new();
        let mut rest = coloured.as_str();
        while let Some(start) = rest.find("\x1b[") {
            plain += &rest[..start];
            let end = rest[start..].find('m').expect("the end of an attribute");
            rest = &rest[start + end + 1..];
        }
        plain += rest;
        assert_eq!(plain, screen(&run, 100), "{name}");
    }
}

#[test]
fn loopback_is_said_in_the_first_line_and_lower_bounds_are_marked() {
    let screen = screen(&samples::loopback(), 110);
    let first = screen.lines().next().expect("a first line");
    assert!(
        first.contains("vm-1")
            && first.contains("loopback")
            && first.contains("own network stack, not a NIC")
    );
    assert!(screen.contains("≥ 46.5 Gb/s"), "{screen}");
    assert!(screen.contains("≥ at least this, limited by the CPU: lo tcp alone"), "{screen}");
    assert!(screen.contains("ceiling    unknown") && screen.contains("no data sheet"), "{screen}");
}

#[test]
fn every_screen_has_its_result_its_sentence_and_its_findings() {
    for (name, run) in samples::all() {
        let Some(diagnosis) = &run.diagnosis else { continue };
        let sentence = &diagnosis.bottleneck.as_ref().expect("a bottleneck").sentence;
        for width in [60, 80, 110, NO_SCREEN] {
            let screen = screen(&run, width);
            for word in ["measured", "ceiling", "predicted", "achieved"] {
                assert!(screen.contains(word), "{name}: {word}\n{screen}");
            }
            let words = flat(&screen);
            let lines: Vec<&str> = screen.lines().skip_while(|line| !line.is_empty()).skip(1).collect();
            assert!(lines[0].contains(" from disk to network."), "what was achieved comes first\n{screen}");
            assert!(words.contains(sentence), "{name}: the sentence\n{screen}");
            // A finding is shown whole, or counted.
            for finding in &diagnosis.findings {
                let severity: &str = finding.severity.into();
                let text = flat(&format!("{severity} {}: {}", finding.id, finding.text));
                let start: String = text.chars().take(40).collect();
                let shown = words.contains(&text) && words.contains(&flat(&finding.remedy));
                let counted = !words.contains(&start) && words.contains(" more, in the page");
                assert!(shown || counted && width != NO_SCREEN, "{name}: {text}\n{screen}");
            }
        }
    }
}

/// On a virtual machine no data sheet is known.
#[test]
fn columns_that_are_unknown_throughout_are_left_out() {
    let head = |run: &Run, width| {
        let screen = screen(run, width);
        screen.lines().find(|line| line.starts_with("stage ")).expect("the table").to_string()
    };
    for width in [80, 110, NO_SCREEN] {
        let unknown = head(&samples::loopback(), width);
        assert!(!unknown.contains("rated") && !unknown.contains("effective"), "{unknown}");
        assert!(head(&samples::lab_disks(), width).contains("rated"), "{width}");
    }
    let (unknown, known) = (report::html(&samples::loopback()), report::html(&samples::lab_disks()));
    let columns =
        |page: &str| page.split("<section id=\"stages\"").nth(1).map(|at| at[..1500].contains(">rated "));
    assert_eq!((columns(&unknown), columns(&known)), (Some(false), Some(true)));
}

/// Standard output that is not a terminal gets every cell whole.
#[test]
fn output_that_is_no_screen_is_not_cut() {
    for (name, run) in samples::all() {
        let text = screen(&run, NO_SCREEN);
        // `nvme0n1 … nvme63n1` is a range.
        let cut = text.match_indices('…').any(|(at, _)| !text[..at].ends_with(' '));
        assert!(!cut, "{name}:\n{text}");
        for measurement in run.measurements.iter().filter(|one| one.together) {
            assert!(text.contains(&measurement.method), "{name}: {}\n{text}", measurement.method);
        }
        assert!(run.errors.iter().all(|error| flat(&text).contains(&flat(error))), "{name}:\n{text}");
    }
}

#[test]
fn flags_and_losses_are_reported_at_every_width() {
    for width in [60, 80, 110] {
        assert!(screen(&samples::unequal_nics(), width).contains("0.8 % lost"), "{width}");
        let screen = screen(&samples::loopback(), width);
        assert!(screen.contains("steal") && screen.contains("core-saturat"), "{width}: {screen}");
    }
}

#[test]
fn many_devices_become_one_line_that_names_the_slowest() {
    let screen = screen(&samples::big_server(), 110);
    assert!(screen.contains("64 disks") && screen.contains("1.62–6.75 GB/s"), "{screen}");
    assert!(screen.contains("of 64 disks, slowest nvme17n1: 1.62 GB/s; of 16 NICs tcp, slowest"), "{screen}");
    assert!(screen.contains("16 NICs tcp + file"), "{screen}");
}

#[test]
fn a_partial_run_shows_what_it_has_and_what_went_wrong() {
    let run = samples::partial();
    let screen = screen(&run, 110);
    assert!(
        screen.contains("errors: the results are partial") && screen.contains("Input/output error"),
        "{screen}"
    );
    assert!(screen.contains("loop0") && screen.contains("49.7 MB/s"), "{screen}");
    assert!(screen.contains("predicted  unknown"), "{screen}");
    let page = report::html(&run);
    assert!(page.contains("Errors: the results are partial") && page.contains("Input/output error"));
}

#[test]
fn the_page_has_its_parts() {
    for (name, run) in samples::all() {
        let page = report::html(&run);
        for id in ["map", "waterfall", "stages", "cores", "machine", "again"] {
            assert!(page.contains(&format!("<section id=\"{id}\"")), "{name}: {id}");
        }
        // Only what the path has shown is called the bottleneck.
        let verdict = run.diagnosis.as_ref().and_then(|diagnosis| diagnosis.verdict);
        let confirmed = matches!(verdict, Some(Verdict::Confirmed | Verdict::Tie));
        let words = if confirmed { ["bottleneck", "predicted"] } else { ["predicted", "bottleneck"] };
        let [said, unsaid] = words;
        assert!(page.contains(&run.host) && page.contains(&format!(">{said}</span>")), "{name}");
        let (said, unsaid) = (format!("block {said}"), format!("block {unsaid}"));
        assert!(page.contains(&said) && !page.contains(&unsaid), "{name}");
        assert!(
            page.contains("<svg class=\"map\"") && page.contains("aria-labelledby=\"map-t map-d\""),
            "{name}"
        );
    }
    let page = report::html(&samples::big_server());
    for group in
        ["16 × nvme0n1 – nvme15n1", "16 × nvme16n1 – nvme31n1", "slowest nvme17n1", "ens15f0np0 · 100 Gb/s"]
    {
        assert!(page.contains(group), "{group}");
    }
    assert!(page.contains("BOTTLENECK") && page.contains("class=\"block bottleneck\""));
}

#[test]
fn the_page_loads_nothing() {
    for (name, run) in samples::all() {
        let page = report::html(&run);
        samples::loads_nothing(&page, name);
    }
}

#[test]
fn json_reads_back_as_it_was_also_from_its_folder() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let run = samples::unequal_nics();
    let text = report::json(&run);
    assert!(text.ends_with("}\n") && text.starts_with("{\n  \"schema\": 2,"));
    std::fs::write(folder.path().join("run.json"), text).expect("a file");
    assert!(report::read(folder.path()).expect("a run in the folder") == run);
    assert!(report::read(&folder.path().join("run.json")).expect("a run") == run);
}

fn refused(text: &[u8]) -> Failure {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("run.json");
    std::fs::write(&file, text).expect("a file");
    report::read(&file).expect_err("a file that is not a run")
}

#[test]
fn what_is_no_run_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    for path in [folder.path().join("away.json"), folder.path().to_path_buf()] {
        let failure = report::read(&path).expect_err("nothing there");
        assert!(failure.to_string().contains("is not there"), "{failure}");
        assert_eq!(failure.exit_status(), 3);
    }
    let text = report::json(&samples::lab_disks());
    let cases: [(Vec<u8>, &str); 6] = [
        (b"{\n  \"schema\": 1,,\n}".to_vec(), "is not JSON: line 2, column 15"),
        (text.as_bytes()[..text.len() / 2].to_vec(), "cut off"),
        (b"{\"a\": 1}".to_vec(), "no field `schema`"),
        (
            text.replacen("\"schema\": 2", "\"schema\": 7", 1).into_bytes(),
            "has schema 7; this linerate reads schema 2",
        ),
        (text.replacen("\"goal\"", "\"gaol\"", 1).into_bytes(), "missing field `goal`"),
        (vec![0xff, 0xfe, 0x00], "not UTF-8"),
    ];
    for (text, expected) in cases {
        let failure = refused(&text);
        assert!(failure.to_string().contains(expected), "{expected}: {failure}");
        assert_eq!(failure.exit_status(), 2, "{failure}");
    }
    let failure = refused(text.replacen("\"schema\": 2", "\"schema\": 7", 1).as_bytes());
    let version = format!("(version {})", samples::lab_disks().version);
    assert!(failure.to_string().contains(&version), "{failure}");
}
