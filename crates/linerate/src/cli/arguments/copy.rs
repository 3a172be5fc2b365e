//! `linerate copy`.

use super::output::KeepingArgs;
use super::values::{rate, time};
use clap::Args;
use std::ffi::OsString;
use std::time::Duration;

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
    /// Never move more than this, such as 2G (bits) or 100MB/s, over all streams together [default: as fast
    /// as it goes]
    #[arg(long, value_name = "RATE", value_parser = rate(1e4..=1.25e14))]
    pub rate_limit: Option<f64>,
    /// A connection that moves next to nothing for this long is given up, and what it was at tried again
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time(Duration::from_secs(1)..=Duration::from_secs(3600)))]
    pub timeout: Duration,
    /// Print a line this often, such as 1s, with the bytes that are there, the rate, the time left and the present
    /// bottleneck; on standard output, or with --json as a line of JSON on standard error
    #[arg(long, value_name = "TIME", value_parser = time(Duration::from_millis(500)..=Duration::from_secs(3600)))]
    pub interval: Option<Duration>,
    /// Print the result as JSON on standard output, and nothing else
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub keeping: KeepingArgs,
}
