//! Earlier results that a new one is set beside: the newest of a host, those of a quiet machine, those of the same command
//! before a run, and the newest two that can be compared.

use super::KeepError;
use super::reference::unreadable;
use super::store::{KeptFile, ResultHead, ResultStore, is_transfer};
use crate::json;
use crate::machine_facts::is_same_server;
use linerate_facts::failure::Failure;
use linerate_machine::probe::Machine;
use linerate_measure::run::Run;
use std::path::PathBuf;

/// Share of the CPUs that others may have used in a run that is quiet.
const MOST_OF_OTHERS: f64 = 0.05;

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

fn quiet_of(store: &ResultStore, machine: &Machine, most: usize) -> Result<Vec<Run>, KeepError> {
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

/// Others used so little of the CPUs and disks that no rate is less for it, as far as others could be seen.
fn is_quiet(run: &Run) -> bool {
    run.measurements.iter().all(|figure| {
        let hidden_cpu = figure.others.as_ref().map_or(0.0, |others| others.hidden_cpu);
        figure.cpu_share.others.max(hidden_cpu) <= MOST_OF_OTHERS
            && !figure.flags.iter().any(|flag| flag == "others")
    })
}

/// The kept results of the same command on this host from before this one began, oldest first, and how many there
/// are of other hosts. What is damaged is not among them.
pub fn read_before(run: &Run) -> Result<(Vec<Run>, usize), Failure> {
    before(&ResultStore::of_user().map_err(|why| unreadable(&why))?, run)
}

fn before(store: &ResultStore, run: &Run) -> Result<(Vec<Run>, usize), Failure> {
    let (mut earlier, mut elsewhere) = (Vec::new(), 0);
    let mut left_bytes = store.most_bytes();
    for file in store.files().map_err(|why| unreadable(&why))?.iter().rev() {
        // Newest first, as many bytes as are kept: more was laid there by somebody else.
        let Some(rest) = left_bytes.checked_sub(file.bytes) else { continue };
        left_bytes = rest;
        let Ok(text) = store.text(file) else { continue };
        let Some(head) = ResultHead::of(&text) else { continue };
        // RFC 3339 in UTC sorts as text.
        if head.started >= run.started || head.stage != run.stage {
            continue;
        }
        if head.host != run.host {
            elsewhere += 1;
        } else if let Ok(other) = json::parse(&text, &store.path_of(file)) {
            earlier.push(other);
        }
    }
    earlier.sort_by(|a, b| a.started.cmp(&b.started));
    Ok((earlier, elsewhere))
}

/// What names the newest two measurements of one command, host and goal that have a figure in common, the older first.
pub fn newest_two() -> Result<[PathBuf; 2], Failure> {
    newest_alike(&ResultStore::of_user().map_err(|why| unreadable(&why))?)
}

fn newest_alike(store: &ResultStore) -> Result<[PathBuf; 2], Failure> {
    let mut later: Vec<(u64, ResultHead)> = Vec::new();
    let mut found: Option<[u64; 2]> = None;
    for file in store.files().map_err(|why| unreadable(&why))?.iter().rev() {
        let Some(head) = store.text(file).ok().and_then(|text| ResultHead::of(&text)) else { continue };
        if is_transfer(head.stage) {
            continue;
        }
        let alike = |(_, other): &&(u64, ResultHead)| {
            (head.stage, &head.host, &head.goal) == (other.stage, &other.host, &other.goal)
                && head.measurements.iter().any(|name| other.measurements.contains(name))
        };
        // Of all pairs the one whose later result is the newest.
        let newest = found.map_or(0, |[_, newest]| newest);
        if let Some((number, _)) = later.iter().find(alike).filter(|(number, _)| *number > newest) {
            found = Some([file.number, *number]);
        }
        later.push((file.number, head));
    }
    found.map(|pair| pair.map(|number| format!("@{number}").into())).ok_or_else(|| {
        Failure::Lacks(
            "no two kept results are of the same command, host and goal: measure again, or name two (`linerate list` \
             shows them)"
                .into(),
        )
    })
}

fn newest_of(store: &ResultStore, host: &str) -> Result<Option<(u64, Run)>, Failure> {
    let files = store.files().map_err(|why| unreadable(&why))?;
    Ok(files.iter().rev().find_map(|file| Some((file.number, whole_run(store, file, host)?))))
}

/// The result of `linerate run` that a file holds, where it is of this host, whole, and of a flow that went out. One that
/// is damaged, or that another process has just removed, is none.
fn whole_run(store: &ResultStore, file: &KeptFile, host: &str) -> Option<Run> {
    let text = store.text(file).ok()?;
    let head = ResultHead::of(&text)?;
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
    use linerate_measure::measure::{Measurement, Stage};

    #[test]
    fn the_newest_two_are_of_one_command_and_one_goal() {
        let (_state, store) = store(9);
        let of = |stage, seconds, figure: &str| {
            let mut stored = Run { stage: Some(stage), ..run("") };
            stored.goal.seconds = Some(seconds);
            stored.measurements = vec![Measurement { name: figure.into(), ..Measurement::default() }];
            stored
        };
        let two = || newest_alike(&store).map(|pair| pair.map(|word| word.display().to_string()));
        assert!(two().is_err_and(|error| error.exit_status() == 3));
        for stored in [
            of(Stage::Memory, 1.0, "copy"),
            of(Stage::Disk, 1.0, "4 KiB"),
            of(Stage::Memory, 1.0, "copy"),
            of(Stage::Disk, 2.0, "4 KiB"),
            of(Stage::Get, 1.0, "file"),
            of(Stage::Get, 1.0, "file"),
        ] {
            store.keep(&stored).expect("kept");
        }
        assert_eq!(two().expect("two"), ["@1", "@3"]);
        store.keep(&of(Stage::Disk, 1.0, "1 MiB")).expect("kept");
        assert_eq!(two().expect("two"), ["@1", "@3"], "they have no figure in common");
        store.keep(&of(Stage::Disk, 1.0, "4 KiB")).expect("kept");
        store.keep(&of(Stage::Disk, 1.0, "4 KiB")).expect("kept");
        assert_eq!(two().expect("two"), ["@8", "@9"]);
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
    fn no_more_bytes_than_are_kept_are_read_at_once() {
        let (_state, store) = store(9);
        let of = |day: u32| Run { started: format!("2026-03-{day:02}T00:00:00Z"), ..run("") };
        (1..=4).for_each(|day| assert!(store.keep(&of(day)).is_ok()));
        let bytes = store.files().expect("a list")[0].bytes;
        let store = store.with_bytes(2 * bytes + 9);
        // Sparse, and larger than all that is kept.
        let vast = std::fs::File::create(store.path().join("000009.json")).expect("a file");
        vast.set_len(1 << 40).expect("its length");
        let (earlier, _) = before(&store, &of(9)).expect("a search");
        assert_eq!(earlier.len(), 2, "the newest that are small enough");
    }

    #[test]
    fn the_newest_run_of_a_host_is_found_among_others() {
        let (_state, store) = store(9);
        let of_host = |host: &str| {
            let mut stored = run("");
            (stored.host, stored.stage, stored.diagnosis) = (host.into(), None, Some(Default::default()));
            stored
        };
        for stored in [of_host("a"), of_host("a"), of_host("b"), run("a disk")] {
            store.keep(&stored).expect("kept");
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
        let stored = |machine: &Machine, others: f64| {
            let mut stored = run("");
            let mut figure = Measurement::default();
            figure.cpu_share.others = others;
            (stored.host, stored.stage, stored.diagnosis) = ("a".into(), None, Some(Default::default()));
            (stored.machine, stored.measurements) = (machine.clone(), vec![figure]);
            store.keep(&stored).expect("kept");
        };
        let mut newer = here.clone();
        newer.kernel.release = Fact::Known("6.13.0".into());
        stored(&here, 0.01);
        stored(&here, 0.4);
        stored(&newer, 0.0);
        stored(&here, 0.05);
        let others = |most: usize| -> Vec<f64> {
            let found = quiet_of(&store, &here, most).expect("a search");
            found.iter().map(|run| run.measurements[0].cpu_share.others).collect()
        };
        assert_eq!(others(9), [0.05, 0.01], "the newest first; not the busy one, nor that of another kernel");
        assert_eq!(others(1), [0.05]);
    }
}
