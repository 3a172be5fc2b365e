//! `linerate copy`.

use super::deliver::TransferArgs;
use clap::Args;
use std::ffi::OsString;

/// `linerate copy`.
#[derive(Debug, Args)]
pub struct CopyArgs {
    /// File, or folder with all that is below it, here or at [USER@]HOST:PATH; with a slash at its end what is in the
    /// folder. Repeat it for several of one host. - is standard input, as one file
    #[arg(value_name = "SRC", required = true)]
    pub source: Vec<OsString>,
    /// Folder they go into, made where it is absent, or the name that one file gets: [USER@]HOST:PATH, or here where SRC
    /// is of another host; ssh://[USER@]HOST[:PORT]/PATH for another port of ssh
    #[arg(value_name = "DST", required = true)]
    pub destination: OsString,
    /// Connections that carry parts of the files at once [default: 4; 8 where a round trip takes 10 ms or more, 16 from
    /// 40 ms on]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub streams: Option<u32>,
    /// Keep modes, times to the nanosecond, links, holes, hard links and extended attributes, as root owners, too, by
    /// their numbers
    #[arg(long)]
    pub archive: bool,
    /// Leave out what is called so, `*` being any part of a name; with a slash in it, what has this path below DST. Repeat
    /// it for several
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<OsString>,
    /// Replace files that are there and differ; without it they are left as they are
    #[arg(long)]
    pub replace: bool,
    /// Say what would be copied, and copy nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Take this program to the other host for the time of the copy, where it is not installed or is another version; it
    /// gets no name there, and nothing of it stays
    #[arg(long)]
    pub bring: bool,
    /// Send the files in the clear, where the network between the hosts is trusted [default: TLS 1.3, whose keys go over
    /// ssh]
    #[arg(long)]
    pub no_encryption: bool,
    #[command(flatten)]
    pub transfer: TransferArgs,
}
