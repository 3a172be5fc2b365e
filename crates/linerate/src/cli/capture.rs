//! `linerate probe --capture`: a tarball of this machine, without what reveals whose it is.

use super::output::Output;
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::capture::{Capture, capture, write};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Records the machine, writes the tarball, says what was replaced.
pub(super) fn write_capture(path: &Path, output: &Output) -> Result<u8, Failure> {
    // Asked before the machine is read: a name that cannot be written is known at once.
    let file = make(path)?;
    let recorded = capture(&Sysroot::live()).map_err(Failure::lacks);
    let done = recorded.and_then(|capture| save(&capture, file, path).map(|()| capture));
    let capture = match done {
        Ok(capture) => capture,
        Err(failure) => {
            // Ours, and of no use.
            let _ = std::fs::remove_file(path);
            return Err(failure);
        }
    };
    output.print(&summary(&capture, path))?;
    Ok(0)
}

fn make(output: &Path) -> Result<File, Failure> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(output);
    opened.map_err(|error| {
        Failure::Lacks(match error.kind() {
            ErrorKind::AlreadyExists => {
                format!(
                    "{} is there already; name another file with --capture, or remove it",
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

fn summary(capture: &Capture, output: &Path) -> String {
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
    text + "look into it before you give it away; read it with: linerate probe "
        + &output.display().to_string()
        + "\n"
}
