//! The best ring that this kernel makes, and its number among the registered rings of its thread.

use crate::kernel_tls;
use io_uring::{IoUring, Probe, opcode};
use std::fs::File;
use std::io;
use std::sync::Arc;

/// io_uring_register(2).
const REGISTER_RING_FDS: u32 = 20;
const UNREGISTER_RING_FDS: u32 = 21;

/// io_uring_rsrc_update of the kernel.
#[repr(C)]
struct ResourceUpdate {
    offset: u32,
    reserved: u32,
    data: u64,
}

/// The best ring that this kernel makes, and whether its completions wait until they are asked for.
pub(super) fn build(entries: u32) -> io::Result<(IoUring, bool)> {
    let best = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_coop_taskrun()
        .setup_submit_all()
        .build(entries);
    match best {
        Ok(ring) => Ok((ring, true)),
        // Before Linux 6.1 there is no deferred task run.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok((IoUring::new(entries)?, false)),
        Err(error) => Err(error),
    }
}

/// Whether the kernel has SEND_ZC (Linux 6.0). One that does not report what came of a send (before 6.2) refuses it when
/// it is sent, and the caller copies then.
pub(super) fn can_send_zero_copy(ring: &IoUring) -> bool {
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe).is_ok() && probe.is_supported(opcode::SendZc::CODE)
}

/// MSG_WAITALL makes io_uring retry a partial send until all is out (since Linux 5.19). A socket whose records the kernel
/// encrypts refuses it (`tls_sw_sendmsg`), and takes what it can.
pub(super) fn send_flags(files: &[Arc<File>]) -> i32 {
    match files.iter().any(kernel_tls::has_begun) {
        true => libc::MSG_NOSIGNAL,
        false => libc::MSG_WAITALL | libc::MSG_NOSIGNAL,
    }
}

/// The ring's number among this thread's registered rings: it spares a look-up of the descriptor at each call
/// (Linux 5.18).
pub(super) fn register_descriptor(ring: i32) -> Option<i32> {
    let mut update = ResourceUpdate { offset: u32::MAX, reserved: 0, data: ring as u64 };
    change_descriptor(ring, REGISTER_RING_FDS, &mut update).then_some(update.offset as i32)
}

fn change_descriptor(ring: i32, what: u32, update: &mut ResourceUpdate) -> bool {
    // SAFETY: one update, as the count says; the kernel writes the number into it.
    let answer =
        unsafe { libc::syscall(libc::SYS_io_uring_register, ring, what, std::ptr::from_mut(update), 1) };
    answer == 1
}

/// The registration would keep the ring until its thread ends.
pub(super) fn unregister_descriptor(ring: i32, number: i32) {
    let mut update = ResourceUpdate { offset: number as u32, reserved: 0, data: 0 };
    change_descriptor(ring, UNREGISTER_RING_FDS, &mut update);
}
