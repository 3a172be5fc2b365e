//! What else programs of others ask of `linerate serve`: the token, TLS, what they keep of earlier, several requests at
//! once, and Python's own client.

use super::others::{assert_same, has, run};
use super::tls::certificate;
use crate::support::process::{signal, until};
use crate::support::served::{Served, content, place};
use crate::support::{text, write_secret};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const TOKEN: &str = "0123456789abcdef0123";

/// Its exit status, whatever it says.
fn status_of(program: &str, words: &[&str]) -> Option<i32> {
    let quiet = Command::new(program).args(words).stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.expect("it runs").code()
}

#[test]
fn every_client_shows_the_token_and_believes_the_certificate() {
    if !has("openssl") {
        return;
    }
    let content = content(141, (3 << 20) + 7);
    let (folder, data, out) = place(&content);
    std::fs::create_dir(&out).expect("a folder");
    let token = folder.path().join("token");
    write_secret(&token, TOKEN);
    let (own, key) = certificate(folder.path(), "IP:127.0.0.1");
    let options = ["--certificate", text(&own), "--key", text(&key), "--token-file", text(&token)];
    let Some(server) = Served::tls(&data, &options) else { return };
    let (url, header) = (server.url("file"), format!("Authorization: Bearer {TOKEN}"));
    if has("curl") {
        let target = out.join("curl");
        run("curl", &["-sf", "--cacert", text(&own), "-H", &header, "-o", text(&target), &url]);
        assert_same(&target, &content);
        assert_eq!(status_of("curl", &["-sf", "--cacert", text(&own), &url]), Some(22), "401");
    }
    if has("wget") {
        let target = out.join("wget");
        run("wget", &["-q", "--ca-certificate", text(&own), "--header", &header, "-O", text(&target), &url]);
        assert_same(&target, &content);
        let without = ["-q", "--ca-certificate", text(&own), "-O", "/dev/null", &url];
        assert_eq!(status_of("wget", &without), Some(6), "authentication");
    }
    if has("aria2c") {
        let authority = format!("--ca-certificate={}", text(&own));
        let words = ["-q", "-x4", "-s4", "-k1M", &authority, "--header", &header, "-d", text(&out)];
        run("aria2c", &[&words[..], &["-o", "aria", &url]].concat());
        assert_same(&out.join("aria"), &content);
    }
}

#[test]
fn wget_fetches_what_is_newer_and_all_below_a_folder() {
    if !has("wget") {
        return;
    }
    let content = content(142, (1 << 20) + 3);
    let (_folder, data, out) = place(&content);
    std::fs::create_dir_all(data.join("sub/a b")).expect("folders");
    std::fs::write(data.join("sub/a b/c+d"), "deep").expect("written");
    std::fs::create_dir(&out).expect("a folder");
    let server = Served::start(&[&data], &[]);
    let newer = ["-qN", "-P", text(&out), &server.url("file")];
    run("wget", &newer);
    assert_same(&out.join("file"), &content);
    let time = |path: &Path| std::fs::metadata(path).and_then(|file| file.modified()).expect("a time");
    let of_server = time(&data.join("file"));
    assert!(of_server.duration_since(time(&out.join("file"))).is_ok_and(|apart| apart.as_secs() == 0));
    // As long and as old: it is not asked for again. Then it is another.
    run("wget", &newer);
    std::fs::write(data.join("file"), "another").expect("written");
    let later = of_server + Duration::from_secs(10);
    std::fs::File::options()
        .write(true)
        .open(data.join("file"))
        .and_then(|file| file.set_modified(later))
        .expect("a time");
    run("wget", &newer);
    assert_same(&out.join("file"), b"another");
    let served = server.stop().1;
    assert!(served.contains("served 1.0 MiB in"), "once, and seven bytes: {served}");
    let server = Served::start(&[&data], &[]);
    let (all, sub) = (out.join("all"), server.url("sub/"));
    let words = "-q -r -np -nH --restrict-file-names=nocontrol -P".split(' ').chain([text(&all), &sub]);
    run("wget", &words.collect::<Vec<_>>());
    assert_same(&out.join("all/sub/a b/c+d"), b"deep");
    run("wget", &["-q", "--spider", &server.url("file")]);
    assert_eq!(status_of("wget", &["-q", "--spider", &server.url("none")]), Some(8), "404");
}

#[test]
fn aria2c_goes_on_where_it_was_killed_and_compares_the_sum() {
    if !has("aria2c") {
        return;
    }
    let content = content(143, 12 << 20);
    let (_folder, data, out) = place(&content);
    let server = Served::start(&[&data], &[]);
    let url = server.url("file");
    let sum: String = {
        use sha2::{Digest, Sha256};
        Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let sum = format!("--checksum=sha-256={sum}");
    let words = ["-q", "-c", "-x4", "-s4", "-k1M", &sum, "-d", text(&out), "-o", "file", &url];
    let mut slow = Command::new("aria2c");
    slow.args(["--max-download-limit=4M", "--auto-save-interval=1", "--file-allocation=none"]).args(words);
    let mut child = slow.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    until("aria2c begins", || out.join("file.aria2").exists());
    std::thread::sleep(Duration::from_millis(500));
    signal(&child, "KILL");
    child.wait().expect("it ends");
    run("aria2c", &words);
    assert_same(&out.join("file"), &content);
}

#[test]
fn curl_asks_for_several_at_once_and_for_what_has_changed() {
    if !has("curl") {
        return;
    }
    let content = content(144, (2 << 20) + 5);
    let (_folder, data, out) = place(&content);
    std::fs::create_dir(&out).expect("a folder");
    for number in 0..5 {
        std::fs::write(data.join(format!("f{number}")), format!("content {number}")).expect("written");
    }
    let server = Served::start(&[&data], &[]);
    let (many, name) = (server.url("f[0-4]"), format!("{}/f#1", text(&out)));
    run("curl", &["-sfZ", "-o", &name, &many]);
    for number in 0..5 {
        assert_same(&out.join(format!("f{number}")), format!("content {number}").as_bytes());
    }
    let (url, tag, got) = (server.url("file"), out.join("tag"), out.join("got"));
    let status = ["-sf", "-w", "%{http_code}", "-o", text(&got), &url];
    assert_eq!(run("curl", &[&["--etag-save", text(&tag)], &status[..]].concat()), "200");
    assert_eq!(run("curl", &[&["--etag-compare", text(&tag)], &status[..]].concat()), "304");
    // Several ranges: all of it, which RFC 9110 allows.
    assert_eq!(run("curl", &[&["-r", "0-1,7-9"], &status[..]].concat()), "200");
    assert_same(&got, &content);
    assert_eq!(run("curl", &[&["--http1.0", "-r", "-5"], &status[..]].concat()), "206");
    assert_same(&got, &content[content.len() - 5..]);
    let head = run("curl", &["-sfI", &url]).to_lowercase();
    for line in
        ["accept-ranges: bytes", "last-modified: ", "etag: \"", &format!("content-length: {}", content.len())]
    {
        assert!(head.contains(line), "{line}: {head}");
    }
}

/// Requests over one connection, conditions, a part, and a status that is not a success.
#[test]
fn pythons_own_client_is_understood() {
    if !has("python3") {
        return;
    }
    let content = content(145, (1 << 20) + 11);
    let (_folder, data, _) = place(&content);
    let server = Served::start(&[&data], &[]);
    let script = "
import http.client, hashlib, sys
c = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]))
def ask(method, path, **lines):
    c.request(method, path, headers={k.replace('_', '-'): v for k, v in lines.items()})
    answer = c.getresponse()
    return answer.status, answer.headers, answer.read()
status, headers, body = ask('GET', '/file')
print(status, hashlib.sha256(body).hexdigest())
print(*[ask('GET', '/file', If_None_Match=headers['ETag'])[0],
        ask('GET', '/file', If_Modified_Since=headers['Last-Modified'])[0],
        ask('HEAD', '/file')[0], ask('GET', '/none')[0], ask('DELETE', '/file')[0]])
c.close()
print(*ask('GET', '/file', Range='bytes=3-6', If_Range=headers['ETag'])[::2])
print(ask('GET', '/')[1]['Content-Type'])
";
    let said = run("python3", &["-c", script, &server.port.to_string()]);
    let sum: String = {
        use sha2::{Digest, Sha256};
        Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], format!("200 {sum}"));
    assert_eq!(lines[1], "304 304 200 404 405");
    assert!(lines[2].starts_with("206 b"), "{said}");
    assert!(lines[3].starts_with("text/html"), "{said}");
}
