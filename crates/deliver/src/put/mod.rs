//! Puts files on any server that takes PUT, several at once: on `linerate serve` each is compared by its sum
//! before it gets its name; nothing is replaced anywhere.

mod body;
pub(crate) mod sources;
mod stream;

use super::evidence::ServerFacts;
use super::s3::upload::abort;
use crate::client::ask::{ask_when_free, is_busy};
use crate::client::{ClientSettings, TransferError};
use crate::http::url::HttpUrl;
use crate::progress::{ProgressWatch, WatchedTransfer};
use crate::s3::S3Store;
use crate::s3::upload::Uploads;
use crate::serve::BearerToken;
use crate::stream_tally::StreamTally;
use crate::stream_windows::{StreamWindows, shows_one_alone};
use crate::tls::TlsTrust;
use crate::transfer_run::{TransferEnd, TransferFacts};
use linerate_facts::sysroot::Sysroot;
use linerate_measure::measure::Stage;
use linerate_measure::run::{TransferFile, TransferOutcome, TransferResult};
use linerate_system::stop::Stop;
use linerate_system::{clock, lock};
use linerate_transport::flow::rate_limit::RateLimit;
pub use sources::{PutError, SourceFile, SourceSelection, select};
use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;
pub(crate) use stream::PutStream;

/// Where the first stream is still alone, it is looked again.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// What is done because of a signal may take so long.
const ABORT: Duration = Duration::from_secs(3);

/// What is to be put where.
#[derive(Clone, Debug)]
pub struct PutSpec {
    /// Files, and folders with all that is below them.
    pub paths: Vec<PathBuf>,
    /// A folder of the server, with a slash at its end, or the URL that the one file gets.
    pub url: HttpUrl,
    pub streams: u32,
    pub bytes_per_second: Option<f64>,
    pub token: Option<BearerToken>,
    /// The object store that the URL is of, as it gives it.
    pub store: Option<Arc<S3Store>>,
    /// Whom it believes where the URL is of https.
    pub trust: TlsTrust,
    /// Without any progress for so long a connection is given up.
    pub timeout: Duration,
}

/// What the server can do beyond PUT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerKind {
    /// It holds a file back until its sum was compared.
    Linerate,
    Other,
}

/// Shared by all streams.
pub(crate) struct PutWork<'a> {
    pub(crate) waiting: Mutex<VecDeque<SourceFile>>,
    pub(crate) files: Mutex<Vec<TransferFile>>,
    pub(crate) errors: Mutex<Vec<PutError>>,
    /// Objects that go in parts.
    pub(crate) uploads: Uploads,
    pub(crate) streams: u64,
    /// For what is to be done also after an interruption.
    pub(crate) abort_settings: ClientSettings<'a>,
    /// How bytes were read and sent.
    methods: Mutex<BTreeSet<String>>,
    rate: Option<RateLimit>,
    server: ServerKind,
    windows: &'a StreamWindows,
    /// Bytes that the server has, those of an earlier start included.
    there: &'a AtomicU64,
}

#[cfg(test)]
impl<'a> PutWork<'a> {
    /// One stream to a linerate server, and no files.
    fn of_test(abort_settings: ClientSettings<'a>, windows: &'a StreamWindows, there: &'a AtomicU64) -> Self {
        PutWork {
            waiting: Mutex::default(),
            files: Mutex::default(),
            errors: Mutex::default(),
            uploads: Uploads::default(),
            streams: 1,
            abort_settings,
            methods: Mutex::default(),
            rate: None,
            server: ServerKind::Linerate,
            windows,
            there,
        }
    }
}

impl PutWork<'_> {
    /// A file that is not put, and why.
    pub(crate) fn failed(&self, file: &SourceFile, error: PutError) {
        let report = TransferFile::new(file.url.to_string(), file.path.clone(), TransferOutcome::Failed);
        lock(&self.files).push(TransferFile { error: Some(error.to_string()), ..report });
        lock(&self.errors).push(error);
    }

    /// Bytes are moved by this method, too.
    fn moved_by(&self, method: impl FnOnce() -> String) {
        lock(&self.methods).insert(method());
    }
}

/// Puts them. `there` counts the bytes that the server has, those of an earlier start included, for a line of progress.
pub fn put(
    spec: &PutSpec,
    selection: SourceSelection,
    there: &AtomicU64,
    watch: Option<&ProgressWatch<'_>>,
    stop: &Stop,
) -> Result<TransferEnd, PutError> {
    // A store is shown its own keys.
    let token = spec.token.as_ref().filter(|_| spec.store.is_none());
    let token = token.map(|token| (token.header(), vec![spec.url.authority()]));
    let settings = ClientSettings::new(stop, spec.timeout, 64 << 10, token, spec.trust.clone());
    let settings = match &spec.store {
        Some(store) => settings.with_store(Some(Arc::clone(store))),
        // The files of one command are put on one server, also where its name has several.
        None => settings.keeping_to_one_address(),
    };
    let server = match &spec.store {
        Some(_) => ServerKind::Other,
        None => server_kind(&settings, &spec.url)?,
    };
    // No signal ends what is done because of one.
    let never = Stop::new();
    let abort_settings =
        ClientSettings::new(&never, spec.timeout.min(ABORT), 64 << 10, None, spec.trust.clone());
    let (sysroot, begun) = (Sysroot::live(), clock::now());
    // What one stream gets tells what limits many. To a store a file goes in parts, else by one stream, which takes long
    // enough where it is long.
    let first = selection.files.first().map_or(0, |file| file.bytes);
    let is_long = shows_one_alone(1, first) && (selection.files.len() > 1 || spec.store.is_some());
    let learned = ServerFacts::new(spec.streams > 1 && spec.bytes_per_second.is_none() && is_long);
    let work = PutWork {
        waiting: Mutex::new(selection.files.into()),
        files: Mutex::default(),
        errors: Mutex::default(),
        uploads: Uploads::default(),
        streams: u64::from(spec.streams),
        abort_settings: abort_settings.with_store(spec.store.clone()),
        methods: Mutex::default(),
        rate: spec.bytes_per_second.map(|rate| RateLimit::new(rate, begun)),
        server,
        windows: &learned.windows,
        there,
    };
    let tallies: Vec<StreamTally> = (0..spec.streams).map(|_| StreamTally::default()).collect();
    let watched = WatchedTransfer {
        stage: Stage::Put,
        paths: &spec.paths,
        streams: &tallies,
        sockets: &settings.sockets,
        rate_limit: spec.bytes_per_second,
        server: &learned,
        there,
    };
    let ((), host) = watched.during(&sysroot, watch, || run_streams(spec, &work, &settings, &tallies));
    abort_left(spec, &work);
    lock(&work.waiting).drain(..).for_each(|file| work.failed(&file, PutError::Interrupted));
    let errors = std::mem::take(&mut *lock(&work.errors));
    let files = std::mem::take(&mut *lock(&work.files));
    let facts = TransferFacts {
        watched: &watched,
        url: &spec.url,
        transfer: TransferResult {
            streams: spec.streams,
            moved_bytes: tallies.iter().map(StreamTally::moved).sum(),
            kept_bytes: files.iter().map(|file| file.kept_bytes).sum(),
            files,
            ..TransferResult::default()
        },
        errors: errors.iter().map(ToString::to_string).collect(),
        method: &lock(&work.methods).iter().map(String::as_str).collect::<Vec<_>>().join(", "),
    };
    let run = facts.run(&sysroot, &host);
    Ok(TransferEnd { run, lacks: errors.iter().all(PutError::is_lack) })
}

fn run_streams<'a>(
    spec: &'a PutSpec,
    work: &'a PutWork<'a>,
    settings: &'a ClientSettings<'a>,
    tallies: &'a [StreamTally],
) {
    std::thread::scope(|scope| {
        for (number, tally) in tallies.iter().enumerate() {
            let run = move || {
                let mut stream = PutStream::new(work, settings, tally);
                if number > 0 {
                    work.windows.wait_for_first(|| settings.stop.wait(POLL_INTERVAL));
                }
                match &spec.store {
                    Some(store) => stream.run_objects(store),
                    None => stream.run(),
                }
            };
            let thread = std::thread::Builder::new().name(format!("stream-{number}"));
            // Fewer streams are slower, not wrong; without any this thread is the one.
            if thread.spawn_scoped(scope, run).is_err() && number == 0 {
                run();
            }
        }
    });
}

/// Uploads that were interrupted between two parts.
fn abort_left(spec: &PutSpec, work: &PutWork<'_>) {
    let Some(store) = &spec.store else { return };
    for upload in work.uploads.left() {
        work.failed(&upload.source.file, PutError::Interrupted);
        lock(&work.errors).extend(abort(&work.abort_settings, store, &upload).err());
    }
}

/// Whether the top of the server is a folder of a `linerate serve` that takes files. A `linerate serve` that
/// does not is an error, before anything is sent.
fn server_kind(settings: &ClientSettings<'_>, url: &HttpUrl) -> Result<ServerKind, PutError> {
    let top = url.with_target("/");
    let head = ask_when_free(&mut None, settings, "HEAD", &top, "")?;
    match (head.headers.has_word("linerate", "list"), head.headers.has_word("linerate", "put")) {
        (_, true) => Ok(ServerKind::Linerate),
        (true, false) => Err(PutError::ReadOnly { url: url.to_string() }),
        (false, false) if matches!(head.status, 401 | 407) => {
            Err(PutError::NotAllowed { url: url.to_string(), status: head.status })
        }
        // One that may compare sums is not taken for one that cannot.
        (false, false) if is_busy(&head) => {
            let (url, status) = (url.to_string(), head.status);
            Err(TransferError::Overloaded { url, status, retry_after: None }.into())
        }
        (false, false) => Ok(ServerKind::Other),
    }
}

#[cfg(test)]
mod tests;
