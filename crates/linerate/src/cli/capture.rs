//! `linerate capture`: a tarball of this machine, without what reveals whose it is.

use super::arguments::{CaptureArgs, sysroot_of};
use super::output::Output;
use linerate_facts::failure::Failure;
use linerate_machine::capture::{Capture, capture, write};
use linerate_system::clock;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Records the machine, writes the tarball, says what was replaced.
pub(super) fn write_capture(args: &CaptureArgs, output: &Output) -> Result<u8, Failure> {
    let path = args.output.clone().unwrap_or_else(default_output);
    // Asked before the machine is read: a name that cannot be written is known at once.
    let file = make(&path, args.overwrite)?;
    let done = record(args, output).and_then(|capture| save(&capture, file, &path).map(|()| capture));
    let capture = match done {
        Ok(capture) => capture,
        Err(failure) => {
            // Ours, and of no use.
            let _ = std::fs::remove_file(&path);
            return Err(failure);
        }
    };
    output.print(&said(&capture, &path))?;
    Ok(0)
}

fn record(args: &CaptureArgs, output: &Output) -> Result<Capture, Failure> {
    let sysroot = sysroot_of(args.root.as_deref(), output)?;
    capture(&sysroot).map_err(Failure::lacks)
}

fn default_output() -> PathBuf {
    let now = humantime::format_rfc3339_seconds(clock::date()).to_string();
    let date = now.split('T').next().unwrap_or_default();
    PathBuf::from(format!("linerate-capture-{date}.tar.gz"))
}

fn make(output: &Path, overwrite: bool) -> Result<File, Failure> {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    match overwrite {
        true => options.create(true).truncate(true),
        false => options.create_new(true),
    };
    let made = options.open(output).and_then(|file| {
        // A file that was there keeps its mode when it is written over.
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        Ok(file)
    });
    made.map_err(|error| {
        Failure::Lacks(match error.kind() {
            ErrorKind::AlreadyExists => {
                format!(
                    "{} is there already; name another file with --output, or add --overwrite",
                    output.display()
                )
            }
            _ => format!(
                "{} could not be made: {error}; name a file in a folder that you may write",
                output.display()
            ),
        })
    })
}

fn save(capture: &Capture, file: File, output: &Path) -> Result<(), Failure> {
    let mut file = BufWriter::new(file);
    let written = write(capture, &mut file).and_then(|()| file.flush());
    written.map_err(|error| {
        Failure::Lacks(format!("{} could not be written: {error}; is the disk full?", output.display()))
    })
}

fn said(capture: &Capture, output: &Path) -> String {
    let replaced = &capture.replaced;
    let counts = [
        (replaced.hardware_addresses, "hardware addresses"),
        (replaced.ip_addresses, "IP addresses and networks"),
        (replaced.hosts, "host names"),
        (replaced.serials, "serial numbers and world-wide names"),
        (replaced.uuids, "UUIDs"),
        (replaced.names, "names of folders, volumes and users"),
    ];
    let mut text = format!("{}: {} files, links and folders\n", output.display(), capture.entries.len());
    for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
        text.push_str(&format!("replaced {count:>5} {what}\n"));
    }
    if replaced.left_out > 0 {
        text.push_str(&format!("left out {:>5} files\n", replaced.left_out));
    }
    text + "look into it before you give it away; read it with: linerate probe --root "
        + &output.display().to_string()
        + "\n"
}
