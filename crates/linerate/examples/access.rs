//! One worker of the storage benchmarks by itself, for `bench/access`: what it costs a request, without the
//! program around it.
//!
//! `access FILE BLOCK DEPTH SECONDS read|write sequential|random io_uring|psync|mmap|threads direct|buffered`
//! prints requests a second, bytes a second, CPU seconds a million requests, the 99th percentile in
//! microseconds, and the method.

use linerate::flow::access::{
    AccessCounters, AccessFile, AccessOrder, AccessStart, Area, Engine, Pace, Walk, start,
};
use std::error::Error;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// O_DIRECT of x86-64 and most others.
const DIRECT: i32 = 0o40000;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [path, block, depth, seconds, access, order, engine, caching] = words.as_slice() else {
        return Err(
            "give FILE BLOCK DEPTH SECONDS ACCESS ORDER ENGINE CACHING: see the head of this file".into()
        );
    };
    let (reading, direct) = (access == "read", caching == "direct");
    let flags = if direct { DIRECT } else { 0 };
    let file = File::options().read(true).write(!reading).custom_flags(flags).open(path)?;
    let (block, seconds): (usize, f64) = (block.parse()?, seconds.parse()?);
    let area = Area::whole(0, 0, file.metadata()?.len() / block as u64 * block as u64);
    let order = if order == "random" { AccessOrder::Random } else { AccessOrder::Sequential };
    let walk = Walk::new(vec![area], order, block as u64, 42).ok_or("the file is smaller than a request")?;
    let begin = Instant::now();
    let counters = Arc::new(AccessCounters::new(begin));
    let stop = Arc::new(AtomicBool::new(false));
    let plan = AccessStart {
        core: None,
        files: vec![AccessFile { file: Arc::new(file), label: path.clone() }],
        walk,
        read_share: if reading { 1.0 } else { 0.0 },
        transfer_bytes: block,
        queue_depth: depth.parse()?,
        engine: match engine.as_str() {
            "psync" => Engine::Psync,
            "mmap" => Engine::Mmap,
            _ => Engine::IoUring,
        },
        pace: Pace::Closed,
        amount_bytes: None,
        fsync_at_end: false,
        sync: None,
        stamp: None,
        seed: 42,
        io_uring: engine != "threads",
        begin,
    };
    let running = start(plan, counters, Arc::clone(&stop))?;
    std::thread::sleep(Duration::from_secs_f64(seconds));
    stop.store(true, Ordering::Relaxed);
    let outcome = running.join()?;
    if let Some(error) = outcome.errors.first() {
        return Err(format!("{} at {}: {}", error.label, error.offset, error.why).into());
    }
    let side = if reading { &outcome.reads } else { &outcome.writes };
    let span = outcome.ended_seconds - outcome.started_seconds;
    println!(
        "{:.0} {:.0} {:.4} {:.1} {:.1} {}",
        side.operations as f64 / span,
        side.bytes as f64 / span,
        outcome.cpu_seconds / side.operations as f64 * 1e6,
        side.latency.value_at_quantile(0.99) as f64 / 1e3,
        outcome.mean_depth,
        outcome.method,
    );
    Ok(())
}
