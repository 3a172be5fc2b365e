//! Fleets of hosts of the lab: planted faults are named with their direction, whatever starts the members; who dies
//! or falls silent is named within five seconds; nothing is left running.

mod disks;
mod faults;
mod launchers;
mod patterns;
mod wall;

use crate::support::lab::{Lab, folder};
use crate::support::neighbours::undisturbed;
use crate::support::process::Ends;
use crate::support::program;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A dead or silent member is named within this.
const NAMED: Duration = Duration::from_secs(5);

/// `lab host {host}` as a launcher.
fn launcher(lab: &Lab) -> String {
    format!("{} host --name {} {{host}} --", folder().join("lab").display(), lab.name())
}

/// On the head of the lab.
fn on_head(lab: &Lab, words: &[&str]) -> Command {
    lab.command("host", &[&["head", "--"], words].concat())
}

fn fleet(lab: &Lab, more: &[&str]) -> Command {
    let program = program();
    let words = [&program, "fleet", "pairs", "--streams", "1", "--seconds", "0.3", "--json"];
    on_head(lab, &[&words, more].concat())
}

fn measured(command: &mut Command, status: i32) -> Value {
    command.ended().gives(status).json()
}

fn sentence(result: &Value) -> &str {
    result["verdict"]["sentence"].as_str().expect("a sentence")
}

/// Processes in the namespaces of the lab's hosts.
fn left(lab: &Lab, hosts: u32) -> String {
    let of = |host: String| {
        let netns = format!("linerate-{}-{host}", lab.name());
        let output = Command::new("ip").args(["netns", "pids", &netns]).ended();
        output.stdout
    };
    (1..=hosts).map(|number| of(format!("h{number}"))).collect()
}

fn assert_nothing_left(lab: &Lab, hosts: u32) {
    let deadline = Instant::now() + NAMED;
    while !left(lab, hosts).is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(left(lab, hosts), "", "members are left");
}

/// Alone on the machine (.config/nextest.toml).
#[test]
fn cells_are_within_three_percent_of_the_shapers() {
    undisturbed("the rates between four hosts", 2, cells);
}

fn cells() {
    let Some(lab) = Lab::up("cells", &["--hosts", "4", "--rate", "400", "--slow", "h2:send:150"]) else {
        return;
    };
    // The clock of h4 is half a minute ahead, which changes no figure.
    let ahead = "unshare --time --monotonic 30 --fork --kill-child -- \"$@\"";
    let launch =
        format!("sh -c 'if [ $0 = h4 ]; then {ahead}; else exec \"$@\"; fi' {{host}} {}", launcher(&lab));
    let result = measured(&mut fleet(&lab, &["--hosts", "h[1-4]", "--launch", &launch]), 0);
    assert!(sentence(&result).starts_with("h2 sends at 0."), "{}", sentence(&result));
    for cell in result["cells"].as_array().expect("cells") {
        // 9000 less 52 of 9000 and 14 bytes (tbf counts the header of Ethernet).
        let shaped = if cell["from"] == "h2" { 150e6 } else { 400e6 } / 8.0 * 8948.0 / 9014.0;
        let ratio = cell["bytes_per_second"].as_f64().expect("a rate") / shaped;
        assert!((0.97..1.03).contains(&ratio), "{ratio}: {cell}");
    }
    let words =
        ["--hosts", "h[1-4]", "--launch", &launcher(&lab), "--streams", "1", "--seconds", "0.5", "--json"];
    let together =
        measured(&mut on_head(&lab, &[&[&program()[..], "fleet", "all-to-all"], &words[..]].concat()), 0);
    for window in together["windows"].as_array().expect("windows") {
        let Some(predicted) = window["predicted_bytes_per_second"].as_f64() else { continue };
        let ratio = window["bytes_per_second"].as_f64().expect("a rate") / predicted;
        assert!((0.95..1.05).contains(&ratio), "{ratio}: {window}");
    }
    for window in result["windows"].as_array().expect("windows") {
        assert!(window["start_skew_seconds"].as_f64() < Some(0.1), "{window}");
    }
}

#[test]
fn names_a_slow_receiver_by_the_plain_list_and_by_open_mpi() {
    let Some(lab) = Lab::up("fleet", &["--hosts", "4", "--rate", "400", "--slow", "h3:receive:120"]) else {
        return;
    };
    let list = measured(&mut fleet(&lab, &["--hosts", "h[1-4]", "--launch", &launcher(&lab)]), 0);
    let mut results = vec![list];
    if has_open_mpi() {
        let agent = rsh_agent(&lab);
        let words = format!(
            "mpirun --oversubscribe --mca plm_rsh_agent {} --mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_if_include \
             eth0 -np 4 --host h1,h2,h3,h4",
            agent.display()
        );
        let mut from_outside = fleet(&lab, &["--launch", &words]);
        results.push(measured(as_root(&mut from_outside), 0));
        // The same job, started by mpirun itself on a host without a rank: rank 0 coordinates, and the others read where it
        // is in the home folder.
        let home = agent.parent().expect("a folder").to_path_buf();
        let program = program();
        let mut words: Vec<&str> = words.split_whitespace().collect();
        let own = format!("-x LINERATE_KEY -x HOME {program} fleet pairs --streams 1 --seconds 0.3");
        words.extend(own.split(' '));
        words.push("--json");
        let mut inside = on_head(&lab, &words);
        let inside = as_root(&mut inside).env("LINERATE_KEY", "3c".repeat(32)).env("HOME", home);
        results.push(measured(inside, 0));
        let _ = std::fs::remove_dir_all(agent.parent().expect("a folder"));
    } else {
        eprintln!(
            "skipped: Open MPI is not installed (apt install openmpi-bin); the plain list alone starts the fleet"
        );
    }
    for result in &results {
        assert!(
            sentence(result).starts_with("h3 receives at 0.") && sentence(result).contains("3 of 3 pairs")
        );
        let slow = &result["verdict"]["members"];
        assert_eq!(
            (slow.as_array().map(Vec::len), &slow[0]["direction"]),
            (Some(1), &Value::from("receive"))
        );
        assert!(result["cells"].as_array().map(Vec::len) >= Some(12));
    }
    assert_nothing_left(&lab, 4);
}

fn has_open_mpi() -> bool {
    let mpirun = Command::new("mpirun").arg("--version").output();
    mpirun.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("Open MPI"))
}

fn as_root(command: &mut Command) -> &mut Command {
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
}

/// What mpirun takes for ssh.
fn rsh_agent(lab: &Lab) -> PathBuf {
    let folder_of_it = std::env::temp_dir().join(format!("linerate-{}", lab.name()));
    std::fs::create_dir_all(&folder_of_it).expect("a folder");
    let path = folder_of_it.join("agent");
    let text = format!(
        "#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\n\
         # h3, or an address of it.\nhost=h${{1##*[h.]}}; shift\nexec '{}' host --name {} \"$host\" -- bash -c \"$*\"\n",
        folder().join("lab").display(),
        lab.name()
    );
    std::fs::write(&path, text).expect("the agent");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("its mode");
    path
}

#[test]
fn names_the_uplink_between_racks() {
    undisturbed("the rates between two racks", 2, uplink);
}

fn uplink() {
    let Some(lab) = Lab::up("racks", &["--hosts", "6", "--racks", "2", "--rate", "400", "--uplink", "300"])
    else {
        return;
    };
    let result = measured(&mut fleet(&lab, &["--hosts", "h[1-6]", "--launch", &launcher(&lab)]), 0);
    let links = result["verdict"]["links"].as_array().expect("links");
    assert_eq!(links.len(), 2, "{}", sentence(&result));
    assert_eq!(links[0]["from"], serde_json::json!(["h1", "h2", "h3"]), "{}", sentence(&result));
    assert!(sentence(&result).contains("the link between the groups"), "{}", sentence(&result));
    let together = links[0]["bytes_per_second"].as_f64().expect("a rate") * 8.0 / 1e6;
    assert!((250.0..330.0).contains(&together), "{together}");
}

/// The fleet while it runs, line by line of what it complains about.
fn running(lab: &Lab, more: &[&str]) -> (Child, std::sync::mpsc::Receiver<String>) {
    let mut command = fleet(lab, &[&["--hosts", "h[1-4]", "--launch", &launcher(lab)], more].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the fleet starts");
    let stderr = child.stderr.take().expect("a pipe");
    let (sender, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    (child, lines)
}

/// Members that have begun to send or to take data: the lab's host has a linerate with a connection to another.
fn await_members(lab: &Lab) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        let netns = format!("linerate-{}-h1", lab.name());
        let sockets = Command::new("ip")
            .args(["netns", "exec", &netns, "cat", "/proc/net/tcp6", "/proc/net/tcp"])
            .output();
        let established =
            |text: &str| text.lines().filter(|line| line.split_whitespace().nth(3) == Some("01")).count();
        if sockets.is_ok_and(|output| established(&String::from_utf8_lossy(&output.stdout)) > 2) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("no member of the fleet sends");
}

fn signal(lab: &Lab, host: &str, signal: &str) {
    let netns = format!("linerate-{}-{host}", lab.name());
    let output = Command::new("ip").args(["netns", "pids", &netns]).ended();
    for process in output.stdout.split_whitespace() {
        let sent = Command::new("kill").args([signal, process]).status().expect("kill");
        assert!(sent.success());
    }
}

#[test]
fn members_that_die_or_fall_silent_are_named_and_the_others_are_measured() {
    undisturbed("the time until a lost member is named", 2, lost_members);
}

fn lost_members() {
    let Some(lab) = Lab::up("lost", &["--hosts", "4", "--rate", "200"]) else { return };
    let (child, lines) = running(&lab, &[]);
    await_members(&lab);
    for (host, how, says) in [("h2", "-KILL", "h2 was lost"), ("h4", "-STOP", "h4 was lost: it said nothing")]
    {
        let began = Instant::now();
        signal(&lab, host, how);
        let named =
            std::iter::from_fn(|| lines.recv_timeout(2 * NAMED).ok()).find(|line| line.contains(says));
        let took = began.elapsed();
        assert!(named.is_some(), "{says}: not in {took:?}");
        assert!(took < NAMED, "{says}: only after {took:?}");
    }
    let output = child.ended();
    assert_eq!(output.status.code(), Some(1));
    let result = output.json();
    let rate = |from: &str, to: &str| {
        let cells = result["cells"].as_array().expect("cells");
        let cell = cells.iter().find(|cell| cell["from"] == from && cell["to"] == to);
        cell.and_then(|cell| cell["bytes_per_second"].as_f64())
    };
    assert!(rate("h1", "h3").is_some() || rate("h3", "h1").is_some(), "those that are left: {result}");
    signal(&lab, "h4", "-KILL");
    assert_nothing_left(&lab, 4);
}

#[test]
fn no_member_outlives_its_coordinator() {
    let Some(lab) = Lab::up("head", &["--hosts", "4", "--rate", "200"]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("out");
    let (mut child, _lines) = running(&lab, &["--output", &output.to_string_lossy()]);
    await_members(&lab);
    let saved = || -> Option<Value> {
        serde_json::from_str(&std::fs::read_to_string(output.join("run.json")).ok()?).ok()
    };
    let cells = || saved().map_or(0, |result| result["cells"].as_array().map_or(0, Vec::len));
    let deadline = Instant::now() + Duration::from_secs(30);
    while cells() == 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    signal(&lab, "head", "-KILL");
    assert_nothing_left(&lab, 4);
    child.wait().expect("it ended");
    // What was measured until then is a whole product.
    let result = saved().expect("run.json");
    assert!(
        cells() > 0 && !result["verdict"]["sentence"].as_str().unwrap_or_default().is_empty(),
        "{result}"
    );
}

/// The head's own file of names says that h1 is two hosts, of which one came.
#[test]
fn a_name_of_two_hosts_is_reported() {
    let Some(lab) = Lab::up("names", &["--hosts", "2", "--rate", "200"]) else { return };
    let address = |host: &str| {
        let shown = lab.succeed("host", &[host, "--", "ip", "-4", "-o", "addr", "show", "dev", "eth0"]);
        let word = shown.split_whitespace().nth(3).expect("an address").to_string();
        word.split('/').next().expect("without its length").to_string()
    };
    let (one, other) = (address("h1"), address("h2"));
    let folder = tempfile::tempdir().expect("a folder");
    let names = folder.path().join("hosts");
    std::fs::write(&names, format!("127.0.0.1 localhost\n{one} h1\n{other} h1\n{other} h2\n"))
        .expect("names");
    let names = names.to_string_lossy().into_owned();
    let bound = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
    let program = program();
    let words = ["unshare", "--mount", "sh", "-c", bound, &names, &program, "fleet", "pairs"];
    let more =
        ["--hosts", "h[1-2]", "--launch", &launcher(&lab), "--streams", "1", "--seconds", "0.3", "--json"];
    let result = measured(&mut on_head(&lab, &[&words[..], &more].concat()), 0);
    let differences = result["differences"].as_array().expect("differences");
    let says = format!("h1 has the addresses {one} and {other}, and the host that came has only the first");
    assert!(
        differences.iter().any(|one| one.as_str().is_some_and(|one| one.starts_with(&says))),
        "{differences:?}"
    );
}

/// Hosts that reach the coordinator and not each other: each flow has its reason, and no host is blamed.
#[test]
fn hosts_without_a_network_between_them_are_named_in_a_sentence() {
    let Some(lab) = Lab::up("apart", &["--hosts", "2", "--rate", "0"]) else { return };
    for (host, other) in [("h1", "h2"), ("h2", "h1")] {
        let address = lab.succeed("host", &[other, "--", "ip", "-4", "-o", "addr", "show", "dev", "eth0"]);
        let address = address.split_whitespace().nth(3).and_then(|word| word.split('/').next());
        let route = ["ip", "route", "add", "unreachable", address.expect("an address")];
        lab.succeed("host", &[&[host, "--"], &route[..]].concat());
    }
    let began = Instant::now();
    let mut command = fleet(&lab, &["--hosts", "h[1-2]", "--launch", &launcher(&lab)]);
    let output = command.ended();
    let stderr = &output.stderr;
    output.gives(1);
    let result = output.json();
    assert_eq!(sentence(&result), "nothing was measured");
    assert!(stderr.contains("h1 to h2: ") && stderr.contains("no route leads there"), "{stderr}");
    assert!(began.elapsed() < Duration::from_secs(60));
    assert_nothing_left(&lab, 2);
}
