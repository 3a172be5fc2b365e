//! Files put on a server that fails, lies, dies and loses bytes, start after start: what has its name there, what is gone
//! on with, and what is counted as put.

use super::super::sources::SourceFile;
use super::super::stream::PutStream;
use super::super::{PutError, PutWork};
use crate::client::ClientSettings;
use crate::serve::ServingFolder;
use crate::stream_tally::StreamTally;
use crate::stream_windows::StreamWindows;
use crate::tests::PlantedBug;
use crate::tests::network;
use crate::tests::server::{Fault, Server, accepted, cleared, place};
use crate::tls::TlsTrust;
use linerate_measure::run::{TransferFile, TransferOutcome};
use linerate_system::clock::simulated::SimulatedClock;
use linerate_system::lock;
use linerate_testing::{find_each, simulated};
use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Runs of this test, of which a fifth is drawn, and how many a minute there are on one core at least.
const RUNS: u32 = 4_000;
const RUNS_A_MINUTE: f64 = 2_000.0;
/// Starts with faults; the one after them has none.
const FAULTY_STARTS: u32 = 5;
/// Without progress for so long a connection is given up.
const TIMEOUT: Duration = Duration::from_secs(5);
/// What one fault costs at most: a connection without progress, the longest wait that a server may ask for, a wait.
const TIME_OF_FAULT: Duration = TIMEOUT.saturating_add(Duration::from_secs(12));
/// A file of more bytes is gone on with.
const RESUMED_BYTES: u64 = 1 << 20;
/// Of a file in one start.
const MOST_FAILURES: u32 = 6;

const FAULTS: &[Fault] = {
    use Fault::*;
    &[
        Ends, Resets, Silent, Dies, NoHttp, Cut, Cut, Cut, Cut, Cut, Cut, Flipped, Flipped, Flipped, Changes,
        Interrupt, Code500, Code503, Code404, Code403, Busy, Busy,
    ]
};

/// One start: what became of these files, and what counts as there.
fn put(server: &Rc<RefCell<Server>>, files: &[SourceFile]) -> (Vec<TransferFile>, Vec<PutError>, u64) {
    let (there, windows, tally) = (AtomicU64::new(0), StreamWindows::new(false), StreamTally::default());
    let stop = Arc::clone(&server.borrow().start.stop);
    let settings = || ClientSettings::new(&stop, TIMEOUT, 64 << 10, None, TlsTrust::default());
    let work = PutWork::of_test(settings(), &windows, &there);
    lock(&work.waiting).extend(files.iter().cloned());
    let (settings, accepts) = (settings().keeping_to_one_address(), Rc::clone(server));
    network::with(move || accepted(&accepts), || PutStream::new(&work, &settings, &tally).run());
    let errors = std::mem::take(&mut *lock(&work.errors));
    (std::mem::take(&mut *lock(&work.files)), errors, there.load(Ordering::Relaxed))
}

fn part(folder: &Path, file: &SourceFile) -> PathBuf {
    folder.join("data").join(format!(".{}.linerate-part", &file.url.path()[1..]))
}

/// Between two starts: a power cut, or somebody else, at what the server has of a file.
fn harmed(server: &mut Server, folder: &Path, file: &SourceFile) {
    let Ok(part) = File::options().read(true).write(true).open(part(folder, file)) else { return };
    let bytes = part.metadata().map_or(0, |part| part.len());
    if bytes == 0 || !server.random.chance(server.fault) {
        return;
    }
    server.faults += 1;
    let at = match server.random.below(4) {
        0 => 0,
        1 => bytes - 1,
        2 => return part.set_len(server.random.below(bytes)).expect("cut"),
        _ => return part.set_len(file.bytes + 1).expect("longer"),
    };
    let mut byte = [0];
    part.read_exact_at(&mut byte, at).and_then(|()| part.write_all_at(&[!byte[0]], at)).expect("written");
}

fn run(seed: u32, folder: &Path, serving: ServingFolder) -> Result<u32, String> {
    let mut own = Server::new(seed, serving, &folder.join("own"), true, (MOST_FAILURES, FAULTS));
    let count = 1 + own.random.below(4);
    let files: Vec<SourceFile> = (0..count).map(|number| file(&mut own, folder, seed, number)).collect();
    let clock = SimulatedClock::new();
    let _entered = clock.enter();
    let (fault, server) = (0.1 + 0.4 * own.random.unit(), Rc::new(RefCell::new(own)));
    for start in 1..=FAULTY_STARTS + 1 {
        let is_faulty = start <= FAULTY_STARTS;
        server.borrow_mut().begins(if is_faulty { fault } else { 0.0 });
        let kept = |file: &SourceFile| {
            harmed(&mut server.borrow_mut(), folder, file);
            let there = std::fs::read(part(folder, file)).unwrap_or_default();
            let is_sound = server.borrow().versions[file.url.path()][0].starts_with(&there);
            is_sound.then_some(if file.bytes > RESUMED_BYTES { there.len() as u64 } else { 0 })
        };
        let kept: Vec<Option<u64>> = files.iter().map(kept).collect();
        let before = (server.borrow().faults, clock.passed());
        let (reports, errors, there) = put(&server, &files);
        let own = server.borrow();
        let (faults, time) = (own.faults - before.0, clock.passed() - before.1);
        own.start.wrong.clone().map_or(Ok(()), Err)?;
        if time > Duration::from_secs(1) + faults * TIME_OF_FAULT {
            return Err(format!("it takes {time:?} with {faults} faults"));
        }
        let is_put = |report: &&TransferFile| {
            matches!(report.outcome, TransferOutcome::Put | TransferOutcome::AlreadyThere)
        };
        let bytes: u64 = reports.iter().filter(is_put).map(|report| report.bytes).sum();
        if bytes != there {
            return Err(format!("{there} bytes count as there, and {bytes} are"));
        }
        for (file, kept) in files.iter().zip(kept) {
            let versions = &own.versions[file.url.path()];
            let named = std::fs::read(folder.join("data").join(&file.url.path()[1..])).ok();
            if named.as_ref().is_some_and(|named| !versions.contains(&named.as_slice())) {
                return Err(format!("{} has wrong bytes", file.url));
            }
            let report = reports.iter().find(|report| report.path == file.path);
            let is_there = named.is_some();
            if report.is_some_and(|report| is_put(&report)) && !is_there {
                return Err(format!("{} is put, and not there", file.url));
            }
            // What changed after it was put is another file of its name.
            let is_changed = is_there && named.as_deref() != versions.last().copied();
            if !is_faulty && !is_changed && !report.is_some_and(|report| is_put(&report)) {
                return Err(format!("without a fault: {errors:?}"));
            }
            let Some(report) = report.filter(|report| report.outcome == TransferOutcome::Put) else {
                continue;
            };
            // That of another content of the file is not gone on with.
            if faults == 0 && versions.len() == 1 && kept.is_some_and(|kept| kept != report.kept_bytes) {
                return Err(format!("{} bytes are kept of {kept:?}", report.kept_bytes));
            }
        }
    }
    cleared(folder, files.len())?;
    let faults = server.borrow().faults;
    Ok(faults)
}

fn file(server: &mut Server, folder: &Path, seed: u32, number: u64) -> SourceFile {
    let path = format!("/{seed}-{number}");
    let (least, more) = if server.random.chance(0.3) { (RESUMED_BYTES + 1, 1 << 20) } else { (0, 20_000) };
    let bytes = least + server.random.below(more);
    server.change(&path, bytes as usize);
    SourceFile {
        path: folder.join("own").join(&path[1..]),
        url: format!("http://10.1.1.1{path}").parse().expect("a URL"),
        bytes,
    }
}

fn runs() -> impl Fn(u32) -> Result<u32, String> {
    let (folder, serving) = place();
    move |seed| run(seed, folder.path(), serving)
}

#[test]
fn whatever_ends_its_starts_what_is_put_has_the_bytes_of_its_file() {
    simulated(("linerate-deliver", "whatever_ends_its_starts_what_is_put"), (RUNS, RUNS_A_MINUTE), runs());
}

#[test]
fn seeds_find_each_bug_that_is_planted_in_what_is_put() {
    use PlantedBug::*;
    let bugs = [NoWait, EndlessTries, BusyAskedAtOnce, SumNotCompared, ChangeUnnoticed, SentForNothingCounts];
    find_each(&bugs, RUNS / 20, runs);
}
