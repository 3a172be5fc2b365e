//! `linerate report --anonymous`: nothing of what was planted is on the page, in the JSON or on the screen.

use crate::support::process::Ends;
use crate::support::{keep_apart, linerate};
use serde_json::{Value, json};
use std::path::Path;

/// Each says whose machine it is.
const CANARIES: &str = "canaryprogram canaryhost canarypeer canaryuser canaryfolder canarydomain 198.18.77.7 198.18.77.9 \
    2001:db8:ca11::7 0a1b2c3d4e5f";

/// A run of a host whose owner has left words everywhere.
fn planted() -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/run-lab-disks.json");
    let text = std::fs::read_to_string(file).expect("a run");
    let text = text
        .replace("lab-server", "canaryhost.canarydomain")
        .replace("/data/", "/home/canaryuser/canaryfolder/");
    let text = text.replace("10.77.0.2", "198.18.77.9").replace("lr-v0", "enx0a1b2c3d4e5f");
    let mut run: Value = serde_json::from_str(&text).expect("JSON");
    run["machine"]["nics"][0]["addresses"] = json!([["198.18.77.7", 24], ["2001:db8:ca11::7", 64]]);
    run["goal"]["peers"] = json!(["ssh://canaryuser@canarypeer", "198.18.77.9:7411"]);
    run["errors"] = json!(["the agent on canarypeer (198.18.77.9) has left /home/canaryuser/canaryfolder/a"]);
    run["diagnosis"]["findings"][0]["text"] = "canaryhost sends to canarypeer by 198.18.77.7".into();
    run["measurements"][0]["others"] =
        json!({ "processes": [{ "pid": 4711, "name": "canaryprogram", "cpus": 0.9 }] });
    let bottleneck = &mut run["diagnosis"]["bottleneck"];
    bottleneck["sentences"] =
        json!(["Other programs used 90 % of CPU 0, most of it canaryprogram (pid 4711): rest."]);
    run["diagnosis"]["findings"][0]["evidence"] = json!({ "host": "canarypeer", "from": "198.18.77.7" });
    run
}

#[test]
fn nothing_says_whose_machine_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.json");
    std::fs::write(&file, planted().to_string()).expect("written");
    let shown = |words: &[&str]| {
        let mut command = linerate();
        let output = keep_apart(&mut command, folder.path()).arg("report").arg(&file).args(words).ended();
        output.gives(0);
        output.stdout
    };
    let found = |text: &str| CANARIES.split(' ').filter(|word| text.contains(word)).collect::<Vec<_>>();
    let page = folder.path().join("page.html");
    let html = ["--html", page.to_str().expect("a plain path")];
    let pages = [
        shown(&["--json", "--anonymous"]),
        shown(&["--anonymous"]),
        shown(&[&html[..], &["--anonymous"]].concat()) + &std::fs::read_to_string(&page).expect("a page"),
    ];
    for text in &pages {
        assert!(found(text).is_empty(), "{:?} in {text}", found(text));
    }
    // The plain one has them, and the figures are the same.
    let plain = shown(&["--json"]);
    assert_eq!(found(&plain).join(" "), CANARIES);
    let rates = |text: &str| -> Vec<Value> {
        let run: Value = serde_json::from_str(text).expect("JSON");
        let figures = run["measurements"].as_array().expect("figures");
        figures.iter().map(|figure| figure["bytes_per_second"].clone()).collect()
    };
    assert_eq!(rates(&plain), rates(&pages[0]));
    assert!(pages[0].contains("/home/name"), "folders keep their depth: {}", pages[0]);
}
