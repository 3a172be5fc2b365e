//! The tool plugin for perfSONAR's pScheduler, without pScheduler: each executable on the JSON of its test
//! classes, both participants of a run on this host, transfers; with `PSCHEDULER=DIR`, a checkout, its own
//! classes judge specifications and results.

use crate::support::process::{Ends, ProcessEnd};
use crate::support::served::{Served, content, free_port, place};
use crate::support::{keep_apart, kept, program, text, write_secret};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/pscheduler")
}

/// The plugin with a configuration that names the linerate of this build.
struct Plugin {
    _folder: tempfile::TempDir,
    config: PathBuf,
}

impl Plugin {
    /// None, with a message, where there is no Python.
    fn new() -> Option<Plugin> {
        if Command::new("python3").arg("--version").output().is_err() {
            println!("skipped: no python3");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("linerate.conf");
        let text = format!("[linerate]\nprogram = {}\nport = {}\n", program(), free_port());
        std::fs::write(&config, text).expect("a configuration");
        Some(Plugin { _folder: folder, config })
    }

    fn start(&self, name: &str, input: &Value) -> Child {
        let mut command = Command::new(folder().join("linerate").join(name));
        keep_apart(&mut command, &kept());
        command.env("LINERATE_PSCHEDULER_CONFIG", &self.config).env_remove("LINERATE_KEY");
        // No folder of compiled files beside the sources.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let written = child.stdin.take().expect("its input").write_all(input.to_string().as_bytes());
        // `enumerate` reads nothing.
        drop(written);
        child
    }

    fn output(&self, name: &str, input: &Value) -> ProcessEnd {
        self.start(name, input).ended()
    }

    fn said(&self, name: &str, input: &Value) -> Value {
        self.output(name, input).gives(0).json()
    }

    fn refused(&self, test: Value) -> String {
        let answer = self.said("can-run", &test);
        assert_eq!(answer["can-run"], false, "{test}");
        answer["reasons"].to_string()
    }
}

/// Has pScheduler's own classes judge, where they are.
fn judged(cases: &[(&str, &Value)]) {
    let Some(checkout) = std::env::var_os("PSCHEDULER") else {
        return println!("skipped: no pScheduler to judge the plugin; PSCHEDULER=DIR names a checkout");
    };
    let mut judge = Command::new(folder().join("judged_by_pscheduler.py"))
        .arg(checkout)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut input = judge.stdin.take().expect("its input");
    input.write_all(json!(cases).to_string().as_bytes()).expect("written");
    drop(input);
    let output = judge.ended();
    assert!(output.status.success(), "{}", output.stdout);
}

/// As a user of pScheduler orders it, with all that linerate takes.
fn full_spec() -> Value {
    json!({
        "schema": 7, "source": "127.0.0.1", "source-node": "127.0.0.1", "dest": "127.0.0.1", "dest-node": "127.0.0.1",
        "duration": "PT20S", "interval": "PT2S", "link-rtt": "PT0.1S", "parallel": 4, "bandwidth": 1_000_000_000,
        "window-size": 1_000_000, "buffer-length": 131_072, "ip-version": 4, "congestion": "cubic", "reverse": true,
    })
}

#[test]
fn the_tool_is_enumerated_and_takes_what_it_can_measure() {
    let Some(plugin) = Plugin::new() else { return };
    let about = plugin.said("enumerate", &Value::Null);
    assert_eq!(about["tests"], json!(["throughput", "disk-to-disk"]));
    let spec = full_spec();
    let test = json!({ "type": "throughput", "spec": &spec });
    assert_eq!(plugin.said("can-run", &test), json!({ "can-run": true }));
    // Ten windows of 2 s, 5 s of setting up, and 20 round trips of 0.1 s.
    assert_eq!(plugin.said("duration", &test), json!({ "duration": "PT27S" }));
    let transfer =
        json!({ "schema": 1, "source": "http://a/file", "dest": "file:///tmp/x", "timeout": "PT2M" });
    let test = json!({ "type": "disk-to-disk", "spec": &transfer });
    assert_eq!(plugin.said("can-run", &test), json!({ "can-run": true }));
    assert_eq!(plugin.said("duration", &test), json!({ "duration": "PT120S" }));
    judged(&[("enumeration", &about), ("throughput-spec", &spec), ("disk-to-disk-spec", &transfer)]);
}

#[test]
fn what_it_cannot_measure_is_refused_with_each_reason() {
    let Some(plugin) = Plugin::new() else { return };
    let throughput = |more: Value| {
        let mut spec = json!({ "schema": 1, "dest": "127.0.0.1" });
        spec.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        plugin.refused(json!({ "type": "throughput", "spec": spec }))
    };
    let reasons = throughput(json!({ "mss": 9000, "omit": "PT1S" }));
    assert!(reasons.contains("option mss") && reasons.contains("option omit"), "{reasons}");
    assert!(throughput(json!({ "schema": 99 })).contains("Schema version 99"));
    assert!(throughput(json!({ "duration": "P1M" })).contains("not a duration"));
    assert!(throughput(json!({ "udp": true, "congestion": "bbr" })).contains("of TCP"));
    assert!(plugin.refused(json!({ "type": "rtt", "spec": {} })).contains("Unsupported"));
    assert!(plugin.refused(json!({})).contains("Missing test type"));
    let transfer = |source: &str, dest: &str| {
        plugin.refused(json!({ "type": "disk-to-disk", "spec": { "source": source, "dest": dest } }))
    };
    assert!(transfer("/a", "/b").contains("must be a URL"));
    assert!(transfer("http://a/x", "http://b/y").contains("must be a URL"));
    assert!(transfer("http://a/x", "-").contains("absolute path"));
    let bad = plugin.output("participant-data", &json!({ "participant": 7 }));
    assert!(!bad.status.success() && bad.stderr.contains("participant number"));
}

#[test]
fn a_schedule_without_a_begin_is_refused_in_words() {
    let Some(plugin) = Plugin::new() else { return };
    let test = json!({ "type": "throughput", "spec": { "schema": 1, "duration": "PT1S" } });
    for schedule in [json!({}), json!({ "start": 7 }), json!({ "start": "tomorrow" }), json!(null)] {
        let input =
            json!({ "test": &test, "participant": 0, "participant-data": [{}], "schedule": &schedule });
        let output = plugin.output("run", &input);
        let errors = &output.stderr;
        assert!(!output.status.success(), "{schedule}");
        assert!(errors.contains("lacks something") && !errors.contains("Traceback"), "{schedule}: {errors}");
    }
}

/// Source and destination of one test, as pScheduler starts them on two hosts.
fn measured(plugin: &Plugin, spec: &Value) -> Value {
    let test = json!({ "type": "throughput", "spec": spec });
    let data: Vec<Value> =
        (0..2).map(|number| plugin.said("participant-data", &json!({ "participant": number }))).collect();
    let start = humantime::format_rfc3339(std::time::SystemTime::now()).to_string();
    let part = |number: usize| {
        let input = json!({
            "test": &test, "participant": number, "participant-data": &data, "schedule": { "start": start },
        });
        plugin.start("run", &input)
    };
    let parts = [part(1), part(0)].map(|child| child.ended());
    let [destination, source] = parts.map(|ended| ended.gives(0).json());
    let secret = data[1]["_key"].as_str().expect("a key");
    assert!(!format!("{source}{destination}").contains(secret), "nobody sees the key");
    plugin.said("merged-results", &json!({ "test": &test, "results": [source, destination] }))
}

#[test]
fn both_participants_of_a_throughput_test_give_a_result() {
    let Some(plugin) = Plugin::new() else { return };
    let tcp = json!({ "schema": 1, "dest": "127.0.0.1", "duration": "PT1S", "interval": "PT0.5S", "parallel": 2, "bandwidth": 200_000_000 });
    let tcp = measured(&plugin, &tcp);
    assert_eq!(tcp["succeeded"], true, "{tcp}");
    let intervals = tcp["intervals"].as_array().expect("intervals");
    assert_eq!(intervals.len(), 2, "two windows of half a second");
    assert_eq!(intervals[0]["streams"].as_array().map(Vec::len), Some(2));
    // That it is a rate near the one ordered, not how exactly it is kept on a busy machine.
    let rate = tcp["summary"]["summary"]["throughput-bits"].as_f64().expect("a rate");
    assert!((50e6..400e6).contains(&rate), "{rate}");
    let received = tcp["summary"]["summary"]["receiver-throughput-bits"].as_f64();
    assert!(received > Some(50e6), "{received:?}");
    judged(&[("throughput-result", &tcp)]);
}

#[test]
fn udp_in_reverse_and_a_destination_without_an_agent() {
    let Some(plugin) = Plugin::new() else { return };
    let udp = json!({ "schema": 2, "dest": "127.0.0.1", "duration": "PT1S", "udp": true, "reverse": true, "bandwidth": 20_000_000 });
    let udp = measured(&plugin, &udp);
    assert_eq!(udp["succeeded"], true, "{udp}");
    assert!(udp["summary"]["summary"]["sent"].as_u64() > Some(0), "{udp}");
    let test =
        json!({ "type": "throughput", "spec": { "schema": 1, "dest": "127.0.0.1", "duration": "PT1S" } });
    let data = plugin.said("participant-data", &json!({ "participant": 1 }));
    let input = json!({
        "test": &test, "participant": 0, "participant-data": [{}, data],
        "schedule": { "start": "2020-01-01T00:00:00Z" },
    });
    let alone = plugin.said("run", &input);
    assert_eq!(alone["succeeded"], false);
    let merged = plugin.said("merged-results", &json!({ "test": test, "results": [alone, null] }));
    assert!(merged["error"].as_str().is_some_and(|error| error.contains("127.0.0.1")), "{merged}");
    judged(&[("throughput-result", &udp), ("throughput-result", &merged)]);
}

/// One participant's transfer.
fn transferred(plugin: &Plugin, spec: Value) -> Value {
    let test = json!({ "type": "disk-to-disk", "spec": spec });
    assert_eq!(plugin.said("can-run", &test)["can-run"], true, "{test}");
    let input = json!({
        "test": &test, "participant": 0, "participant-data": [{}], "schedule": { "start": "2020-01-01T00:00:00Z" },
    });
    let part = plugin.said("run", &input);
    plugin.said("merged-results", &json!({ "test": test, "results": [part] }))
}

#[test]
fn a_file_is_fetched_and_put_with_its_rate_and_nothing_is_replaced() {
    let Some(plugin) = Plugin::new() else { return };
    let bytes = content(5, 2 << 20);
    let (folder, data, _) = place(&bytes);
    let token = folder.path().join("token");
    write_secret(&token, "0123456789abcdef0123");
    let server = Served::start(&[&data], &[]);
    let dest = folder.path().join("fetched");
    let spec = |cleanup: bool| json!({ "schema": 1, "source": server.url("file"), "dest": text(&dest), "cleanup": cleanup, "parallel": 2 });
    let removed = transferred(&plugin, spec(true));
    assert_eq!(removed["succeeded"], true, "{removed}");
    assert_eq!(removed["bytes-sent"], 2_097_152.0);
    assert!(removed["throughput"].as_f64() > Some(0.0) && !dest.exists(), "{removed}");
    let left = transferred(&plugin, spec(false));
    assert_eq!(std::fs::read(&dest).expect("the file"), bytes, "{left}");
    let again = transferred(&plugin, spec(false));
    assert!(again["error"].as_str().is_some_and(|error| error.contains("replaces nothing")), "{again}");
    let folders = std::fs::read_dir(folder.path()).expect("a folder").flatten();
    let rests: Vec<_> =
        folders.filter(|one| one.file_name().to_string_lossy().starts_with(".linerate")).collect();
    assert!(rests.is_empty(), "{rests:?}");
    // A server that takes nothing says so.
    let put = transferred(&plugin, json!({ "schema": 1, "source": text(&dest), "dest": server.url("new") }));
    assert_eq!(put["succeeded"], false, "{put}");
    judged(&[
        ("disk-to-disk-result", &removed),
        ("disk-to-disk-result", &again),
        ("disk-to-disk-result", &put),
    ]);
}
