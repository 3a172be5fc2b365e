//! TLS between the two, and with curl and nginx at the other end; servers that are not who they should be.

use super::others::{free_port, has, nginx_tls, run};
use crate::support::process::{Ends, ProcessEnd};
use crate::support::served::{Served, content, get_json, place};
use crate::support::{linerate, names, text, write_secret};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A certificate of its own authority, and its key, for these names.
pub(super) fn certificate(folder: &Path, names: &str) -> (PathBuf, PathBuf) {
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    let words = format!(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test -addext \
         subjectAltName={names} -addext basicConstraints=critical,CA:FALSE"
    );
    let mut command = Command::new("openssl");
    command.args(words.split(' ')).arg("-out").arg(&certificate).arg("-keyout").arg(&key);
    command.ended().gives(0);
    (certificate, key)
}

/// `linerate get` that must not have it: one sentence, and 3.
fn refused(words: &[&str], says: &str) {
    linerate().arg("get").args(words).ended().gives(3).says(&[says]);
}

/// `linerate get`, which believes this authority alone.
fn trusting(authority: &Path, words: &[&str]) -> ProcessEnd {
    linerate().arg("get").args(words).env("SSL_CERT_FILE", authority).ended()
}

#[test]
fn a_made_certificate_is_known_by_its_fingerprint_alone() {
    let content = content(71, (9 << 20) + 7);
    let (folder, data, out) = place(&content);
    let token = folder.path().join("token");
    write_secret(&token, "0123456789abcdef0123");
    std::fs::create_dir(data.join("small")).expect("a folder");
    (0..40).for_each(|n| std::fs::write(data.join(format!("small/{n}")), vec![n; 100]).expect("written"));
    let options = ["--writable", "--token-file", text(&token)];
    let Some(server) = Served::tls(&data, &options) else { return };
    let (file, tree, pin) = (server.url("file"), server.url("small/"), server.fingerprint.clone());
    let known = ["--fingerprint", &pin, "--token-file", text(&token), "--output", text(&out)];
    let (status, report, errors) = get_json(&[&[file.as_str(), &tree][..], &known].concat());
    assert_eq!(status, Some(0), "{errors} {report}");
    assert_eq!(report["transfer"]["files"][0]["verified"][0], "xxh3-64", "{report}");
    assert!(std::fs::read(out.join("file")).expect("there") == content);
    assert_eq!(names(&out.join("small")).len(), 40);
    let mut put = linerate();
    put.arg("put").arg(out.join("file")).arg(server.url("new/")).args(&known[..4]);
    let output = put.ended();
    output.gives(0);
    assert!(std::fs::read(data.join("new/file")).expect("there") == content);
    // Nobody else is believed, and nothing is left behind.
    let other = folder.path().join("other");
    let wrong = "0".repeat(64);
    refused(&[&file, "--output", text(&other), "--fingerprint", &wrong], "another fingerprint");
    let (own, _) = certificate(folder.path(), "IP:127.0.0.1");
    trusting(&own, &[&file, "--output", text(&other)]).gives(3).says(&["no authority that is believed here"]);
    let plain = file.replace("https", "http");
    let output = linerate().args(["get", &plain, "--timeout", "2s"]).ended();
    assert!(!output.status.success());
    assert!(!other.exists());
    let (_, said) = server.stop();
    assert!(said.contains("under TLS, encrypted in user space (a server that takes files"), "{said}");
}

#[test]
fn certificates_of_files_serve_curl_and_get() {
    if !has("curl") || !has("openssl") {
        return;
    }
    let content = content(72, (5 << 20) + 1);
    let (folder, data, out) = place(&content);
    std::fs::create_dir(&out).expect("a folder");
    let (own, key) = certificate(folder.path(), "IP:127.0.0.1");
    let options = ["--certificate", text(&own), "--key", text(&key)];
    // A key that others may read is refused.
    let set_mode = |mode| std::fs::set_permissions(&key, PermissionsExt::from_mode(mode)).expect("a mode");
    set_mode(0o644);
    let output = linerate().args(["serve", text(&data), "--tls"]).args(options).ended();
    let said = &output.stderr;
    let remedy = format!("run `chmod 600 {}`", text(&key));
    assert!(output.status.code() == Some(3) && said.contains(&remedy), "{said}");
    set_mode(0o600);
    let Some(server) = Served::tls(&data, &options) else { return };
    let (url, by_curl) = (server.url("file"), out.join("by-curl"));
    run("curl", &["-sS", "--fail", "--cacert", text(&own), "-o", text(&by_curl), &url]);
    assert!(std::fs::read(&by_curl).expect("there") == content);
    run(
        "curl",
        &["-sS", "--fail", "--tlsv1.2", "--tls-max", "1.2", "--cacert", text(&own), "-r", "7-9", &url],
    );
    let (status, report, errors) = trusting(&own, &[&url, "--output", text(&out), "--json"]).json_parts();
    assert_eq!(status, Some(0), "{errors} {report}");
    assert!(std::fs::read(out.join("file")).expect("there") == content);
    let by_name = url.replace("127.0.0.1", "localhost");
    trusting(&own, &[&by_name, "--output", text(&out)])
        .gives(3)
        .says(&["its certificate is of another name"]);
    let (_, other) = certificate(&out, "IP:127.0.0.1");
    let mut command = linerate();
    command.arg("serve").arg(&data).args(["--listen", "127.0.0.1:0", "--tls", "--certificate"]);
    command
        .arg(&own)
        .arg("--key")
        .arg(&other)
        .ended()
        .gives(3)
        .mentions(&["the key is none of this certificate"]);
}

#[test]
fn nginx_under_tls_gives_files_in_parts() {
    if !has("nginx") || !has("openssl") || !graviola_can() {
        return;
    }
    let content = content(73, (9 << 20) + 1);
    let (folder, data, out) = place(&content);
    let (own, key) = certificate(folder.path(), "IP:127.0.0.1");
    let port = free_port();
    let _nginx = nginx_tls(folder.path(), &data, port, (text(&own), text(&key)));
    let url = format!("https://127.0.0.1:{port}/file");
    let (status, report, errors) = trusting(&own, &[&url, "--output", text(&out), "--json"]).json_parts();
    assert_eq!(status, Some(0), "{errors} {report}");
    assert!(std::fs::read(out.join("file")).expect("there") == content);
    // Plain HTTP where TLS is spoken, and the other way round.
    let plain = free_port();
    let _nginx = super::others::nginx(folder.path(), &data, plain, "");
    let url = format!("https://127.0.0.1:{plain}/file");
    refused(&[&url, "--output", text(&out)], "does not speak TLS");
}

/// As the server finds out.
fn graviola_can() -> bool {
    let can = linerate::deliver::tls::ServerTls::made(&[]).is_ok();
    if !can {
        eprintln!("skipped: this CPU cannot do TLS");
    }
    can
}
