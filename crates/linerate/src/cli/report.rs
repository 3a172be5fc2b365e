//! `linerate report`: a saved run as screen, JSON or page; for others without what says whose it is.

use super::arguments::ReportArgs;
use super::output::Output;
use linerate_facts::failure::Failure;
use linerate_report::{self as report, results};
use linerate_system::private_folder::PrivateFolder;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What desktops have for it (xdg-utils).
const OPENER: &str = "xdg-open";

/// Does the command.
pub(super) fn show_report(args: &ReportArgs, output: &Output) -> Result<u8, Failure> {
    let run = results::read(&args.run)?;
    let run = if args.anonymous { report::anonymous(&run)? } else { run };
    let file = match (&args.html, args.open) {
        (Some(file), _) => Some(file.clone()),
        (None, true) => Some(private_file()?),
        (None, false) => None,
    };
    match &file {
        Some(file) => write_page(file, &report::html(&run))?,
        None if args.json => output.print(&report::json(&run))?,
        None => output.print(&report::terminal(&run, output.width(), output.colour()))?,
    }
    if let (Some(file), true) = (&file, args.open) {
        open(file, output)?;
    }
    Ok(0)
}

pub(super) fn write_page(path: &Path, page: &str) -> Result<(), Failure> {
    std::fs::write(path, page).map_err(|error| {
        Failure::Lacks(format!(
            "{} could not be written: {error}; name a file in a folder that you may write",
            path.display()
        ))
    })
}

/// Only this user may read it: the page names hosts and addresses. It stays, since the browser reads it later; the
/// session's folder goes with the session.
fn private_file() -> Result<PathBuf, Failure> {
    let place = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|place| place.is_absolute());
    let folder = match place {
        Some(place) => place.join("linerate"),
        None => std::env::temp_dir().join(format!("linerate-report-{}", std::process::id())),
    };
    // Its name can be guessed: it may be another user's, with a link in it.
    PrivateFolder::open_or_make(&folder)
        .map_err(|why| Failure::Lacks(format!("--open: {why}; name a file with --html FILE")))?;
    Ok(folder.join("report.html"))
}

fn open(file: &Path, output: &Output) -> Result<(), Failure> {
    let started = Command::new(OPENER)
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match started {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(no_browser(file, "it found no browser")),
        Err(error) => Err(no_browser(file, &error.to_string())),
    }
    .inspect(|()| output.tell(&format!("opened {}", file.display())))
}

fn no_browser(file: &Path, why: &str) -> Failure {
    Failure::Lacks(format!("--open: {OPENER}: {why}; the page is in {}", file.display()))
}
