//! Link-local IPv6 addresses, which mean nothing without their interface: `fe80::1%eth0`, at both ends.

use crate::support::process::Ends;
use crate::support::rights;
use std::process::Command;

/// In a network namespace: a pair of interfaces, an agent on the link-local address of one, a run towards it,
/// over TCP and UDP.
const SCRIPT: &str = r#"
set -e
echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad
ip link set lo up
ip link add name near type veth peer name far
ip link set near up && ip link set far up
address=$(ip -6 -o address show dev near scope link | sed 's/.*inet6 \([0-9a-f:]*\).*/\1/')
test -n "$address" || { echo "no link-local address"; exit 77; }
head -c 4000000 /dev/urandom > source
"$1" agent --listen "[$address%near]:7411" --key-file key > said &
agent=$!
for try in $(seq 100); do grep -q listening said && break; sleep 0.1; done
grep listening said
"$1" run --stages path --source source --peer "[$address%near]:7411" --key-file key --seconds 0.2 --repeats 1 --budget 5 --output out || status=$?
kill $agent
wait $agent || true
exit ${status:-0}
"#;

#[test]
fn a_link_local_address_is_reached_by_its_interface() {
    if !rights::may_make_networks() {
        return rights::skipped("no network namespaces of our own here");
    }
    let ground = tempfile::tempdir().expect("a directory");
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", SCRIPT, "sh", env!("CARGO_BIN_EXE_linerate")]);
    crate::support::keep_apart(&mut command, &crate::support::kept());
    let output = command.current_dir(ground.path()).env_remove("LINERATE_KEY").ended();
    let said = output.text();
    if output.status.code() == Some(77) {
        println!("skipped: no IPv6 here");
        return;
    }
    assert!(output.status.success(), "{said}");
    assert!(said.contains("listening on [fe80::"), "{said}");
    let run = std::fs::read_to_string(ground.path().join("out/run.json")).expect("a result");
    let run: serde_json::Value = serde_json::from_str(&run).expect("JSON");
    let figures = run["measurements"].as_array().expect("figures");
    assert_eq!(figures.len(), 2, "TCP and UDP: {said}");
    assert!(
        figures.iter().all(|figure| figure["bytes_per_second"].as_f64().is_some_and(|rate| rate > 1e6)),
        "{figures:?}"
    );
}
