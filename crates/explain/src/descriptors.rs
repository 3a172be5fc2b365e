//! What the processes of a program have open: files with how far each was moved, sockets, pipes. One pass over
//! `/proc/PID/fd` and `/proc/PID/fdinfo`, repeated as often as its cost allows.

use crate::activity::DescriptorKind;
use crate::pace::LookPace;
use crate::processes::ProcessTree;
use linerate_facts::counters::ProcessReading;
use linerate_facts::sysroot::Sysroot;
use linerate_system::file::DIRECT_FLAG;
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Descriptors of one pass: what is beyond is not looked at.
const MOST_DESCRIPTORS: usize = 16_384;
/// What PyTorch's libraries are called.
pub(crate) const TORCH: &str = "libtorch";
/// Files that are counted one by one.
const MOST_FILES: usize = 4096;

/// What is open.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    open: BTreeMap<(u32, u64), DescriptorTarget>,
    files: BTreeMap<(u32, u64, PathBuf), FileRecord>,
    sockets: BTreeSet<u32>,
    /// Processes that have each pipe open.
    pipes: BTreeMap<u64, BTreeSet<u32>>,
    pace: LookPace,
    too_many: bool,
    /// The standard input of one of the processes is a pipe from another program.
    input_is_piped: bool,
    /// Processes whose descriptors may not be read.
    hidden: BTreeSet<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum DescriptorTarget {
    File(PathBuf),
    Socket(u32),
    Pipe(u64),
    Ring,
    Other,
}

/// A file of one process, by one descriptor.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FileUse {
    pub pid: u32,
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// How far its position was moved on, bytes per second; 0 also where a program reads at positions of its own
    /// (`pread`), or several times the same descriptor.
    pub bytes_per_second: f64,
    /// Of that, bytes that the position had passed before.
    pub again_bytes_per_second: f64,
    /// Opened past the page cache.
    pub direct: bool,
    pub writes: bool,
    #[serde(skip)]
    pub(crate) mount: Option<u32>,
    /// Where in it the program is.
    #[serde(skip)]
    pub(crate) position: u64,
}

/// A name that is not UTF-8 is written as it is shown.
pub(crate) fn lossy<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&path.display())
}

/// A position that a seek moved on looks like bytes: the files of a direction moved no more than the calls did.
pub(crate) fn bound(files: &mut [FileUse], writes: bool, most: Option<f64>) {
    let of_direction = |file: &&mut FileUse| file.writes == writes;
    let moved: f64 =
        files.iter().filter(|file| file.writes == writes).map(|file| file.bytes_per_second).sum();
    let Some(part) = most.filter(|most| moved > *most).map(|most| most / moved) else { return };
    for file in files.iter_mut().filter(of_direction) {
        file.bytes_per_second *= part;
        file.again_bytes_per_second *= part;
    }
}

#[derive(Clone, Debug, Default)]
struct FileRecord {
    position: u64,
    furthest: u64,
    moved: u64,
    again: u64,
    about: OpenFile,
}

impl OpenFile {
    /// It is open for writing alone, or for reading alone.
    pub(crate) fn is_end(&self, writes: bool) -> bool {
        self.flags & 3 == u32::from(writes)
    }
}

/// `/proc/PID/fdinfo/FD`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenFile {
    pub(crate) position: u64,
    pub(crate) flags: u32,
    pub(crate) mount: Option<u32>,
}

/// Reads it; none where it has no position.
pub(crate) fn parse_fdinfo(text: &str) -> Option<OpenFile> {
    let word = |name: &str| {
        let of = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().to_string());
        text.lines().find_map(of)
    };
    Some(OpenFile {
        position: word("pos")?.parse().ok()?,
        flags: word("flags").and_then(|flags| u32::from_str_radix(&flags, 8).ok()).unwrap_or(0),
        mount: word("mnt_id").and_then(|number| number.parse().ok()),
    })
}

impl Descriptors {
    /// Looks at all of them, where it is time to.
    pub(crate) fn look(&mut self, sysroot: &Sysroot, processes: &ProcessTree, is_last: bool) -> bool {
        let Some(look) = self.pace.begin(is_last) else { return false };
        let mut looked_at = 0;
        self.open.clear();
        self.pipes.clear();
        for pid in processes.living() {
            let folder = PathBuf::from(format!("/proc/{pid}/fd"));
            let names = sysroot.list(&folder);
            // One that is about to go shows none, either.
            let lives =
                || ProcessReading::without_io(sysroot, pid).is_some_and(|one| one.identity.state != 'Z');
            if names.is_empty() && sysroot.link(format!("/proc/{pid}/exe")).is_none() && lives() {
                self.hidden.insert(pid);
            }
            for name in names {
                looked_at += 1;
                if looked_at > MOST_DESCRIPTORS {
                    self.too_many = true;
                    break;
                }
                let Ok(number) = name.parse::<u64>() else { continue };
                let Some(target) = sysroot.link(folder.join(&name)).map(|link| descriptor_target(&link))
                else {
                    continue;
                };
                if let DescriptorTarget::File(path) = &target {
                    self.file(sysroot, (pid, number, path.clone()));
                }
                if let DescriptorTarget::Socket(inode) = &target {
                    self.sockets.insert(*inode);
                }
                if let DescriptorTarget::Pipe(inode) = target {
                    self.pipes.entry(inode).or_default().insert(pid);
                }
                self.open.insert((pid, number), target);
            }
        }
        let is_piped = |(pid, number): &(u32, u64)| {
            *number == 0 && self.pipe(sysroot, *pid, 0).is_some() && !self.is_pipe_within(sysroot, *pid, 0)
        };
        self.input_is_piped |= self.open.keys().any(is_piped);
        self.pace.end(look);
        true
    }

    fn file(&mut self, sysroot: &Sysroot, key: (u32, u64, PathBuf)) {
        let text = sysroot.text(format!("/proc/{}/fdinfo/{}", key.0, key.1));
        let Some(now) = text.ok().and_then(|text| parse_fdinfo(&text)) else { return };
        if self.files.len() >= MOST_FILES && !self.files.contains_key(&key) {
            return;
        }
        self.files.entry(key).and_modify(|record| record.moved_to(now)).or_insert(FileRecord {
            position: now.position,
            furthest: now.position,
            about: now,
            ..FileRecord::default()
        });
    }

    /// What a descriptor is.
    pub(crate) fn kind_of(&self, sysroot: &Sysroot, pid: u32, number: u64) -> DescriptorKind {
        match self.target_of(sysroot, pid, number) {
            Some(DescriptorTarget::File(_)) => DescriptorKind::File,
            Some(DescriptorTarget::Socket(_)) => DescriptorKind::Socket,
            Some(DescriptorTarget::Pipe(_)) => DescriptorKind::Pipe,
            Some(DescriptorTarget::Ring | DescriptorTarget::Other) | None => DescriptorKind::Other,
        }
    }

    /// Inodes of the sockets that were met.
    pub(crate) fn sockets(&self) -> &BTreeSet<u32> {
        &self.sockets
    }

    /// The pipe that is open there.
    pub(crate) fn pipe(&self, sysroot: &Sysroot, pid: u32, descriptor: u64) -> Option<u64> {
        match self.target_of(sysroot, pid, descriptor)? {
            DescriptorTarget::Pipe(inode) => Some(inode),
            _ => None,
        }
    }

    /// The pipe that is open there is to another process of the program.
    pub(crate) fn is_pipe_within(&self, sysroot: &Sysroot, pid: u32, descriptor: u64) -> bool {
        let processes = self.pipe(sysroot, pid, descriptor).and_then(|inode| self.pipes.get(&inode));
        processes.is_some_and(|processes| processes.iter().any(|one| *one != pid))
    }

    /// As of the last pass; one that was opened since then is looked at now.
    fn target_of(&self, sysroot: &Sysroot, pid: u32, number: u64) -> Option<DescriptorTarget> {
        self.open
            .get(&(pid, number))
            .cloned()
            .or_else(|| sysroot.link(format!("/proc/{pid}/fd/{number}")).map(|link| descriptor_target(&link)))
    }

    /// It has a ring of io_uring.
    pub(crate) fn have_rings(&self) -> bool {
        self.open.values().any(|target| *target == DescriptorTarget::Ring)
    }

    pub(crate) fn input_is_piped(&self) -> bool {
        self.input_is_piped
    }

    /// Some were not looked at.
    pub(crate) fn are_too_many(&self) -> bool {
        self.too_many
    }

    /// Processes whose descriptors could not be read.
    pub(crate) fn hidden(&self) -> usize {
        self.hidden.len()
    }

    /// The files, those that moved most first.
    pub(crate) fn files(&self, seconds: f64) -> Vec<FileUse> {
        let rate = |bytes: u64| bytes as f64 / seconds.max(1e-3);
        let of = |((pid, _, path), record): (&(u32, u64, PathBuf), &FileRecord)| FileUse {
            pid: *pid,
            path: path.clone(),
            bytes_per_second: rate(record.moved),
            again_bytes_per_second: rate(record.again),
            direct: record.about.flags & DIRECT_FLAG != 0,
            writes: record.about.flags & 3 != 0,
            mount: record.about.mount,
            position: record.position,
        };
        let mut all: Vec<FileUse> = self.files.iter().map(of).collect();
        all.sort_by(|a, b| b.bytes_per_second.total_cmp(&a.bytes_per_second));
        all
    }
}

impl FileRecord {
    /// A position that went back is a seek: what follows was read before, up to the furthest.
    fn moved_to(&mut self, now: OpenFile) {
        let from = match now.position >= self.position {
            true => self.position,
            // From where it went on is not known: at least from its begin, where it is less than it was.
            false => 0,
        };
        let moved = now.position - from;
        self.moved = self.moved.saturating_add(moved);
        self.again = self.again.saturating_add(now.position.min(self.furthest).saturating_sub(from));
        self.furthest = self.furthest.max(now.position);
        self.position = now.position;
        self.about = now;
    }
}

/// What the link of a descriptor says.
fn descriptor_target(link: &Path) -> DescriptorTarget {
    let text = link.to_string_lossy();
    let number =
        |kind: &str| text.strip_prefix(kind)?.strip_prefix(":[")?.strip_suffix(']')?.parse::<u64>().ok();
    if let Some(inode) = number("socket") {
        return u32::try_from(inode).map_or(DescriptorTarget::Other, DescriptorTarget::Socket);
    }
    if let Some(inode) = number("pipe") {
        return DescriptorTarget::Pipe(inode);
    }
    match &*text {
        "anon_inode:[io_uring]" => DescriptorTarget::Ring,
        path if path.starts_with('/') && is_data(path) => DescriptorTarget::File(link.to_path_buf()),
        _ => DescriptorTarget::Other,
    }
}

/// Not a terminal, a null device, or a file of the kernel's own.
fn is_data(path: &str) -> bool {
    let of_kernel = ["/proc/", "/sys/", "/dev/pts/", "/dev/tty", "/dev/shm/", "/memfd:", "/anon_hugepage"];
    let devices =
        ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/fuse", "/dev/ptmx"];
    !of_kernel.iter().any(|folder| path.starts_with(folder)) && !devices.contains(&path)
}

/// Files of data that a process has mapped, no programs and libraries, with the bytes of each; and those of its libraries
/// that say what it does: TLS, and PyTorch.
pub(crate) fn mapped(sysroot: &Sysroot, pid: u32) -> (BTreeMap<PathBuf, u64>, BTreeSet<String>) {
    let text = sysroot.text(format!("/proc/{pid}/maps")).unwrap_or_default();
    parse_maps(&text)
}

fn parse_maps(text: &str) -> (BTreeMap<PathBuf, u64>, BTreeSet<String>) {
    const KNOWN: [&str; 5] = [TORCH, "libssl", "libgnutls", "libwolfssl", "libmbedtls"];
    let (mut files, mut executed, mut libraries) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
    for line in text.lines() {
        // Addresses, rights, offset, device, inode, path, which may hold blanks.
        let Some((path, head)) = line.find('/').map(|at| (&line[at..], &line[..at])) else { continue };
        let mut words = head.split_ascii_whitespace();
        let (Some(range), Some(rights)) = (words.next(), words.next()) else { continue };
        let name = path.rsplit('/').next().unwrap_or(path);
        if KNOWN.iter().any(|library| name.starts_with(library)) {
            libraries.insert(name.to_string());
        }
        let ends =
            range.split_once('-').map(|(from, to)| [from, to].map(|end| u64::from_str_radix(end, 16).ok()));
        let Some([Some(from), Some(to)]) = ends else { continue };
        if rights.contains('x') {
            executed.insert(PathBuf::from(path));
        }
        let is_library = path.starts_with("/usr/lib") || name.contains(".so");
        if !is_library && is_data(path) && !path.ends_with(" (deleted)") {
            let bytes: &mut u64 = files.entry(PathBuf::from(path)).or_default();
            *bytes = bytes.saturating_add(to.saturating_sub(from));
        }
    }
    files.retain(|path, _| !executed.contains(path));
    (files, libraries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;
    use proptest::prelude::*;

    #[test]
    fn positions_that_move_on_are_bytes_and_those_that_go_back_are_read_again() {
        let mut record = FileRecord { position: 100, furthest: 100, ..FileRecord::default() };
        let at = |position| OpenFile { position, ..OpenFile::default() };
        record.moved_to(at(1100));
        assert_eq!((record.moved, record.again), (1000, 0));
        record.moved_to(at(400));
        assert_eq!((record.moved, record.again), (1400, 400));
        record.moved_to(at(2100));
        assert_eq!((record.moved, record.again), (3100, 400 + 700));
    }

    #[test]
    fn files_sockets_and_pipes_of_a_recorded_process() {
        let mut tree = Tree::new(&[]);
        tree.put("proc/7/stat", "7 (dd) S 1 1 1 0 -1 4194560 1 2 0 4 0 0 0 0 20 0 1 0 700 1 2");
        tree.put("proc/7/fdinfo/3", "pos:\t1000\nflags:\t0140000\nmnt_id:\t24\nino:\t3\n");
        for (name, link) in
            [("0", "/dev/null"), ("1", "pipe:[55]"), ("3", "/data/a file"), ("4", "socket:[4711]")]
        {
            tree.link(&format!("proc/7/fd/{name}"), link);
        }
        let sysroot = tree.sysroot();
        let processes = ProcessTree::begin(&sysroot, &[7]);
        let mut open = Descriptors::default();
        open.look(&sysroot, &processes, true);
        tree.put("proc/7/fdinfo/3", "pos:\t9000\nflags:\t0140000\nmnt_id:\t24\nino:\t3\n");
        open.look(&sysroot, &processes, true);
        let files = open.files(2.0);
        assert_eq!(files.len(), 1, "{files:?}");
        assert_eq!((files[0].bytes_per_second, files[0].writes, files[0].mount), (4000.0, false, Some(24)));
        assert_eq!(files[0].direct, DIRECT_FLAG == 0o40_000, "{files:?}");
        assert_eq!(open.sockets().iter().collect::<Vec<_>>(), [&4711]);
        assert_eq!((open.pipe(&sysroot, 7, 1), open.pipe(&sysroot, 7, 3)), (Some(55), None));
        let kind = |number| open.kind_of(&sysroot, 7, number);
        assert_eq!(
            [kind(1), kind(3), kind(9)],
            [DescriptorKind::Pipe, DescriptorKind::File, DescriptorKind::Other]
        );
    }

    #[test]
    fn files_moved_no_more_than_the_calls_did_whatever_a_seek_did_to_their_positions() {
        let file = |bytes_per_second, writes| FileUse {
            bytes_per_second,
            again_bytes_per_second: bytes_per_second / 2.0,
            writes,
            ..FileUse::default()
        };
        let mut files = [file(300.0, false), file(100.0, false), file(50.0, true)];
        bound(&mut files, false, Some(40.0));
        bound(&mut files, true, None);
        let of = |file: &FileUse| (file.bytes_per_second, file.again_bytes_per_second);
        assert_eq!(files.each_ref().map(of), [(30.0, 15.0), (10.0, 5.0), (50.0, 25.0)]);
    }

    #[test]
    fn mapped_files_and_libraries_that_are_known() {
        let text = "7f00-7f10 r--p 00000000 fe:00 12  /data/a model.bin\n7f10-7f30 r--p 00000000 fe:00 12 /data/a model.bin\n\
                    7f40-7f50 r-xp 0 fe:00 13 /usr/lib/x86_64-linux-gnu/libssl.so.3\n7f60-7f70 rw-p 0 00:00 0 [heap]\n\
                    7f70-7f80 r-xp 0 fe:00 14 /opt/mover\n7f80-7f90 r--p 0 fe:00 14 /opt/mover\n\
                    7f90-7fa0 r--p 0 fe:00 15 /usr/lib/locale/locale-archive\n";
        let (files, libraries) = parse_maps(text);
        assert_eq!(files.into_iter().collect::<Vec<_>>(), [(PathBuf::from("/data/a model.bin"), 0x30)]);
        assert_eq!(libraries.into_iter().collect::<Vec<_>>(), ["libssl.so.3"]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9a-z:_/ \t\n-]{0,120}") {
            let _ = parse_fdinfo(&text);
            let _ = parse_maps(&text);
            let _ = descriptor_target(Path::new(&text));
        }

        #[test]
        fn no_order_of_positions_counts_less_than_nothing(positions in prop::collection::vec(any::<u32>(), 1..20)) {
            let mut record = FileRecord::default();
            for position in positions {
                record.moved_to(OpenFile { position: u64::from(position), ..OpenFile::default() });
                prop_assert!(record.again <= record.moved && record.position <= record.furthest);
            }
        }
    }
}
