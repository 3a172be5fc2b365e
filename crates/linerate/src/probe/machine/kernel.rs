//! Kernel version and settings.

use crate::fact::Fact;
use serde::{Deserialize, Serialize};

/// Kernel version and settings that bound a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// `uname -r`.
    pub release: Fact<String>,
    /// `kernel.io_uring_disabled`: 0 allowed, 1 group only, 2 off.
    pub io_uring_disabled: Fact<u32>,
    /// RLIMIT_MEMLOCK soft limit of this process, bytes; `u64::MAX` is unlimited, or this process has CAP_IPC_LOCK.
    pub memlock_bytes: Fact<u64>,
    /// `net.core.rmem_max`, bytes.
    pub rmem_max_bytes: Fact<u64>,
    /// `net.core.wmem_max`, bytes.
    pub wmem_max_bytes: Fact<u64>,
    /// `net.ipv4.tcp_rmem` maximum, bytes.
    pub tcp_rmem_max_bytes: Fact<u64>,
    /// `net.ipv4.tcp_wmem` maximum, bytes.
    pub tcp_wmem_max_bytes: Fact<u64>,
    /// `net.ipv4.tcp_congestion_control`.
    pub tcp_congestion_control: Fact<String>,
    /// `net.ipv4.tcp_available_congestion_control`.
    pub tcp_available_congestion_control: Fact<Vec<String>>,
}
