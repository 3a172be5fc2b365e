//! S3 servers of others, where they are installed: s3s-fs, which verifies signatures (cargo install s3s-fs), and moto
//! (pip install moto[server]).

use super::fake_store::ended;
use crate::deliver::others::{free_port, has};
use crate::support::process::{Running, until};
use crate::support::served::{content, place};
use crate::support::{linerate, text};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

const ACCESS: &str = "AKIAOTHER";
const SECRET: &str = "secret/of+another";

struct OtherStore {
    _child: Running,
    port: u16,
}

impl OtherStore {
    fn start(mut command: Command, port: u16) -> Self {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        until("it does not listen", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        OtherStore { _child: Running(child), port }
    }

    fn ran(&self, home: &Path, words: &[&str]) -> (Option<i32>, serde_json::Value, String) {
        let mut command = linerate();
        command.env("HOME", home).env("AWS_ACCESS_KEY_ID", ACCESS).env("AWS_SECRET_ACCESS_KEY", SECRET);
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        ended(command.args(words).env("AWS_ENDPOINT_URL", &endpoint))
    }
}

/// A large file and a small one go there and come back.
fn there_and_back(store: &OtherStore, name: &str) {
    let (folder, data, out) = place(b"small");
    let large = content(121, (23 << 20) + 9);
    std::fs::create_dir(data.join("sub")).expect("a folder");
    std::fs::write(data.join("sub/a +é"), &large).expect("written");
    let (status, report, errors) = store.ran(folder.path(), &["put", text(&data), "s3://bucket/in/"]);
    assert!(status == Some(0) && errors.is_empty(), "{name}: {errors} {report}");
    let (status, report, errors) = store.ran(folder.path(), &["put", text(&data), "s3://bucket/in/"]);
    assert!(status == Some(0) && report["transfer"]["moved_bytes"] == 0, "{name}: {errors} {report}");
    let words = ["get", "s3://bucket/in/data/", "--output", text(&out), "--streams", "3"];
    let (status, report, errors) = store.ran(folder.path(), &words);
    assert!(status == Some(0) && errors.is_empty(), "{name}: {errors} {report}");
    assert!(std::fs::read(out.join("data/sub/a +é")).expect("there") == large, "{name}");
    assert_eq!(std::fs::read(out.join("data/file")).expect("there"), b"small");
    let (status, _, errors) =
        store.ran(folder.path(), &["get", "s3://bucket/in/none", "--output", text(&out)]);
    assert!(status == Some(3) && errors.contains("no such key"), "{name}: {errors}");
    let (_, _, errors) = store.ran(folder.path(), &["get", "s3://no-bucket/none", "--output", text(&out)]);
    assert!(errors.contains("there is no bucket of this name"), "{name}: {errors}");
}

#[test]
fn files_go_to_s3s_and_back() {
    if !has("s3s-fs") {
        return;
    }
    let root = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(root.path().join("bucket")).expect("a bucket");
    let port = free_port();
    let mut command = Command::new("s3s-fs");
    command.args(["--host", "127.0.0.1", "--port", &port.to_string()]);
    command.args(["--access-key", ACCESS, "--secret-key", SECRET]).arg(root.path());
    there_and_back(&OtherStore::start(command, port), "s3s-fs");
}

#[test]
fn files_go_to_moto_and_back() {
    if !has("moto_server") {
        return;
    }
    let port = free_port();
    let mut command = Command::new("moto_server");
    command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
    let store = OtherStore::start(command, port);
    // It looks at the key's region alone.
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    let lines = "Connection: close\r\nContent-Length: 0\r\n\
                 Authorization: AWS4-HMAC-SHA256 Credential=A/20200101/us-east-1/s3/aws4_request\r\n";
    write!(stream, "PUT /bucket HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{lines}\r\n").expect("sent");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.contains(" 200 "), "a bucket: {answer}");
    there_and_back(&store, "moto");
}
