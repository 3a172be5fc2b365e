//! `linerate put`: its words, a line of progress, and what came of it.

use super::arguments::PutArgs;
use super::get::{MOST_PRINTED, PATIENCE, end_what_hangs, rate_line};
use super::output::Output;
use super::progress::Progress;
use super::saving::{keep, summary};
use super::stop::stop_on_signals;
use super::store::{http_urls, store_of};
use linerate_deliver::put::{PutError, PutOutcome, PutReport, PutSpec, put as put_files, select};
use linerate_deliver::s3::S3Store;
use linerate_facts::failure::Failure;
use linerate_facts::printable::printable;
use linerate_facts::units::show_size;
use linerate_facts::wording::counted;
use linerate_measure::run::Run;
use linerate_system::clock;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// After Ctrl-C uploads to a store are aborted, which takes it so long at most.
const STORE_PATIENCE: Duration = Duration::from_secs(5);

/// Puts, prints, and gives the exit status of the contract.
pub(super) fn put(args: &PutArgs, output: &Output) -> Result<u8, Failure> {
    let urls = std::slice::from_ref(&args.url);
    let store = store_of(&args.transfer, urls, output)?;
    let Some(url) = http_urls(store.as_deref(), urls).pop() else {
        return Err(Failure::usage("a URL is missing"));
    };
    let spec = PutSpec {
        paths: args.path.clone(),
        url,
        streams: args.streams,
        bytes_per_second: args.transfer.rate_limit,
        token: args.transfer.server.token()?,
        store: store.clone(),
        trust: args.transfer.server.trust(),
        timeout: args.transfer.timeout,
    };
    let stop = stop_on_signals()?;
    let patience = if store.is_some() { STORE_PATIENCE } else { PATIENCE };
    end_what_hangs(&stop, patience, output, move || interrupted(store.as_deref()))?;
    let started = humantime::format_rfc3339_seconds(clock::date()).to_string();
    let selection = select(&spec).map_err(failure)?;
    let left_out = selection.left_out;
    let (there, total) = (AtomicU64::new(0), selection.bytes());
    let done = Progress::of_transfer("put", output, &args.transfer, (&there, total), |watch| {
        put_files(&spec, selection, &there, watch, &stop)
    });
    let (report, run) = done.map_err(failure)?;
    let report = PutReport { started: started.clone(), ..report };
    if !args.transfer.keeping.no_save {
        keep(&Run { started, ..run }, output);
    }
    if args.transfer.json {
        output.print_json(&report)?;
        summary(&report.errors).iter().for_each(|sentence| output.complain(sentence));
    } else {
        output.print(&text_of(&report, left_out))?;
        report.errors.iter().take(MOST_PRINTED).for_each(|error| output.complain(error));
        let more = report.errors.len().saturating_sub(MOST_PRINTED);
        if more > 0 {
            output.complain(&format!("{} more failed; --json lists them all", counted(more as u64, "file")));
        }
    }
    Ok(report.exit_status())
}

/// What hangs is left; each line says what a store keeps of it.
fn interrupted(store: Option<&S3Store>) -> String {
    let mut text = "interrupted; the same command puts what is not there yet".to_string();
    for (place, id) in store.map(S3Store::open_uploads).unwrap_or_default() {
        text.push_str(&format!(
            "\n{place}: its upload was not aborted, so the store keeps its parts, at a cost, until somebody does: {}",
            place.abort_command(&id)
        ));
    }
    text
}

fn failure(error: PutError) -> Failure {
    match error {
        PutError::Interrupted => Failure::Interrupted,
        error if error.is_usage() => Failure::Usage(error.to_string()),
        error => Failure::lacks(error),
    }
}

/// What went, and what limited it, last.
fn text_of(report: &PutReport, left_out: u64) -> String {
    let count = |outcome| report.files.iter().filter(|file| file.outcome == outcome).count() as u64;
    let mut text = String::new();
    for (count, what) in [
        (count(PutOutcome::AlreadyThere), "there already, as long and as old as these"),
        (count(PutOutcome::Failed), "failed"),
    ] {
        if count > 0 {
            text.push_str(&format!("{} {what}\n", counted(count, "file")));
        }
    }
    if left_out > 0 {
        text.push_str(&format!(
            "{} left out: links to folders, and what is no file\n",
            counted(left_out, "name")
        ));
    }
    let put = report.files.iter().filter(|file| file.outcome == PutOutcome::Put);
    for file in put.clone().take(MOST_PRINTED) {
        let verified = match file.verified.is_empty() {
            true => String::new(),
            false => format!(", verified by {}", file.verified.join(" and ")),
        };
        text.push_str(&format!("{}: {}{verified}\n", printable(&file.url), show_size(file.bytes)));
    }
    let put = put.count() as u64;
    if put > MOST_PRINTED as u64 {
        text.push_str(&format!("{} in all\n", counted(put, "file")));
    }
    if report.sent_bytes > 0 {
        text.push_str(&rate_line(report.sent_bytes, report.seconds, report.bytes_per_second));
        text.push_str(&format!("{}\n", report.limit.sentence));
    }
    text
}
