//! `linerate explain` beside small programs that do one thing each.

use crate::support::disk::place;
use crate::support::process::{Ends, Running};
use crate::support::rights;
use crate::support::{keep_apart, linerate};
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Seek};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// A program that goes with the value, with all that a shell has started.
fn program(words: &[&str]) -> Running {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Running(command.spawn().expect("it starts"))
}

fn explained(program: &Running, seconds: &str) -> Value {
    let pid = program.id().to_string();
    linerate().args(["explain", &pid, "--seconds", seconds, "--json"]).ended().gives(0).json()
}

fn sentence(found: &Value) -> String {
    found["bottleneck"]["sentence"].as_str().unwrap_or_default().to_string()
}

fn has_finding(found: &Value, id: &str) -> bool {
    found["findings"].as_array().is_some_and(|all| all.iter().any(|one| one["id"] == id))
}

#[test]
fn a_program_that_sleeps_has_nothing_to_explain() {
    let sleeps = program(&["sleep", "60"]);
    let found = explained(&sleeps, "1");
    assert!(
        sentence(&found).contains("moves no bytes. There is nothing to explain: it sleeps by a timer"),
        "{found:#}"
    );
    assert_eq!(
        (&found["verdict"], &found["bottleneck"]["kind"]),
        (&Value::from("unknown"), &Value::from("unknown"))
    );
    let pid = sleeps.id().to_string();
    let screen = linerate().args(["explain", &pid, "--seconds", "1"]).ended().gives(0).stdout.clone();
    assert!(screen.contains("explains sleep, observed for 1.") && screen.contains("timer 100 %"), "{screen}");
}

#[test]
fn a_thread_that_is_full_is_the_cpu() {
    let copies = program(&["dd", "if=/dev/zero", "of=/dev/null", "bs=512"]);
    let found = explained(&copies, "2");
    // On a busy machine others have the CPU that it wants.
    let kind = found["bottleneck"]["kind"].as_str().unwrap_or_default();
    assert!(["cpu", "others", "steal", "quota"].contains(&kind), "{found:#}");
    assert!(sentence(&found).contains("Probably limited by"), "{found:#}");
}

/// This test's own process reads; linerate, which it starts, is not part of it.
#[test]
fn reads_of_the_page_cache_are_named_with_their_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data");
    std::fs::write(&path, vec![7; 16 << 20]).expect("written");
    let ended = AtomicBool::new(false);
    let found = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = File::open(&path).expect("opened");
            let mut block = vec![0; 64 << 10];
            while !ended.load(Relaxed) {
                if file.read(&mut block).expect("read") == 0 {
                    file.rewind().expect("its begin");
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let own = std::process::id().to_string();
        let found = linerate().args(["explain", &own, "--seconds", "3", "--json"]).ended().gives(0).json();
        ended.store(true, Relaxed);
        found
    });
    assert!(has_finding(&found, "cache-answers") && has_finding(&found, "same-bytes-again"), "{found:#}");
    assert_eq!(found["files"][0]["path"].as_str(), path.to_str(), "{found:#}");
    assert!(has_finding(&found, "own-rate-limit") && found["bottleneck"]["kind"] == "demand", "{found:#}");
    assert_eq!(found["program"]["pids"].as_array().map(Vec::len), Some(1), "{found:#}");
}

#[test]
fn a_receiver_that_reads_slowly_is_named_and_not_the_host() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = listener.local_addr().expect("an address").port();
    let script = "exec cat /dev/zero > /dev/tcp/127.0.0.1/$0";
    let sends = program(&["bash", "-c", script, &port.to_string()]);
    let (mut far, _) = listener.accept().expect("accepted");
    let reader = std::thread::spawn(move || {
        let mut block = vec![0; 16 << 10];
        while far.read(&mut block).is_ok_and(|read| read > 0) {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    // What the buffers take at first is not a rate.
    std::thread::sleep(Duration::from_millis(500));
    let found = explained(&sends, "2");
    assert_eq!(found["bottleneck"]["kind"], "receiver", "{found:#}");
    assert!(has_finding(&found, "window-closed-by-receiver"), "{found:#}");
    let busiest = &found["connections"]["busiest"][0];
    assert_eq!(
        (&busiest["interfaces"][0], busiest["peer"].as_str()),
        (&Value::from("lo"), Some(&*format!("127.0.0.1:{port}")))
    );
    drop(sends);
    reader.join().expect("it ends");
}

/// A program in Python, with the line that it prints once it is ready; none where there is no Python.
fn python(script: &str) -> Option<(Running, String)> {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 20000; exec python3 -c \"$0\"", script]).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).spawn().expect("a shell");
    let mut line = String::new();
    let out = child.stdout.take().expect("a pipe");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).expect("a line");
    let program = Running(child);
    (!line.is_empty()).then_some((program, line)).or_else(|| {
        println!("skipped: no python3, or not enough descriptors");
        None
    })
}

#[test]
fn ten_thousand_sockets_and_a_thousand_threads_are_all_counted() {
    let script = "import socket, threading, time
listener = socket.create_server(('127.0.0.1', 0))
ends = []
for _ in range(5000):
    ends.append(socket.create_connection(listener.getsockname()))
    ends.append(listener.accept()[0])
threading.stack_size(65536)
for _ in range(1000):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print('ready', flush=True)
while ends[0].send(bytes(16384)):
    ends[1].recv(65536)
    time.sleep(0.001)";
    let Some((program, _)) = python(script) else { return };
    let found = explained(&program, "3");
    assert_eq!((&found["connections"]["count"], &found["threads"]["count"]), (&10_000.into(), &1001.into()));
    assert!(found["connections"]["sent"].as_f64() > Some(100_000.0), "{found:#}");
    // Beside other work it looks at so many threads too seldom to know what they waited for, and says so.
    let is_seldom =
        |one: &Value| one.as_str().is_some_and(|one| one.starts_with("what its threads wait for in"));
    assert!(found["unknown"].as_array().is_some_and(|all| all.iter().all(is_seldom)), "{found:#}");
}

#[test]
fn processes_that_begin_and_end_meanwhile_are_counted() {
    let script = "sleep 0.7; dd if=/dev/zero of=/dev/null bs=64k & sleep 1; kill $!; wait; exec sleep 60";
    let found = explained(&program(&["bash", "-c", script]), "3");
    let dd = found["processes"].as_array().into_iter().flatten().find(|one| one["name"] == "dd");
    assert!(dd.is_some_and(|dd| dd["called_read"].as_f64() > Some(1e6)), "{found:#}");
    assert_eq!((&found["program"]["ended"], &found["program"]["name"]), (&false.into(), &"sleep".into()));
}

#[test]
fn a_program_that_listens_is_found_by_its_port() {
    let script = "import socket, time\ns = socket.create_server(('127.0.0.1', 0))\nprint(s.getsockname()[1], flush=True)\ntime.sleep(60)";
    let Some((server, line)) = python(script) else { return };
    let found = linerate()
        .args(["explain", "--port", line.trim(), "--seconds", "1", "--json"])
        .ended()
        .gives(0)
        .json();
    assert_eq!(found["program"]["pids"][0], server.id(), "{found:#}");
}

#[test]
fn a_program_that_ends_is_explained_until_then() {
    let ends = program(&["sleep", "1"]);
    let found = explained(&ends, "20");
    assert_eq!(found["program"]["ended"], true, "{found:#}");
    assert!(found["seconds"].as_f64() < Some(10.0), "{found:#}");
}

/// A limit of the program's own is neither the disk nor the CPU; and what is kept shows what was taken.
#[test]
fn a_reader_at_a_rate_of_its_own_is_never_measured_as_disk_or_cpu() {
    let Some(folder) = place() else { return };
    let path = folder.path().join("data");
    std::fs::write(&path, vec![7; 64 << 20]).expect("written");
    let script = format!(
        "import mmap, os, time
file, block = os.open({path:?}, os.O_RDONLY | getattr(os, 'O_DIRECT', 0)), mmap.mmap(-1, 65536)
print('ready', flush=True)
due = time.monotonic()
while True:
    offset = 0
    while os.preadv(file, [block], offset) == 65536:
        offset += 65536
        due += 65536 / 3e6
        time.sleep(max(0.0, due - time.monotonic()))"
    );
    let Some((reader, _)) = python(&script) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let pid = reader.id().to_string();
    let words =
        ["explain", &pid, "--seconds", "1", "--experiment", "--yes", "--json", "--peer", "127.0.0.1:1"];
    linerate().args(words).ended().refused(2, &["--peer needs the key of the agent", "LINERATE_KEY"]);
    let mut command = linerate();
    keep_apart(&mut command, state.path()).env("LINERATE_KEY", "07".repeat(32));
    let found = command.args(words).ended().gives(0).json();
    let kind = found["bottleneck"]["kind"].as_str().unwrap_or_default();
    // Where other programs fill the disk it falls behind its rate, and does wait for the disk.
    let others_fill_it = sentence(&found).contains("Move the others");
    let is_wrong = kind == "cpu" || kind == "disk" && !others_fill_it;
    assert!(found["verdict"] != "measured" && !is_wrong, "{found:#}");
    if let Some(nic) = found["shares"].as_array().and_then(|shares| shares.last()) {
        let why = nic["why"].as_str().unwrap_or_default();
        assert!(
            nic["resource"] == "nic:to the agent" && why.contains("no agent at 127.0.0.1:1"),
            "{found:#}"
        );
        let mut command = linerate();
        let report = keep_apart(&mut command, state.path()).args(["report", "@-1"]).ended();
        report.gives(0).shows(&["what was taken", "explain: python"]);
    }
}

#[test]
fn without_a_terminal_an_experiment_wants_yes_and_beside_a_writer_nothing_is_taken() {
    let Some(folder) = place() else { return };
    let path = folder.path().join("data");
    let script = format!(
        "import time
print('ready', flush=True)
with open({path:?}, 'wb', buffering=0) as file:
    while True:
        file.write(bytes(65536))
        if file.tell() > 8 << 20:
            file.seek(0)
        time.sleep(0.002)"
    );
    let Some((writer, _)) = python(&script) else { return };
    let pid = writer.id().to_string();
    let asks = ["explain", &pid, "--seconds", "1", "--experiment"];
    linerate().args(asks).stdin(Stdio::null()).ended().refused(2, &["nobody can be asked here", "add --yes"]);
    let found = linerate().args(asks).args(["--yes", "--json"]).ended().gives(0).json();
    assert!(
        sentence(&found).contains("Not measured: it writes to files, and nothing can be taken"),
        "{found:#}"
    );
    assert!(found["verdict"] != "measured" && found["shares"].is_null(), "{found:#}");
}

#[test]
fn what_is_no_program_is_one_sentence() {
    let two = [program(&["sleep", "61"]), program(&["sleep", "61"])];
    for (words, status, says) in [
        (&["4194304"][..], 3, "no process has the number 4194304"),
        (&["linerate-none"], 3, "no program that is visible here is called linerate-none"),
        (&["sleep"], 2, "several programs are called sleep"),
        (&["--port", "1"], 3, "nobody listens at TCP port 1"),
        (&["--unit", "linerate-none"], 3, "no process is in the unit linerate-none.service"),
        (&["--container", "0123456789ab"], 3, "no process is in a container 0123456789ab"),
    ] {
        linerate().arg("explain").args(words).args(["--seconds", "1"]).ended().refused(status, &[says]);
    }
    if rights::root() {
        use std::os::unix::process::CommandExt;
        let pid = two[0].id().to_string();
        let mut other = linerate();
        let done = other.args(["explain", &pid]).uid(65_534).gid(65_534).output();
        let Ok(done) = done else { return rights::skipped("the program is not for others to start") };
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.code() == Some(3) && said.contains("belongs to another user"), "{said}");
    }
    drop(two);
    linerate().arg("explain").ended().gives(2);
}
