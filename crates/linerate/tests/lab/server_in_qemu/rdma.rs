//! RDMA on a server in QEMU: a device in software (rxe) over a NIC, perftest at both ends. Its rate means nothing.

use super::guest::{QemuServer, said};
use super::thorough;
use crate::support::program;
use serde_json::Value;

/// A device of eth0. What follows has the address of eth0 in `$net.1`.
const DEVICE: &str = r"
modprobe -a rdma_rxe ib_uverbs && rdma link add rxe0 type rxe netdev eth0
net=$(ip -4 -o addr show dev eth0 | sed -E 's|.*inet ([0-9]+[.][0-9]+[.][0-9]+)[.].*|\1|')
";
const NET: &str = r"net=$(ip -4 -o addr show dev eth0 | sed -E 's|.*inet ([0-9]+[.][0-9]+[.][0-9]+)[.].*|\1|')
";

/// `measure AGENT_PATH CLIENT_PATH OPTION…`: an agent with the first as its PATH, `linerate network` with the second;
/// then what of perftest is still there.
fn script() -> String {
    let program = program();
    format!(
        r#"{NET}
measure() {{
  local agent_path=$1 client_path=$2 agent key status=0 place
  place=$(mktemp -d) && cd "$place" && key=$place/key
  shift 2
  PATH=$agent_path {program} agent --listen 0.0.0.0:7411 --key-file "$key" >/dev/null 2>&1 &
  agent=$!
  for ((i = 0; i < 300; i++)); do [[ -s $key ]] && break; sleep 0.1; done
  PATH=$client_path {program} network --json --no-save --key-file "$key" --peer $net.1 --protocol rdma \
    --no-latency --method write "$@" || status=$?
  echo "left: $(pgrep -c '^ib_(write|read)_bw' || true)" >&2
  kill "$agent"; wait "$agent" || true
  return "$status"
}}
"#
    )
}

/// A program in perftest's place, in a folder of its own, which is printed.
fn stand_in(words: &str) -> String {
    format!(
        "place=$(mktemp -d); for name in ib_write_bw ib_read_bw; do printf '#!/bin/bash\\n{words}\\n' >$place/$name; done; \
         chmod +x $place/*; "
    )
}

struct Ended {
    status: Option<i32>,
    run: Option<Value>,
    said: String,
}

fn measure(guest: &QemuServer, before: &str, call: &str) -> Ended {
    let output = guest.shell(&format!("{}{before}measure {call}", script()));
    let run = serde_json::from_str(&output.stdout).ok();
    Ended { status: output.status.code(), run, said: said(&output) }
}

/// The figure of RDMA in a direction, and TCP's beside it.
fn pair<'a>(run: &'a Value, name: &str) -> (&'a Value, f64) {
    let all = run["measurements"].as_array().expect("measurements");
    let rdma = all.iter().find(|one| one["name"].as_str().is_some_and(|text| text.ends_with(name)));
    let direction = name.split(' ').next_back().expect("a direction");
    let tcp = all.iter().find(|one| one["streams"]["job"]["direction"] == direction);
    let rate = tcp.and_then(|tcp| tcp["bytes_per_second"].as_f64());
    (rdma.unwrap_or_else(|| panic!("{name} is not among {all:?}")), rate.expect("TCP beside it"))
}

#[test]
fn perftest_moves_memory_both_ways_and_leaves_nothing_behind() {
    if !thorough() {
        eprintln!("skipped: RDMA on a server in QEMU: ./test --thorough");
        return;
    }
    let Some(guest) = QemuServer::up("rdma", &[]) else { return };
    if guest.shell("command -v ib_write_bw").stdout.is_empty() {
        eprintln!("skipped: RDMA in a guest: apt install perftest");
        return;
    }
    let none = measure(&guest, "", "\"$PATH\" \"$PATH\" --direction send");
    assert_eq!(none.status, Some(3), "{}", none.said);
    assert!(none.said.contains("on this host there is no RDMA device"), "{}", none.said);

    guest.succeed(DEVICE);
    let both = measure(&guest, "", "\"$PATH\" \"$PATH\" --direction send,receive --streams 2 --repeats 2");
    assert_eq!(both.status, Some(0), "{}", both.said);
    assert!(both.said.contains("left: 0"), "{}", both.said);
    let run = both.run.expect("a run");
    for (name, program) in [("rdma send", "ib_write_bw"), ("rdma receive", "ib_read_bw")] {
        let (rdma, tcp) = pair(&run, name);
        let figure = &rdma["rdma"];
        assert_eq!((&figure["device"], &figure["peer_device"]), (&"rxe0".into(), &"rxe0".into()), "{figure}");
        assert_eq!((&figure["program"], &figure["queue_pairs"]), (&program.into(), &2.into()), "{figure}");
        assert_eq!(figure["packet_bytes"], 1024, "an MTU of 1500 holds no more: {figure}");
        assert!(figure["messages"].as_u64().is_some_and(|count| count > 0), "{figure}");
        assert_eq!(rdma["samples"].as_array().map(Vec::len), Some(2), "{rdma}");
        assert!(rdma["bytes_per_second"].as_f64().is_some_and(|rate| rate > 0.0) && tcp > 0.0, "{rdma}");
    }
    what_goes_wrong_is_said(&guest);
    guest.down();
}

/// At the peer: no perftest, one that ends at once, one that never listens, one that is killed. Here: none, one that
/// hangs. Each time TCP is measured all the same, or nothing is begun.
fn what_goes_wrong_is_said(guest: &QemuServer) {
    let cases = [
        ("", "/nonexistent \"$PATH\"", "ib_write_bw is not installed: install perftest"),
        ("", "\"$PATH\" /nonexistent", "on this host ib_write_bw is not installed"),
        (
            "echo Unable to allocate the queue pairs; exit 1",
            "$place:\"$PATH\" \"$PATH\"",
            "ib_write_bw failed (exit status: 1): Unable to allocate the queue pairs",
        ),
        ("sleep 600", "$place:\"$PATH\" \"$PATH\"", "perftest's server waited for no client within 4 s"),
        (
            "(sleep 4; kill -KILL $$) & exec /usr/bin/ib_write_bw \"$@\"",
            "$place:\"$PATH\" \"$PATH\" --seconds 8",
            "on this host ib_write_bw failed (exit status: 1)",
        ),
        (
            "sleep 600",
            "\"$PATH\" $place:\"$PATH\"",
            "on this host ib_write_bw did not end within 16 s and was killed",
        ),
    ];
    for (words, call, expected) in cases {
        // In a shell's printf, within double quotes.
        let before = if words.is_empty() { String::new() } else { stand_in(&words.replace('\\', "\\\\")) };
        let call = format!("{call} --direction send --repeats 1");
        let ended = measure(guest, &before, &call);
        assert_eq!(ended.status, Some(1), "{expected}: {}", ended.said);
        assert!(ended.said.contains("left: 0"), "{expected}: {}", ended.said);
        let run = ended.run.expect("a run");
        let errors = run["errors"].to_string();
        assert!(errors.contains(expected), "{expected}: {errors}");
        let measured = run["measurements"].as_array().expect("measurements");
        assert!(measured.len() == 1 && measured[0]["protocol"] == "tcp", "{expected}: {measured:?}");
    }
}
