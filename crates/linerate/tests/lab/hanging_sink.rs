//! A disk that hangs while a flow is stored on it: the run says so once and ends while the disk still hangs, whichever
//! end has it; an agent serves others meanwhile.

use crate::support::agent::StartedAgent;
use crate::support::disk_places::{LoopDevice, Tmpfs, lacking, succeed};
use crate::support::linerate;
use crate::support::process::{Ends, ProcessEnd, signal};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What an answer of the disk is waited for, and some seconds.
const GIVEN_UP: Duration = Duration::from_secs(42);
/// Ctrl-C ends what hangs within this.
const INTERRUPTED: Duration = Duration::from_secs(8);

/// A file system on a disk of its own, which can hang.
struct Disk {
    mount: PathBuf,
    _folder: tempfile::TempDir,
    _device: LoopDevice,
    _memory: Tmpfs,
}

impl Disk {
    fn new() -> Disk {
        let (memory, folder) = (Tmpfs::new(420, ""), tempfile::tempdir().expect("a folder"));
        let (device, mount) = (LoopDevice::on(&memory.path, "image", 400), folder.path().to_path_buf());
        succeed("mkfs.ext4", &["-q", device.text()]);
        let disk = Disk { mount, _folder: folder, _device: device, _memory: memory };
        succeed("mount", &[disk._device.text(), disk.text()]);
        disk
    }

    fn text(&self) -> &str {
        self.mount.to_str().expect("a plain path")
    }

    fn freeze(&self) -> Instant {
        succeed("fsfreeze", &["-f", self.text()]);
        Instant::now()
    }

    fn thaw(&self) {
        let _ = Command::new("fsfreeze").args(["-u", self.text()]).stderr(Stdio::null()).status();
    }

    /// What the kernel still ends after its process.
    fn is_free(&self) -> bool {
        (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            Command::new("umount")
                .arg(&self.mount)
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|it| it.success())
        })
    }
}

/// Before anybody whom it holds up is waited for.
struct Thaw<'a>(&'a Disk);

impl Drop for Thaw<'_> {
    fn drop(&mut self) {
        self.0.thaw();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.is_free();
        }
    }
}

fn runs(mut run: Command) -> Child {
    run.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// Also nobody writes to its standard error any more.
fn ended(run: Child) -> ProcessEnd {
    let id = run.id();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send(run.ended()));
    told.recv_timeout(2 * GIVEN_UP).unwrap_or_else(|_| panic!("the run {id} does not end"))
}

/// Its one sentence about the sink, and when it ended; it did so while the disk hung.
fn gave_up(run: Child, frozen: Instant) -> String {
    let output = ended(run);
    let said = &output.stderr;
    assert!(frozen.elapsed() < GIVEN_UP, "{:?}: {said}", frozen.elapsed());
    let sentences: Vec<&str> = said.lines().filter(|line| line.contains("sink")).collect();
    assert!(output.status.code() == Some(1) && sentences.len() == 1, "{:?} {said}", output.status);
    assert!(sentences[0].contains("hang?") && !said.contains("more;"), "{said}");
    sentences[0].to_string()
}

#[test]
fn a_disk_that_hangs_is_given_up_by_either_end() {
    let tools = ["mkfs.ext4", "fsfreeze"];
    let missing = tools.iter().find(|tool| Command::new(tool).arg("-V").output().is_err());
    if let Some(lacking) = lacking().or(missing.map(|tool| format!("a disk that hangs needs {tool}"))) {
        eprintln!("skipped: {lacking}");
        return;
    }
    let disk = Disk::new();
    let source = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file");
    std::fs::write(source.path(), vec![7u8; 64 << 20]).expect("written");
    let limits = ["--sink-limit", "64M"];
    // An agent for each, so that none waits for the other's test.
    let agents = [(); 3].map(|()| StartedAgent::start(&[&["--sink", disk.text()], &limits[..]].concat()));
    let thaw = Thaw(&disk);
    let words = ["--workers", "1", "--repeats", "1", "--seconds", "4", "--stages"];
    let stored = |agent: &StartedAgent, stages| {
        let words = [&words[..], &[stages, "--sink", disk.text()], &limits].concat();
        runs(agent.run_flow(linerate(), "network-to-disk", &words))
    };
    let (there, interrupted) = (stored(&agents[0], "path,disk"), stored(&agents[1], "path"));
    let away = runs(agents[2].run(linerate(), source.path(), &[&words[..], &["path"]].concat()));
    [there.id(), interrupted.id()].iter().for_each(|id| StartedAgent::awaits_of(*id, disk.text(), true));
    agents[2].awaits(disk.text(), true);
    std::thread::sleep(Duration::from_millis(700));
    let frozen = disk.freeze();
    std::thread::sleep(Duration::from_millis(500));
    signal(&interrupted, "INT");
    let output = ended(interrupted);
    assert!(frozen.elapsed() < INTERRUPTED, "{:?}", frozen.elapsed());
    assert!(output.status.code() == Some(1), "{output:?}");
    let sentence = gave_up(there, frozen);
    assert!(sentence.contains(&format!("the sink {} (disk loop", disk.text())), "{sentence}");
    let sentence = gave_up(away, frozen);
    assert_eq!(sentence.matches("loop").count(), 1, "its disk is named once: {sentence}");
    // The agent whose disk hangs serves others.
    let quick = ["--stages", "path", "--seconds", "0.3", "--repeats", "1"];
    agents[2].run_flow(linerate(), "network-to-memory", &quick).ended().gives(0);
    assert!(is_frozen(&disk.mount), "it hung until here");
    drop((thaw, agents));
    assert!(disk.is_free(), "somebody still has a file there");
}

/// Writing there would wait: a second freeze of what is frozen is refused.
fn is_frozen(mount: &Path) -> bool {
    let again = Command::new("fsfreeze").arg("-f").arg(mount).stderr(Stdio::null()).status();
    again.is_ok_and(|status| !status.success())
}
