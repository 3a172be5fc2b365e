//! Fetches files from any server of HTTP/1.1, over several streams, into a folder: each under a name of its own
//! beside its place until it is whole, resumed after any death, never over a file that is there.

mod archived_names;
mod confirm;
mod finished_files;
mod from_server;
mod home_folder;
pub mod journal;
pub(crate) mod names;
pub(crate) mod part;
pub(crate) mod plan;
pub(crate) mod remote;
mod routes;
mod small;
mod stream;
mod transfer;
pub(crate) mod writer;

use super::evidence::ServerFacts;
use super::http::url::name;
use crate::archived::AttributeFailures;
use crate::blocks::FileId;
pub use crate::client::LocalNic;
use crate::client::{ClientSettings, HttpConnection, TransferError};
use crate::dialled::AwaitedConnections;
use crate::http::url::HttpUrl;
use crate::listing::{ListedKind, ListingError, MOST_FILES};
use crate::progress::{ProgressWatch, WatchedTransfer};
use crate::s3::{S3Store, list as s3_list};
use crate::serve::BearerToken;
use crate::stream_tally::StreamTally;
use crate::stream_windows::shows_one_alone;
use crate::tls::TlsTrust;
use crate::transfer_run::{TransferEnd, TransferFacts};
use archived_names::{ArchivedNames, LinkTo};
use finished_files::FinishedFiles;
pub use from_server::{ServerFlowSpec, measure_server};
pub use home_folder::dotfiles_in_home;
use linerate_facts::sysroot::Sysroot;
use linerate_measure::measure::Stage;
use linerate_measure::run::TransferResult;
use linerate_system::clock;
use linerate_system::stop::Stop;
use linerate_transport::flow::rate_limit::RateLimit;
use names::refused_name;
pub use names::{ExcludedNames, is_unfinished};
use plan::{GetPlan, WantedFile};
use remote::{Remote, RemoteEntry, RemoteFolder, list, probe};
use routes::Routes;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::ScopedJoinHandle;
use std::time::Duration;
use stream::GetStream;

/// What paths, URLs and attributes of a transfer take at most: a server that means no good may list much with little.
const MOST_NAMED_BYTES: usize = 1 << 30;
/// The deepest folder that is fetched.
const MOST_DEPTH: usize = 64;
/// A read lasts this long at a rate limit.
const LIMITED_READ: Duration = Duration::from_millis(10);
const LEAST_READ_BYTES: usize = 4 << 10;
const MOST_READ_BYTES: usize = 1 << 20;

/// What is wanted.
#[derive(Clone, Default)]
pub struct GetSpec {
    pub urls: Vec<HttpUrl>,
    /// The folder for the files; made where it is absent.
    pub output: PathBuf,
    /// Connections that fetch at once; each NIC has one at least.
    pub streams: u32,
    /// By which the connections leave this host; none: as the routes say.
    pub nics: Vec<LocalNic>,
    /// Of the server of all URLs, over which the connections are spread; none: those of its name.
    pub addresses: Vec<SocketAddr>,
    /// Files that are there are replaced.
    pub replace: bool,
    /// But for those with the server's length and time, or with its sums and another time.
    pub keeps_same: bool,
    /// What the one file has to be, 64 hexadecimal digits in lower case.
    pub sha256: Option<String>,
    pub bytes_per_second: Option<f64>,
    pub token: Option<BearerToken>,
    /// The object store that some of the URLs are of, as it gives them.
    pub store: Option<Arc<S3Store>>,
    /// Whom it believes where a URL is of https.
    pub trust: TlsTrust,
    /// The server limits no connection by itself: all streams begin at once.
    pub is_other_half: bool,
    /// Without any progress for so long a connection is given up.
    pub timeout: Duration,
    /// Names of a folder that are not fetched.
    pub excluded: ExcludedNames,
    /// The server opens the connections; none: this host does.
    pub awaited: Option<Arc<AwaitedConnections>>,
    /// Links, modes, owners and the like are kept; what of them cannot be set is counted here.
    pub archive: Option<Arc<AttributeFailures>>,
}

/// Files that were found.
#[derive(Default)]
pub struct FileSelection {
    pub(crate) files: Vec<WantedFile>,
    pub(crate) folders: Vec<PathBuf>,
    /// What is not a name of a file, and folders that cannot be listed.
    pub(crate) refused: Vec<(WantedFile, TransferError)>,
    /// Links to folders, which are not followed.
    pub links_left_out: u64,
    /// To the server that was asked last and back, as TCP has it.
    pub round_trip: Option<Duration>,
    /// What is made once the files are there.
    pub(crate) archived: ArchivedNames,
    named_bytes: usize,
}

impl FileSelection {
    /// Bytes of all of them; none where that of one is not known yet.
    pub fn bytes(&self) -> Option<u64> {
        self.files.iter().try_fold(0u64, |sum, file| Some(sum.saturating_add(file.bytes?)))
    }

    /// It is one file, and no folder but that for it.
    pub fn is_one_file(&self, output: &Path) -> bool {
        self.files.len() == 1 && self.link_count() == 0 && self.folders.iter().all(|folder| folder == output)
    }

    /// The one file gets this place, whatever it is called at its server.
    pub fn put_at(&mut self, place: &Path) {
        self.files.iter_mut().for_each(|file| file.destination = place.into());
        self.folders = vec![place.parent().unwrap_or(Path::new("")).into()];
    }

    /// A folder below `output` that is a link here: what a server says goes into it would go elsewhere.
    pub fn link_on_the_way(&self, output: &Path) -> Option<&Path> {
        let is_link = |folder: &Path| std::fs::symlink_metadata(folder).is_ok_and(|found| found.is_symlink());
        let below = self.folders.iter().map(PathBuf::as_path).filter(|folder| *folder != output);
        below.into_iter().find(|folder| is_link(folder))
    }

    /// Those that are not here with the same length and time: their places and bytes.
    pub fn missing(&self) -> impl Iterator<Item = (&Path, u64)> {
        let is_here = |file: &&WantedFile| {
            std::fs::symlink_metadata(&file.destination).is_ok_and(|here| {
                let as_old = Some(FileId::new(&here).seconds()) == file.modified;
                here.is_file() && Some(here.len()) == file.bytes && as_old
            })
        };
        let missing = self.files.iter().filter(move |file| !is_here(file));
        missing.map(|file| (file.destination.as_path(), file.bytes.unwrap_or(0)))
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.files.len()
    }

    /// Links and further names of files, which are made here.
    pub fn link_count(&self) -> usize {
        self.archived.links.len()
    }
}

fn settings<'a>(spec: &GetSpec, stop: &'a Stop) -> ClientSettings<'a> {
    let store = spec.store.as_ref();
    let is_object = |url: &&HttpUrl| store.is_some_and(|store| store.location(url).is_some());
    let hosts = spec.urls.iter().filter(|url| !is_object(url)).map(HttpUrl::authority).collect();
    let token = spec.token.as_ref().map(|token| (token.header(), hosts));
    let limited =
        |rate: f64| ((rate * LIMITED_READ.as_secs_f64()) as usize).clamp(LEAST_READ_BYTES, MOST_READ_BYTES);
    let read_bytes = spec.bytes_per_second.map_or(MOST_READ_BYTES, limited);
    let settings = ClientSettings::new(stop, spec.timeout, read_bytes, token, spec.trust.clone());
    settings.enter_addresses(&spec.urls, &spec.addresses);
    settings.with_store(store.cloned()).with_awaited(spec.awaited.clone())
}

/// Asks the servers what there is: nothing is written yet.
pub fn find(spec: &GetSpec, stop: &Stop) -> Result<FileSelection, TransferError> {
    let routes = Routes::new(settings(spec, stop), &spec.nics, spec.streams);
    routes.by_any(|settings| find_over(spec, settings))
}

fn find_over<'a>(spec: &GetSpec, settings: &'a ClientSettings<'a>) -> Result<FileSelection, TransferError> {
    let mut found = FileSelection::default();
    let mut connection = None;
    for url in &spec.urls {
        if let Some((store, location)) =
            spec.store.as_ref().and_then(|store| Some((store, store.location(url)?)))
        {
            s3_list::find(&mut connection, settings, store, &location, &spec.output, &mut found)?;
            continue;
        }
        match probe(&mut connection, settings, url)? {
            Remote::File(remote) => {
                // Of the URL that the user gave: a server that sends on does not choose names here.
                let no_name = || TransferError::NoName { url: url.to_string(), why: "it is empty" };
                let destination = spec.output.join(last_name(url)?.ok_or_else(no_name)?);
                let (bytes, modified) = (Some(remote.bytes), remote.modified());
                let wanted = WantedFile::new(remote.url, destination, bytes, modified);
                found.files.push(WantedFile { has_sums: remote.has_sums, ..wanted });
            }
            Remote::Folder(folder) => {
                let destination = match last_name(url)? {
                    Some(name) => spec.output.join(name),
                    None => spec.output.clone(),
                };
                walk(&mut connection, (spec, settings), &folder, &destination, 0, &mut found)?;
            }
        }
    }
    found.round_trip = connection.as_ref().and_then(HttpConnection::round_trip);
    Ok(found)
}

/// The name that a file or folder gets here; none at the top of a server, whose files go into the folder itself.
fn last_name(url: &HttpUrl) -> Result<Option<OsString>, TransferError> {
    let last = url.path().trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    if last.is_empty() {
        return Ok(None);
    }
    let name = name(last).map_err(|_| "it leads elsewhere");
    let name = name.and_then(|name| refused_name(&name).map_or(Ok(name), Err));
    let no_name = |why| TransferError::NoName { url: url.to_string(), why };
    Ok(Some(OsString::from_vec(name.map_err(no_name)?)))
}

fn walk<'a>(
    connection: &mut Option<HttpConnection<'a>>,
    (spec, settings): (&GetSpec, &'a ClientSettings<'a>),
    folder: &RemoteFolder,
    place: &Path,
    depth: usize,
    selection: &mut FileSelection,
) -> Result<(), TransferError> {
    if depth > MOST_DEPTH {
        return Err(TransferError::TooDeep { url: folder.url.to_string(), most: MOST_DEPTH });
    }
    let of_list = |why| TransferError::Listing { url: folder.url.to_string(), why };
    let (entries, own) = list(connection, settings, folder)?;
    selection.folders.push(place.to_path_buf());
    let is_archive = spec.archive.is_some();
    selection.archived.folder(place, own.filter(|_| is_archive));
    for RemoteEntry { url, name, kind, link, bytes, modified, archived } in entries {
        // Folders, too: a page may link to one that is above it.
        if (selection.files.len() + selection.link_count()).max(selection.folders.len()) >= MOST_FILES {
            return Err(of_list(ListingError::TooManyFiles));
        }
        let archived = archived.filter(|_| is_archive).map(Arc::new);
        selection.named_bytes += place.as_os_str().len() + url.target.len();
        selection.named_bytes += archived.as_ref().map_or(0, |archived| archived.bytes());
        if selection.named_bytes > MOST_NAMED_BYTES {
            return Err(of_list(ListingError::TooLarge));
        }
        let wanted = |destination| {
            let wanted = WantedFile::new(url.clone(), destination, bytes, modified);
            WantedFile { has_sums: folder.has_list, archived: archived.clone(), ..wanted }
        };
        let destination = match name {
            Ok(name) => place.join(OsStr::from_bytes(&name)),
            Err(why) => {
                selection.refused.push((wanted(place.to_path_buf()), of_list(why)));
                continue;
            }
        };
        if spec.excluded.has(destination.strip_prefix(&spec.output).unwrap_or(&destination)) {
            continue;
        }
        match kind {
            ListedKind::Folder if link => selection.links_left_out += 1,
            ListedKind::Folder => {
                let below = RemoteFolder { url: url.clone(), has_list: folder.has_list };
                match walk(connection, (spec, settings), &below, &destination, depth + 1, selection) {
                    // Of other servers' folders some are closed, or have a page of their own.
                    Err(error) if !folder.has_list && error.is_of_folder() => {
                        selection.refused.push((wanted(destination), error));
                    }
                    walked => walked?,
                }
            }
            ListedKind::File => {
                let file = selection.archived.file(wanted(destination));
                selection.files.extend(file);
            }
            ListedKind::Link => match archived.as_ref().and_then(|archived| archived.link_target()) {
                Some(target) => selection.archived.links.push((wanted(destination), LinkTo::Target(target))),
                None => selection.links_left_out += 1,
            },
        }
    }
    Ok(())
}

/// Two files would have one place.
pub fn same_place(selection: &FileSelection) -> Option<PathBuf> {
    let mut places = BTreeMap::new();
    for file in selection.files.iter().chain(selection.archived.links.iter().map(|(link, _)| link)) {
        *places.entry(&file.destination).or_insert(0u32) += 1;
    }
    places.into_iter().find(|(_, count)| *count > 1).map(|(place, _)| place.clone())
}

/// Fetches them. `there` counts the bytes that are there, for a line of progress; `watch` sees more of it.
pub fn fetch(
    spec: &GetSpec,
    selection: FileSelection,
    there: &AtomicU64,
    watch: Option<&ProgressWatch<'_>>,
    stop: &Stop,
) -> Result<TransferEnd, TransferError> {
    for folder in [&spec.output].into_iter().chain(&selection.folders) {
        let created = match &spec.archive {
            Some(_) if *folder != spec.output => ArchivedNames::make_folder(&spec.output, folder),
            _ => std::fs::create_dir_all(folder),
        };
        created.map_err(|error| TransferError::Destination { path: folder.clone(), error })?;
    }
    let (sysroot, begun) = (Sysroot::live(), clock::now());
    let routes = Routes::new(settings(spec, stop), &spec.nics, spec.streams);
    let streams = routes.streams();
    let finished =
        FinishedFiles::new(spec.replace, spec.keeps_same, spec.sha256.clone(), spec.archive.clone());
    let rate = spec.bytes_per_second.map(|rate| RateLimit::new(rate, begun));
    // Where one NIC brings all there is, as fast as it goes, what one stream gets tells what limits many.
    let is_long = selection.bytes().is_some_and(|bytes| shows_one_alone(selection.files.len(), bytes));
    let is_judged = !spec.is_other_half && spec.nics.len() < 2 && rate.is_none();
    let alone = streams > 1 && is_judged && is_long;
    selection.refused.into_iter().for_each(|(wanted, error)| finished.failed(&wanted, error, 0));
    let server = ServerFacts::new(alone);
    let plan = GetPlan::new(selection.files, streams, rate, there, (&server, stop));
    let tallies: Vec<StreamTally> = (0..streams).map(|_| StreamTally::default()).collect();
    let watched = WatchedTransfer {
        stage: Stage::Get,
        paths: std::slice::from_ref(&spec.output),
        streams: &tallies,
        sockets: routes.sockets(),
        rate_limit: spec.bytes_per_second,
        server: &server,
        there,
    };
    let (of_streams, host) = watched.during(&sysroot, watch, || {
        let of_streams = run_streams(&plan, &routes, &finished, &tallies);
        let landing = clock::now();
        finished.finish();
        tallies.iter().take(1).for_each(|tally| tally.waited_for_disk(clock::since(landing)));
        of_streams
    });
    let (open, waiting) = plan.take_left();
    for (file, wanted) in open {
        if file.give_up() {
            finished.unfinished(&wanted, &file, TransferError::Interrupted);
        }
    }
    waiting.iter().for_each(|wanted| finished.failed(wanted, TransferError::Interrupted, 0));
    match &spec.archive {
        Some(failures) if !stop.is_ended() => {
            selection.archived.finish(&spec.output, spec.replace, &finished, failures);
        }
        _ => {
            let links = selection.archived.links.iter();
            links.for_each(|(wanted, _)| finished.failed(wanted, TransferError::Interrupted, 0));
        }
    }
    let (files, errors, repeated_bytes, method) = finished.take_results();
    let facts = TransferFacts {
        watched: &watched,
        url: &spec.urls[0],
        transfer: TransferResult {
            streams,
            moved_bytes: tallies.iter().map(StreamTally::moved).sum(),
            kept_bytes: files.iter().map(|file| file.kept_bytes).sum(),
            repeated_bytes,
            nics: routes.reports(),
            files,
            files_left_out: 0,
        },
        errors: errors.iter().map(ToString::to_string).collect(),
        method: &method,
    };
    let mut run = facts.run(&sysroot, &host);
    if let Some(limit) = run.diagnosis.as_mut().and_then(|diagnosis| diagnosis.bottleneck.as_mut()) {
        let seconds = clock::since(begun).as_secs_f64();
        let waits = of_streams.into_iter().zip(&tallies);
        let waits = waits.map(|(route, tally)| (route, tally.worker(0, seconds, true).waiting_source));
        routes.name_limits(limit, &waits.collect::<Vec<_>>());
    }
    Ok(TransferEnd { run, lacks: errors.iter().all(TransferError::is_lack) })
}

/// Until nothing is left to do; the route that each stream had in the end.
fn run_streams<'a>(
    plan: &'a GetPlan<'a>,
    routes: &'a Routes<'a>,
    finished: &'a FinishedFiles,
    tallies: &'a [StreamTally],
) -> Vec<usize> {
    let of_sums = &StreamTally::default();
    std::thread::scope(|scope| {
        let stream = |tally, route, number| GetStream {
            number,
            receives: false,
            plan,
            routes,
            route,
            settings: routes.settings(route),
            finished,
            tally,
            connection: None,
            writer: None,
            ahead: None,
        };
        let begin = |(number, tally)| {
            // Its queue stays on its thread.
            let run = move || stream(tally, routes.of_stream(number), number).run();
            let thread = std::thread::Builder::new().name(format!("stream-{number}"));
            let begun = thread.spawn_scoped(scope, run);
            // Fewer streams are slower, not wrong; without any this thread is the one.
            if begun.is_err() && number == 0 {
                run();
            }
            (number, begun)
        };
        let begun: Vec<_> = tallies.iter().enumerate().map(begin).collect();
        // Without it the streams compare the sums.
        let _ = std::thread::Builder::new()
            .name("sums".into())
            .spawn_scoped(scope, move || stream(of_sums, 0, 0).run_confirming());
        let end = |(number, begun): (usize, std::io::Result<ScopedJoinHandle<'_, usize>>)| {
            let ended = begun.ok().and_then(|thread| thread.join().ok());
            ended.unwrap_or_else(|| routes.of_stream(number))
        };
        begun.into_iter().map(end).collect()
    })
}

#[cfg(test)]
mod tests;
