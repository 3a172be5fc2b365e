//! `linerate put`: its words, and a line of progress.

use super::arguments::PutArgs;
use super::get::PATIENCE;
use super::output::Output;
use super::progress::Progress;
use super::stop::{end_what_hangs, stop_on_signals};
use super::store::{http_urls, store_of};
use super::transferred::ended;
use linerate_deliver::put::{PutError, PutSpec, put as put_files, select};
use linerate_deliver::s3::S3Store;
use linerate_facts::failure::Failure;
use linerate_facts::wording::counted;
use linerate_system::clock;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

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
        interrupted(store.as_deref()).lines().for_each(|line| output.complain(line));
    })?;
    let started = humantime::format_rfc3339_seconds(clock::date()).to_string();
    let selection = select(&spec.paths, &spec.url).map_err(failure)?;
    let left_out = selection.left_out;
    let (there, total) = (AtomicU64::new(0), Some(selection.bytes()));
    let done = Progress::of_transfer("put", output, &args.transfer, (&there, total), |watch| {
        put_files(&spec, selection, &there, watch, &stop)
    });
    let names = counted(left_out, "name");
    let left_out =
        (left_out > 0).then(|| format!("{names} left out: links to folders, and what is not a file"));
    ended(done.map_err(failure)?, started, &args.transfer, left_out, output)
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
