//! Why the kernel dropped datagrams to a port where nobody listens, in a network and mount namespace of the
//! test's own.

use linerate_system::drop_trace::DropTrace;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;

const INSIDE: &str = "LINERATE_DROP_TRACE_INSIDE";
const INSTANCES: &str = "/sys/kernel/tracing/instances";

#[test]
fn the_reason_of_a_drop_is_named_and_nothing_is_left_behind() {
    if std::env::var(INSIDE).is_ok() {
        return inside();
    }
    // The tracefs that is mounted there goes with the namespace.
    let script = "mount -t tracefs none /sys/kernel/tracing && ip link set lo up && exec \"$0\" --exact \
                  the_reason_of_a_drop_is_named_and_nothing_is_left_behind --nocapture";
    let output = Command::new("unshare")
        .args(["--mount", "--net", "sh", "-c", script])
        .arg(std::env::current_exe().expect("this program"))
        .env(INSIDE, "1")
        .output();
    let Ok(output) = output else {
        println!("skipped: no unshare");
        return;
    };
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    // Whether the test itself was reached; without root or tracefs it is not.
    if !said.contains("running 1 test") {
        println!("skipped: {said}");
        return;
    }
    assert!(output.status.success(), "{said}");
}

fn inside() {
    if !Path::new("/sys/kernel/tracing/events/skb/kfree_skb").is_dir() {
        println!("skipped: this kernel has no skb:kfree_skb");
        return;
    }
    let own = format!("linerate-{}-", std::process::id());
    let left = || {
        let all = std::fs::read_dir(INSTANCES).expect("instances").flatten();
        all.filter(|entry| entry.file_name().to_string_lossy().starts_with(&own)).count()
    };
    let trace = DropTrace::start().expect("a trace");
    assert_eq!(left(), 1);
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let mut sent = 0;
    while sent < 50 {
        // A port that refused the last one says so with the next.
        sent += u64::from(sender.send_to(b"nobody", "127.0.0.1:9").is_ok());
    }
    let drops = trace.read().expect("what was dropped");
    let reasons = &drops.reasons;
    if reasons.keys().all(|name| name == "NOT_SPECIFIED") {
        println!("skipped: a kernel before 5.17 has no reasons");
        return;
    }
    // Of the whole host: others' drops may be among them.
    assert!(reasons.get("NO_SOCKET").is_some_and(|count| *count >= 50), "{drops:?}");
    drop(trace);
    assert_eq!(left(), 0, "the instance is removed");
}
