//! Transfers among the kept results: listed, reported and compared as every other measurement; and what the other
//! program limits is not taken for a limit of this host.

use super::others::{free_port, has, nginx};
use crate::support::process::Ends;
use crate::support::served::{Served, content, limited_connections, place};
use crate::support::{keep_apart, linerate, text, write_secret};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;

/// linerate with results below this folder.
fn ran(state: &Path, words: &[&str]) -> String {
    keep_apart(&mut linerate(), state).args(words).env("COLUMNS", "110").ended().printed()
}

fn json(state: &Path, words: &[&str]) -> Value {
    serde_json::from_str(&ran(state, words)).expect("JSON and nothing else")
}

/// linerate serve with results below this folder, to its end after one file.
fn serves_one_file(state: &Path, data: &Path, options: &[&str]) {
    let mut command = linerate();
    keep_apart(&mut command, state);
    let words = ["serve", text(data), "--listen", "127.0.0.1:0"];
    let server = Served::of(command.args(words).args(options));
    let out = tempfile::tempdir().expect("a folder");
    let url = server.url("file");
    ran(state, &["get", &url, "--output", text(out.path()), "--rate-limit", "20MB/s", "--no-save"]);
    server.stop();
}

#[test]
fn what_a_server_moved_is_kept_listed_and_reported() {
    let (folder, data, _out) = place(&content(64, 16 << 20));
    let state = folder.path().join("state");
    serves_one_file(&state, &data, &["--no-save"]);
    assert_eq!(json(&state, &["list", "--all", "--json"])["results"].as_array().map_or(0, Vec::len), 0);
    serves_one_file(&state, &data, &[]);
    let list = json(&state, &["list", "--all", "--json"]);
    let one = &list["results"][0];
    assert_eq!(one["command"], "put", "files went out: {list}");
    assert_eq!(one["name"], format!("serve {}", text(&data)), "{list}");
    assert!(one["sentence"].as_str().is_some_and(|sentence| sentence.starts_with("16 MiB at ")), "{list}");
    let kept = json(&state, &["report", "@-1", "--json"]);
    assert!(kept["measurements"][0]["method"].as_str().is_some_and(|how| how.contains("server")), "{kept}");
    assert!(ran(&state, &["report", "@-1"]).contains("CPU seconds per GB"));
}

#[test]
fn a_transfer_is_kept_listed_reported_and_compared() {
    let content = content(61, 12 << 20);
    let (folder, data, out) = place(&content);
    let (state, token) = (folder.path().join("state"), folder.path().join("token"));
    write_secret(&token, "0123456789abcdef0123");
    let server = Served::start(&[&data], &["--writable", "--token-file", text(&token)]);
    let url = server.url("file");
    let get = ["get", &url, "--output", text(&out), "--token-file", text(&token), "--replace"];
    let first = json(&state, &[&get[..], &["--rate-limit", "20MB/s", "--json"]].concat());
    ran(&state, &[&get[..], &["--rate-limit", "24MB/s"]].concat());
    ran(&state, &[&get[..], &["--no-save"]].concat());
    let new = server.url("new/");
    ran(&state, &["put", text(&out.join("file")), &new, "--token-file", text(&token)]);
    let list = json(&state, &["list", "--all", "--json"]);
    let results = list["results"].as_array().expect("results");
    let of = |key: &str| results.iter().map(|one| one[key].as_str().unwrap_or_default()).collect::<Vec<_>>();
    assert_eq!(of("command"), ["get", "get", "put"]);
    assert_eq!(of("name"), [&url, &url, &new]);
    assert!(of("sentence")[0].starts_with("12 MiB at ") && of("sentence")[0].contains("20"), "{list}");
    // What was printed is what is kept.
    let stored = std::fs::read(state.join("linerate/results/000001.json")).expect("kept");
    assert_eq!(serde_json::from_slice::<Value>(&stored).expect("JSON"), first);
    let kept = json(&state, &["report", "@-3", "--json"]);
    assert_eq!(kept["transfer"]["files"][0]["outcome"], "fetched", "{kept}");
    assert_eq!(kept["measurements"][0]["stage"], "get");
    assert_eq!(kept["goal"]["peers"][0], format!("127.0.0.1:{}", server.port));
    assert!(kept["diagnosis"]["verdict"].is_null(), "nothing was predicted: {kept}");
    let screen = ran(&state, &["report", "@-3"]);
    assert!(screen.contains("streams") && screen.contains("CPU seconds per GB"), "{screen}");
    let compared = ran(&state, &["compare", "@-3", "@-2"]);
    assert!(compared.contains("get"), "{compared}");
    let page = folder.path().join("page.html");
    ran(&state, &["report", "@-1", "--html", text(&page)]);
    assert!(std::fs::read_to_string(&page).expect("a page").contains("put"));
    let served = server.stop().1;
    assert!(served.contains("while files were moved ("), "{served}");
}

/// curl takes 12 MB/s of what the page cache gives: neither disk nor network of this host.
#[test]
fn a_client_that_reads_slowly_is_what_limits_the_server() {
    if !has("curl") {
        return;
    }
    let (_folder, data, out) = place(&content(62, 32 << 20));
    let server = Served::start(&[&data], &[]);
    let url = server.url("file");
    std::fs::create_dir(&out).expect("a folder");
    super::others::run("curl", &["-s", "--limit-rate", "12M", "-o", text(&out.join("got")), &url]);
    let served = server.stop().1;
    // On a machine whose CPUs other tests fill, that is seen first, or more than its window keeps the client.
    let named = ["the other program: it takes what comes too slowly", "CPU", "limited by the network"];
    let said = served.lines().find(|line| line.contains("while files were moved")).unwrap_or_default();
    assert!(named.iter().any(|name| said.contains(name)), "{served}");
    assert!(!said.contains("the disks"), "{served}");
}

/// nginx gives 4 MB/s a connection: what is seen from here is that nothing of this host is full.
#[test]
fn a_server_that_keeps_a_rate_is_what_limits_a_client() {
    if !has("nginx") {
        return;
    }
    let (folder, data, out) = place(&content(63, 8 << 20));
    let port = free_port();
    let _nginx = nginx(folder.path(), &data, port, "limit_rate 4m;");
    let url = format!("http://127.0.0.1:{port}/file");
    let words = ["get", &url, "--output", text(&out), "--streams", "1", "--json", "--no-save"];
    let mut command = linerate();
    let report = command.args(words).stderr(Stdio::null()).ended().json();
    assert_eq!(report["diagnosis"]["bottleneck"]["kind"], "sender", "{report}");
    let said = report["diagnosis"]["bottleneck"]["sentence"].as_str().expect("a sentence");
    assert!(said.ends_with("so the server or the way from it"), "{said}");
}

/// Whatever the size of the files, and whichever way they go; unless other tests fill this host's CPUs.
#[test]
fn a_limit_of_each_connection_is_named_for_small_files_and_for_those_that_go_out() {
    let (folder, data, out) = place(b"x");
    let token = folder.path().join("token");
    write_secret(&token, "0123456789abcdef0123");
    let server = Served::start(&[&data], &["--writable", "--token-file", text(&token)]);
    for (name, bytes, count) in [("mid", 3 << 20, 8), ("small", 1 << 20, 24), ("long", 16 << 20, 4)] {
        let files = if name == "long" { folder.path().join(name) } else { data.join(name) };
        std::fs::create_dir(&files).expect("a folder");
        let write = |number: u64| std::fs::write(files.join(number.to_string()), content(number, bytes));
        (0..count).try_for_each(write).expect("written");
    }
    for name in ["mid", "small", "long"] {
        let port = limited_connections(server.port, 8e6);
        let url = |path: &str| format!("http://127.0.0.1:{port}/{path}");
        let files = folder.path().join(name);
        let words = match name {
            "long" => vec!["put".into(), text(&files).into(), url("")],
            _ => vec!["get".into(), url(&format!("{name}/")), "--output".into(), text(&out).into()],
        };
        let options = ["--token-file", text(&token), "--streams", "4", "--json", "--no-save"];
        let ended = linerate().args(words).args(options).stderr(Stdio::null()).ended();
        let report = ended.gives(0).json();
        let found = &report["diagnosis"]["bottleneck"];
        let said = found["sentence"].as_str().expect("a sentence");
        let is_named = said.contains("one alone as well as each of 4: a limit of each connection");
        let kind = if name == "long" { "receiver" } else { "sender" };
        assert!(is_named && found["kind"] == kind || said.contains("CPU"), "{name}: {said}: {report}");
    }
}
