//! The NICs and addresses by which a file comes: one that goes down, two together, one that is down from the
//! beginning, and addresses of the server's name where nobody is.

use crate::support::lab::Lab;
use crate::support::process::{Ends, ProcessEnd, until};
use crate::support::served::Served;
use crate::support::{program, text};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The peer of the lab serves this folder at all these addresses.
fn serve(lab: &Lab, folder: &Path, addresses: &[&str]) -> Served {
    let mut serve = lab.linerate("peer", &["serve", text(folder), "--no-save", "--name", "files.example"]);
    for address in addresses {
        serve.args(["--listen", *address]);
    }
    Served::of(&mut serve)
}

fn content(mib: usize) -> Vec<u8> {
    linerate_testing::content(1, mib << 20)
}

/// So many files of some bytes are in the folder `small`.
const SMALL: u32 = 100;

/// A lab whose peer serves `data` and `small` at its two addresses.
struct TwoNics {
    _server: Served,
    lab: Lab,
    own: tempfile::TempDir,
    content: Vec<u8>,
    peer: [String; 2],
}

impl TwoNics {
    fn up(name: &str, mib: usize) -> Option<TwoNics> {
        let lab = Lab::up(name, &["--disks", "1x100", "--nics", "100,100", "--file-size", "32M"])?;
        let own = tempfile::tempdir_in("/dev/shm").expect("a folder");
        let content = content(mib);
        let from = own.path().join("from");
        std::fs::create_dir(&from).expect("made");
        std::fs::write(from.join("data"), &content).expect("written");
        std::fs::create_dir(from.join("small")).expect("made");
        for number in 0..SMALL {
            std::fs::write(from.join(format!("small/{number}")), number.to_string()).expect("written");
        }
        let peer = ["0", "1"].map(|nic| lab.succeed("address", &[nic]).trim().to_string());
        let listen = peer.each_ref().map(|address| format!("{address}:7465"));
        let server = serve(&lab, &from, &listen.each_ref().map(String::as_str));
        Some(TwoNics { _server: server, lab, own, content, peer })
    }

    /// `linerate get` with these words of a path of the server, whose name has these addresses.
    fn get(&self, addresses: &[&str], path: &str, words: &[&str]) -> ProcessEnd {
        let hosts = self.own.path().join("hosts");
        let lines: String = addresses.iter().map(|one| format!("{one} files.example\n")).collect();
        std::fs::write(&hosts, lines).expect("written");
        let out = self.own.path().join("out");
        let _ = std::fs::remove_dir_all(&out);
        let script = "mount --bind \"$1\" /etc/hosts && shift && exec \"$@\"";
        let program = program();
        let begin = ["--", "unshare", "--mount", "bash", "-c", script, "get", text(&hosts), &program, "get"];
        let url = format!("http://files.example:7465/{path}");
        let url = [url.as_str(), "--json", "--no-save", "--output", text(&out)];
        self.lab.command("run", &[&begin[..], &url[..], words].concat()).ended()
    }

    fn both(&self) -> [&str; 2] {
        self.peer.each_ref().map(String::as_str)
    }

    /// It has come whole; the report.
    fn came(&self, output: &ProcessEnd) -> Value {
        output.gives(0);
        assert!(std::fs::read(self.own.path().join("out/data")).expect("there") == self.content);
        output.json()
    }
}

/// The sum of both is 25 MB/s; a machine that does other work, too, still gets clearly more than one of them.
fn rate(report: &Value) -> f64 {
    report["measurements"][0]["bytes_per_second"].as_f64().expect("a rate")
}

#[test]
fn two_nics_bring_one_file_together() {
    let Some(place) = TwoNics::up("get-two", 48) else { return };
    let report = place.came(&place.get(&place.both(), "data", &["--nic", "nic0", "--nic", "nic1"]));
    assert!(rate(&report) > 1.4 * 12.5e6, "{report}");
    for nic in ["nic0", "nic1"] {
        let nics = report["transfer"]["nics"].as_array().expect("NICs");
        let own = nics.iter().find(|one| one["nic"] == nic).expect(nic);
        assert!(own["bytes"].as_u64() > Some(12 << 20) && own["left_out"].is_null(), "{report}");
        let rate = own["bytes_per_second"].as_f64().expect("a rate");
        assert!((6e6..13e6).contains(&rate), "{rate}: {report}");
    }
    // Both limit it, and are named with their rates.
    let limit = &report["diagnosis"]["bottleneck"];
    assert_eq!((&limit["kind"], &limit["resources"]), (&"sender".into(), &json!(["nic:nic0", "nic:nic1"])));
    let sentence = limit["sentence"].as_str().expect("a sentence");
    assert!(sentence.contains("nic0 (") && sentence.contains("nic1 ("), "{sentence}");
    // By their addresses, too, and by those of the name alone: the routes lead to both.
    let own = place.peer.each_ref().map(|peer| format!("{}1", peer.strip_suffix('2').expect("its end")));
    let report = place.came(&place.get(&place.both(), "data", &["--nic", &own[0], "--nic", &own[1]]));
    assert_eq!(report["transfer"]["nics"].as_array().map_or(0, Vec::len), 2, "{report}");
    let report = place.came(&place.get(&place.both(), "data", &[]));
    assert!(rate(&report) > 1.4 * 12.5e6, "{report}");
}

#[test]
fn a_nic_that_is_down_is_left_out() {
    let Some(place) = TwoNics::up("get-down", 64) else { return };
    place.lab.succeed("run", &["--", "ip", "link", "set", "nic1", "down"]);
    let output = place.get(&place.both(), "data", &["--nic", "nic1", "--nic", "nic0"]);
    let said = &output.stderr;
    let report = place.came(&output);
    assert!(said.contains("nic1 was left out: files.example:7465: no connection"), "{said}");
    let nic = &report["transfer"]["nics"][0];
    assert_eq!((&nic["nic"], &nic["bytes"]), (&"nic1".into(), &0.into()));
    assert!(nic["left_out"].is_string() && report["errors"] == json!([]), "{report}");
    let output = place.get(&place.both(), "small/", &["--nic", "nic1", "--nic", "nic0"]);
    output.gives(0);
    for number in 0..SMALL {
        let came = std::fs::read_to_string(place.own.path().join(format!("out/small/{number}")));
        assert_eq!(came.expect("there"), number.to_string());
    }
    let output = place.get(&place.both(), "data", &["--nic", "nic7"]);
    output.gives(3).mentions(&["--nic nic7: this host has no such NIC"]);
}

#[test]
fn addresses_where_nobody_is_cost_a_short_while() {
    let Some(place) = TwoNics::up("get-dead", 8) else { return };
    let network = place.peer[0].strip_suffix('2').expect("the end of an address");
    let (dead, other) = (format!("{network}77"), format!("{network}78"));
    let begun = Instant::now();
    place.came(&place.get(&[&dead, &place.peer[0], &other], "data", &[]));
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    let output = place.get(&[&dead, &other], "data", &[]);
    let said = &output.stderr;
    assert!(output.status.code() == Some(3) && said.lines().count() == 1, "{said}");
    assert!(said.contains(&format!("{dead}:7465: ")) && said.contains(&format!("{other}:7465: ")), "{said}");
}

/// Until the journal has so many lines of blocks.
fn awaits_lines(out: &Path, blocks: usize) {
    let journaled = || std::fs::read_to_string(out.join(".data.linerate-journal")).unwrap_or_default();
    until("its blocks do not come", || journaled().lines().count() > blocks);
}

#[test]
fn a_nic_that_goes_down_is_waited_for_or_what_came_is_kept() {
    let options = ["--disks", "1x100", "--nics", "100", "--file-size", "32M"];
    let Some(lab) = Lab::up("deliver-nic", &options) else { return };
    let own = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let (from, out) = (own.path().join("from"), own.path().join("out"));
    std::fs::create_dir(&from).expect("made");
    let content = content(40);
    std::fs::write(from.join("data"), &content).expect("written");
    let program = program();
    let address = format!("{}:7464", lab.succeed("address", &["0"]).trim());
    let _server = serve(&lab, &from, &[&address]);
    let url = format!("http://{address}/data");
    let get = |timeout: &str| {
        let words = ["--", &program, "get", &url, "--json", "--no-save", "--timeout", timeout, "--output"];
        let mut get: Command = lab.command("run", &words);
        get.arg(&out).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
    };
    let link = |state: &str| drop(lab.succeed("run", &["--", "ip", "link", "set", "nic0", state]));
    // For two seconds: the same connections go on, or new ones.
    let child = get("30s");
    awaits_lines(&out, 2);
    link("down");
    std::thread::sleep(Duration::from_secs(2));
    link("up");
    child.ended().gives(0);
    assert!(std::fs::read(out.join("data")).expect("there") == content);
    std::fs::remove_dir_all(&out).expect("removed");
    // For longer than its patience.
    let child = get("1s");
    awaits_lines(&out, 2);
    link("down");
    let output = child.ended();
    link("up");
    let said = &output.stderr;
    assert!(output.status.code() == Some(1) && !out.join("data").exists(), "{said}");
    let report = get("30s").ended().gives(0).json();
    assert!(report["transfer"]["kept_bytes"].as_u64().is_some_and(|kept| kept >= 4 << 20), "{report}");
    assert!(std::fs::read(out.join("data")).expect("there") == content);
}
