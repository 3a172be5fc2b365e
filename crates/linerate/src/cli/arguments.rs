//! The command line's definitions: from these come the parser, `--help`, the man pages and the shell
//! completions. And what the environment says in place of options: it is so of a host, whatever the command.

mod deliver;
mod disk;
mod fleet;
mod flow;
mod machine;
mod memory;
mod network;
pub(super) mod other_tools;
mod output;
mod plan;
mod results;
mod tune;
pub(super) mod values;
pub(super) mod wall;
mod watch;

use super::help::EVERYWHERE;
use clap::{Args, Parser, Subcommand};
pub(super) use deliver::{CopyArgs, GetArgs, PutArgs, ServeArgs, TransferArgs, TransferUrl};
pub(super) use disk::{DiskArgs, JobArgs, LoadArgs, SEED};
pub(super) use fleet::{FleetArgs, FleetMemberArgs};
pub(super) use flow::{CheckArgs, EndsArgs, ExplainArgs, MethodArgs, ROUNDS, RunArgs};
pub(super) use machine::{are_listings, described, sources, sysroot_of};
pub(super) use memory::MemoryArgs;
pub(super) use network::{AgentArgs, NetworkArgs};
pub(super) use output::{ExpectArgs, FormatArg, GentleArgs, LiveArgs, OutputArgs};
pub(super) use plan::{ClientRate, FLOWS, PlanArgs, PlanWhat, RaidArgs, RatesArgs};
pub(super) use results::{CompareArgs, ListArgs, ReportArgs, ReproduceArgs};
use std::path::PathBuf;
pub(super) use tune::*;
use wall::{WallArgs, WallCommand};
pub(super) use watch::WatchArgs;

/// How fast can this server move bytes from its disks to its network, what limits it, what do I change?
#[derive(Debug, Parser)]
#[command(name = "linerate", version, about, max_term_width = 110)]
pub struct Arguments {
    #[command(flatten)]
    pub common: CommonArgs,
    #[command(subcommand)]
    pub command: Command,
}

/// Stream a movie of tiles to a wall of screens at the hardware's rate
///
/// `linerate wall` starts this program, with the same arguments.
#[derive(Debug, Parser)]
#[command(name = "linerate-wall", version, max_term_width = 110)]
pub struct WallArguments {
    #[command(flatten)]
    pub common: CommonArgs,
    #[command(subcommand)]
    pub command: WallCommand,
}

/// What every command of both programs takes.
#[derive(Debug, Args)]
pub struct CommonArgs {
    /// Print the result as JSON on standard output, and nothing else
    #[arg(long, global = true, help_heading = EVERYWHERE, display_order = 998)]
    pub json: bool,
    /// Say on standard error what linerate does, step by step
    #[arg(short, long, global = true, help_heading = EVERYWHERE, display_order = 999)]
    pub verbose: bool,
    /// Add to this file what linerate does step by step, for a bug report; LINERATE_LOG sets how much (error, warn, info,
    /// debug, trace, off, or CRATE=LEVEL) [default: debug]
    #[arg(long, global = true, value_name = "FILE", help_heading = EVERYWHERE, display_order = 1000)]
    pub log: Option<PathBuf>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure disks, network and the path between; name the bottleneck
    ///
    /// Without options: scratch files in the current directory, and a built-in receiver on loopback. Takes
    /// less than a minute, keeps the result for `linerate list` and `linerate report`, changes nothing else.
    Run(Box<RunArgs>),
    /// Show what the server is: cores, memory, PCIe, NICs, disks
    ///
    /// --capture FILE records it in a tarball that can be probed elsewhere, without what reveals whose it is: what the
    /// probe reads from /sys and /proc, with hardware and IP addresses, host names, serial numbers, UUIDs, folder and
    /// volume names replaced, the same thing by the same thing everywhere. Look into it before you give it away.
    Probe(ProbeArgs),
    /// Say what a flow could reach, on this machine or a described one
    ///
    /// The largest flow that the parts allow by their data sheets, what holds it, what would hold it next,
    /// and what each change gains.
    Plan(Box<PlanArgs>),
    /// Measure disks and file systems: patterns, sizes, depths, workers
    ///
    /// Without options: a scratch file in the current directory, read and written in sequence and at random,
    /// in less than a minute. Options that take a list make a grid of all combinations. Files that are there
    /// and block devices are only read, unless their loss is named by --destroy-data.
    Disk(Box<DiskArgs>),
    /// Find how many requests per second storage answers, and how soon
    ///
    /// Without options: random reads of 8 KiB from a scratch file in the current directory, by ever more
    /// users until the mean access time passes 100 ms; the curve, where it levels off, and the least load that gets
    /// nearly as much. With --rate or --find-rate requests are sent on schedule, and a stall is paid by all that it held up.
    Load(Box<LoadArgs>),
    /// Measure memory: bandwidth by kernel, cache level and cores; latency
    ///
    /// Without options: read, write, copy and triad through each cache level and memory, on one core and on
    /// all, with plain and with streaming stores; reads at strides up to a page; latency; between NUMA nodes.
    /// Takes less than 30 seconds and at most a third of the available memory. With --stride, --working-set
    /// or --cores: the grid of what was named.
    Memory(MemoryArgs),
    /// Measure the network: all NICs, both directions, TCP and UDP, losses
    ///
    /// Without options: TCP and UDP, sending and receiving, to a built-in receiver on loopback, in about
    /// half a minute. With --peer for each NIC: to `linerate agent` on other hosts. The way of sending is
    /// chosen by short trials; what a path carries in one packet is found by sending; round trips are
    /// measured idle and beside the bulk.
    Network(Box<NetworkArgs>),
    /// Be the other end for a linerate on another host
    ///
    /// Only a client with the key is admitted. What comes is counted and thrown away, what goes is made in
    /// memory and goes only to who asked for it. Several clients may measure at once, each within its bounds.
    Agent(AgentArgs),
    /// Measure between many hosts; name the slow host or link
    ///
    /// From outside, --hosts or --hostfile name the hosts and --launch what starts linerate on them (ssh where it
    /// is left away); the members connect back to this one. Inside a job (`srun linerate fleet pairs`, `mpirun -x
    /// LINERATE_KEY linerate fleet pairs`, an indexed Job of Kubernetes) rank 0 coordinates.
    Fleet(Box<FleetArgs>),
    /// One host of a fleet, started by its coordinator
    #[command(hide = true)]
    FleetMember(FleetMemberArgs),
    /// Copy files to another host or from it, and say what limited it
    ///
    /// ssh logs in there without a question and starts the other half, for which linerate has to be installed there. Files
    /// go over connections of their own, under TLS whose keys go over ssh. A file gets its name only once it is whole and on
    /// the disk; whatever ends it early, the same command goes on where it ended. The last line names the limit of either
    /// host.
    Copy(Box<CopyArgs>),
    /// The half of `linerate copy` on the other host, started by it
    #[command(hide = true)]
    CopyHalf,
    /// Serve folders and files over HTTP to any client
    ///
    /// What the page cache holds of files goes out without a copy, the rest are read past it, many reads at once. Each
    /// address of this host is printed with its URL, the fastest first; Ctrl-C ends it and says what was served.
    Serve(ServeArgs),
    /// Fetch files over HTTP or from S3, over several connections at once
    ///
    /// A file gets its name only once it is whole and on the disk. Whatever ends it early, the same command goes on
    /// where it ended. A file that changes on the server meanwhile is noticed. Files that are there are never
    /// replaced without --replace; one of the same size and time as the server's counts as fetched.
    Get(GetArgs),
    /// Put files and folders on a server or into an S3 store
    ///
    /// The server is `linerate serve --writable`, which gives a file its name only once its sum was compared,
    /// any other that takes PUT, or an S3 store, to which large files go in parts. Nothing there is replaced; a
    /// file that is as long and as old counts as put.
    Put(PutArgs),
    /// Stream a movie of tiles to a wall of screens at the hardware's rate
    Wall(WallArgs),
    /// Show which settings to change, and why; apply or undo them
    ///
    /// Changes nothing by itself.
    /// `linerate tune apply` changes them, with the old values in a journal first; `linerate tune undo`
    /// brings all of it back.
    Tune(Box<TuneArgs>),
    /// Show live what the server does, and what is at its limit
    ///
    /// Works by itself, beside anything, and changes no setting. Rates are of the time between two samples; what
    /// it cannot read is listed. --record keeps the samples, --replay shows them again.
    Watch(Box<WatchArgs>),
    /// Say what limits a running program, and what to change in its words
    ///
    /// Looks on for some seconds and changes nothing; one's own programs need no root. All processes that it started
    /// belong to it. What limits it is inferred from what is seen, so the sentence begins with "Probably"; what cannot
    /// be read is unknown.
    Explain(ExplainArgs),
    /// Show a result again: its screen, page, JSON or CSV
    ///
    /// From the file alone: what it says is judged again, so that a newer linerate says what it knows better.
    Report(ReportArgs),
    /// Set results side by side: before and after a change
    ///
    /// A difference is called one only where the 95 % intervals do not overlap. Unlike machines are said
    /// first, and what only one run measured is listed.
    Compare(CompareArgs),
    /// Say in one line whether this host is slower than usual
    ///
    /// By its own kept results: the same measurement as `linerate run`, shorter, held against the earlier ones of this
    /// host that measured the same way: 8 of them at least. Where it is slower, the line says what of the machine has changed since (kernel,
    /// MTU, links, drivers, settings, fill of the file systems, …), and the exit status is 4. A machine that changes
    /// its own speed cannot be judged; the line says so. RESULT judges what is kept already and measures nothing.
    Check(CheckArgs),
    /// List the kept results, one a line
    ///
    /// What run, disk, memory, load, network and fleet measure is kept in $XDG_STATE_HOME/linerate/results
    /// (~/.local/state/linerate/results), behind sudo in that of the user who called it: the newest 200 results of
    /// each command and 50 transfers of get and of put, 64 MiB in all; the oldest go first. Commands that read a
    /// result take @-1 for the newest, @-2 for the one before, @disk-1 for the newest of linerate disk, or @ and its
    /// number.
    List(ListArgs),
    /// Repeat a paper's experiments: its figures beside a plan or a run
    ///
    /// Five papers ship with linerate; without PAPER they are listed. Any other is a file, as docs/published.md has it.
    /// What is not the paper's has its first cause: a part, a rate, the method, the file system, the kernel. Steps whose
    /// parts are not here are left out, and say which.
    Reproduce(ReproduceArgs),
    /// Print man pages or shell completions, for packages
    #[command(hide = true)]
    Generate(GenerateArgs),
}

/// `linerate probe`.
#[derive(Debug, Args)]
pub struct ProbeArgs {
    /// What other tools printed about a machine, in any mixture: lspci, lshw, dmidecode, lstopo, lscpu, numactl, lsblk -J,
    /// nvme list -o json, mdadm --detail, ip, ethtool, netstat -s, nstat, ss, tc, sysctl -a, files of /proc, folders and
    /// tarballs of them, sosreports; each is known by its content. Two of one kind are a difference over time [default:
    /// this machine]
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[arg(from_global)]
    pub json: bool,
    /// Write the machine as a block diagram, with rates on its links, into this file as well
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Record the machine in this new tarball instead, readable by its owner only, without what reveals whose it is
    #[arg(long, value_name = "FILE.tar.gz", conflicts_with_all = ["json", "svg", "files"])]
    pub capture: Option<PathBuf>,
    #[command(flatten)]
    pub expect: ExpectArgs,
}

/// `linerate generate`.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    #[command(subcommand)]
    pub what: Generate,
}

/// What `linerate generate` prints.
#[derive(Debug, Subcommand)]
pub enum Generate {
    /// Man pages, one for each command, into a folder
    Man {
        /// Folder that exists
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Completions for a shell, on standard output
    Completions {
        /// The shell
        shell: clap_complete::Shell,
        /// The program
        #[arg(value_parser = ["linerate", "linerate-wall"], default_value = "linerate")]
        program: String,
    },
}

/// `LINERATE_IO_URING=0` forbids io_uring, where the kernel allows it: for a comparison, or where it is at fault.
pub(super) fn may_use_io_uring() -> bool {
    std::env::var_os("LINERATE_IO_URING").is_none_or(|value| value != "0")
}

/// Lines of `LINERATE_POWER_COMMAND`: each reads a power meter that linerate does not find by itself, and their sum counts.
pub(super) fn power_commands() -> Vec<String> {
    let lines = std::env::var("LINERATE_POWER_COMMAND").unwrap_or_default();
    lines.lines().filter(|line| !line.trim().is_empty()).map(String::from).collect()
}
