//! `linerate watch`.

use super::values::time;
use clap::Args;
use linerate_transport::address::{ListenAddressError, listen_address};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// `linerate watch`.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Time between two samples, such as 1s or 250ms
    #[arg(short, long, value_name = "TIME", value_parser = time(Duration::from_millis(100)..=Duration::from_secs(3600)), default_value = "1s")]
    pub interval: Duration,
    /// End after this number of samples [default: until Ctrl-C]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    #[arg(from_global)]
    pub json: bool,
    /// Keep the samples in a new file (JSON lines, zstd) that --replay shows again; whole also after kill -9
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Show a recording instead of this machine; with --listen the page stays after its end, until Ctrl-C
    #[arg(long, value_name = "FILE", conflicts_with_all = ["record", "root", "interval", "nic", "disk"])]
    pub replay: Option<PathBuf>,
    /// Times as fast as it was recorded, or max: without waiting
    #[arg(long, value_name = "X|max", value_parser = speed, default_value = "1", requires = "replay")]
    pub speed: f64,
    /// Serve a web page and /metrics (Prometheus) there, such as 127.0.0.1:7414 [default: none]
    #[arg(short = 'p', long, value_name = "[ADDRESS:]PORT", value_parser = page_address)]
    pub listen: Option<SocketAddr>,
    /// The token that the page and /metrics then want (64 hex digits; made where the file is absent); needed
    /// for an address that others reach
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub token_file: Option<PathBuf>,
    /// Only these interfaces; repeat for several [default: all but lo]
    #[arg(long, value_name = "NAME")]
    pub nic: Vec<String>,
    /// Only these disks, partitions too; repeat for several [default: all whole disks]
    #[arg(long, value_name = "NAME")]
    pub disk: Vec<String>,
    /// Read a recorded tree that holds sys/ and proc/, or a tarball of one, instead of this machine
    #[arg(long, value_name = "DIR|FILE")]
    pub root: Option<PathBuf>,
}

/// A port alone is this host's own: the page is for others only where an address says so.
fn page_address(text: &str) -> Result<SocketAddr, ListenAddressError> {
    listen_address(text, Ipv4Addr::LOCALHOST.into(), None)
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        _ if text == "max" => Ok(f64::INFINITY),
        Ok(speed) if (0.01..=10_000.0).contains(&speed) => Ok(speed),
        _ => Err("a speed lies between 0.01 and 10000, or is max".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds() {
        assert_eq!((speed("10"), speed("max")), (Ok(10.0), Ok(f64::INFINITY)));
        assert!(speed("0").is_err() && speed("nan").is_err() && speed("inf").is_err());
    }
}
