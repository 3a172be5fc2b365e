//! `linerate get`: its arguments, and a line of progress.

use super::arguments::GetArgs;
use super::output::Output;
use super::progress::Progress;
use super::stop::{end_what_hangs, stop_on_signals};
use super::store::{http_urls, store_of};
use super::transferred::ended;
use linerate_deliver::get::{
    ExcludedNames, FileSelection, GetError, GetSpec, LocalNic, dotfiles_in_home, fetch, find, same_place,
};
use linerate_facts::failure::Failure;
use linerate_facts::printable::foreign;
use linerate_facts::wording::counted;
use linerate_system::clock;
use std::path::PathBuf;
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
        addresses: Vec::new(),
        replace: args.replace,
        keeps_same: false,
        is_other_half: false,
        sha256: args.sha256.clone(),
        bytes_per_second: args.transfer.rate_limit,
        token: args.server.token()?,
        store,
        trust: args.server.trust(),
        timeout: args.transfer.timeout,
        excluded: ExcludedNames::default(),
        awaited: None,
        archive: None,
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
        Err(GetError::Interrupted) => return Err(Failure::Interrupted),
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
