//! A kernel that lacks what a newer one has: refused by a seccomp filter that the interpreter installs before it becomes
//! linerate, one value of one call each.

use super::ground::{OUTPUT, short};
use super::limits::{check_sends, with_source, without_a_copy};
use crate::support::rights;

/// ARGV: the error, the call, twice an argument's place and its value; then the program.
const REFUSE_VALUE: &str = r#"
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def op(code, jt, jf, k): return struct.pack("HBBI", code, jt, jf, k)
error, call, first, is_first, second, is_second = map(int, sys.argv[1:7])
program = op(0x20, 0, 0, 0) + op(0x15, 0, 5, call)
program += op(0x20, 0, 0, 16 + 8 * first) + op(0x15, 0, 3, is_first)
program += op(0x20, 0, 0, 16 + 8 * second) + op(0x15, 0, 1, is_second)
program += op(0x06, 0, 0, 0x00050000 | error) + op(0x06, 0, 0, 0x7fff0000)
buffer = ctypes.create_string_buffer(program, len(program))
class Fprog(ctypes.Structure): _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
fprog = Fprog(len(program) // 8, ctypes.addressof(buffer))
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(fprog), 0, 0): sys.exit(99)
os.execv(sys.argv[7], sys.argv[7:])
"#;

/// setsockopt(2); io_uring_register(2) has one number everywhere.
#[cfg(target_arch = "x86_64")]
const SETSOCKOPT: &str = "54";
#[cfg(not(target_arch = "x86_64"))]
const SETSOCKOPT: &str = "208";
/// SOL_UDP, UDP_SEGMENT and UDP_GRO are the second and the third of its arguments.
const WITHOUT_GSO: [&str; 6] = ["92", SETSOCKOPT, "1", "17", "2", "103"];
const WITHOUT_GRO: [&str; 6] = ["92", SETSOCKOPT, "1", "17", "2", "104"];
/// A ring that does not say what it can do (IORING_REGISTER_PROBE) sends nothing without a copy.
const WITHOUT_PROBE: [&str; 6] = ["22", "427", "1", "8", "1", "8"];

/// The run where the kernel lacks this; none: it cannot be refused here.
fn run_without(lacking: [&str; 6], words: &[&str]) -> Option<serde_json::Value> {
    if !rights::has("python3") {
        rights::skipped("no python3 to refuse a call with a seccomp filter");
        return None;
    }
    let ground = with_source();
    let begin = [&["-c", REFUSE_VALUE][..], &lacking, &[env!("CARGO_BIN_EXE_linerate")]].concat();
    let ended = ground.run(&mut ground.command("python3", &[&begin[..], words].concat()));
    if ended.status.code() == Some(99) {
        rights::skipped("no seccomp filters here");
        return None;
    }
    ended.is_content();
    Some(ground.result(OUTPUT))
}

#[test]
fn without_segmentation_or_trains_datagrams_go_one_by_one_and_the_method_says_so() {
    let words = short("network,path", &["--source", "source", "--protocol", "udp"]);
    for (lacking, one_by_one) in [(WITHOUT_GSO, true), (WITHOUT_GRO, false)] {
        let Some(run) = run_without(lacking, &words) else { return };
        for figure in run["measurements"].as_array().expect("figures") {
            assert!(figure["bytes_per_second"].as_f64().is_some_and(|rate| rate > 1e6), "{figure:#}");
            let method = figure["method"].as_str().expect("a method");
            assert_eq!(method.contains("datagram by datagram"), one_by_one, "{method}");
        }
    }
}

#[test]
fn a_kernel_that_sends_nothing_without_a_copy_copies_and_the_method_says_so() {
    let Some(run) = run_without(WITHOUT_PROBE, &without_a_copy()) else { return };
    check_sends(&run, false);
}

/// More workers than CPUs, with less memory to lock than their smallest pool has.
#[test]
fn sixty_four_workers_on_few_cpus_with_little_locked_memory_share_what_there_is() {
    let ground = with_source();
    let words = short("path", &["--source", "source", "--workers", "64", "--verify", "--protocol", "tcp"]);
    let Some(mut command) = ground.unprivileged_under(&["prlimit", "--memlock=1048576:1048576"], &words)
    else {
        return rights::skipped("setpriv is missing: no user without rights");
    };
    ground.run(&mut command).is_content();
    let run = ground.result(OUTPUT);
    let path = &run["measurements"][0];
    assert_eq!(path["receiver"]["verified"], true, "{path:#}");
    assert_eq!(path["workers"].as_array().map(Vec::len), Some(64), "{path:#}");
    assert_eq!(run["plan"]["registered"], false, "{:#}", run["plan"]["notes"]);
    let findings = run["diagnosis"]["findings"].as_array().expect("findings");
    assert!(findings.iter().any(|finding| finding["id"] == "memlock"), "{findings:#?}");
}
