//! Long ways (`lab up --rtt`): the delay and the loss are those that were asked for, and linerate names what limits
//! TCP there, the window, the loss or the link, with a rate that holds.
//!
//! `./test` has the lab's own promises; the cells of 20 to 200 ms are those of `./test --thorough`
//! (LINERATE_LAB_ROUNDS=1 takes each once, =10 ten times).

use crate::support::lab::Lab;
use crate::support::neighbours::undisturbed;
use crate::support::program;
use linerate::plan::long_path::CongestionControl;
use serde_json::Value;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Connects to a port where nobody listens: the refusal takes one round trip. Nanoseconds of each.
const KNOCK: &str = "for i in 1 2 3 4 5; do t=$(date +%s%N); (exec 3<>/dev/tcp/$0/9) 2>/dev/null; \
                     echo $(($(date +%s%N) - t)); done";

fn up(test: &str, options: &[&str]) -> Option<Lab> {
    Lab::up(&format!("way-{test}"), &[&["--disks", "1x0", "--file-size", "64M"], options].concat())
}

/// The shortest of five round trips, milliseconds.
fn round_trip_ms(lab: &Lab) -> f64 {
    let address = lab.succeed("address", &["0"]);
    let times = lab.succeed("run", &["--", "bash", "-c", KNOCK, address.trim()]);
    let times = times.lines().map(|line| line.parse::<f64>().expect("nanoseconds") / 1e6);
    times.fold(f64::INFINITY, f64::min)
}

#[test]
fn a_round_trip_takes_what_was_asked_for() {
    let Some(lab) = up("delay", &["--rtt", "40ms", "--nics", "100,100"]) else { return };
    undisturbed("a round trip of 40 ms", 3, || {
        let took = round_trip_ms(&lab);
        // A new process and its end are in it.
        assert!((40.0..50.0).contains(&took), "{took} ms");
    });
    let status = lab.succeed("status", &[]);
    assert!(status.contains("the way to the peer: round trip 40 ms\n"), "{status}");
    assert_eq!(status.matches("overruns=0").count(), 4, "{status}");
}

/// Datagrams one way: each is lost with the same chance, whether its train was cut or not.
#[test]
fn the_loss_is_the_one_that_was_asked_for() {
    const LOSS: f64 = 0.02;
    let Some(lab) = up("loss", &["--rtt", "1ms", "--loss", "2%", "--nics", "100", "--mtu", "1500"]) else {
        return;
    };
    let agent = Agent::of(&lab);
    let result =
        network(&lab, &agent, &["--protocol", "udp", "--rate", "40M", "--seconds", "2", "--repeats", "1"]);
    let status = lab.succeed("status", &[]);
    let of = |name: &str| -> f64 {
        let line = status.lines().find(|line| line.trim_start().starts_with("there ")).expect("its counters");
        let word = line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        word.expect("a counter").parse().expect("a number")
    };
    // The kernel hands down trains of many datagrams: they count by their bytes.
    let share = of("lost") / (of("bytes") / 1514.0);
    assert!((0.7 * LOSS..1.3 * LOSS).contains(&share), "{share}: {status}");
    assert_eq!((of("overruns"), of("queue_drops")), (0.0, 0.0));
    let seen = result["measurements"][0]["loss"].as_f64().expect("a loss");
    assert!((0.6 * LOSS..1.4 * LOSS).contains(&seen), "{seen}");
}

/// An agent on the peer, ended with the lab.
struct Agent {
    child: Child,
    folder: tempfile::TempDir,
}

impl Agent {
    fn of(lab: &Lab) -> Agent {
        let folder = tempfile::tempdir().expect("a folder");
        let key = folder.path().join("key").display().to_string();
        let program = program();
        let words = ["--", &program, "agent", "--listen", "0.0.0.0:7411", "--key-file", &key];
        let mut command = lab.command("peer", &words);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("an agent");
        let patience = Instant::now() + Duration::from_secs(5);
        while std::fs::metadata(&key).is_err() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(20));
        }
        Agent { child, folder }
    }

    fn key(&self) -> String {
        self.folder.path().join("key").display().to_string()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn network(lab: &Lab, agent: &Agent, words: &[&str]) -> Value {
    let (key, program, address) = (agent.key(), program(), lab.succeed("address", &["0"]));
    let mut all = vec!["--", &program, "network", "--json", "--key-file", &key, "--peer", address.trim()];
    all.extend(words);
    let text = lab.succeed("run", &all);
    serde_json::from_str(&text).expect("JSON")
}

/// One cell: a way, and what limits a stream of cubic on it.
struct Cell {
    milliseconds: f64,
    loss: f64,
    link_megabits: u32,
    kind: &'static str,
}

/// A link of 300 Mb/s: a stream's largest send buffer of 4 MiB is more than that needs up to 93 ms (5/6 of it are
/// used). Loss is the limit of all others.
fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for milliseconds in [20.0, 50.0, 100.0, 200.0] {
        for loss in [0.0, 1e-4, 1e-3] {
            let by_window = 5.0 / 6.0 * 4_194_304.0 / (milliseconds / 1e3);
            let segments = CongestionControl::Cubic.window_segments(loss, milliseconds / 1e3);
            let by_loss = segments
                .filter(|_| loss > 0.0)
                .map_or(f64::INFINITY, |all| all * 1448.0 / (milliseconds / 1e3));
            let link: f64 = 300e6 / 8.0 * 1448.0 / 1514.0;
            let kind = match by_loss < link.min(by_window) {
                true => "loss",
                false if by_window < link => "window",
                false => "nic",
            };
            cells.push(Cell { milliseconds, loss, link_megabits: 300, kind });
        }
    }
    cells
}

#[test]
fn the_limit_of_each_cell_is_named_rightly() {
    let Some(rounds) =
        std::env::var("LINERATE_LAB_ROUNDS").ok().and_then(|rounds| rounds.parse::<u32>().ok())
    else {
        eprintln!("skipped: twelve long ways: ./test --thorough");
        return;
    };
    let mut wrong = Vec::new();
    let mut all = 0;
    for cell in cells() {
        let (trip, loss) = (format!("{}ms", cell.milliseconds), format!("{}%", cell.loss * 100.0));
        let nics = cell.link_megabits.to_string();
        let mut options = vec!["--rtt", &trip, "--nics", &nics, "--mtu", "1500"];
        if cell.loss > 0.0 {
            options.extend(["--loss", &loss]);
        }
        let Some(lab) = up("cell", &options) else { return };
        let agent = Agent::of(&lab);
        for _ in 0..rounds {
            all += 1;
            let said = one_run(&lab, &agent);
            let line = format!(
                "{trip} {loss}: {} was wanted; {} ({}), {:.1} Mb/s, {:.2} of predicted",
                cell.kind, said.kind, said.certainty, said.megabits, said.achieved_of_predicted
            );
            eprintln!("{line}");
            let as_predicted = cell.loss > 0.0 || (said.achieved_of_predicted - 1.0).abs() <= 0.1;
            if said.kind != cell.kind || !as_predicted {
                wrong.push(line);
            }
        }
    }
    assert!(wrong.len() * 10 <= all, "{} of {all}:\n{}", wrong.len(), wrong.join("\n"));
}

/// What a run said.
struct Said {
    kind: String,
    certainty: String,
    achieved_of_predicted: f64,
    megabits: f64,
}

fn one_run(lab: &Lab, agent: &Agent) -> Said {
    let (key, program) = (agent.key(), program());
    let (address, source) = (lab.succeed("address", &["0"]), lab.succeed("sources", &[]));
    let output = tempfile::tempdir().expect("a folder");
    let folder = output.path().join("run").display().to_string();
    let peer = format!("{}:7411", address.trim());
    lab.succeed(
        "run",
        &[
            "--",
            &program,
            "run",
            "--source",
            source.trim(),
            "--peer",
            &peer,
            "--key-file",
            &key,
            "--protocol",
            "tcp",
            "--congestion-control",
            "cubic",
            "--stages",
            "network,path",
            "--output",
            &folder,
        ],
    );
    let text = std::fs::read_to_string(output.path().join("run/run.json")).expect("run.json");
    let run: Value = serde_json::from_str(&text).expect("JSON");
    let found = &run["diagnosis"];
    let text = |value: &Value| value.as_str().unwrap_or("").to_string();
    Said {
        kind: text(&found["bottleneck"]["kind"]),
        certainty: text(&found["verdict"]),
        achieved_of_predicted: found["achieved"]["of_predicted"].as_f64().unwrap_or(f64::NAN),
        megabits: found["achieved"]["bytes_per_second"].as_f64().unwrap_or(f64::NAN) * 8e-6,
    }
}
