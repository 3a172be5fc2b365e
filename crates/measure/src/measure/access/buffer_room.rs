//! Whether the buffers of a job fit into memory.

use super::AccessJob;
use linerate_facts::failure::Failure;
use linerate_facts::room::available_bytes;
use linerate_facts::sysroot::Sysroot;
use linerate_facts::units::show_size;
use linerate_facts::wording::counted;

/// Share of the available memory that buffers may take.
const BUFFER_SHARE: f64 = 0.5;
/// What a worker takes beside its buffers: three histograms with three digits, its thread, its ring.
const WORKER_BYTES: u128 = 1 << 20;

/// Buffers that do not fit into memory would be measured as swapping, or end the process.
pub(super) fn check_memory(sysroot: &Sysroot, job: &AccessJob) -> Result<(), Failure> {
    let buffers = u128::from(job.queue_depth) * u128::from(job.transfer_bytes);
    let need = u128::from(job.workers) * (buffers + WORKER_BYTES);
    let need = u64::try_from(need).unwrap_or(u64::MAX);
    let Some(available) = available_bytes(sysroot) else { return Ok(()) };
    if need as f64 <= available as f64 * BUFFER_SHARE {
        return Ok(());
    }
    Err(Failure::Lacks(format!(
        "{} × {} × {} need {} with their buffers, and {} of memory are available, of which \
         half may be used; fewer --workers, a smaller --queue-depth or --transfer",
        counted(job.workers, "worker"),
        counted(job.queue_depth, "request"),
        show_size(job.transfer_bytes),
        show_size(need),
        show_size(available)
    )))
}
