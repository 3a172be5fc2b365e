//! `linerate get` and `linerate put`: their arguments, the object store of `s3://` URLs, a line of progress,
//! and what came of it: kept, and printed as text or as the run that is kept.

use super::arguments::{GetArgs, PutArgs, TransferArgs, TransferUrl};
use super::output::Output;
use super::progress::Progress;
use super::saving::{keep, summary};
use super::stop::{end_what_hangs, stop_on_signals};
use linerate_deliver::get::{FileSelection, GetSpec, LocalNic, dotfiles_in_home, fetch, find, same_place};
use linerate_deliver::http::url::HttpUrl;
use linerate_deliver::put::{PutError, PutSpec, put as put_files, select};
use linerate_deliver::s3::credentials::S3Identity;
use linerate_deliver::s3::{S3Location, S3Store};
use linerate_deliver::{TransferEnd, TransferError};
use linerate_facts::failure::Failure;
use linerate_facts::printable::{foreign, printable};
use linerate_facts::units::{show_bits_rate, show_bytes_rate, show_size};
use linerate_facts::wording::counted;
use linerate_measure::measure::Stage;
use linerate_measure::run::{Run, TransferFile, TransferNic, TransferOutcome};
use linerate_report as report;
use linerate_system::clock;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// After Ctrl-C the streams have so long; what hangs in the kernel longer is left: the same command goes on with it.
pub(super) const PATIENCE: Duration = Duration::from_millis(900);

/// Fetches, prints, and gives the exit status of the contract.
pub(super) fn get(args: &GetArgs, output: &Output) -> Result<u8, Failure> {
    let store = store_of(&args.url, output)?;
    let spec = GetSpec {
        urls: http_urls(store.as_deref(), &args.url),
        output: args.output.clone(),
        streams: args.streams,
        nics: args.nic.iter().map(|text| LocalNic::find(text)).collect::<Result<_, _>>()?,
        replace: args.replace,
        sha256: args.sha256.clone(),
        bytes_per_second: args.transfer.rate_limit,
        token: args.server.token()?,
        store,
        trust: args.server.trust(),
        timeout: args.transfer.timeout,
        ..GetSpec::default()
    };
    if spec.sha256.is_some() && spec.urls.len() > 1 {
        return Err(Failure::usage("--sha256 needs exactly one file: give one URL with it"));
    }
    let stop = stop_on_signals()?;
    end_what_hangs(&stop, PATIENCE, output, |output| {
        output.complain("interrupted; the same command goes on where it ended");
    })?;
    let started = humantime::format_rfc3339_seconds(clock::date()).to_string();
    let found = match find(&spec, &stop) {
        Ok(found) => found,
        Err(TransferError::Interrupted) => return Err(Failure::Interrupted),
        Err(error) if error.is_lack() => return Err(Failure::lacks(error)),
        Err(error) => {
            output.complain(&error.to_string());
            return Ok(1);
        }
    };
    refuse(&spec, &found)?;
    refuse_dotfiles(&spec, &found)?;
    let links_left_out = found.links_left_out;
    let (there, total) = (AtomicU64::new(0), found.bytes());
    let fetched = Progress::of_transfer("get", output, &args.transfer, (&there, total), |watch| {
        fetch(&spec, found, &there, watch, &stop)
    });
    let links =
        (links_left_out > 0).then(|| format!("{} to folders left out", counted(links_left_out, "link")));
    ended(fetched.map_err(Failure::lacks)?, started, &args.transfer, links, output)
}

fn refuse(spec: &GetSpec, selection: &FileSelection) -> Result<(), Failure> {
    if spec.sha256.is_some() && selection.count() != 1 {
        return Err(Failure::usage(
            "--sha256 needs exactly one file; the URL is a folder: name a file of it",
        ));
    }
    match same_place(selection) {
        Some(place) => Err(Failure::Usage(format!(
            "two of the files would be {}: fetch them one after another with another --output",
            place.display()
        ))),
        None => Ok(()),
    }
}

/// Refuses dotfiles that a server would place in the home folder.
fn refuse_dotfiles(spec: &GetSpec, found: &FileSelection) -> Result<(), Failure> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let dotfiles = home.map_or(Vec::new(), |home| dotfiles_in_home(&spec.urls, &spec.output, found, &home));
    let Some(first) = dotfiles.first() else { return Ok(()) };
    let more = if dotfiles.len() > 1 { format!(" and {} more", dotfiles.len() - 1) } else { String::new() };
    Err(Failure::Usage(format!(
        "the server has {}{more}, and what begins with a dot in your home folder is read by other programs as their \
         settings; fetch to a folder of its own with --output",
        foreign(&first.display().to_string())
    )))
}

/// After Ctrl-C uploads to a store are aborted, which takes it so long at most.
const STORE_PATIENCE: Duration = Duration::from_secs(5);

/// Puts, prints, and gives the exit status of the contract.
pub(super) fn put(args: &PutArgs, output: &Output) -> Result<u8, Failure> {
    let urls = std::slice::from_ref(&args.url);
    let store = store_of(urls, output)?;
    let Some(url) = http_urls(store.as_deref(), urls).pop() else {
        return Err(Failure::usage("a URL is missing"));
    };
    let spec = PutSpec {
        paths: args.path.clone(),
        url,
        streams: args.streams,
        bytes_per_second: args.transfer.rate_limit,
        token: args.server.token()?,
        store: store.clone(),
        trust: args.server.trust(),
        timeout: args.transfer.timeout,
    };
    let stop = stop_on_signals()?;
    let patience = if store.is_some() { STORE_PATIENCE } else { PATIENCE };
    end_what_hangs(&stop, patience, output, move |output| {
        interrupted_put(store.as_deref()).lines().for_each(|line| output.complain(line));
    })?;
    let started = humantime::format_rfc3339_seconds(clock::date()).to_string();
    let selection = select(&spec.paths, &spec.url).map_err(put_failure)?;
    let left_out = selection.left_out;
    let (there, total) = (AtomicU64::new(0), Some(selection.bytes()));
    let done = Progress::of_transfer("put", output, &args.transfer, (&there, total), |watch| {
        put_files(&spec, selection, &there, watch, &stop)
    });
    let names = counted(left_out, "name");
    let left_out =
        (left_out > 0).then(|| format!("{names} left out: links to folders, and what is not a file"));
    ended(done.map_err(put_failure)?, started, &args.transfer, left_out, output)
}

/// What hangs is left; each line says what a store keeps of it.
fn interrupted_put(store: Option<&S3Store>) -> String {
    let mut text = "interrupted; the same command puts what is not there yet".to_string();
    for (place, id) in store.map(S3Store::open_uploads).unwrap_or_default() {
        text.push_str(&format!(
            "\n{place}: its upload was not aborted, so the store keeps its parts, at a cost, until somebody does: {}",
            place.abort_command(&id)
        ));
    }
    text
}

fn put_failure(error: PutError) -> Failure {
    match error {
        PutError::Interrupted => Failure::Interrupted,
        error if error.is_usage() => Failure::Usage(error.to_string()),
        error => Failure::lacks(error),
    }
}

/// The store that these URLs are of; none where none of them is of one.
fn store_of(urls: &[TransferUrl], output: &Output) -> Result<Option<Arc<S3Store>>, Failure> {
    let locations: Vec<&S3Location> = urls.iter().filter_map(TransferUrl::location).collect();
    if locations.is_empty() {
        return Ok(None);
    }
    let identity = S3Identity::read(&|name| std::env::var(name).ok())
        .map_err(|error| Failure::Usage(error.to_string()))?;
    let of_variable = identity.endpoint.as_deref().map(|text| {
        text.parse::<HttpUrl>().map_err(|why| Failure::Usage(format!("AWS_ENDPOINT_URL: {text}: {why}")))
    });
    if identity.credentials.is_none() {
        output.complain(
            "no keys were found (AWS_ACCESS_KEY_ID, AWS_PROFILE, ~/.aws/credentials), so s3:// is asked anonymously",
        );
    }
    let dotted = locations.iter().any(|location| location.bucket.contains('.'));
    let store = match of_variable.transpose()? {
        Some(endpoint) => S3Store::at(endpoint, identity.region, identity.credentials),
        None => S3Store::aws(identity.region, identity.credentials, dotted),
    };
    Ok(Some(Arc::new(store)))
}

/// As they are asked for.
fn http_urls(store: Option<&S3Store>, urls: &[TransferUrl]) -> Vec<HttpUrl> {
    let http = |url: &TransferUrl| match url {
        TransferUrl::Http(url) => Some(url.clone()),
        TransferUrl::Store(location) => store.map(|store| store.url(location)),
    };
    urls.iter().filter_map(http).collect()
}

/// So many files and failures are printed; the rest is counted, and in the JSON.
const MOST_PRINTED: usize = 10;

/// Keeps it, prints it, and gives the exit status of the contract. `left_out`: a line on what is not a file.
pub(super) fn ended(
    mut end: TransferEnd,
    started: String,
    args: &TransferArgs,
    left_out: Option<String>,
    output: &Output,
) -> Result<u8, Failure> {
    end.run.started = started;
    let (status, errors) = (end.exit_status(), end.run.errors.clone());
    let nics = end.run.transfer.iter().flat_map(|transfer| &transfer.nics);
    nics.filter_map(|nic| nic.left_out.as_deref()).for_each(|line| output.complain(line));
    let text = if args.json { report::json(&end.run) } else { text_of(&end.run, left_out) };
    if !args.keeping.no_save {
        keep(&end.kept(), output);
    }
    output.print(&text)?;
    complain_of(&errors, args.json, output);
    Ok(status)
}

/// What failed; in a sentence where the JSON has all of it.
pub(super) fn complain_of(errors: &[String], json: bool, output: &Output) {
    if json {
        return summary(errors).iter().for_each(|sentence| output.complain(sentence));
    }
    errors.iter().take(MOST_PRINTED).for_each(|error| output.complain(error));
    let more = errors.len().saturating_sub(MOST_PRINTED);
    if more > 0 {
        output.complain(&format!("{} more failed; --json lists them all", counted(more as u64, "file")));
    }
}

/// What was moved, and what limited it, last.
fn text_of(run: &Run, left_out: Option<String>) -> String {
    let Some(transfer) = &run.transfer else { return String::new() };
    let is_get = run.stage == Some(Stage::Get);
    let of = |outcome| transfer.files.iter().filter(move |file| file.outcome == outcome);
    let count = |outcome| of(outcome).count() as u64;
    let mut text = not_moved([
        count(TransferOutcome::AlreadyThere),
        count(TransferOutcome::Unfinished),
        count(TransferOutcome::Failed),
    ]);
    text.extend(left_out.map(|line| line + "\n"));
    let moved = of(if is_get { TransferOutcome::Fetched } else { TransferOutcome::Put });
    for file in moved.clone().take(MOST_PRINTED) {
        let name = if is_get { file.path.display().to_string() } else { file.url.clone() };
        text.push_str(&format!("{}: {}{}\n", printable(&name), show_size(file.bytes), comparison(file)));
    }
    let moved = moved.count() as u64;
    if moved > MOST_PRINTED as u64 {
        text.push_str(&format!("{} in all\n", counted(moved, "file")));
    }
    if transfer.repeated_bytes > 0 {
        let repeated = show_size(transfer.repeated_bytes);
        text.push_str(&format!("{repeated} differed from the server's and came twice\n"));
    }
    for TransferNic { nic, bytes, bytes_per_second, .. } in &transfer.nics {
        let (size, rate) = (show_size(*bytes), show_bytes_rate(*bytes_per_second));
        text.push_str(&format!("{size} by {}, {rate}\n", printable(nic)));
    }
    let limit = run.bottleneck();
    if let (Some(measured), Some(limit)) = (run.measurements.first(), limit) {
        let (size, rate) = (show_size(transfer.moved_bytes), measured.bytes_per_second);
        let (bytes_rate, bits_rate) = (show_bytes_rate(rate), show_bits_rate(rate));
        let seconds = measured.seconds;
        text.push_str(&format!("{size} in {seconds:.1} s: {bytes_rate} ({bits_rate}), {}\n", limit.sentence));
    }
    text
}

/// How many files were there already, are unfinished, and failed.
pub(super) fn not_moved(counts: [u64; 3]) -> String {
    let whats = [
        "there already, with the same size and time",
        "unfinished: the same command goes on where it ended",
        "failed",
    ];
    let lines = counts.into_iter().zip(whats).filter(|(count, _)| *count > 0);
    lines.map(|(count, what)| format!("{} {what}\n", counted(count, "file"))).collect()
}

/// What the content of a file was compared by, behind its size.
fn comparison(file: &TransferFile) -> String {
    if file.verified.is_empty() {
        return match file.kept_not_compared_bytes {
            _ if file.outcome == TransferOutcome::Put => String::new(),
            0 => ", not compared".into(),
            already_there => {
                format!(", {} kept from an earlier start, not compared", show_size(already_there))
            }
        };
    }
    let already_there = match file.kept_bytes {
        0 => String::new(),
        already_there => format!(", of which {} were there", show_size(already_there)),
    };
    format!("{already_there}, verified by {}", file.verified.join(" and "))
}
