//! Which machine a command is about: this one, a recorded one, or what other tools wrote about one. The same options in every command.

use crate::cli::commands::complain;
use crate::failure::Failure;
use crate::probe::foreign::{self, ForeignSources, Named};
use crate::probe::{Machine, probe};
use crate::sysroot::Sysroot;
use clap::Args;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The text of another tool about one machine is a few MB at most.
const LARGEST_TEXT_BYTES: u64 = 16 << 20;

/// The machine [default: this one]. Several together: each tells its part.
#[derive(Clone, Debug, Default, Args)]
pub struct MachineWords {
    /// Read a recorded tree that holds sys/ and proc/, or a tarball of one, instead of this machine
    #[arg(long, value_name = "DIR|FILE")]
    pub root: Option<PathBuf>,
    /// Read what lstopo wrote about a machine (lstopo FILE.xml)
    #[arg(long, value_name = "FILE")]
    pub lstopo: Option<PathBuf>,
    /// Read a topology of NCCL (NCCL_TOPO_DUMP_FILE)
    #[arg(long, value_name = "FILE")]
    pub nccl: Option<PathBuf>,
}

impl MachineWords {
    /// It is this machine, not a recorded or a described one.
    pub fn is_live(&self) -> bool {
        self.root.is_none() && self.lstopo.is_none() && self.nccl.is_none()
    }
}

/// The machine that the words name. What had to be left out of an archive is told on standard error.
pub fn machine_of(words: &MachineWords) -> Result<Machine, Failure> {
    if words.is_live() {
        return Ok(probe(&Sysroot::live()));
    }
    let sources = ForeignSources {
        tree: words.root.as_deref().map(open_root).transpose()?,
        lstopo: text(words.lstopo.as_deref())?,
        nccl: text(words.nccl.as_deref())?,
    };
    foreign::machine(&sources).map_err(Failure::Lacks)
}

/// What `--root` names.
pub fn open_root(root: &Path) -> Result<Sysroot, Failure> {
    let sysroot = Sysroot::open(root)?;
    if !sysroot.left_out().is_empty() {
        complain(&format!("{}: left out {}", root.display(), sysroot.left_out().join(", ")));
    }
    Ok(sysroot)
}

/// The text of a file; bytes that are no UTF-8 are replaced.
fn text(file: Option<&Path>) -> Result<Option<Named>, Failure> {
    let Some(file) = file else { return Ok(None) };
    let say = |why: String| Failure::Lacks(format!("{}: {why}", file.display()));
    let opened =
        std::fs::File::open(file).map_err(|error| say(format!("{error}; name a file that you may read")))?;
    let mut bytes = Vec::new();
    let read = opened.take(LARGEST_TEXT_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| say(format!("{error}; name a file that you may read")))?;
    if bytes.len() as u64 > LARGEST_TEXT_BYTES {
        return Err(say(format!(
            "larger than {} MiB: not what such a tool writes",
            LARGEST_TEXT_BYTES >> 20
        )));
    }
    Ok(Some(Named { name: file.display().to_string(), text: String::from_utf8_lossy(&bytes).into_owned() }))
}
