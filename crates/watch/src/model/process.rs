//! Which program moves the bytes and uses the CPUs: storage by `/proc/PID/io`, TCP by the sockets that a process
//! holds, CPU time by `/proc/PID/stat`.

use linerate_facts::fact::Fact;
use serde::{Deserialize, Serialize};

/// The processes of the machine, as far as this user may see them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Processes {
    /// Those that moved bytes, busiest first, and those that used a hundredth of a CPU or more; at most 64, the five
    /// with most CPU time always among them.
    pub busiest: Vec<ProcessRates>,
    /// Others that moved bytes, too.
    pub left_out: u64,
    /// Processes that `/proc` lists; none where nobody looked.
    pub count: Option<u64>,
    /// Of those, the ones whose storage counters this user may not read.
    pub unreadable: u64,
    /// Root asked: what it may not read of a process is for nobody to read.
    pub asked_by_root: bool,
    /// The kernel does not count what a process reads and writes (CONFIG_TASK_IO_ACCOUNTING).
    pub uncounted: bool,
    /// `/proc` lists the processes of this user only.
    pub others_are_hidden: bool,
    /// TCP connections that were looked at.
    pub connections: Fact<u64>,
    /// Sent by TCP connections that no process could be found for: another user's, or the kernel's own.
    pub unowned_send_bytes_per_second: Option<f64>,
    /// Received by them.
    pub unowned_receive_bytes_per_second: Option<f64>,
    /// UDP by process: the kernel counts no bytes of a UDP socket.
    pub udp_bytes_per_second: Fact<f64>,
}

/// One process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessRates {
    pub pid: u32,
    /// The program's name as the kernel keeps it: 15 bytes, of any kind.
    pub name: String,
    /// When it began, ticks since boot: another one is another process.
    pub started_ticks: u64,
    /// From storage, not from the page cache.
    pub read_bytes_per_second: Option<f64>,
    /// To storage; what is written through the page cache counts when it is made dirty.
    pub written_bytes_per_second: Option<f64>,
    /// Acknowledged by the other ends of its TCP connections.
    pub tcp_send_bytes_per_second: Option<f64>,
    /// Received in order.
    pub tcp_receive_bytes_per_second: Option<f64>,
    /// CPU time of its threads ÷ time: 1 is one CPU.
    pub cpus: Option<f64>,
}

/// What is shown of those that use the CPUs.
pub const BUSIEST_BY_CPU: usize = 5;
/// CPUs from which on a process is one of them: a tick of the kernel's clock in a second.
pub const LEAST_CPUS: f64 = 0.01;

impl Processes {
    /// The five with most CPU time.
    pub fn busiest_by_cpu(&self) -> Vec<&ProcessRates> {
        let mut all: Vec<&ProcessRates> = self.busiest.iter().filter(|one| one.uses_cpu()).collect();
        all.sort_by(|a, b| b.cpus.unwrap_or(0.0).total_cmp(&a.cpus.unwrap_or(0.0)));
        all.truncate(BUSIEST_BY_CPU);
        all
    }

    /// How many of them moved bytes.
    pub fn moving(&self) -> u64 {
        self.busiest.iter().filter(|one| one.bytes_per_second() > 0.0).count() as u64 + self.left_out
    }
}

impl ProcessRates {
    /// All that it moves: read, written, sent and received, as far as known.
    pub fn bytes_per_second(&self) -> f64 {
        self.rates().into_iter().flatten().sum()
    }

    /// It used some CPU time that is worth a row.
    pub fn uses_cpu(&self) -> bool {
        self.cpus.is_some_and(|cpus| cpus >= LEAST_CPUS)
    }

    /// Read, written, sent, received.
    pub fn rates(&self) -> [Option<f64>; 4] {
        [
            self.read_bytes_per_second,
            self.written_bytes_per_second,
            self.tcp_send_bytes_per_second,
            self.tcp_receive_bytes_per_second,
        ]
    }
}
