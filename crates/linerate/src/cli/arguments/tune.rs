//! `linerate tune`.

use super::values::{Choices, one_of, rate, time};
use clap::{Args, Subcommand};
use linerate_tune::catalogue::SettingStage;
use std::path::PathBuf;
use std::time::Duration;

/// `linerate tune`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct TuneArgs {
    #[command(subcommand)]
    pub what: Option<TuneWhat>,
    #[command(flatten)]
    pub options: TuneOptions,
    /// List settings that are right, for you to decide or unknown as well
    #[arg(long)]
    pub all: bool,
}

/// What else `linerate tune` does.
#[derive(Debug, Subcommand)]
pub enum TuneWhat {
    /// Change what the plan advises; the old values go into a journal first
    ///
    /// Asks on a terminal; elsewhere it wants --yes. Without --setting, --finding and --stage: everything
    /// that the plan advises and that is of low or medium risk. What is of high risk is changed only where
    /// --setting or --finding names it.
    Apply,
    /// Try settings in turns with their current values, and keep only what helped beyond noise
    ///
    /// Without --setting, --finding and --stage: everything that the plan advises, what belongs to a process
    /// first. Windows of the state as it is and of the wanted one alternate, and a setting helped where the
    /// intervals of the two part by 2 % and more; what did not help is restored at once. Each setting is
    /// measured where it shows: disk (--source on that disk), network (--peer, else loopback) or the path of
    /// both. Every change goes through the journal: what a crash leaves behind, `linerate tune undo` brings
    /// back.
    Measure(MeasureArgs),
    /// Restore the earlier values, also after a crash or a reboot
    ///
    /// The last change first. A value that somebody else wrote since is shown and stays; the journal keeps it
    /// until it is forced or forgotten.
    Undo(UndoArgs),
    /// Let what is applied last over a reboot: drop-ins for sysctl.d, udev, tmpfiles.d and systemd, which
    /// undo takes away
    Persist,
}

/// What every `linerate tune …` takes: which settings, for what, of which machine.
#[derive(Clone, Debug, Args)]
pub struct TuneOptions {
    /// Rate that the machine is to carry [default: that of its fastest link]
    #[arg(long, global = true, value_name = "RATE", value_parser = rate(1.25e5..=1.25e12))]
    pub rate: Option<f64>,
    /// Round trip to the farthest peer, such as 20ms [default: 20ms]
    #[arg(long, global = true, value_name = "TIME", value_parser = time(Duration::from_micros(1)..=Duration::from_secs(10)))]
    pub rtt: Option<Duration>,
    /// Only settings that are for this stage
    #[arg(long, global = true, value_parser = one_of(STAGES))]
    pub stage: Option<SettingStage>,
    /// Only settings that cure this finding of a run; repeat for several
    #[arg(long, global = true, value_name = "ID")]
    pub finding: Vec<String>,
    /// Only this setting, at one device or at all; with a value: that instead of the one advised; repeat for
    /// several
    #[arg(long, global = true, value_name = "ID[:DEVICE][=VALUE]")]
    pub setting: Vec<String>,
    /// Do not ask
    #[arg(short, long, global = true)]
    pub yes: bool,
    /// A folder with sys/ and proc/ in place of a machine, for rehearsals: nothing outside of it is read
    /// or written
    #[arg(long, global = true, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Network namespace of `ip netns` whose settings are meant [default: the one that linerate runs in]
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "root")]
    pub netns: Option<String>,
    /// Folder of the journal [default: /var/lib/linerate; with --root, there below DIR]
    #[arg(long, global = true, value_name = "DIR")]
    pub journal: Option<PathBuf>,
    #[arg(from_global)]
    pub json: bool,
}

/// `linerate tune measure`.
#[derive(Debug, Args)]
pub struct MeasureArgs {
    /// Address of an agent, one for each path; repeat for several [default: a built-in receiver on
    /// loopback]
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    pub peer: Vec<String>,
    /// File with the agents' key [default: the digits in LINERATE_KEY, else
    /// $XDG_CONFIG_HOME/linerate/key]
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// File, block device or directory on the disk that is tried; in a directory a nameless file is written
    /// [default: .]
    #[arg(long, value_name = "PATH", default_value = ".", hide_default_value = true)]
    pub source: PathBuf,
    /// Length of one window, such as 2 (seconds) or 500ms
    #[arg(short = 't', long, value_name = "TIME", value_parser = window, default_value = "1")]
    pub seconds: f64,
    /// Windows of the wanted state; there is one more of the state as it is
    #[arg(long, value_name = "NUMBER", default_value_t = 5, value_parser = clap::value_parser!(u32).range(3..=100))]
    pub repeats: u32,
}

/// `linerate tune undo`.
#[derive(Debug, Args)]
pub struct UndoArgs {
    /// Restore this setting although somebody else changed it since, or though this linerate does not know
    /// it; repeat for several
    #[arg(long, value_name = "SETTING")]
    pub force: Vec<String>,
    /// Leave this setting as it is, and take it out of the journal; repeat for several
    #[arg(long, value_name = "SETTING")]
    pub forget: Vec<String>,
}

/// `--stage`.
const STAGES: Choices<SettingStage> = &[
    ("network", "", SettingStage::Network),
    ("disk", "", SettingStage::Disk),
    ("memory", "", SettingStage::Memory),
];

/// Shorter windows are noise, longer ones patience.
fn window(text: &str) -> Result<f64, String> {
    time(Duration::from_millis(100)..=Duration::from_secs(600))(text).map(|time| time.as_secs_f64())
}
