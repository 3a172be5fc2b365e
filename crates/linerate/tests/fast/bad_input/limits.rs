//! A system that allows little: locked memory, io_uring, file sizes, descriptors, processes.

use super::ground::{OUTPUT, SECONDS, TestFolder, short, stages};
use crate::support::process::Started;
use crate::support::rights;

pub(super) fn with_source() -> TestFolder {
    let ground = TestFolder::new();
    ground.file("source", 16 << 20);
    ground
}

/// Findings of the saved run, by their names.
fn finding<'a>(run: &'a serde_json::Value, id: &str) -> &'a serde_json::Value {
    let findings = run["diagnosis"]["findings"].as_array().expect("findings");
    findings
        .iter()
        .find(|finding| finding["id"] == id)
        .unwrap_or_else(|| panic!("{id} is not among {findings:#?}"))
}

/// The run's methods of reading the disk and of the path.
fn methods(run: &serde_json::Value) -> Vec<&str> {
    let figures = run["measurements"].as_array().expect("figures").iter();
    figures
        .filter(|figure| figure["stage"] != "memory")
        .filter_map(|figure| figure["method"].as_str())
        .collect()
}

#[test]
fn sixty_four_kilobytes_of_locked_memory() {
    let ground = with_source();
    let words = short("disk,network,path", &["--source", "source"]);
    let Some(mut command) = ground.unprivileged_under(&["prlimit", "--memlock=65536:65536"], &words) else {
        return rights::skipped("setpriv is missing: no user without rights");
    };
    let ended = ground.run(&mut command);
    ended.is_content();
    let run = ground.result(OUTPUT);
    assert!(stages(&run).contains(&"path".to_string()), "{ended}");
    let finding = finding(&run, "memlock");
    assert!(finding["text"].as_str().is_some_and(|text| text.contains("64 KiB")), "{finding:#}");
    assert!(finding["remedy"].as_str().is_some_and(|remedy| remedy.contains("ulimit -l")), "{finding:#}");
    assert!(ended.stdout.contains("ulimit -l"), "{ended}");
}

#[test]
fn no_locked_memory_at_all() {
    let ground = with_source();
    let words = short("disk,path", &["--source", "source"]);
    let Some(mut command) = ground.unprivileged_under(&["prlimit", "--memlock=0:0"], &words) else { return };
    ground.run(&mut command).is_content();
    finding(&ground.result(OUTPUT), "memlock");
}

/// On loopback the kernel copies them all the same, and says so.
#[test]
fn sends_without_a_copy_arrive_whole_and_say_what_became_of_them() {
    let ground = with_source();
    ground.run(&mut ground.linerate(&without_a_copy())).is_content();
    check_sends(&ground.result(OUTPUT), true);
}

/// What we may not pin is copied from the first block on.
#[test]
fn without_locked_memory_a_send_is_a_copy() {
    let ground = with_source();
    let Some(mut command) = ground.unprivileged_under(&["prlimit", "--memlock=0:0"], &without_a_copy())
    else {
        return rights::skipped("setpriv is missing: no user without rights");
    };
    ground.run(&mut command).is_content();
    check_sends(&ground.result(OUTPUT), false);
}

pub(super) fn without_a_copy() -> Vec<&'static str> {
    short("network,path", &["--source", "source", "--method", "zerocopy", "--verify", "--protocol", "tcp"])
}

pub(super) fn check_sends(run: &serde_json::Value, may_lock: bool) {
    for figure in run["measurements"].as_array().expect("figures") {
        assert_eq!(figure["receiver"]["verified"], true, "{figure:#}");
        let sends = figure["zero_copy"]["sends"].as_u64().expect("sends");
        let method = figure["method"].as_str().expect("a method");
        if may_lock && sends > 0 {
            assert_eq!(figure["zero_copy"]["copied"].as_u64(), Some(sends), "{figure:#}");
            assert!(method.contains("0 % without a copy"), "{method}");
        } else {
            assert!(method.contains("no zero copy") || method.contains("zero copy refused"), "{method}");
        }
    }
}

#[test]
fn without_io_uring_because_we_are_reported_so() {
    let ground = with_source();
    let ended = ground
        .run(ground.linerate(&short("disk,path", &["--source", "source"])).env("LINERATE_IO_URING", "0"));
    ended.is_content();
    let run = ground.result(OUTPUT);
    assert!(methods(&run).iter().all(|method| method.contains("no io_uring")), "{run:#}");
}

/// Refuses io_uring_setup(2), perf_event_open(2) and bpf(2) as the seccomp profile of a container does, by a filter
/// that the interpreter installs before it becomes linerate. `kernel.io_uring_disabled` would be for the whole machine.
const REFUSE: &str = r#"
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def op(code, jt, jf, k): return struct.pack("HBBI", code, jt, jf, k)
# load the system call's number; 425 (io_uring_setup, the same on every architecture but alpha), perf_event_open and bpf give EPERM
calls = [425] + {"x86_64": [298, 321], "aarch64": [241, 280]}.get(os.uname().machine, [])
program = op(0x20, 0, 0, 0)
for call in calls: program += op(0x15, 0, 1, call) + op(0x06, 0, 0, 0x00050000 | 1)
program += op(0x06, 0, 0, 0x7fff0000)
buffer = ctypes.create_string_buffer(program, len(program))
class Fprog(ctypes.Structure): _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
fprog = Fprog(len(program) // 8, ctypes.addressof(buffer))
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(fprog), 0, 0): sys.exit(99)
os.execv(sys.argv[1], sys.argv[1:])
"#;

#[test]
fn without_io_uring_perf_and_bpf_because_the_system_refuses_them() {
    let ground = with_source();
    let words = short("disk,path", &["--source", "source"]);
    let off =
        std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").is_ok_and(|text| text.trim() == "2");
    let mut command = match (off, rights::has("python3")) {
        (true, _) => ground.linerate(&words),
        (false, true) => {
            let program = ["-c", REFUSE, env!("CARGO_BIN_EXE_linerate")];
            ground.command("python3", &[&program[..], &words].concat())
        }
        (false, false) => return rights::skipped("no python3 to refuse io_uring with a seccomp filter"),
    };
    let ended = ground.run(&mut command);
    if ended.status.code() == Some(99) {
        return rights::skipped("no seccomp filters here");
    }
    ended.is_content();
    let run = ground.result(OUTPUT);
    assert!(methods(&run).iter().all(|method| method.contains("no io_uring")), "{run:#}");
    let finding = finding(&run, "io-uring-off");
    let remedy = finding["remedy"].as_str().expect("a remedy");
    assert!(remedy.contains(if off { "sysctl" } else { "seccomp" }), "{finding:#}");
    assert!(ended.stdout.contains("io-uring-off"), "{ended}");
}

#[test]
fn a_file_size_limit_is_an_error_not_our_death() {
    let ground = TestFolder::new();
    let command = ["--fsize=1000000:1000000", env!("CARGO_BIN_EXE_linerate"), "run", "--stages", "disk"];
    let ended = ground.run(&mut ground.command("prlimit", &command));
    ended.gives(3).says(&["scratch", "--source"]);
    ground.no_result();
}

#[test]
fn few_descriptors_and_little_memory_end_with_a_sentence() {
    // The program itself is mapped, too: how large it is depends on how it was built.
    let image = std::fs::metadata(env!("CARGO_BIN_EXE_linerate")).expect("linerate").len();
    let memory = format!("--as={}", image + 23_000_000);
    for limit in ["--nofile=12:12", "--nofile=18:18", &memory, "--nproc=1:1"] {
        let ground = with_source();
        let words = short("disk,path", &["--source", "source"]);
        let Some(mut command) = ground.unprivileged_under(&["prlimit", limit], &words) else { return };
        let ended = Started::of(&mut command).end_within(SECONDS);
        assert!(matches!(ended.status.code(), Some(0 | 1 | 3)), "{limit}: {ended}");
        assert!(!ended.stderr.contains("panicked"), "{limit}: {ended}");
        if ended.status.code() != Some(0) {
            ended.says(&[]);
        }
        ground.deserted();
    }
}

#[test]
fn blocks_and_depths_beyond_the_memory_are_fitted_to_it() {
    let ground = TestFolder::new();
    let sparse = std::fs::File::create(ground.path().join("sparse")).expect("a file");
    sparse.set_len(1 << 40).expect("a sparse file");
    let words = short("disk", &["--source", "../sparse", "--block", "256M", "--queue-depth", "1024"]);
    // Below the ground, so that no test reads a terabyte to compare it.
    let inner = ground.path().join("inner");
    std::fs::create_dir(&inner).expect("a directory");
    let ended = Started::of(ground.linerate(&words).current_dir(&inner)).end_within(SECONDS);
    ended.is_content();
    let run = ground.result("inner/out");
    let source = &run["plan"]["sources"][0];
    let bytes = source["block_bytes"]
        .as_u64()
        .zip(source["queue_depth"].as_u64())
        .map(|(block, depth)| block * depth);
    let memory = run["machine"]["memory"]["total_bytes"].as_u64().expect("the memory");
    assert!(bytes.is_some_and(|bytes| bytes <= memory / 10), "{source:#} of {memory}");
}
