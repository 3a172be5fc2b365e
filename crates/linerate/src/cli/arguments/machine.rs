//! Which machine a command is about: this one, a recorded one, or what other tools wrote about one. The same
//! options in every command.

use crate::cli::output::Output;
use clap::Args;
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::foreign::{self, ForeignSources, NamedText};
use linerate_machine::probe::pci::names;
use linerate_machine::probe::{Machine, probe};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The text of another tool about one machine is a few MB at most.
const LARGEST_TEXT_BYTES: u64 = 16 << 20;

/// The machine [default: this one]. Several together: each tells its part.
#[derive(Clone, Debug, Default, Args)]
pub struct MachineArgs {
    /// Read a recorded tree that holds sys/ and proc/, or a tarball of one, instead of this machine
    #[arg(long, value_name = "DIR|FILE")]
    pub root: Option<PathBuf>,
    /// Read what lspci printed about a machine (lspci -vv, best as root; -vt and -xxx, too)
    #[arg(long, value_name = "FILE")]
    pub lspci: Option<PathBuf>,
    /// Read what dmidecode printed about a machine, or the table that it dumped
    #[arg(long, value_name = "FILE")]
    pub dmidecode: Option<PathBuf>,
    /// Read what lstopo wrote about a machine (lstopo FILE.xml)
    #[arg(long, value_name = "FILE")]
    pub lstopo: Option<PathBuf>,
    /// Read a topology of NCCL (NCCL_TOPO_DUMP_FILE)
    #[arg(long, value_name = "FILE")]
    pub nccl: Option<PathBuf>,
}

impl MachineArgs {
    /// The files and folders that it is read from, for people; empty of this machine.
    pub fn sources(&self) -> String {
        let all = [&self.root, &self.lspci, &self.dmidecode, &self.lstopo, &self.nccl];
        let shown: Vec<String> = all.into_iter().flatten().map(|file| file.display().to_string()).collect();
        shown.join(" and ")
    }

    /// It is this machine, not a recorded or a described one.
    pub fn is_live(&self) -> bool {
        [&self.root, &self.lspci, &self.dmidecode, &self.lstopo, &self.nccl].into_iter().all(Option::is_none)
    }
}

/// The machine that the words name.
pub(crate) fn machine_of(args: &MachineArgs, output: &Output) -> Result<Machine, Failure> {
    if args.is_live() {
        let mut machine = probe(&Sysroot::live());
        names::name(&mut machine.pci);
        return Ok(machine);
    }
    let sources = ForeignSources {
        tree: args.root.as_deref().map(|root| sysroot_of(Some(root), output)).transpose()?,
        lspci: read(args.lspci.as_deref())?,
        dmidecode: read(args.dmidecode.as_deref())?,
        lstopo: read(args.lstopo.as_deref())?,
        nccl: read(args.nccl.as_deref())?,
    };
    foreign::machine(&sources).map_err(Failure::lacks)
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

/// A file of another tool.
fn read(file: Option<&Path>) -> Result<Option<NamedText>, Failure> {
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
    Ok(Some(NamedText { name: file.display().to_string(), bytes }))
}
