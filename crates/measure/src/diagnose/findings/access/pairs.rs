//! Findings that hold two measurements of one run against each other, alike in all but one thing.

use super::super::super::product::Finding;
use super::{Cell, names_of};
use crate::measure::access::{AccessJob, AccessOrder};
use linerate_facts::units::{show_bytes_rate, show_size};
use linerate_machine::probe::Machine;
use serde_json::json;

/// More requests in flight that bring so many times as much tell that fewer were too few.
const BRINGS: f64 = 1.25;
/// Numbers of requests a second that differ by less are the same limit …
const SAME: f64 = 0.05;
/// … where the bytes of a request differ by so many times at least.
const UNLIKE: f64 = 2.0;
/// Past the page cache so many times as fast as through it.
const DIRECT_FASTER: f64 = 1.5;

/// All pairs, in the order of the measurements.
fn pairs<'a>(
    cells: &'a [Cell<'a>],
    alike: impl Fn(&AccessJob, &AccessJob) -> bool,
) -> impl Iterator<Item = (&'a Cell<'a>, &'a Cell<'a>)> {
    let all = cells.iter().enumerate();
    let all = all.flat_map(move |(at, one)| {
        cells.iter().enumerate().filter_map(move |(other_at, other)| (at != other_at).then_some((one, other)))
    });
    all.filter(move |(one, other)| alike(&one.access.job, &other.access.job))
}

fn in_flight(job: &AccessJob) -> u32 {
    job.workers.saturating_mul(job.queue_depth)
}

/// `deeper-is-faster`: the same with more in flight brought more.
pub(super) fn deeper_is_faster(_: &Machine, cells: &[Cell]) -> Vec<Finding> {
    let alike = |few: &AccessJob, many: &AccessJob| {
        let (workers, queue_depth) = (many.workers, many.queue_depth);
        let block_bytes = many.block_bytes;
        AccessJob { workers, queue_depth, block_bytes, ..few.clone() } == *many
            && in_flight(few) < in_flight(many)
    };
    let gain = |few: &Cell, many: &Cell| many.figure.bytes_per_second / few.figure.bytes_per_second;
    let best = pairs(cells, alike)
        .filter(|(few, many)| few.of_devices() && gain(few, many) >= BRINGS)
        .max_by(|one, other| gain(one.0, one.1).total_cmp(&gain(other.0, other.1)));
    let Some((few, many)) = best else { return Vec::new() };
    let (slow, fast) = (few.figure.bytes_per_second, many.figure.bytes_per_second);
    vec![Finding::note("deeper-is-faster", format!(
            "{} with {} in flight, {} with {} ({}): the device works on several at once, and a program that \
             asks one at a time gets {:.0} % of it",
            show_bytes_rate(slow),
            in_flight(&few.access.job),
            show_bytes_rate(fast),
            in_flight(&many.access.job),
            names_of(&[few]),
            slow / fast * 100.0
        )).evidence(json!({
            "in_flight": [in_flight(&few.access.job), in_flight(&many.access.job)], "bytes_per_second": [slow, fast],
        })).remedy("let the application keep more requests in flight: threads, asynchronous reads, read-ahead").gain(fast - slow)]
}

/// `request-limit`: as many requests a second whatever their size, as volumes of clouds and control groups
/// count them.
pub(super) fn request_limit(_: &Machine, cells: &[Cell]) -> Vec<Finding> {
    let alike = |small: &AccessJob, large: &AccessJob| {
        let (transfer_bytes, block_bytes) = (large.transfer_bytes, large.block_bytes);
        let other = AccessJob { transfer_bytes, block_bytes, ..small.clone() } == *large;
        other && large.transfer_bytes as f64 >= UNLIKE * small.transfer_bytes as f64
    };
    let same = |small: &Cell, large: &Cell| {
        let (one, other) = (small.operations_per_second(), large.operations_per_second());
        one > 0.0 && (other / one - 1.0).abs() <= SAME
    };
    // At depth 1 a device that needs as long for either size shows the same without any limit.
    let pair = pairs(cells, alike).find(|(small, large)| {
        small.of_devices() && large.of_devices() && in_flight(&small.access.job) > 1 && same(small, large)
    });
    let Some((small, large)) = pair else { return Vec::new() };
    let (one, other) = (small.access.job.transfer_bytes, large.access.job.transfer_bytes);
    vec![Finding::slow("request-limit", format!(
            "{:.0} requests a second of {}, and {:.0} of {}: a number of requests is what holds them, not \
             bytes",
            small.operations_per_second(),
            show_size(one),
            large.operations_per_second(),
            show_size(other)
        )).evidence(json!({
            "transfer_bytes": [one, other],
            "operations_per_second": [small.operations_per_second(), large.operations_per_second()],
        })).remedy("larger requests; or raise the limit: a cloud volume's IOPS, a control group's io.max or \
         blkio.throttle")]
}

/// `read-ahead`: reading through the page cache is slower than the device, since too little is asked for
/// ahead.
pub(super) fn read_ahead(machine: &Machine, cells: &[Cell]) -> Vec<Finding> {
    let alike = |buffered: &AccessJob, direct: &AccessJob| {
        let reads = buffered.reads() && !buffered.writes() && buffered.order == AccessOrder::Sequential;
        let same = direct.order == AccessOrder::Sequential && direct.reads() && !direct.writes();
        reads && same && !buffered.direct && direct.direct && buffered.sources == direct.sources
    };
    let slower = pairs(cells, alike).find(|(buffered, direct)| {
        buffered.of_devices()
            && direct.figure.bytes_per_second > DIRECT_FASTER * buffered.figure.bytes_per_second
    });
    let Some((buffered, direct)) = slower else { return Vec::new() };
    let device = buffered.access.devices.first().and_then(|used| machine.disk(&used.name));
    let Some((device, ahead)) = device.and_then(|disk| Some((disk, *disk.read_ahead_bytes.known()?))) else {
        return Vec::new();
    };
    let (slow, fast) = (buffered.figure.bytes_per_second, direct.figure.bytes_per_second);
    vec![Finding::slow("read-ahead", format!(
            "read in sequence through the page cache {} gives {}, past it {}: the kernel asks only {} ahead",
            device.name,
            show_bytes_rate(slow),
            show_bytes_rate(fast),
            show_size(ahead)
        )).evidence(json!({ "device": device.name, "read_ahead_bytes": ahead, "bytes_per_second": [slow, fast] })).remedy(format!(
            "blockdev --setra {} /dev/{} (sectors of 512 bytes), or `linerate tune apply --finding \
             read-ahead`, which undo brings back; then measure again",
            8 * ahead.max(131_072) / 512,
            device.name
        )).gain(fast - slow)]
}
