//! `linerate get`: its words, a line of progress, and what came of it.

use super::arguments::GetArgs;
use super::output::Output;
use super::progress::Progress;
use super::saving::{keep, summary};
use super::stop::stop_on_signals;
use super::store::{http_urls, store_of};
use linerate_deliver::get::{
    FileOutcome, FileReport, FileSelection, GetEnd, GetError, GetReport, GetSpec, LocalNic, NicReport,
    dotfiles_in_home, fetch, find, same_place,
};
use linerate_facts::failure::Failure;
use linerate_facts::printable::{foreign, printable};
use linerate_facts::units::{show_bits_rate, show_bytes_rate, show_size};
use linerate_facts::wording::counted;
use linerate_measure::run::Run;
use linerate_system::clock;
use linerate_system::stop::Stop;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// After Ctrl-C the streams have so long; what hangs in the kernel longer is left: the same command goes on with it.
pub(super) const PATIENCE: Duration = Duration::from_millis(900);
/// So many failures are printed; the rest is counted, and in the JSON.
pub(super) const MOST_PRINTED: usize = 10;

/// Fetches, prints, and gives the exit status of the contract.
pub(super) fn get(args: &GetArgs, output: &Output) -> Result<u8, Failure> {
    let store = store_of(&args.transfer, &args.url, output)?;
    let spec = GetSpec {
        urls: http_urls(store.as_deref(), &args.url),
        output: args.output.clone(),
        streams: args.streams,
        nics: args.nic.iter().map(|text| LocalNic::find(text)).collect::<Result<_, _>>()?,
        replace: args.replace,
        sha256: args.sha256.clone(),
        bytes_per_second: args.transfer.rate_limit,
        token: args.transfer.server.token()?,
        store,
        trust: args.transfer.server.trust(),
        timeout: args.transfer.timeout,
    };
    if spec.sha256.is_some() && spec.urls.len() > 1 {
        return Err(Failure::usage("--sha256 is of one file: give one URL with it"));
    }
    let stop = stop_on_signals()?;
    end_what_hangs(&stop, PATIENCE, output, || {
        "interrupted; the same command goes on where it ended".into()
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
    if !args.dotfiles {
        refuse_dotfiles(&spec, &found)?;
    }
    let links_left_out = found.links_left_out;
    let (there, total) = (AtomicU64::new(0), found.bytes());
    let fetched = Progress::of_transfer("get", output, &args.transfer, (&there, total), |watch| {
        fetch(&spec, found, &there, watch, &stop)
    });
    let GetEnd { report, lacks, run } = fetched.map_err(Failure::lacks)?;
    let report = GetReport { started: started.clone(), ..report };
    if !args.transfer.keeping.no_save {
        keep(&Run { started, ..run }, output);
    }
    let left_out = report.nics.iter().filter_map(|nic| nic.left_out.as_deref());
    left_out.for_each(|line| output.complain(line));
    match args.transfer.json {
        true => output.print_json(&report)?,
        false => output.print(&text_of(&report, links_left_out))?,
    }
    if args.transfer.json {
        summary(&report.errors).iter().for_each(|sentence| output.complain(sentence));
    } else {
        report.errors.iter().take(MOST_PRINTED).for_each(|error| output.complain(error));
        let more = report.errors.len().saturating_sub(MOST_PRINTED);
        if more > 0 {
            output.complain(&format!("{} more failed; --json lists them all", counted(more as u64, "file")));
        }
    }
    Ok(report.exit_status(lacks))
}

fn refuse(spec: &GetSpec, found: &FileSelection) -> Result<(), Failure> {
    if spec.sha256.is_some() && found.count() != 1 {
        return Err(Failure::usage("--sha256 is of one file, and the URL is a folder: name a file of it"));
    }
    match same_place(found) {
        Some(place) => Err(Failure::Usage(format!(
            "two of the files would be {}: fetch them one after another with another --output",
            place.display()
        ))),
        None => Ok(()),
    }
}

/// What a server calls as programs call their settings is not put among those of this user.
fn refuse_dotfiles(spec: &GetSpec, found: &FileSelection) -> Result<(), Failure> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let dotfiles = home.map_or(Vec::new(), |home| dotfiles_in_home(&spec.urls, &spec.output, found, &home));
    let Some(first) = dotfiles.first() else { return Ok(()) };
    let more = match dotfiles.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Err(Failure::Usage(format!(
        "the server has {}{more}, and what begins with a dot in your home folder is read by other programs as their \
         settings; fetch to a folder of its own with --output, or add --dotfiles",
        foreign(&first.display().to_string())
    )))
}

/// A thread that ends what a hanging disk or a name server holds.
pub(super) fn end_what_hangs(
    stop: &Arc<Stop>,
    patience: Duration,
    output: &Output,
    says: impl FnOnce() -> String + Send + 'static,
) -> Result<(), Failure> {
    let (stop, output) = (Arc::clone(stop), output.clone());
    let watch = move || {
        stop.wait_ended();
        // It has ended: no stop ends this sleep, but the process may end before it.
        clock::sleep(patience);
        says().lines().for_each(|line| output.complain(line));
        std::process::exit(i32::from(Failure::Interrupted.exit_status()));
    };
    let started = std::thread::Builder::new().name("stop".into()).spawn(watch);
    started.map(drop).map_err(|error| Failure::Lacks(format!("no thread to watch for Ctrl-C: {error}")))
}

/// What came, and what limited it, last.
fn text_of(report: &GetReport, links_left_out: u64) -> String {
    let count = |outcome| report.files.iter().filter(|file| file.outcome == outcome).count() as u64;
    let mut text = String::new();
    let mut line = |count: u64, what: &str| {
        if count > 0 {
            text.push_str(&format!("{} {what}\n", counted(count, "file")));
        }
    };
    line(count(FileOutcome::AlreadyThere), "there already, as long and as old as the server's");
    line(count(FileOutcome::Unfinished), "unfinished: the same command goes on where it ended");
    line(count(FileOutcome::Failed), "failed");
    if links_left_out > 0 {
        text.push_str(&format!("{} to folders left out\n", counted(links_left_out, "link")));
    }
    for file in report.files.iter().filter(|file| file.outcome == FileOutcome::Fetched).take(MOST_PRINTED) {
        let path = printable(&file.path.display().to_string());
        text.push_str(&format!("{path}: {}{}\n", show_size(file.bytes), comparison(file)));
    }
    let fetched = count(FileOutcome::Fetched);
    if fetched > MOST_PRINTED as u64 {
        text.push_str(&format!("{} in all\n", counted(fetched, "file")));
    }
    if report.repeated_bytes > 0 {
        let repeated = show_size(report.repeated_bytes);
        text.push_str(&format!("{repeated} differed from the server's and came twice\n"));
    }
    for NicReport { nic, bytes, bytes_per_second, .. } in &report.nics {
        let (size, rate) = (show_size(*bytes), show_bytes_rate(*bytes_per_second));
        text.push_str(&format!("{size} by {}, {rate}\n", printable(nic)));
    }
    if report.received_bytes > 0 {
        text.push_str(&rate_line(report.received_bytes, report.seconds, report.bytes_per_second));
        text.push_str(&format!("{}\n", report.limit.sentence));
    }
    text
}

/// What the content of a file that came was compared by, behind its size.
fn comparison(file: &FileReport) -> String {
    if file.verified.is_empty() {
        return match file.kept_not_compared_bytes {
            0 => ", not compared".into(),
            kept => format!(", {} kept from an earlier start, not compared", show_size(kept)),
        };
    }
    let kept = match file.kept_bytes {
        0 => String::new(),
        kept => format!(", of which {} were there", show_size(kept)),
    };
    format!("{kept}, verified by {}", file.verified.join(" and "))
}

/// `1.00 GiB in 0.5 s: 2.10 GB/s (16.8 Gb/s), `, before what limited it.
pub(super) fn rate_line(bytes: u64, seconds: f64, rate: f64) -> String {
    let (size, bytes_rate, bits_rate) = (show_size(bytes), show_bytes_rate(rate), show_bits_rate(rate));
    format!("{size} in {seconds:.1} s: {bytes_rate} ({bits_rate}), ")
}
