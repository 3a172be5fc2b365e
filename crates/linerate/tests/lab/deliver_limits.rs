//! What limits a transfer, on a server of known speeds: a disk of 40 MB/s, and a NIC of 200 Mb/s that a shaper makes.

use crate::support::lab::Lab;
use crate::support::process::Ends;
use crate::support::served::Served;
use crate::support::{program, write_secret};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;

/// `linerate serve` on one side of the lab.
fn serve(lab: &Lab, side: &str, words: &[&str]) -> Served {
    Served::of(&mut lab.linerate(side, &[&["serve", "--no-save"], words].concat()))
}

/// Ctrl-C; the line that says what limited it.
fn limit(server: Served) -> String {
    let (_, text) = server.stop();
    text.lines().find(|line| line.contains("while files")).unwrap_or_default().to_string()
}

/// A transfer on the server's side, as JSON.
fn transfer(lab: &Lab, words: &[&str]) -> Value {
    lab.linerate("run", words).ended().gives(0).json()
}

fn assert_limit(report: &Value, kind: &str, says: &str) {
    let limit = &report["diagnosis"]["bottleneck"];
    let said = limit["sentence"].as_str().unwrap_or_default();
    assert!(limit["kind"] == kind && said.contains(says), "{kind}, “{says}”: {report}");
}

#[test]
fn the_disk_and_the_nic_of_this_end_are_named() {
    let options = ["--disks", "1x40", "--nics", "200", "--file-size", "64M"];
    let Some(lab) = Lab::up("deliver", &options) else { return };
    let own = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let path = |name: &str| own.path().join(name).to_str().expect("a plain path").to_string();
    let (file, token, data, came) = (path("file"), path("token"), path("data"), path("came"));
    write_secret(Path::new(&token), "0123456789abcdef0123");
    [&data, &came].iter().for_each(|folder| std::fs::create_dir(folder).expect("made"));
    std::fs::write(&file, vec![7u8; 48 << 20]).expect("written");
    std::fs::rename(&file, Path::new(&data).join("file")).expect("moved");
    let mount = lab.succeed("mounts", &[]);
    let mount = mount.trim();
    // From memory to the disk, over loopback.
    let server = serve(&lab, "run", &[&data, "--listen", "127.0.0.1:7461"]);
    let onto = format!("{mount}/came");
    let got = transfer(&lab, &["get", "http://127.0.0.1:7461/file", "--output", &onto, "--json"]);
    assert_limit(&got, "disk", "the disks");
    // To memory, no faster than was asked for.
    let words = ["get", "http://127.0.0.1:7461/file", "--output", &came, "--rate-limit", "40MB/s", "--json"];
    assert_limit(&transfer(&lab, &words), "demand", "asked for no more");
    // The same as a run, whose files have no name: the disk limits by the shaper of the lab, not for want of bytes.
    let (source, saved) = ("http://127.0.0.1:7461/file", path("saved"));
    let words = ["run", "--source", source, "--sink", mount, "--sink-limit", "64M", "--output", &saved];
    let run = transfer(&lab, &[&words[..], &["--seconds", "0.5", "--repeats", "5", "--json"]].concat());
    let found = &run["diagnosis"]["bottleneck"];
    let disk = found["resources"][0].as_str().unwrap_or_default();
    assert!(found["kind"] == "disk" && disk.starts_with("disk:loop"), "{found:#}");
    let rate = run["measurements"][0]["bytes_per_second"].as_f64().unwrap_or_default();
    assert!((30e6..50e6).contains(&rate), "{rate}");
    drop(server);
    // From the disk to memory.
    let server = serve(&lab, "run", &[mount, "--listen", "127.0.0.1:7462"]);
    let sources = lab.succeed("sources", &[]);
    let name = sources.trim().rsplit('/').next().expect("a name").to_string();
    let url = format!("http://127.0.0.1:7462/{name}");
    let got = transfer(&lab, &["get", &url, "--output", &came, "--json", "--replace"]);
    assert_limit(&got, "sender", "the server or the way from it");
    let said = limit(server);
    assert!(said.contains("limited by the disks"), "{said}");
    // From memory through the NIC to the peer.
    let peer = lab.succeed("address", &["0"]);
    let listen = format!("{}:7463", peer.trim());
    let words = [came.as_str(), "--listen", &listen, "--writable", "--token-file", &token];
    let _server = serve(&lab, "peer", &words);
    let url = format!("http://{listen}/in/");
    let from = format!("{data}/file");
    let put = transfer(&lab, &["put", &from, &url, "--token-file", &token, "--json"]);
    assert_limit(&put, "nic", "held packets back");
}

/// A file goes by the second NIC, whose shaper limits it, while another program fills the first one.
#[test]
fn a_nic_that_another_transfer_fills_is_not_blamed() {
    let options = ["--disks", "1x40", "--nics", "200,160", "--file-size", "32M"];
    let Some(lab) = Lab::up("bystander", &options) else { return };
    let own = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let path = |name: &str| own.path().join(name).to_str().expect("a plain path").to_string();
    let (data, came) = (path("data"), path("came"));
    std::fs::create_dir(&data).expect("made");
    std::fs::write(Path::new(&data).join("large"), vec![7u8; 160 << 20]).expect("written");
    std::fs::write(Path::new(&data).join("file"), vec![7u8; 24 << 20]).expect("written");
    let own_address = |nic: &str| {
        let peer = lab.succeed("address", &[nic]);
        format!("{}1", peer.trim().strip_suffix('2').expect("the end of an address"))
    };
    let (other, listen) = (format!("{}:7464", own_address("0")), format!("{}:7466", own_address("1")));
    let _other_server = serve(&lab, "run", &[&data, "--listen", &other]);
    let server = serve(&lab, "run", &[&data, "--listen", &listen]);
    let get = |url: &str, out: &str| {
        let program = program();
        let begin = ["--", &program, "get", url, "--output", out, "--no-save", "--json"];
        let mut command = lab.command("peer", &begin);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
    };
    let mut bystander = get(&format!("http://{other}/large"), &path("other"));
    let mut client = get(&format!("http://{listen}/file"), &came);
    assert!(client.wait().expect("it ends").success());
    let goes_on = bystander.try_wait().expect("a look").is_none();
    let said = limit(server);
    let _ = bystander.kill();
    let _ = bystander.wait();
    assert!(goes_on, "the other transfer ended before");
    assert!(said.contains("the shaper tbf of nic1 held packets back"), "{said}");
}
