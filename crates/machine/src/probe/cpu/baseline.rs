//! What the cores compute, timed in some milliseconds: whole numbers, floating point, and CRC-32C (RFC 3385;
//! iSCSI, NVMe over TCP, SCTP, ext4 and btrfs use it). On one thread, on one thread of each core, and on all
//! threads: the last two say what a second thread in a core is worth.

use crate::probe::machine::{Cpu, CpuSpeed, LogicalCpu};
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use linerate_sums::{CrcAlgorithm, crc};
use linerate_system::{affinity, clock, lock};
use std::collections::BTreeSet;
use std::hint::black_box;
use std::io;
use std::sync::Mutex;
use std::time::Duration;

/// Fits the second-level cache of every server of the last ten years: the core is timed, not the memory.
const BLOCK_BYTES: usize = 64 << 10;
/// The best of these slices counts: in each of the others something else ran, or the clock had not risen yet.
const SLICES: usize = 6;
const SLICE: Duration = Duration::from_micros(300);
/// Of several threads: long against the time in which they begin together.
const SLICE_OF_MANY: Duration = Duration::from_millis(1);
/// Chains of operations that do not wait for each other, as many as keep the units of a core busy.
const CHAINS: usize = 8;
const STEPS: usize = 256;

/// One piece of work: how much it was.
type Work = fn(&[u8]) -> usize;

/// CRC-32C of one core, in some two milliseconds; only of the live machine.
pub(super) fn crc32c_of_one_core(sysroot: &Sysroot) -> Fact<f64> {
    if !sysroot.is_live() {
        return Fact::unknown("only the machine itself can be timed");
    }
    let rate = best(&[], crc32c, &vec![0x5a; BLOCK_BYTES]);
    Fact::from_option((rate >= 1.0).then_some(rate), "the clock cannot measure times this short")
}

/// Times this machine's cores, as far as this process may use them: some 30 ms in which all of them work. A
/// machine that is at work is probed without it, unless its user asks what it computes.
pub fn cpu_speeds(cpu: &Cpu) -> Fact<Vec<CpuSpeed>> {
    let block = vec![0x5a; BLOCK_BYTES];
    let allowed = cpu.allowed.known();
    let may = |cpu: &&LogicalCpu| cpu.online && allowed.is_none_or(|list| list.contains(&cpu.id));
    let usable: Vec<&LogicalCpu> = cpu.logical.iter().filter(may).collect();
    let all: Vec<u32> = usable.iter().map(|cpu| cpu.id).collect();
    let mut seen = BTreeSet::new();
    let first = |cpu: &&&LogicalCpu| match (cpu.package.known(), cpu.core.known()) {
        (Some(package), Some(core)) => seen.insert((*package, *core)),
        _ => true,
    };
    let cores: Vec<u32> = usable.iter().filter(first).map(|cpu| cpu.id).collect();
    let mut speeds = vec![speed(&[], &block)];
    if cores.len() > 1 {
        speeds.push(speed(&cores, &block));
    }
    if all.len() > cores.len() {
        speeds.push(speed(&all, &block));
    }
    let timed = speeds.iter().all(|speed| speed.crc32c_bytes_per_second >= 1.0);
    let why = "the clock cannot measure times this short, or a thread for each CPU cannot be had";
    Fact::from_option(timed.then_some(speeds), why)
}

/// On a thread on each of these CPUs; on none: on this thread, wherever it is.
fn speed(cpus: &[u32], block: &[u8]) -> CpuSpeed {
    CpuSpeed {
        threads: u32::try_from(cpus.len().max(1)).unwrap_or(u32::MAX),
        integer_per_second: best(cpus, integer, block),
        floating_per_second: best(cpus, floating, block),
        crc32c_bytes_per_second: best(cpus, crc32c, block),
    }
}

/// The best of some slices of this work.
fn best(cpus: &[u32], work: Work, block: &[u8]) -> f64 {
    // The first call finds out what the processor can do.
    black_box(work(block));
    let one = || slice(work, block, SLICE);
    let many = || together(cpus, work, block);
    let slices = (0..SLICES).map(|_| if cpus.is_empty() { one() } else { many() });
    // A whole number, so that it is the same when it comes back from a file.
    slices.fold(0.0, f64::max).round()
}

/// The sum of threads that begin together; 0 where they cannot all be had.
fn together(cpus: &[u32], work: Work, block: &[u8]) -> f64 {
    let start = Mutex::new(());
    std::thread::scope(|scope| {
        let wait = lock(&start);
        let one = |cpu: &u32| {
            let (start, cpu) = (&start, *cpu);
            std::thread::Builder::new().spawn_scoped(scope, move || {
                // A CPU that went offline meanwhile: anywhere.
                let _ = affinity::pin_to(cpu);
                drop(lock(start));
                slice(work, block, SLICE_OF_MANY)
            })
        };
        // A container may give fewer threads than CPUs: then those that are there must not wait for the others.
        let threads: io::Result<Vec<_>> = cpus.iter().map(one).collect();
        drop(wait);
        threads.map_or(0.0, |all| all.into_iter().map(|thread| thread.join().unwrap_or(0.0)).sum())
    })
}

fn slice(work: Work, block: &[u8], least: Duration) -> f64 {
    let started = clock::now();
    let mut done = 0;
    loop {
        done += work(black_box(block));
        let took = clock::since(started);
        if took >= least {
            return done as f64 / took.as_secs_f64();
        }
    }
}

/// A multiplication and an addition of 64 bits each step.
fn integer(block: &[u8]) -> usize {
    let mut chains = [block.len() as u64; CHAINS];
    for _ in 0..STEPS {
        for chain in &mut chains {
            *chain = chain.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        }
    }
    black_box(chains);
    2 * CHAINS * STEPS
}

/// The same in double precision, without what only some processors of an architecture have.
fn floating(block: &[u8]) -> usize {
    let mut chains = [block.len() as f64; CHAINS];
    for _ in 0..STEPS {
        for chain in &mut chains {
            *chain = *chain * 0.999_999 + 0.5;
        }
    }
    black_box(chains);
    2 * CHAINS * STEPS
}

fn crc32c(block: &[u8]) -> usize {
    black_box(crc(CrcAlgorithm::Crc32Iscsi, block));
    block.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::probe;

    #[test]
    fn one_thread_each_core_and_all_threads_are_timed() {
        let cpu = probe(&Sysroot::live()).cpu;
        assert!(cpu.baseline.why().is_some(), "not by every command: the machine may be at work");
        assert!(cpu.crc32c_bytes_per_second.known().is_some_and(|rate| (1e8..1e15).contains(rate)));
        let Fact::Known(speeds) = &cpu_speeds(&cpu) else { panic!("not timed") };
        assert_eq!(speeds[0].threads, 1);
        assert!(speeds.is_sorted_by(|less, more| less.threads < more.threads), "{speeds:?}");
        for CpuSpeed { integer_per_second, floating_per_second, crc32c_bytes_per_second, .. } in speeds {
            assert!((1e5..1e15).contains(integer_per_second), "{speeds:?}");
            assert!((1e5..1e15).contains(floating_per_second), "{speeds:?}");
            assert!((1e8..1e15).contains(crc32c_bytes_per_second), "{speeds:?}");
        }
        assert!(crc32c_of_one_core(&Sysroot::recorded("/nonexistent")).why().is_some());
    }

    #[test]
    fn only_the_first_thread_of_each_core_is_in_the_middle_one() {
        let online = |id: u32| LogicalCpu {
            id,
            package: Fact::Known(0),
            core: Fact::Known(0),
            online: true,
            ..LogicalCpu::default()
        };
        let threads = |cpus: &[LogicalCpu], allowed: Fact<Vec<u32>>| -> Vec<u32> {
            let speeds = cpu_speeds(&Cpu { logical: cpus.to_vec(), allowed, ..Cpu::default() });
            speeds.known().expect("timed").iter().map(|speed| speed.threads).collect()
        };
        // Two threads of one core; one of them may not be used; one that is off.
        assert_eq!(threads(&[online(0), online(1)], Fact::unknown("x")), [1, 2]);
        assert_eq!(threads(&[online(0), online(1)], Fact::Known(vec![0])), [1]);
        let off = LogicalCpu { online: false, ..online(1) };
        assert_eq!(threads(&[online(0), off], Fact::unknown("x")), [1]);
        let other = LogicalCpu { core: Fact::Known(1), ..online(1) };
        assert_eq!(threads(&[online(0), other], Fact::unknown("x")), [1, 2]);
    }

    /// The check value of CRC-32C, RFC 3720 appendix B.4: it is this algorithm that is timed.
    #[test]
    fn it_is_the_algorithm_of_iscsi() {
        assert_eq!(crc(CrcAlgorithm::Crc32Iscsi, b"123456789"), 0xe306_9283);
    }
}
