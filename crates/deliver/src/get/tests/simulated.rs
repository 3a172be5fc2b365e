//! Files from a server that fails, lies and goes away, start after start: which have which bytes in the end, how long it
//! takes, and whether the server is left alone where it asks for that.

use super::super::plan::WantedFile;
use super::{SERVER, TIMEOUT, fetched};
use crate::serve::ServingFolder;
use crate::tests::PlantedBug;
use crate::tests::server::{Fault, Server, accepted, cleared, place};
use linerate_measure::run::TransferOutcome;
use linerate_system::clock::simulated::SimulatedClock;
use linerate_testing::{find_each, simulated};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// Runs of this test, of which a fifth is drawn, and how many a minute there are on one core at least.
const RUNS: u32 = 5_000;
const RUNS_A_MINUTE: f64 = 2_000.0;
/// Starts with faults; the one after them has none.
const FAULTY_STARTS: u32 = 4;
/// What one fault costs at most: a connection without progress, the longest wait that a server may ask for, a wait.
const TIME_OF_FAULT: Duration = TIMEOUT.saturating_add(Duration::from_secs(12));
const TIME_WITHOUT: Duration = Duration::from_secs(2);
/// Of a file: four to begin it, five of its pieces, four at its end, and between them a connection that was kept.
const MOST_FAILURES: u32 = 10;

const FAULTS: &[Fault] = {
    use Fault::*;
    &[
        Ends, Resets, Silent, Dies, NoHttp, Dribbles, Changes, Busy, Busy, Cut, Cut, Cut, Flipped, Flipped,
        Flipped, Code500, Code503, Code404, Code403,
    ]
};

/// A server with eight small files, or one large one, which a client wants.
fn server(seed: u32, folder: &Path, serving: ServingFolder) -> Server {
    let mut server = Server::new(seed, serving, &folder.join("data"), false, (MOST_FAILURES, FAULTS));
    let (count, least, more) = if server.random.chance(0.1) { (1, 1 << 20, 5 << 20) } else { (8, 0, 20_000) };
    for number in 0..count {
        let bytes = least + server.random.below(more) as usize;
        server.change(&format!("/{seed}-{number}"), bytes);
    }
    server
}

/// Those that are not there yet: as a list has them, or as a user names them.
fn wanted(server: &mut Server, folder: &Path, landed: &BTreeSet<String>) -> Vec<WantedFile> {
    let Server { versions, random, .. } = server;
    let absent = versions.iter().filter(|(path, _)| !landed.contains(*path));
    let wanted = absent.map(|(path, contents)| {
        let bytes = random.chance(0.8).then_some(contents[0].len() as u64);
        let url = format!("{SERVER}{path}").parse().expect("a URL");
        let place = folder.join("own").join(&path[1..]);
        WantedFile { has_sums: true, ..WantedFile::new(url, place, bytes, None) }
    });
    wanted.collect()
}

fn run(seed: u32, folder: &Path, serving: ServingFolder) -> Result<u32, String> {
    let mut own = server(seed, folder, serving);
    let fault = if own.random.chance(0.1) { 0.9 } else { 0.15 + 0.35 * own.random.unit() };
    let (count, server) = (own.versions.len(), Rc::new(RefCell::new(own)));
    let (clock, mut landed) = (SimulatedClock::new(), BTreeSet::new());
    for start in 1..=FAULTY_STARTS + 1 {
        let is_faulty = start <= FAULTY_STARTS;
        server.borrow_mut().begins(if is_faulty { fault } else { 0.0 });
        let wanted = wanted(&mut server.borrow_mut(), folder, &landed);
        let before = server.borrow().faults;
        let (absent, accepts) = (wanted.len(), Rc::clone(&server));
        let (reports, errors, time, there) = fetched(wanted, move || accepted(&accepts), &clock);
        let own = server.borrow();
        own.start.wrong.clone().map_or(Ok(()), Err)?;
        let most = TIME_WITHOUT + (own.faults - before) * TIME_OF_FAULT;
        if time > most || reports.len() != absent {
            return Err(format!("{} of {absent} files ended, after {time:?} of {most:?}", reports.len()));
        }
        let bytes: u64 = reports.iter().map(|report| report.bytes).sum();
        if !is_faulty && bytes != there {
            return Err(format!("{there} bytes count as there, and {bytes} are"));
        }
        for report in reports {
            let path = &report.url[SERVER.len()..];
            let is_fetched = report.outcome == TransferOutcome::Fetched;
            let there = std::fs::read(&report.path).ok();
            if is_fetched != there.is_some() || !is_fetched && report.error.is_none() {
                return Err(format!("{path} is there: {}; {report:?}", there.is_some()));
            }
            if there.is_some_and(|there| !own.versions[path].contains(&there.as_slice())) {
                return Err(format!("{path} has wrong bytes"));
            }
            if !is_fetched && !is_faulty {
                return Err(format!("without a fault: {errors:?}"));
            }
            landed.extend(is_fetched.then(|| path.to_string()));
        }
    }
    cleared(folder, count)?;
    Ok(server.borrow().faults)
}

fn runs() -> impl Fn(u32) -> Result<u32, String> {
    let (folder, serving) = place();
    move |seed| run(seed, folder.path(), serving)
}

#[test]
fn a_stream_brings_right_files_and_leaves_a_server_alone_where_it_is_asked_to() {
    simulated(("linerate-deliver", "a_stream_brings_right_files"), (RUNS, RUNS_A_MINUTE), runs());
}

#[test]
fn seeds_find_each_bug_that_is_planted_in_what_is_tried_again() {
    use PlantedBug::*;
    let bugs = [NoWait, BusyAskedAtOnce, RefusedAskedAgain, EachByteIsProgress, SmallSumIgnored];
    find_each(&bugs, RUNS / 20, runs);
}

#[test]
fn the_next_is_asked_for_while_one_is_on_its_way() {
    let (folder, serving) = place();
    let ahead = |seed| {
        let server = Rc::new(RefCell::new(server(seed, folder.path(), serving)));
        let wanted = wanted(&mut server.borrow_mut(), folder.path(), &BTreeSet::new());
        let accepts = Rc::clone(&server);
        let (_, errors, ..) = fetched(wanted, move || accepted(&accepts), &SimulatedClock::new());
        assert!(errors.is_empty(), "{seed}: {errors:?}");
        server.borrow().start.ahead
    };
    let requests: usize = (0..40).map(ahead).sum();
    assert!(requests >= 80, "{requests} were asked for ahead");
}
