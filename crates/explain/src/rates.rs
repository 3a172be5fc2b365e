//! What a program moves, and from where to where.

use crate::activity::Activity;
use crate::connections::ConnectionUse;
use crate::observe::Observation;
use crate::processes::ExplainedProcess;
use crate::threads::ThreadUse;
use linerate_model::verdict::Route;
use linerate_model::verdict::thresholds::WAITING;
use serde::Serialize;

/// A program that moves less is taken for one that moves nothing, bytes per second.
pub(crate) const NOTHING: f64 = 1000.0;
/// A thread that waits at a pipe for less of the time has another source.
const HAS_A_PART: f64 = 0.05;

/// What a program moves, bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ProgramRates {
    /// From the storage, and to it.
    pub storage_read: f64,
    pub storage_written: f64,
    /// From files and to files, by the storage or by the page cache.
    pub files_read: f64,
    pub files_written: f64,
    /// By TCP.
    pub sent: f64,
    pub received: f64,
    /// By its system calls, whatever it was of.
    pub called: f64,
}

impl ProgramRates {
    pub(crate) fn of(observed: &Observation) -> ProgramRates {
        let total = &observed.total;
        let (read, written) = (total.storage_read.unwrap_or(0.0), total.storage_written.unwrap_or(0.0));
        let moved = |writes: bool| -> f64 {
            let of = observed.files.iter().filter(|file| file.writes == writes);
            of.map(|file| file.bytes_per_second).fold(0.0, |sum, one| sum + one)
        };
        let (sent, received) = (observed.connections.sent, observed.connections.received);
        let reads_pipes = shares_of(&observed.threads, Activity::PipeRead) >= HAS_A_PART;
        let has_files = observed.files.iter().any(|file| !file.writes) && !observed.input_is_piped;
        // Of its processes those that read files: others may read what these write into a pipe.
        let reads_files =
            |one: &&ExplainedProcess| observed.files.iter().any(|file| !file.writes && file.pid == one.pid);
        let by_calls =
            || observed.processes.iter().filter(reads_files).filter_map(|one| one.called_read).sum();
        // `read` of a socket is counted, too.
        let called = if has_files && !reads_pipes { by_calls() } else { 0.0 } - received;
        let called = if called > 0.1 * received { called } else { 0.0 };
        ProgramRates {
            storage_read: read,
            storage_written: written,
            files_read: moved(false).max(read).max(called),
            files_written: moved(true).max(written),
            sent,
            received,
            called: total.called_read.unwrap_or(0.0).max(total.called_written.unwrap_or(0.0)),
        }
    }

    /// What comes goes on to another host, and nothing of it to files.
    fn is_relay(&self) -> bool {
        let (less, more) = (self.sent.min(self.received), self.sent.max(self.received));
        more >= NOTHING && less >= 0.8 * more && self.files_read.max(self.files_written) < 0.25 * more
    }

    fn direct_route(&self) -> (Route, f64) {
        let files = self.files_read.max(self.files_written);
        let network = self.sent.max(self.received);
        match () {
            () if files.max(network).max(self.called) < NOTHING => (Route::Unknown, 0.0),
            () if network < 0.25 * files => (Route::Disks, files),
            () if network >= NOTHING && self.received > self.sent => (Route::NetworkToDisks, self.received),
            () if network >= NOTHING && self.files_read >= 0.5 * self.sent => {
                (Route::DisksToNetwork, self.sent)
            }
            () if network >= NOTHING => (Route::Network, self.sent),
            () => (Route::Network, self.called),
        }
    }

    /// From where to where, and how much.
    pub(crate) fn route(&self, observed: &Observation) -> (Route, f64) {
        if self.is_relay() { self.relay_route(observed) } else { self.direct_route() }
    }

    /// The side of a relay that is slower: where data waits to be sent, it is that to which it sends.
    fn relay_route(&self, observed: &Observation) -> (Route, f64) {
        let waits = |one: &ConnectionUse| one.sent >= 0.1 * self.sent && one.busy >= WAITING;
        match observed.connections.busiest.iter().any(waits) {
            true => (Route::Network, self.sent),
            false => (Route::NetworkToDisks, self.received),
        }
    }
}

/// The largest share of one of them.
pub(crate) fn shares_of(threads: &[ThreadUse], activity: Activity) -> f64 {
    threads.iter().map(|one| one.shares.of(activity)).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_from_where_to_where_most_of_them_go() {
        let of = |files_read, files_written, sent, received| {
            ProgramRates { files_read, files_written, sent, received, ..ProgramRates::default() }
                .direct_route()
        };
        assert_eq!(of(5e6, 0.0, 5e6, 100.0), (Route::DisksToNetwork, 5e6));
        assert_eq!(of(0.0, 0.0, 5e6, 100.0), (Route::Network, 5e6));
        assert_eq!(of(0.0, 4e6, 2e4, 5e6), (Route::NetworkToDisks, 5e6));
        assert_eq!(of(5e6, 5e6, 1e5, 1e5), (Route::Disks, 5e6));
        assert_eq!(of(10.0, 0.0, 0.0, 0.0), (Route::Unknown, 0.0));
    }
}
