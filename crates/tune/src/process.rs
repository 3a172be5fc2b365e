//! What belongs to a process and to nobody else: it needs no journal, since the kernel takes it back when the
//! process ends. linerate does it for itself; a measurement shows what it brings.

use super::catalogue::SettingStage;
use super::goal::GoalFacts;
use linerate_facts::fact::Fact;
use linerate_facts::protocol::Protocol;
use linerate_facts::units::show_size;
use linerate_measure::measure::streams::StreamDirection;
use linerate_measure::run::again::{FigureKind, ProcessOptions};
use linerate_model::plan::Pin;
use linerate_system::process::{Awake, memlock_bytes, memlock_most_bytes, set_memlock_bytes};
use serde::Serialize;
use std::io;

const SEND: FigureKind = FigureKind::Network(Protocol::Tcp, StreamDirection::Send);

/// One thing that a process may do for itself.
#[derive(Debug)]
pub struct Own {
    /// Name, as `--setting` takes it.
    pub id: &'static str,
    pub what: &'static str,
    pub stage: SettingStage,
    /// What shows it.
    pub figure: FigureKind,
    /// The state before, and the wanted one.
    pub states: [&'static str; 2],
    /// How linerate gives it.
    pub given_by: &'static str,
    pub source: &'static str,
    /// Findings of a run that it cures.
    pub findings: &'static [&'static str],
    kind: Which,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Pinning,
    Latency,
    Pacing,
    Locked,
    Ring,
}

/// In the order in which they are tried: before anything of the machine.
pub const ALL: &[Own] = &[
    Own {
        id: "pinning",
        what: "threads stay on cores near the NIC",
        stage: SettingStage::Network,
        figure: SEND,
        states: ["wherever the scheduler puts them", "on cores of the NIC's node"],
        given_by: "linerate run and linerate wall serve pin their workers; linerate network: --pin",
        source: "https://man7.org/linux/man-pages/man2/sched_setaffinity.2.html",
        findings: &[],
        kind: Which::Pinning,
    },
    Own {
        id: "dma-latency",
        what: "cores do not sleep deeply while the process works",
        stage: SettingStage::Network,
        figure: SEND,
        states: ["any sleep", "awake within 0 µs"],
        given_by: "cpupower idle-set --disable-by-latency 0, tuned-adm profile network-latency; as root",
        source: "https://docs.kernel.org/power/pm_qos_interface.html",
        findings: &[],
        kind: Which::Latency,
    },
    Own {
        id: "pacing",
        what: "a stream keeps to a rate, so that its bursts overflow no switch",
        stage: SettingStage::Network,
        figure: SEND,
        states: ["as fast as it goes", "the rate of --rate"],
        given_by: "linerate wall serve paces each worker; linerate network: --rate",
        source: "https://man7.org/linux/man-pages/man8/tc-fq.8.html",
        findings: &[],
        kind: Which::Pacing,
    },
    Own {
        id: "memlock",
        what: "memory that the process may lock: buffers that the kernel need not look up for each request",
        stage: SettingStage::Disk,
        figure: FigureKind::DirectReads,
        states: ["the soft limit", "the hard limit"],
        given_by: "`ulimit -l` before linerate starts, LimitMEMLOCK=infinity in its unit",
        source: "https://man7.org/linux/man-pages/man2/getrlimit.2.html",
        findings: &["memlock"],
        kind: Which::Locked,
    },
    Own {
        id: "io-uring",
        what: "requests in flight without a thread for each",
        stage: SettingStage::Disk,
        figure: FigureKind::DirectReads,
        states: ["one read at a time", "io_uring"],
        given_by: "linerate run and linerate wall serve use it; LINERATE_IO_URING=0 leaves it away",
        source: "https://man7.org/linux/man-pages/man7/io_uring.7.html",
        findings: &[],
        kind: Which::Ring,
    },
];

/// One of them on this machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OwnItem {
    pub id: &'static str,
    pub what: &'static str,
    pub stage: SettingStage,
    pub now: Fact<String>,
    pub given_by: &'static str,
    pub source: &'static str,
    pub findings: &'static [&'static str],
}

/// All of them on this machine.
pub fn look(facts: &GoalFacts) -> Vec<OwnItem> {
    let item = |own: &'static Own| OwnItem {
        id: own.id,
        what: own.what,
        stage: own.stage,
        now: own.now(facts),
        given_by: own.given_by,
        source: own.source,
        findings: own.findings,
    };
    ALL.iter().map(item).collect()
}

/// Why the process cannot go to a state, as a phrase.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    #[error("/dev/cpu_dma_latency: {0}; root may, where the kernel has it")]
    Latency(io::Error),
    #[error(transparent)]
    Locked(io::Error),
}

/// What is held for as long as a state lasts.
#[derive(Debug)]
pub enum StateHold {
    Nothing,
    Awake(Awake),
    /// The soft limit that was there before.
    Locked(Option<u64>),
}

impl Drop for StateHold {
    fn drop(&mut self) {
        if let StateHold::Locked(before) = self {
            // It was ours a moment ago.
            let _ = set_memlock_bytes(*before);
        }
    }
}

impl Own {
    fn now(&self, facts: &GoalFacts) -> Fact<String> {
        match self.kind {
            Which::Locked => {
                let shown = |limit: Option<u64>| limit.map_or("unlimited".into(), show_size);
                Fact::Known(format!("{} of at most {}", shown(memlock_bytes()), shown(memlock_most_bytes())))
            }
            Which::Ring => match facts.sysroot.parse::<u64>("/proc/sys/kernel/io_uring_disabled") {
                Fact::Known(0) => Fact::Known("allowed".into()),
                Fact::Known(1) => Fact::Known("allowed for one group and root".into()),
                Fact::Known(_) => Fact::Known("forbidden: io-uring-disabled".into()),
                Fact::Unknown { .. } => Fact::unknown("this kernel does not report whether it is allowed"),
            },
            Which::Pinning | Which::Latency | Which::Pacing => Fact::Known("the process's own".into()),
        }
    }

    /// Why it cannot be tried here, a phrase.
    pub(crate) fn untried(&self, rate: Option<f64>) -> Option<String> {
        match self.kind {
            Which::Pacing if rate.is_none() => Some("give the rate to keep to with --rate".into()),
            Which::Locked if memlock_bytes() == memlock_most_bytes() => {
                Some("the limit is as high as this process may have it".into())
            }
            _ => None,
        }
    }

    /// Goes to a state, as far as it is one of the whole process.
    pub fn hold(&self, wanted: bool) -> Result<StateHold, HoldError> {
        match (self.kind, wanted) {
            (Which::Latency, true) => Awake::hold(0).map(StateHold::Awake).map_err(HoldError::Latency),
            (Which::Locked, true) => {
                let before = memlock_bytes();
                set_memlock_bytes(memlock_most_bytes()).map_err(HoldError::Locked)?;
                Ok(StateHold::Locked(before))
            }
            _ => Ok(StateHold::Nothing),
        }
    }

    /// How bytes are moved in a state.
    pub fn options(&self, wanted: bool, rate: Option<f64>) -> ProcessOptions {
        let plain = ProcessOptions::default();
        match self.kind {
            Which::Pinning => ProcessOptions { pin: if wanted { Pin::Auto } else { Pin::None }, ..plain },
            Which::Pacing => ProcessOptions { bytes_per_second: rate.filter(|_| wanted), ..plain },
            Which::Ring => ProcessOptions { io_uring: wanted, ..plain },
            Which::Latency | Which::Locked => plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_ends_with_what_held_it() {
        let locked = ALL.iter().find(|own| own.id == "memlock").expect("there");
        let before = memlock_bytes();
        let held = locked.hold(true).expect("a limit below the hard one");
        assert_eq!(memlock_bytes(), memlock_most_bytes());
        drop(held);
        assert_eq!(memlock_bytes(), before);
    }

    #[test]
    fn each_differs_in_something() {
        for own in ALL {
            let (off, on) = (own.options(false, Some(1e6)), own.options(true, Some(1e6)));
            let of_the_process = matches!(own.kind, Which::Latency | Which::Locked);
            assert_eq!(off == on, of_the_process, "{}", own.id);
            assert!(own.source.starts_with("https://") && !own.given_by.is_empty());
        }
        assert!(ALL.iter().any(|own| own.untried(None).is_some()), "pacing wants a rate");
    }
}
