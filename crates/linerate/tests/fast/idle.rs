//! What waits for clients wakes for nothing: while nobody comes, no thread of it runs.

use super::support::agent::StartedAgent;
use super::support::served::Served;
use super::support::{text, write_secret};
use std::collections::BTreeMap;
use std::net::TcpStream;
use std::time::Duration;

const TOKEN: &str = "0123456789abcdef0123";
/// What the kernel itself may wake a thread for, once in a while.
const MOST_SWITCHES: u64 = 2;
/// On a busy machine a start takes some seconds, and so does the end of what a client left.
const SECONDS: usize = 30;

/// How often each thread of a process gave up its CPU by itself (proc_pid_status(5)).
fn switches(id: u32) -> BTreeMap<String, u64> {
    let threads = std::fs::read_dir(format!("/proc/{id}/task")).expect("its threads").flatten();
    let count = |status: &str| {
        status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok())
    };
    let of = |thread: std::fs::DirEntry| {
        let name = |text: String| format!("{} {}", thread.file_name().display(), text.trim());
        let name = name(std::fs::read_to_string(thread.path().join("comm")).ok()?);
        Some((name, count(&std::fs::read_to_string(thread.path().join("status")).ok()?)?))
    };
    threads.filter_map(of).collect()
}

/// There is a second in which no thread wakes.
fn comes_to_rest(id: u32) {
    let mut woken = BTreeMap::new();
    for _ in 0..SECONDS {
        let before = switches(id);
        std::thread::sleep(Duration::from_secs(1));
        let after = switches(id);
        let since = |name: &String, now: u64| now - before.get(name).copied().unwrap_or_default();
        woken = after
            .iter()
            .map(|(name, now)| (name.clone(), since(name, *now)))
            .filter(|(_, times)| *times > 0)
            .collect();
        if woken.values().sum::<u64>() <= MOST_SWITCHES && !after.is_empty() {
            return;
        }
    }
    panic!("these threads wake though nobody comes: {woken:?}");
}

#[test]
fn an_agent_that_waits_wakes_for_nothing_also_after_a_client_has_gone() {
    let agent = StartedAgent::start(&[]);
    comes_to_rest(agent.child.id());
    drop(TcpStream::connect(agent.address).expect("a connection"));
    comes_to_rest(agent.child.id());
}

#[test]
fn a_server_that_waits_wakes_for_nothing_also_after_a_client_has_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("a folder");
    std::fs::write(data.join("f"), "text").expect("written");
    let token = folder.path().join("token");
    write_secret(&token, TOKEN);
    let options = ["--writable", "--token-file", text(&token)];
    let server = Served::start(&[&data], &options);
    comes_to_rest(server.pid());
    assert_eq!(server.get("/f", &format!("Authorization: Bearer {TOKEN}\r\n")).status, 200);
    comes_to_rest(server.pid());
    let (took, _) = server.stop();
    assert!(took < Duration::from_secs(5), "{took:?}");
}
