//! How a result is named on every command line: `@-1` is the newest that is kept, `@-2` the one before, `@12` the
//! one of that number; all else is a file, or a folder that holds a `run.json`.

use super::store::{KeptFile, ResultStore};
use crate::json;
use crate::machine_facts::is_same_server;
use linerate_facts::failure::Failure;
use linerate_facts::printable::{printable, shortened};
use linerate_machine::probe::Machine;
use linerate_measure::measure::Stage;
use linerate_measure::run::Run;
use serde::Deserialize;
use std::path::Path;

/// Share of the CPUs that others may have used in a run that is quiet.
const MOST_OF_OTHERS: f64 = 0.05;

/// What a kept result is asked for by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reference {
    /// From 1, the newest.
    FromEnd(usize),
    Number(u64),
}

/// Reads the result that a word of the command line names.
pub fn read(word: &Path) -> Result<Run, Failure> {
    let Some(reference) = reference(word)? else { return json::read(word) };
    let store = ResultStore::of_user().map_err(|why| unreadable(&why))?;
    of_reference(&store, reference)
}

/// The newest kept result of `linerate run` on this host that has a diagnosis, and its number; none of a flow that came
/// in: its disks were written.
pub fn read_of_host(host: &str) -> Result<Option<(u64, Run)>, Failure> {
    newest_of(&ResultStore::of_user().map_err(|why| unreadable(&why))?, host)
}

/// The newest kept results of `linerate run` on this very machine, under its kernel, with a diagnosis and while others
/// used next to nothing of it; so many at most, the newest first. None, too, where what is kept cannot be read.
pub fn read_quiet_of(machine: &Machine, most: usize) -> Vec<Run> {
    let store = ResultStore::of_user();
    store.and_then(|store| quiet_of(&store, machine, most)).unwrap_or_default()
}

fn quiet_of(store: &ResultStore, machine: &Machine, most: usize) -> Result<Vec<Run>, super::KeepError> {
    let mut found = Vec::new();
    let Some(host) = machine.host.known() else { return Ok(found) };
    for file in store.files()?.iter().rev() {
        if found.len() >= most {
            break;
        }
        let run = whole_run(store, file, host);
        found.extend(run.filter(|run| is_same_server(&run.machine, machine) && is_quiet(run)));
    }
    Ok(found)
}

/// Others used so little of the CPUs that no rate is less for it.
fn is_quiet(run: &Run) -> bool {
    run.measurements.iter().all(|figure| figure.cpu_share.others <= MOST_OF_OTHERS)
}

/// The kept results of the same command on this host from before this one began, oldest first, and how many there
/// are of other hosts. What is damaged is not among them.
pub fn read_before(run: &Run) -> Result<(Vec<Run>, usize), Failure> {
    before(&ResultStore::of_user().map_err(|why| unreadable(&why))?, run)
}

fn before(store: &ResultStore, run: &Run) -> Result<(Vec<Run>, usize), Failure> {
    let (mut earlier, mut elsewhere) = (Vec::new(), 0);
    for file in store.files().map_err(|why| unreadable(&why))? {
        let Ok(text) = store.text(&file) else { continue };
        let Ok(head) = serde_json::from_slice::<Head>(&text) else { continue };
        // RFC 3339 in UTC sorts as text.
        if head.started >= run.started || head.stage != run.stage {
            continue;
        }
        if head.host != run.host {
            elsewhere += 1;
        } else if let Ok(other) = json::parse(&text, &store.path_of(&file)) {
            earlier.push(other);
        }
    }
    earlier.sort_by(|a, b| a.started.cmp(&b.started));
    Ok((earlier, elsewhere))
}

fn unreadable(why: &super::KeepError) -> Failure {
    Failure::Lacks(format!("kept results cannot be read: {why}"))
}

/// None: it is a file.
fn reference(word: &Path) -> Result<Option<Reference>, Failure> {
    let Some(number) = word.to_str().and_then(|text| text.strip_prefix('@')) else { return Ok(None) };
    let digits = number.strip_prefix('-').unwrap_or(number);
    let plain = !digits.is_empty() && digits.chars().all(|digit| digit.is_ascii_digit());
    // More than any number is out of reach, not wrong.
    let value = plain.then(|| digits.parse().unwrap_or(u64::MAX)).filter(|value| *value > 0);
    match value {
        Some(value) if number == digits => Ok(Some(Reference::Number(value))),
        Some(value) => Ok(Some(Reference::FromEnd(usize::try_from(value).unwrap_or(usize::MAX)))),
        None => {
            let shown = shortened(&printable(&word.to_string_lossy()), 40);
            Err(Failure::Usage(format!(
                "{shown} is no kept result: @-1 is the newest, @-2 the one before, as `linerate list` shows them; \
                 a file of that name is ./{shown}"
            )))
        }
    }
}

fn of_reference(store: &ResultStore, reference: Reference) -> Result<Run, Failure> {
    let files = store.files().map_err(|why| unreadable(&why))?;
    let found = match reference {
        Reference::FromEnd(back) => files.len().checked_sub(back).map(|at| &files[at]),
        Reference::Number(number) => files.iter().find(|file| file.number == number),
    };
    let file = found.ok_or_else(|| Failure::Lacks(absent(reference, &files)))?;
    parse(store, file, &store.path_of(file))
}

/// `name` is what errors call it.
pub(super) fn parse(store: &ResultStore, file: &KeptFile, name: &Path) -> Result<Run, Failure> {
    json::parse(&store.text(file).map_err(|why| unreadable(&why))?, name)
}

fn absent(reference: Reference, files: &[KeptFile]) -> String {
    let asked = match reference {
        Reference::FromEnd(back) => format!("@-{back}"),
        Reference::Number(number) => format!("@{number}"),
    };
    match (files.len(), files.first()) {
        (_, None) => format!(
            "{asked}: no result is kept; what `linerate run`, `disk`, `memory`, `load` and `network` measure is \
             kept unless --no-save is given"
        ),
        (1, Some(_)) => format!("{asked}: 1 result is kept, @-1; `linerate list` shows it"),
        (count, Some(_)) => {
            format!("{asked}: {count} results are kept, @-{count} to @-1; `linerate list` shows them")
        }
    }
}

/// What decides whether a result is wanted, without reading all of it.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    host: String,
    #[serde(default)]
    started: String,
    #[serde(default)]
    stage: Option<Stage>,
    #[serde(default)]
    diagnosis: Option<serde::de::IgnoredAny>,
}

fn newest_of(store: &ResultStore, host: &str) -> Result<Option<(u64, Run)>, Failure> {
    let files = store.files().map_err(|why| unreadable(&why))?;
    Ok(files.iter().rev().find_map(|file| Some((file.number, whole_run(store, file, host)?))))
}

/// The result of `linerate run` that a file holds, where it is of this host, whole, and of a flow that went out. One that
/// is damaged, or that another process has just removed, is none.
fn whole_run(store: &ResultStore, file: &KeptFile, host: &str) -> Option<Run> {
    let text = store.text(file).ok()?;
    let head = serde_json::from_slice::<Head>(&text).ok()?;
    let wanted = head.host == host && head.stage.is_none() && head.diagnosis.is_some();
    let run = wanted.then(|| json::parse(&text, &store.path_of(file)).ok())??;
    (!run.goal.flow.receives()).then_some(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::store::testing::{run, store};
    use linerate_facts::fact::Fact;
    use linerate_machine::probe::Kernel;
    use linerate_measure::measure::Measurement;

    #[test]
    fn words_of_the_command_line() {
        let of = |word: &str| reference(Path::new(word)).ok().flatten();
        assert_eq!(of("@-1"), Some(Reference::FromEnd(1)));
        assert_eq!(of("@12"), Some(Reference::Number(12)));
        assert_eq!(of("@-99999999999999999999999"), Some(Reference::FromEnd(usize::MAX)));
        for file in ["run.json", "./@-1", "folder/@2", "-1"] {
            assert_eq!(reference(Path::new(file)).expect("a file"), None);
        }
        for wrong in ["@", "@0", "@-0", "@-", "@--1", "@+1", "@1.5", "@newest", "@1 ", "@\u{1b}[2J"] {
            let error = reference(Path::new(wrong)).expect_err(wrong);
            assert_eq!(error.exit_status(), 2);
            let text = error.to_string();
            assert!(text.contains("@-1 is the newest") && !text.contains('\u{1b}'), "{text}");
        }
    }

    #[test]
    fn counted_from_the_end_or_by_number() {
        let (_state, store) = store(2);
        for name in ["a", "b", "c"] {
            store.keep(&run(name)).expect("kept");
        }
        let name =
            |reference| of_reference(&store, reference).map(|run| run.name).map_err(|why| why.to_string());
        assert_eq!(name(Reference::FromEnd(1)), Ok("c".into()));
        assert_eq!(name(Reference::FromEnd(2)), Ok("b".into()));
        assert_eq!(name(Reference::Number(2)), Ok("b".into()));
        for gone in [Reference::FromEnd(3), Reference::FromEnd(usize::MAX), Reference::Number(1)] {
            let error = name(gone).expect_err("it is not kept");
            assert!(error.contains("2 results are kept, @-2 to @-1"), "{error}");
        }
    }

    #[test]
    fn nothing_is_kept_yet() {
        let (_state, store) = store(2);
        let error = of_reference(&store, Reference::FromEnd(1)).expect_err("nothing").to_string();
        assert!(error.contains("no result is kept"), "{error}");
        assert!(newest_of(&store, "a").expect("nothing").is_none());
    }

    #[test]
    fn what_was_kept_before_is_of_the_same_host_and_command() {
        let (_state, store) = store(9);
        let of = |host: &str, started: &str| Run { host: host.into(), started: started.into(), ..run("") };
        let times = ["2026-03-03T00:00:00Z", "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"];
        times.iter().for_each(|time| assert!(store.keep(&of("a", time)).is_ok()));
        store.keep(&of("b", times[1])).expect("kept");
        store.keep(&Run { stage: None, ..of("a", times[1]) }).expect("kept");
        std::fs::write(store.path().join("000006.json"), "{ \"host\": \"a\"").expect("a damaged file");
        let (earlier, elsewhere) = before(&store, &of("a", times[0])).expect("a search");
        let started: Vec<&str> = earlier.iter().map(|run| run.started.as_str()).collect();
        assert_eq!((started, elsewhere), (vec![times[1], times[2]], 1));
    }

    #[test]
    fn the_newest_run_of_a_host_is_found_among_others() {
        let (_state, store) = store(9);
        let of_host = |host: &str| {
            let mut kept = run("");
            (kept.host, kept.stage, kept.diagnosis) = (host.into(), None, Some(Default::default()));
            kept
        };
        for kept in [of_host("a"), of_host("a"), of_host("b"), run("a disk")] {
            store.keep(&kept).expect("kept");
        }
        std::fs::write(store.path().join("000005.json"), "{ \"host\": \"a\"").expect("a damaged file");
        let found = |host| newest_of(&store, host).expect("a search").map(|(number, run)| (number, run.host));
        assert_eq!(found("a"), Some((2, "a".into())));
        assert_eq!(found("b"), Some((3, "b".into())));
        assert_eq!(found("c"), None);
    }

    #[test]
    fn quiet_runs_of_this_very_machine_count_and_others_do_not() {
        let (_state, store) = store(9);
        let here = Machine {
            host: Fact::Known("a".into()),
            kernel: Kernel { release: Fact::Known("6.12.0".into()), ..Kernel::default() },
            ..Machine::default()
        };
        let kept = |machine: &Machine, others: f64| {
            let mut kept = run("");
            let mut figure = Measurement::default();
            figure.cpu_share.others = others;
            (kept.host, kept.stage, kept.diagnosis) = ("a".into(), None, Some(Default::default()));
            (kept.machine, kept.measurements) = (machine.clone(), vec![figure]);
            store.keep(&kept).expect("kept");
        };
        let mut newer = here.clone();
        newer.kernel.release = Fact::Known("6.13.0".into());
        kept(&here, 0.01);
        kept(&here, 0.4);
        kept(&newer, 0.0);
        kept(&here, 0.05);
        let others = |most: usize| -> Vec<f64> {
            let found = quiet_of(&store, &here, most).expect("a search");
            found.iter().map(|run| run.measurements[0].cpu_share.others).collect()
        };
        assert_eq!(others(9), [0.05, 0.01], "the newest first; not the busy one, nor that of another kernel");
        assert_eq!(others(1), [0.05]);
    }
}
