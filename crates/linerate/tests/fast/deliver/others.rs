//! Other programs at the other end: curl, wget and aria2c fetch from `linerate serve`; `linerate get` fetches from
//! Python's http.server and nginx.

use crate::support::process::{Ends, signal, until};
pub use crate::support::rights::there as has;
pub use crate::support::served::free_port;
use crate::support::served::{Served, content, get_json, place};
use crate::support::{names, text};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

pub struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        // A master of nginx ends its workers.
        signal(&self.0, "TERM");
        std::thread::sleep(std::time::Duration::from_millis(100));
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_for(port: u16) {
    until("somebody listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
}

pub fn run(program: &str, words: &[&str]) -> String {
    let ended = Command::new(program).args(words).ended();
    ended.gives(0);
    ended.stdout
}

pub fn assert_same(path: &Path, content: &[u8]) {
    assert!(std::fs::read(path).expect("it is there") == content, "{}", path.display());
}

#[test]
fn clients_of_others_fetch_and_go_on() {
    let content = content(41, (6 << 20) + 3);
    let (_folder, data, out) = place(&content);
    std::fs::create_dir(&out).expect("a folder");
    let server = Served::start(&[&data], &[]);
    let (url, target) = (server.url("file"), out.join("got"));
    if has("curl") {
        run("curl", &["-sfo", text(&target), &url]);
        assert_same(&target, &content);
        // Half of it is there.
        std::fs::write(&target, &content[..3 << 20]).expect("written");
        run("curl", &["-sfC", "-", "-o", text(&target), &url]);
        assert_same(&target, &content);
        let part = run("curl", &["-sf", "-r", "0-9", "-w", "%{http_code}", "-o", "/dev/null", &url]);
        assert_eq!(part, "206");
        let unchanged = ["-sf", "-z", text(&target), "-w", "%{http_code}", "-o", "/dev/null", &url];
        assert_eq!(run("curl", &unchanged), "304");
        let refused =
            run("curl", &["-s", "-X", "PUT", "-d", "x", "-w", "%{http_code}", "-o", "/dev/null", &url]);
        assert_eq!(refused, "413");
        std::fs::remove_file(&target).expect("removed");
    }
    if has("wget") {
        std::fs::write(&target, &content[..1 << 20]).expect("written");
        run("wget", &["-qcO", text(&target), &url]);
        assert_same(&target, &content);
        let all = out.join("all");
        run("wget", &["-q", "-r", "-P", text(&all), &server.url("")]);
        assert_same(&all.join(format!("127.0.0.1:{}/file", server.port)), &content);
    }
    if has("aria2c") {
        run("aria2c", &["-q", "-x4", "-s4", "-k1M", "-d", text(&out), "-o", "aria", &url]);
        assert_same(&out.join("aria"), &content);
    }
}

/// Its http.server, which has no ranges.
pub fn python(data: &Path, port: u16) -> Other {
    let python = Command::new("python3")
        .args(["-m", "http.server", "--bind", "127.0.0.1", &port.to_string(), "--directory", text(data)])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let python = Other(python.expect("it starts"));
    wait_for(port);
    python
}

/// It has no ranges: one stream, from the beginning.
#[test]
fn a_server_without_ranges_gives_the_whole_file() {
    if !has("python3") {
        return;
    }
    let content = content(43, (5 << 20) + 1);
    let (_folder, data, out) = place(&content);
    std::fs::write(data.join("small"), "small").expect("written");
    let port = free_port();
    let _python = python(&data, port);
    let url = |name: &str| format!("http://127.0.0.1:{port}/{name}");
    let (status, report, errors) = get_json(&[&url("file"), &url("small"), "--output", text(&out)]);
    assert_eq!(status, Some(0), "{errors} {report}");
    assert_same(&out.join("file"), &content);
    assert_same(&out.join("small"), b"small");
    assert_eq!(names(&out), ["file", "small"]);
    let (status, report, _) = get_json(&[&url("file"), "--output", text(&out)]);
    assert_eq!((status, &report["transfer"]["files"][0]["outcome"]), (Some(0), &"already-there".into()));
    // A folder by its page: lengths and times are asked for one by one.
    std::fs::create_dir(data.join("sub & é")).expect("a folder");
    std::fs::write(data.join("sub & é/in ner?"), "inner").expect("written");
    let all = out.join("all");
    let (status, report, errors) = get_json(&[&url(""), "--output", text(&all)]);
    assert_eq!(status, Some(0), "{errors} {report}");
    assert_eq!(names(&all), ["file", "small", "sub & é"]);
    assert_same(&all.join("file"), &content);
    assert_same(&all.join("sub & é/in ner?"), b"inner");
    let (status, _, errors) = get_json(&[&url("folder/"), "--output", text(&out)]);
    assert!(status == Some(3) && errors.contains("404"), "{errors}");
}

#[test]
fn nginx_gives_parts_over_several_streams() {
    if !has("nginx") {
        return;
    }
    let content = content(45, (17 << 20) + 9);
    let (folder, data, out) = place(&content);
    let (port, root) = (free_port(), folder.path());
    let nginx = nginx(root, &data, port, "");
    let url = format!("http://127.0.0.1:{port}/file");
    let (status, report, errors) = get_json(&[&url, "--output", text(&out), "--streams", "4"]);
    assert_eq!(status, Some(0), "{errors} {report}");
    assert_same(&out.join("file"), &content);
    drop(nginx);
}

/// nginx over this folder, with more words for its server; it is listening. `root` is for what it writes.
pub fn nginx(root: &Path, data: &Path, port: u16, more: &str) -> Other {
    nginx_at(root, data, port, &format!("listen 127.0.0.1:{port}; {more}"))
}

/// The same under TLS, with a certificate and its key.
pub fn nginx_tls(root: &Path, data: &Path, port: u16, (certificate, key): (&str, &str)) -> Other {
    let words =
        format!("listen 127.0.0.1:{port} ssl; ssl_certificate {certificate}; ssl_certificate_key {key};");
    nginx_at(root, data, port, &words)
}

fn nginx_at(root: &Path, data: &Path, port: u16, server: &str) -> Other {
    let place = root.display();
    let configuration = format!(
        "daemon off; pid {place}/pid; error_log {place}/error; worker_processes 1; events {{}}\n\
         http {{ access_log off; client_body_temp_path {place}/b; proxy_temp_path {place}/p;\n\
         fastcgi_temp_path {place}/f; uwsgi_temp_path {place}/u; scgi_temp_path {place}/s;\n\
         server {{ {server} root {}; sendfile on; }} }}\n",
        data.display()
    );
    let file = root.join(format!("nginx-{port}.conf"));
    std::fs::write(&file, configuration).expect("written");
    // Its workers are of another user where root starts it.
    for folder in [root, data] {
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder, open).expect("open to all");
    }
    let nginx =
        Command::new("nginx").args(["-c", text(&file), "-p", text(root)]).stderr(Stdio::null()).spawn();
    let nginx = Other(nginx.expect("it starts"));
    wait_for(port);
    nginx
}
