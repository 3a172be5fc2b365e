//! A receiver with one CPU, which is a server in QEMU: a lab's server sends to it, and its agent takes of that CPU. An
//! emulated CPU pays for a wake-up about what it pays for what is taken, so that its share may be far above 1.

use super::guest::QemuServer;
use super::thorough;
use crate::support::agent::listening;
use crate::support::lab::Lab;
use crate::support::process::{Ends, Running, until};
use crate::support::{program, text, write_secret};
use std::process::Stdio;

const ONE_CPU: &str = r#"
name = "a receiver with one CPU"
processor = { sockets = 1, cores = 1 }
memory = { kind = "DDR4", speed = 3200, channels = 1 }
slot = [{ name = "rear0", on = "node0", pcie = "4.0 x16" }]
nic = [{ name = "eth", count = 1, on = ["rear0"], pcie = "1.0 x1", rate = "1G", mtu = 1500 }]
"#;
/// Of the server's end of the cable; the guest's is `.1`.
const OWN_END: &str = "2";

/// A NIC of the lab's server at the guest's switch, by a QEMU without a machine.
fn cable(lab: &Lab, guest: &QemuServer, network: &str) -> Running {
    let link = guest.shared("../link");
    let stream = format!("stream,id=link,server=off,addr.type=unix,addr.path={}", text(&link));
    let mut words = vec!["--", "qemu-system-x86_64", "-M", "none", "-nodefaults", "-display", "none"];
    for netdev in [
        "tap,id=nic,ifname=guest,script=no,downscript=no",
        &stream,
        "hubport,id=a,hubid=0,netdev=nic",
        "hubport,id=b,hubid=0,netdev=link",
    ] {
        words.extend(["-netdev", netdev]);
    }
    let cable = Running(lab.command("run", &words).stderr(Stdio::null()).spawn().expect("it starts"));
    let up = format!("ip addr add {network}.{OWN_END}/24 dev guest && ip link set guest up");
    until("the NIC is there", || lab.command("run", &["--", "bash", "-c", &up]).ended().code() == Some(0));
    cable
}

#[test]
fn the_full_cpu_of_a_receiver_limits_or_is_not_known() {
    if !thorough() {
        eprintln!("skipped: a receiver in QEMU whose CPU is taken from: ./test --thorough");
        return;
    }
    let Some(lab) = Lab::up("receiver-cpu", &["--disks", "1x0", "--nics", "0"]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let [machine, key] = ["machine.toml", "key"].map(|name| folder.path().join(name));
    std::fs::write(&machine, ONE_CPU).expect("written");
    write_secret(&key, &"5e".repeat(32));
    let Some(guest) = QemuServer::up("receiver", &[text(&machine), "--memory", "1G"]) else { return };
    let network = guest.succeed("ip -4 -o addr show dev eth0 | sed -E 's|.*inet ([0-9.]+)[.].*|\\1|'");
    let cable = cable(&lab, &guest, network.trim());
    let mut agent = guest.lab("run");
    agent.args(["--", &program(), "agent", "--listen", &format!("{}.1:7471", network.trim())]);
    let (agent, address) = listening(agent.args(["--key-file", text(&key)]).stderr(Stdio::null()));
    let agent = Running(agent);
    let (source, peer) = (lab.succeed("sources", &[]), address.to_string());
    let path = ["--source", source.trim(), "--peer", &peer, "--key-file", text(&key), "--protocol", "tcp"];
    let briefly = ["--stages", "path", "--budget", "40", "--no-save", "--json"];
    let run = lab.linerate("run", &["run"]).args(path).args(briefly).ended().json();
    let diagnosis = &run["diagnosis"];
    let (sentence, verdict) = (&diagnosis["bottleneck"]["sentence"], &diagnosis["verdict"]);
    let shares = diagnosis["shares"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of_cpu = |id: &str| id.starts_with("receiver-cpus:");
    let own = shares.iter().find(|share| share["resource"].as_str().is_some_and(of_cpu));
    println!("{verdict} {sentence} {own:?}");
    assert!(*verdict != "confirmed" || diagnosis["bottleneck"]["kind"] == "receiver", "{diagnosis:#}");
    // None: nothing was taken, and nothing is known.
    let most = own.and_then(|share| share["interval"][1].as_f64());
    assert!(most.is_none_or(|most| most > 0.5), "{diagnosis:#}");
    drop((agent, cable));
    guest.down();
}
