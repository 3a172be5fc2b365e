//! A stream of a transfer, with all that it asks and answers, on a network without sockets and a simulated clock.

mod liars;
mod simulated;

use super::ClientSettings;
use super::finished_files::FinishedFiles;
use super::plan::{GetPlan, WantedFile};
use super::routes::Routes;
use super::stream::GetStream;
use crate::client::TransferError;
use crate::evidence::ServerFacts;
use crate::stream_tally::StreamTally;
use crate::tests::network::{self, FarEnd};
use crate::tls::TlsTrust;
use linerate_measure::run::TransferFile;
use linerate_system::clock::simulated::SimulatedClock;
use linerate_system::stop::Stop;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Without progress for so long a connection is given up.
const TIMEOUT: Duration = Duration::from_secs(5);
const SERVER: &str = "http://10.1.1.1";

/// What one stream makes of these files, as a start of its own, the time that it takes, and the bytes that count as there.
fn fetched(
    files: Vec<WantedFile>,
    accept: impl FnMut() -> Option<Box<dyn FarEnd>> + 'static,
    clock: &SimulatedClock,
) -> (Vec<TransferFile>, Vec<TransferError>, Duration, u64) {
    let (_entered, before) = (clock.enter(), clock.passed());
    let (stop, there, facts) = (Stop::new(), AtomicU64::new(0), ServerFacts::new(false));
    let settings = ClientSettings::new(&stop, TIMEOUT, 1 << 20, None, TlsTrust::default());
    let two_addresses = [1, 2].map(|last| ([10, 1, 2, last], 80).into());
    settings.enter_addresses(&["http://copies.example".parse().expect("a URL")], &two_addresses);
    let routes = Routes::new(settings, &[], 1);
    let (finished, tally) = (FinishedFiles::new(false, false, None, None), StreamTally::default());
    let plan = GetPlan::new(files, 1, None, &there, (&facts, &stop));
    let mut stream = GetStream {
        number: 0,
        receives: false,
        plan: &plan,
        routes: &routes,
        route: 0,
        settings: routes.settings(0),
        finished: &finished,
        tally: &tally,
        connection: None,
        writer: None,
        ahead: None,
    };
    network::with(accept, || stream.run());
    finished.finish();
    let (reports, errors, ..) = finished.take_results();
    (reports, errors, clock.passed() - before, there.load(Ordering::Relaxed))
}

#[test]
fn a_file_that_is_there_is_not_summed_to_its_end_after_ctrl_c() {
    let (place, stop) = (std::env::current_exe().expect("this program"), Stop::new());
    let there = place.metadata().expect("its length");
    let stated = (there.len(), u64::try_from(there.mtime()).ok());
    let wanted = WantedFile::new(format!("{SERVER}/file").parse().expect("a URL"), place, None, None);
    let finished = FinishedFiles::new(false, false, Some("0".repeat(64)), None);
    stop.end();
    let accepted = finished.accept_existing(&wanted, stated, &stop);
    assert!(matches!(accepted, Err(TransferError::Interrupted)), "{accepted:?}");
}
