//! Servers and clients, racks, and incasts of members on this machine: everything is counted, and nothing is left.

use super::{HERE, SHORT, ended, fleet, here};
use crate::support::process::Ends;
use serde_json::Value;

#[test]
fn servers_send_what_they_read_to_ever_more_clients() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = ["one", "two"].map(|name| folder.path().join(name));
    data.iter().for_each(|place| std::fs::create_dir(place).expect("a folder"));
    let sources = data.map(|place| place.to_string_lossy().into_owned());
    let out = folder.path().join("out").to_string_lossy().into_owned();
    let words = ["--servers", "a[2-3]", "--source", &sources[0], "--source", &sources[1]];
    let more = ["--amount", "2M", "--transfer", "64k", "--write", "--redundancy", "2", "--output", &out];
    // Without a limit: what is held back by one is not known, and nothing follows from it.
    let start = ["storage", "--hosts", "a[1-5]", "--launch", HERE, "--coordinator", "127.0.0.1:0"];
    let short = ["--streams", "1", "--seconds", "0.6", "--json"];
    let result = fleet(&[&start[..], &short, &words, &more].concat()).ended().gives(0).json();
    assert_eq!(result["servers"], serde_json::json!(["a2", "a3"]));
    assert_eq!(result["streams"], 2, "each flow reads both sources");
    let windows = result["windows"].as_array().expect("windows");
    let of_disks = windows.iter().filter(|window| window["disks"].is_string());
    assert_eq!(of_disks.count(), 4, "two servers alone, written and read");
    let steps: Vec<u64> = windows
        .iter()
        .filter(|window| window["alone"] != true)
        .filter_map(|window| window["flows"].as_u64())
        .collect();
    assert_eq!(steps, [2, 4, 6], "two servers to 1, 2 and 3 clients");
    assert_eq!(result["disks"].as_array().map(Vec::len), Some(8), "two sources of two servers, twice");
    let last = windows.len() - 1;
    let cells: Vec<&Value> = result["cells"]
        .as_array()
        .expect("cells")
        .iter()
        .filter(|cell| cell["window"].as_u64() == Some(last as u64))
        .collect();
    assert_eq!(cells.len(), 6);
    for cell in cells {
        assert!(cell["from"] == "a2" || cell["from"] == "a3", "{cell}");
        assert!(cell["bytes_per_second"].as_f64() > Some(0.0), "{cell}");
        assert!(cell["predicted_bytes_per_second"].as_f64() > Some(0.0), "{cell}");
    }
    assert!(windows[last]["limits"].as_array().is_some_and(|all| !all.is_empty()), "{}", windows[last]);
    let way = &result["redundancy"][0];
    assert_eq!((&way["data"], &way["parity"], &way["disks_written"]), (&1.into(), &1.into(), &true.into()));
    assert_eq!((&way["read"]["traffic_factor"], &way["write"]["traffic_factor"]), (&1.0.into(), &2.0.into()));
    let sentence = result["verdict"]["sentence"].as_str().unwrap_or_default();
    assert!(sentence.starts_with("2 servers to 3 clients: "), "{sentence}");
    let page = std::fs::read_to_string(format!("{out}/report.html")).expect("report.html");
    assert!(page.contains("Ever more clients") && page.contains("Ways to keep data"), "its page has both");
    for source in sources {
        let left: Vec<_> = std::fs::read_dir(&source).expect("the folder").flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Members that a launcher starts have the names that they say.
#[test]
fn a_server_that_is_no_member_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().to_string_lossy().into_owned();
    let launch = ["storage", "--launch", "sh -c '\"$@\" & \"$@\"; wait' sh", "--members", "2"];
    let words = ["--coordinator", "127.0.0.1:0", "--servers", "nobody", "--source", &source];
    let (status, stdout, stderr) = ended(&mut fleet(&[&launch[..], &words, &SHORT].concat()));
    assert_eq!(status, 1, "{stdout}{stderr}");
    assert!(stderr.contains("--servers names nobody, which is none of the members"), "{stderr}");
}

#[test]
fn racks_of_a_file_are_held_against_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("racks").to_string_lossy().into_owned();
    std::fs::write(&file, "a[1-2]\r\na[3-4] # further away\r\n").expect("the racks");
    let words = ["--fabric", &file];
    let result = here("bisection", "a[1-4]", &[&words[..], &["--json"]].concat()).ended().gives(0).json();
    assert_eq!((&result["group"], result["fabric"].as_array().map(Vec::len)), (&"rack".into(), Some(2)));
    let racks = result["verdict"]["racks"].as_array().expect("racks");
    assert_eq!(racks.len(), 2, "each way");
    assert!(racks.iter().all(|pair| pair["oversubscription"].as_f64() > Some(0.0)), "{racks:?}");
    let stdout = here("bisection", "a[1-4]", &words).ended().gives(0).stdout.clone();
    assert!(stdout.contains("a1,a2 to a3,a4") && stdout.contains(" : 1"), "{stdout}");
    let one = ["bisection", "--hosts", "a[1-2]", "--launch", HERE, "--coordinator", "127.0.0.1:0"];
    let rack = ["--fabric", "a[1-2]"];
    let (status, _, stderr) = ended(&mut fleet(&[&one[..], &rack, &SHORT].concat()));
    assert_eq!(status, 1, "{stderr}");
    assert!(stderr.contains("all members are in one rack"), "{stderr}");
}

#[test]
fn an_incast_asks_beside_its_flows() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out").to_string_lossy().into_owned();
    let stdout = here("incast", "a[1-4]", &["--output", &out]).ended().gives(0).stdout.clone();
    assert!(stdout.contains("retransmitted") && stdout.contains("senders"), "{stdout}");
    let saved = std::fs::read_to_string(format!("{out}/run.json")).expect("run.json");
    let result: Value = serde_json::from_str(&saved).expect("JSON");
    let sinks = result["verdict"]["incast"].as_array().expect("sinks");
    assert_eq!(sinks.len(), 4);
    let steps = || sinks.iter().flat_map(|sink| sink["steps"].as_array().expect("steps"));
    assert_eq!(steps().count(), 12);
    assert!(steps().all(|step| step["p99_seconds"].as_f64() > Some(0.0)), "{sinks:?}");
    let page = std::fs::read_to_string(format!("{out}/report.html")).expect("report.html");
    assert!(page.contains("Ever more senders to one host"), "its page has the knees");
}
