//! The kernel's own reasons of drops: all of them are counted while they come, and nothing stays behind in
//! the kernel.

use super::ground::TwoHosts;
use super::roles::HostRole;
use linerate::counters::{self, NetworkCounters};
use linerate::sysroot::Sysroot;
use linerate_system::drop_trace::{DropTrace, Drops, remove_all};
use linerate_system::socket;
use serde::{Deserialize, Serialize};
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;

/// Where `ip netns exec` has mounted a sysfs of its own: what is mounted there nobody else sees.
const TRACEFS: &str = "/sys/kernel/tracing";
/// Several times what the trace's buffers hold.
const UNHEARD: u64 = 60_000;

/// What the role saw.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Traced {
    /// No trace could be had.
    lacking: Option<String>,
    /// By the trace: of a full socket, of none, missed.
    full: u64,
    unheard: u64,
    missed: u64,
    /// By the protocol's counters.
    full_counted: u64,
    unheard_counted: u64,
    /// Instances in the kernel: while it ran, and after `remove_all`.
    running: usize,
    left: usize,
    /// A trace that was removed says so.
    over: bool,
}

/// In a namespace of its own: some drops of one kind, then very many of another.
pub fn trace() -> Traced {
    let mounted = Command::new("mount").args(["-t", "tracefs", "none", TRACEFS]).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        return lacking("no tracefs to be mounted here");
    }
    let trace = match DropTrace::start() {
        Ok(trace) => trace,
        Err(error) => return lacking(&format!("no trace of drops here: {error}")),
    };
    let before = counters::read(&Sysroot::live(), &["lo".into()]);
    let sleeper = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket::set_receive_buffer(&sleeper, 2000).expect("a buffer");
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for _ in 0..200 {
        sender.send_to(&[1; 1000], sleeper.local_addr().expect("an address")).expect("sent");
    }
    for _ in 0..UNHEARD {
        sender.send_to(&[2; 10], "127.0.0.1:9").expect("sent");
    }
    let Drops { reasons, missed } = trace.read().expect("read");
    let after = counters::read(&Sysroot::live(), &["lo".into()]);
    let traced = |name: &str| reasons.get(name).copied().unwrap_or(0);
    let counted = |name: &str| {
        let of = |counters: &NetworkCounters| counters.count("Udp", name).expect("a counter");
        of(&after) - of(&before)
    };
    let running = instances();
    remove_all();
    Traced {
        lacking: None,
        full: traced("SOCKET_RCVBUFF"),
        unheard: traced("NO_SOCKET"),
        missed,
        full_counted: counted("RcvbufErrors"),
        unheard_counted: counted("NoPorts"),
        running,
        left: instances(),
        over: trace.read().is_err(),
    }
}

fn lacking(why: &str) -> Traced {
    Traced { lacking: Some(why.into()), ..Traced::default() }
}

/// Ours.
fn instances() -> usize {
    let prefix = format!("linerate-{}-", std::process::id());
    let all = std::fs::read_dir(Path::new(TRACEFS).join("instances")).expect("instances").flatten();
    all.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix)).count()
}

#[test]
fn every_drop_has_its_reason_or_is_said_to_be_missed() {
    let Some(ground) = TwoHosts::new() else { return };
    let traced: Traced = ground.role(&HostRole::Trace);
    if let Some(why) = &traced.lacking {
        println!("skipped: {why}");
        return;
    }
    assert!(traced.full_counted > 100 && traced.unheard_counted == UNHEARD, "{traced:?}");
    // The whole host's drops are in the trace. The first kind is long overwritten where only the buffer is
    // looked at in the end.
    assert!(traced.full + traced.missed >= traced.full_counted && traced.full > 0, "{traced:?}");
    assert!(traced.unheard + traced.missed >= traced.unheard_counted, "{traced:?}");
    // On a busy machine some are: then it is said how many.
    assert!(traced.unheard > UNHEARD / 10, "{traced:?}");
    // What a forced end of the process calls.
    assert_eq!((traced.running, traced.left, traced.over), (1, 0, true), "{traced:?}");
}
