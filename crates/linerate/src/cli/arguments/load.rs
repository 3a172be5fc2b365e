//! `linerate load`.

use super::job::{LARGEST_REQUEST, MOST_BYTES, access, pattern, requests};
use super::measuring::LiveArgs;
use super::output::OutputArgs;
use super::values::{seconds, size};
use clap::Args;
use linerate_facts::units::parse_duration;
use linerate_measure::measure::access::{Access, AccessOrder};
use linerate_measure::measure::load::{Keep, Statistic};
use std::path::PathBuf;

/// The seed's limit: the mean access time passes 100 milliseconds.
const USUAL_KEEP: &str = "mean=100ms";

/// `linerate load`.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// Directory to make a file in, or file or block device to read; repeat for several files, the requests
    /// go to all [default: .]
    #[arg(long, value_name = "PATH")]
    pub source: Vec<PathBuf>,
    /// Latency that is kept: mean, p50, p90, p95, p99, p99.9 or p99.99, such as p99=20ms
    #[arg(long, value_name = "LATENCY=TIME", value_parser = keep, default_value = USUAL_KEEP)]
    pub keep: Keep,
    /// Requests a second, sent on schedule whatever the device does; latency counts from the intended start
    /// [default: each user asks again as soon as it is answered]
    #[arg(long, value_name = "REQUESTS", value_parser = requests)]
    pub rate: Option<f64>,
    /// Find the highest rate, on schedule, that keeps the limit of --keep
    #[arg(long, conflicts_with = "rate")]
    pub find_rate: bool,
    /// Most users, each with one request in flight; with --rate and --find-rate the most requests in flight
    /// [default: 4096; 256]
    #[arg(long, value_name = "USERS", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub workers: Option<u32>,
    /// Bytes a request
    #[arg(long, value_name = "SIZE", value_parser = size(1..=LARGEST_REQUEST), default_value = "8k")]
    pub transfer: u64,
    /// read, write, mixed or mixed:PERCENT: this share of the requests reads, 70 where none is given, the others write
    #[arg(long, value_parser = access, default_value = "read")]
    pub access: Access,
    /// random, zipf:THETA, hot:PERCENT:HITS (10:90: a tenth of the places gets 90 % of the requests) or
    /// sequential; each thread goes over its own part of each file
    #[arg(long, value_parser = pattern, default_value = "random")]
    pub pattern: AccessOrder,
    /// Size of a file that is made in a directory; less where writing it takes longer than 8 s
    #[arg(long, value_name = "SIZE", value_parser = size(1..=MOST_BYTES), default_value = "1G")]
    pub amount: u64,
    /// Through the page cache instead of past it (O_DIRECT)
    #[arg(long)]
    pub buffered: bool,
    /// Length of one window, such as 2 (seconds) or 500ms
    #[arg(short = 't', long, value_name = "TIME", value_parser = seconds, default_value = "0.4")]
    pub seconds: f64,
    /// Windows of a step; its rate is their median
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Block device, or file that is there, whose data may be destroyed by writing; repeat for several. Never
    /// one that is in use
    #[arg(long, value_name = "NAME")]
    pub destroy_data: Vec<String>,
    /// What to call the result [default: the first source]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    #[command(flatten)]
    pub live: LiveArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

fn keep(text: &str) -> Result<Keep, String> {
    let wrong = || {
        format!(
            "“{text}” is not a limit of latency: write it like mean=100ms, p99=20ms or p99.9=500us (mean, p50, \
             p90, p95, p99, p99.9, p99.99)"
        )
    };
    let (of, time) = text.split_once('=').ok_or_else(wrong)?;
    let of = Statistic::named(of.trim()).ok_or_else(wrong)?;
    // Seconds elsewhere; whoever writes p99=20 means milliseconds.
    if time.trim().parse::<f64>().is_ok() {
        let (time, of) = (time.trim(), of.word());
        return Err(format!("“{text}” has no unit: write {of}={time}ms, {of}={time}us or {of}={time}s"));
    }
    match parse_duration(time).map_err(|_| wrong())?.as_secs_f64() {
        limit if (1e-6..=60.0).contains(&limit) => Ok(Keep { of, limit }),
        _ => Err(format!("{time}: a limit of latency lies between 1us and 60s")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_as_they_are_written() {
        assert_eq!(keep("mean=100ms"), Ok(Keep { of: Statistic::Mean, limit: 0.1 }));
        assert_eq!(keep("p99.9 = 1.5s"), Ok(Keep { of: Statistic::P99_9, limit: 1.5 }));
        let without = keep("p99 = 20").expect_err("20 of what?");
        assert!(without.ends_with("has no unit: write p99=20ms, p99=20us or p99=20s"), "{without}");
        assert!(keep("p50=500us").is_ok_and(|keep| (keep.limit - 5e-4).abs() < 1e-12));
        for wrong in
            ["", "p99", "p99=", "p98=1ms", "p99=ms", "mean=0ms", "mean=2h", "mean=-1ms", "p99=100000s"]
        {
            assert!(keep(wrong).is_err(), "{wrong}");
        }
    }
}
