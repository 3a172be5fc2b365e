//! What each half of a copy does, on whichever host it is: the one serves the files, the other fetches them.
//!
//! Standard input is a file that is copied, too. A fetch needs the length of a file, and reads parts of it
//! again where a connection breaks; so all of it goes to a file without a name first, of which nothing stays
//! whatever ends the copy.

use super::message::{FileCounts, HalfEnd, ReceiveSpec, SendSpec};
use linerate_deliver::archived::AttributeFailures;
use linerate_deliver::get::{ExcludedNames, FileSelection, GetSpec, fetch, find, same_place};
use linerate_deliver::http::url::HttpUrl;
use linerate_deliver::serve::{BearerToken, FileServer, FileServerSettings, ServedTree};
use linerate_deliver::tls::{ServerTls, TlsTrust};
use linerate_deliver::{AwaitedConnections, ProgressWatch, TransferEnd, TransferError, TransferProgress};
use linerate_facts::failure::Failure;
use linerate_facts::printable::foreign;
use linerate_facts::sysroot::Sysroot;
use linerate_facts::units::show_size;
use linerate_facts::wording::counted;
use linerate_machine::flow_devices::disks_below;
use linerate_machine::probe::{Machine, probe};
use linerate_measure::run::{Run, TransferOutcome};
use linerate_system::file::space_at;
use linerate_system::stop::Stop;
use linerate_system::storage::{Opening, nameless, reopen};
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Connections at once; the fetching half is one client, which gets half of them: its streams, and one for sums.
const CONNECTIONS: usize = 160;
/// Of which so many carry the files of a host nearby.
const STREAMS: u32 = 4;
/// Round trips within a region, and across a continent.
const REGIONAL: Duration = Duration::from_millis(10);
const FAR: Duration = Duration::from_millis(40);
/// Files that a dry run names.
const MOST_NAMED: usize = 100;

/// The serving half, before anybody is connected.
pub(super) struct Sender {
    pub(super) server: FileServer,
    /// Of its certificate; none in the clear.
    pub(super) fingerprint: Option<String>,
    pub(super) machine: Machine,
    pub(super) paths: Vec<PathBuf>,
}

impl Sender {
    /// Serves this tree. It listens on these addresses, or on none where it opens its connections itself.
    pub(super) fn new(
        tree: ServedTree,
        spec: &SendSpec,
        listen: &[SocketAddr],
        (token, is_encrypted): (BearerToken, bool),
    ) -> Result<Self, Failure> {
        let paths: Vec<PathBuf> = spec.paths.iter().map(PathBuf::from).collect();
        let clear = |why| {
            Failure::Lacks(format!("{why}; --no-encryption does without, where the network is trusted"))
        };
        let tls = is_encrypted.then(|| ServerTls::made(&[])).transpose().map_err(clear)?;
        let fingerprint = tls.as_ref().map(|tls| tls.fingerprint.to_string());
        let machine = probe(&Sysroot::live());
        let settings = FileServerSettings {
            connections: CONNECTIONS,
            handshakes: CONNECTIONS,
            token: Some(token),
            tls,
            disks: disks_below(&Sysroot::live(), &machine, &paths),
            ..FileServerSettings::default()
        };
        Ok(Sender { server: FileServer::bind(listen, tree, settings)?, fingerprint, machine, paths })
    }
}

impl SendSpec {
    /// The files that are to go.
    pub(super) fn tree(&self) -> Result<ServedTree, Failure> {
        let paths: Vec<PathBuf> = self.paths.iter().map(PathBuf::from).collect();
        let tree = if self.is_contents { ServedTree::open(&paths) } else { ServedTree::open_named(&paths) }?;
        Ok(if self.is_archive { tree.archiving() } else { tree })
    }
}

/// The serving half that a fetching one is connected to.
pub(super) struct Source {
    /// Of the serving half; none where that opens the connections.
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) token: BearerToken,
    /// Of its certificate; none in the clear.
    pub(super) fingerprint: Option<String>,
    pub(super) awaited: Option<Arc<AwaitedConnections>>,
}

/// Fetches; `show` sees how far it is, this often.
pub(super) fn receive(
    spec: &ReceiveSpec,
    source: Source,
    (every, show): (Duration, &(dyn Fn(&TransferProgress) + Sync)),
    stop: &Stop,
) -> Result<HalfEnd, Failure> {
    let trust = source.fingerprint.map(|text| text.parse().map(TlsTrust::Pinned)).transpose();
    let trust = trust.map_err(Failure::lacks)?;
    let scheme = if trust.is_some() { "https" } else { "http" };
    let authority = source.addresses.first().map_or("copy".into(), SocketAddr::to_string);
    let url = format!("{scheme}://{authority}/").parse::<HttpUrl>();
    let destination = Path::new(&spec.destination);
    let failures = spec.is_archive.then(Arc::<AttributeFailures>::default);
    let mut get = GetSpec {
        urls: vec![url.map_err(|why| Failure::Lacks(why.to_string()))?],
        output: destination.into(),
        streams: spec.streams.unwrap_or(STREAMS),
        addresses: source.addresses,
        replace: spec.replaces,
        keeps_same: true,
        is_other_half: true,
        bytes_per_second: spec.rate_limit,
        token: Some(source.token),
        trust: trust.unwrap_or_default(),
        timeout: spec.timeout,
        excluded: ExcludedNames(spec.excluded.clone()),
        awaited: source.awaited,
        archive: failures.clone(),
        ..GetSpec::default()
    };
    // Its address says nothing to a user: names are below the sources.
    let top = get.urls[0].to_string();
    let mut found = find(&get, stop).map_err(|error| match error {
        TransferError::Interrupted => Failure::Interrupted,
        error => Failure::Lacks(error.to_string().replace(&top, "")),
    })?;
    if spec.streams.is_none() {
        get.streams = streams_over(found.round_trip);
    }
    let is_folder = destination.is_dir() || spec.destination.as_bytes().ends_with(b"/") || spec.is_contents;
    if spec.is_standard_input && is_folder {
        return Err(Failure::Usage(format!(
            "{}: it is a folder, and standard input has no name to have there; name a file",
            destination.display()
        )));
    }
    if found.is_one_file(destination) && !is_folder {
        found.put_at(destination);
        get.output = destination.parent().unwrap_or(Path::new("")).into();
    }
    refuse(&found, &get.output)?;
    let mut notes = Vec::new();
    if found.links_left_out > 0 {
        notes.push(format!("{} to folders left out", counted(found.links_left_out, "link")));
    }
    if spec.is_dry_run {
        notes.extend(would_copy(&found));
        let run = Run::begin(Machine::default(), Default::default());
        return Ok(HalfEnd { run, lacks: false, notes, counts: FileCounts::default() });
    }
    let watch = ProgressWatch { every, total_bytes: found.bytes(), show };
    let end = fetch(&get, found, &AtomicU64::new(0), Some(&watch), stop).map_err(Failure::lacks)?;
    notes.extend(failures.and_then(|failures| failures.sentence()));
    let (counts, lacks, mut run) = (counts_of(&end), end.lacks, end.kept());
    run.errors.iter_mut().for_each(|error| *error = error.replace(&top, ""));
    for file in run.transfer.iter_mut().flat_map(|transfer| &mut transfer.files) {
        file.url = file.url.replace(&top, "");
        file.error = file.error.take().map(|error| error.replace(&top, ""));
    }
    Ok(HalfEnd { run: in_text(run), lacks, notes, counts })
}

/// JSON has no paths but those of UTF-8: of others what is none is replaced.
pub(super) fn in_text(mut run: Run) -> Run {
    let files = run.transfer.iter_mut().flat_map(|transfer| &mut transfer.files).map(|file| &mut file.path);
    for path in files.chain(&mut run.goal.sources) {
        *path = PathBuf::from(path.to_string_lossy().into_owned());
    }
    run
}

/// A kernel's usual send buffer lets 2.6 MiB of a connection be in flight, and each begins slowly: the longer the round trip,
/// the more connections.
fn streams_over(round_trip: Option<Duration>) -> u32 {
    let is_from = |least: Duration| round_trip.is_some_and(|round_trip| round_trip >= least);
    match (is_from(FAR), is_from(REGIONAL)) {
        (true, _) => 4 * STREAMS,
        (false, true) => 2 * STREAMS,
        (false, false) => STREAMS,
    }
}

/// What cannot be copied to that place, before anything is written.
fn refuse(selection: &FileSelection, output: &Path) -> Result<(), Failure> {
    if output.exists() && !output.is_dir() {
        return Err(Failure::Usage(format!(
            "{}: it is a file, and a folder or several files cannot get its place; name a folder",
            output.display()
        )));
    }
    if let Some(place) = same_place(selection) {
        return Err(Failure::Usage(format!(
            "two of the files would be {}: copy one after the other",
            place.display()
        )));
    }
    match selection.link_on_the_way(output) {
        None => Ok(()),
        Some(link) => Err(Failure::Usage(format!(
            "{}: it is a link, and a folder is copied there, which would lead elsewhere; remove the link, or name another \
             folder",
            foreign(&link.display().to_string())
        ))),
    }
}

/// A line for each file that is not there, and one for all.
fn would_copy(selection: &FileSelection) -> Vec<String> {
    let missing: Vec<(&Path, u64)> = selection.missing().collect();
    let bytes = missing.iter().fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    let line = |(path, bytes): &(&Path, u64)| {
        format!("{}: {}", foreign(&path.display().to_string()), show_size(*bytes))
    };
    let mut lines: Vec<String> = missing.iter().take(MOST_NAMED).map(line).collect();
    let there = selection.count() - missing.len();
    let links = match selection.link_count() as u64 {
        0 => String::new(),
        count => format!("; {} made where absent", counted(count, "link")),
    };
    lines.push(format!(
        "would copy {}, {}; {} there already{links}",
        counted(missing.len() as u64, "file"),
        show_size(bytes),
        counted(there as u64, "file")
    ));
    lines
}

fn counts_of(end: &TransferEnd) -> FileCounts {
    let mut counts = FileCounts::default();
    for file in end.run.transfer.iter().flat_map(|transfer| &transfer.files) {
        let counter = match file.outcome {
            TransferOutcome::Fetched | TransferOutcome::Put => &mut counts.copied,
            TransferOutcome::AlreadyThere => &mut counts.already_there,
            TransferOutcome::Unfinished => &mut counts.unfinished,
            TransferOutcome::Failed => &mut counts.failed,
        };
        *counter += 1;
    }
    counts
}

/// Not the folder of TMPDIR's default, which is often in memory.
const USUAL_FOLDER: &str = "/var/tmp";
const PIECE_BYTES: usize = 256 << 10;

/// Reads it to its end. What Ctrl-C ended is never taken for all of it: the program that writes it ends by the same key.
pub(super) fn stored_standard_input(stop: &Stop) -> Result<ServedTree, Failure> {
    let input = io::stdin();
    if input.is_terminal() {
        return Err(Failure::usage(
            "- is standard input, which is a terminal here: pipe a program into it, as in `tar c set | linerate copy - \
             HOST:set.tar`",
        ));
    }
    let folder = std::env::var_os("TMPDIR").filter(|folder| !folder.is_empty());
    let folder = PathBuf::from(folder.unwrap_or_else(|| USUAL_FOLDER.into()));
    let failed = |error: io::Error| {
        let free = space_at(&folder).map_or("an unknown amount".into(), |(free, _)| show_size(free));
        Failure::Lacks(format!(
            "standard input: {error}; it is kept in {} until it is copied, where {free} are free: TMPDIR names another folder",
            folder.display()
        ))
    };
    let (file, _) = nameless(&folder).map_err(failed)?;
    // Through the page cache: what is piped has no alignment.
    let mut file = reopen(&file, Opening { write: true, ..Opening::default() }).map_err(failed)?;
    let input = input.as_fd().try_clone_to_owned().map_err(failed)?;
    copy_to_end(input.into(), &mut file, stop).map_err(failed)?;
    if stop.is_ended() {
        return Err(Failure::Interrupted);
    }
    ServedTree::of_nameless(file, "standard-input".into(), &folder).map_err(failed)
}

/// Until its end, or Ctrl-C.
fn copy_to_end(mut input: File, file: &mut File, stop: &Stop) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    while !stop.is_ended() {
        if stop.wait_readable(&input, None)? {
            match input.read(&mut piece)? {
                0 => break,
                read => file.write_all(&piece[..read])?,
            }
        }
    }
    Ok(())
}
