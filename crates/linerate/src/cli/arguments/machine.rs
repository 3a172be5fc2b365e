//! Which machine a command is about: this one, a recorded one, or what other tools printed about one.

use crate::cli::output::Output;
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::foreign::{self, DescribedMachine, ForeignSources, NamedText};
use linerate_machine::probe::{pci, probe};
use std::io::Read;
use std::path::{Path, PathBuf};

/// A listing of one machine is a few MB at most.
const LARGEST_TEXT_BYTES: u64 = 16 << 20;
/// Files of a folder that are looked at.
const MOST_FILES: usize = 4096;

/// Names for people of what a machine is read from; empty of this machine.
pub(crate) fn sources(files: &[PathBuf]) -> String {
    let shown: Vec<String> = files.iter().take(4).map(|file| file.display().to_string()).collect();
    let more = files.len().saturating_sub(4);
    let end = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{end}", shown.join(" and "))
}

/// The machine that the files describe together: listings in any mixture, and at most one recorded tree; this machine without any.
pub(crate) fn described(files: &[PathBuf], output: &Output) -> Result<DescribedMachine, Failure> {
    if files.is_empty() {
        let mut machine = probe(&Sysroot::live());
        pci::name(&mut machine.pci);
        return Ok(DescribedMachine { machine, ..DescribedMachine::default() });
    }
    let mut sources = ForeignSources::default();
    let mut trees: Vec<&Path> = Vec::new();
    for file in files {
        match is_tree(file) {
            true => trees.push(file),
            false if file.is_dir() => sources.files.extend(listings_of(file)?),
            false => sources.files.push(read(file)?),
        }
    }
    if let [first, second, ..] = trees[..] {
        return Err(Failure::Usage(format!(
            "{} and {} are both recorded machines: give one of them",
            first.display(),
            second.display()
        )));
    }
    sources.tree = trees.first().map(|root| sysroot_of(Some(root), output)).transpose()?;
    foreign::described(&sources).map_err(Failure::lacks)
}

/// They are listings or recorded trees, and no description that linerate itself reads.
pub(crate) fn are_listings(files: &[PathBuf]) -> bool {
    match files {
        [one] if one.to_str().is_some_and(|word| word.starts_with('@')) => false,
        [one] => is_tree(one) || one.is_dir() || read(one).is_ok_and(|file| foreign::is_listing(&file)),
        all => !all.is_empty(),
    }
}

/// The live system, or the recorded one that `--root` names. What had to be left out of an archive is told on
/// standard error.
pub(crate) fn sysroot_of(root: Option<&Path>, output: &Output) -> Result<Sysroot, Failure> {
    let Some(root) = root else { return Ok(Sysroot::live()) };
    let sysroot = Sysroot::at(root)?;
    if !sysroot.left_out().is_empty() {
        output.complain(&format!("{}: left out {}", root.display(), sysroot.left_out().join(", ")));
    }
    Ok(sysroot)
}

/// A folder with `sys` or `proc`, or an archive, known by its first bytes.
fn is_tree(file: &Path) -> bool {
    if file.is_dir() {
        return file.join("sys").is_dir() || file.join("proc").is_dir();
    }
    let mut bytes = Vec::new();
    let read = std::fs::File::open(file).and_then(|opened| {
        if opened.metadata()?.is_file() { opened.take(512).read_to_end(&mut bytes) } else { Ok(0) }
    });
    let marks: [&[u8]; 4] = [b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"];
    read.is_ok()
        && (marks.iter().any(|mark| bytes.starts_with(mark)) || bytes.get(257..262) == Some(b"ustar"))
}

/// The files of a folder that are listings, by name.
fn listings_of(folder: &Path) -> Result<Vec<NamedText>, Failure> {
    let entries = std::fs::read_dir(folder).map_err(|error| {
        Failure::Lacks(format!("{}: {error}; name a folder that you may read", folder.display()))
    })?;
    let mut paths: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    paths.sort();
    let read = paths.iter().take(MOST_FILES).filter_map(|path| read(path).ok());
    let found: Vec<NamedText> = read.filter(foreign::is_listing).collect();
    match found.is_empty() {
        true => Err(Failure::Lacks(format!(
            "{}: holds neither sys/ nor proc/ nor a file that a tool listed a machine in; name a folder of listings",
            folder.display()
        ))),
        false => Ok(found),
    }
}

/// A file of another tool.
fn read(file: &Path) -> Result<NamedText, Failure> {
    let say = |why: String| Failure::Lacks(format!("{}: {why}", file.display()));
    let opened =
        std::fs::File::open(file).map_err(|error| say(format!("{error}; name a file that you may read")))?;
    let mut bytes = Vec::new();
    let read = opened.take(LARGEST_TEXT_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| say(format!("{error}; name a file that you may read")))?;
    if bytes.len() as u64 > LARGEST_TEXT_BYTES {
        return Err(say(format!(
            "larger than {} MiB: not what such a tool writes; name the listing alone",
            LARGEST_TEXT_BYTES >> 20
        )));
    }
    Ok(NamedText { name: file.display().to_string(), bytes })
}
