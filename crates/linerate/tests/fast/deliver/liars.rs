//! Servers that lie: lengths, contents, redirections, endless answers. What comes of it is the right file, or none
//! and a sentence.

use crate::support::served::{FakeServer, Served, content, fails, get_json, place};
use crate::support::{names, text};
use linerate::deliver::blocks::{BlockList, BlockRequest, BlockSum};
use std::io::Write;
use std::net::TcpStream;

fn out() -> (tempfile::TempDir, std::path::PathBuf) {
    let (folder, _, out) = place(b"");
    (folder, out)
}

pub fn reply(stream: &mut TcpStream, status: &str, lines: &str, body: &[u8]) {
    let _ = write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\n{lines}\r\n");
    let _ = stream.write_all(body);
}

/// The bytes that a head asks for.
fn asked(head: &str, length: usize) -> (usize, usize) {
    let range = head.lines().find_map(|line| line.strip_prefix("Range: bytes="));
    let Some((first, last)) = range.and_then(|range| range.split_once('-')) else { return (0, length) };
    (first.parse().expect("digits"), last.parse::<usize>().expect("digits") + 1)
}

/// The sums of the blocks that a query asks for.
fn sums_of(content: &[u8], query: &str) -> Vec<u8> {
    let asked = BlockRequest::parse(query, content.len() as u64).expect("blocks");
    let block = |block: u64| {
        let from = (block * asked.block_bytes) as usize;
        let mut sum = BlockSum::begin();
        sum.add(&content[from..content.len().min(from + asked.block_bytes as usize)]);
        sum.end()
    };
    let sums: Vec<u64> = (asked.first..asked.first + asked.count).map(block).collect();
    let list = BlockList::new(asked.block_bytes, content.len() as u64, asked.first, &sums);
    serde_json::to_vec(&list).expect("JSON")
}

/// A server of ranges; something is done before each answer, with the head and the bytes that it asks for.
pub fn ranges(
    content: Vec<u8>,
    lines: &'static str,
    before: impl Fn(&str, usize) + Send + Sync + 'static,
) -> FakeServer {
    FakeServer::start(move |head, stream| {
        let (from, to) = asked(head, content.len());
        before(head, to - from);
        let query = head.split(' ').nth(1).and_then(|target| target.split_once('?'));
        if let Some((_, query)) = query.filter(|(_, query)| query.contains("linerate=blocks")) {
            let json = sums_of(&content, query);
            return reply(stream, "200 OK", &format!("Content-Length: {}\r\n", json.len()), &json);
        }
        let length = to - from;
        let common = format!("{lines}Accept-Ranges: bytes\r\nContent-Length: {length}\r\n");
        if head.starts_with("HEAD") {
            return reply(stream, "200 OK", &common, b"");
        }
        let named = format!("Content-Range: bytes {from}-{}/{}\r\n", to - 1, content.len());
        let status = if head.contains("Range: ") { "206 Partial Content" } else { "200 OK" };
        let named = if head.contains("Range: ") { named } else { String::new() };
        reply(stream, status, &(common + &named), &content[from..to]);
    })
}

/// A page of another server: what it calls so that no file here may have it is named, and the rest comes.
#[test]
fn pages_of_a_server_lead_nowhere_else() {
    let (folder, out) = out();
    let links = "../evil /etc/evil http://127.0.0.1:1/evil .. %2e%2e%2fevil .a.linerate-part closed/ good";
    let links: String = links.split(' ').map(|link| format!("<a href=\"{link}\">x</a>\n")).collect();
    let server = FakeServer::start(move |head, stream| {
        let path = head.split(' ').nth(1).unwrap_or_default();
        let is_head = head.starts_with("HEAD");
        match path {
            "/" => {
                let page = format!("<html><head><title>Index of /</title></head>{links}");
                let body = format!("{:x}\r\n{page}\r\n0\r\n\r\n", page.len());
                let body = if is_head { "" } else { &body };
                reply(stream, "200 OK", "Transfer-Encoding: chunked\r\n", body.as_bytes());
            }
            "/good" => reply(stream, "200 OK", "Content-Length: 4\r\n", if is_head { b"" } else { b"good" }),
            _ => reply(stream, "403 Forbidden", "Content-Length: 0\r\n", b""),
        }
    });
    let (status, report, errors) = get_json(&[&server.url(""), "--output", text(&out)]);
    assert_eq!(status, Some(1), "{errors}");
    let files = report["transfer"]["files"].as_array().expect("files");
    assert_eq!(files.iter().filter(|file| file["outcome"] == "failed").count(), 3, "{report}");
    let said = report["errors"].to_string();
    assert!(said.contains("linerate's own unfinished files") && said.contains("403"), "{errors} {said}");
    assert_eq!(
        (names(&out), names(folder.path())),
        (vec!["good".to_string()], vec!["data".to_string(), "out".to_string()])
    );
    // Links without end, and a page that is none of a folder.
    let endless = FakeServer::start(|_, stream| {
        let page = b"<title>Index of /</title><a href=\"x/\">x</a>";
        reply(stream, "200 OK", &format!("Content-Length: {}\r\n", page.len()), page);
    });
    fails(&[&endless.url(""), "--output", text(&out)], 3, "64 deep");
    let other =
        FakeServer::start(|_, stream| reply(stream, "200 OK", "Content-Length: 12\r\n", b"<a href=\"x\">"));
    fails(&[&other.url(""), "--output", text(&out)], 3, "not a list of its files");
}

/// A server of one folder with this list.
fn lists(json: String) -> FakeServer {
    FakeServer::start(move |head, stream| {
        let body = if head.starts_with("HEAD") { &b""[..] } else { json.as_bytes() };
        reply(stream, "200 OK", &format!("Linerate: list\r\nContent-Length: {}\r\n", json.len()), body);
    })
}

/// Names that lead out of the folder, and lists that are none.
#[test]
fn lists_of_a_server_lead_nowhere_else() {
    let (folder, out) = out();
    for entry in ["../evil", "..", "%2e%2e", "/etc/evil", "a/../../evil", "a%2f..%2fevil", "evil%00"] {
        let json = format!(
            "{{\"entries\":[{{\"name\":\"x\",\"href\":\"{entry}\",\"kind\":\"file\",\"bytes\":1}}]}}"
        );
        let server = lists(json);
        fails(&[&server.url(""), "--output", text(&out)], 3, "not a name of a file");
    }
    // Folders without end.
    let json = r#"{"entries":[{"name":"x","href":"x/","kind":"folder"}]}"#;
    let server = lists(json.into());
    fails(&[&server.url(""), "--output", text(&out)], 3, "64 deep");
    assert_eq!(names(folder.path()), ["data"], "nothing was written");
}

#[test]
fn a_server_has_the_sum_of_a_small_file_before_it_sends_it() {
    for bytes in [0, 1, 70_000, 1 << 20, (1 << 20) + 1] {
        let small = content(44, bytes);
        let (_folder, data, _) = place(&small);
        let served = Served::start(&[&data], &[]);
        let answer = served.get("/file", "Linerate-Sum: xxh3-64\r\n");
        let mut sum = BlockSum::begin();
        sum.add(&small);
        let own = format!("{:016x}", sum.end());
        assert_eq!(answer.line("Linerate-Sum"), (bytes <= 1 << 20).then_some(own.as_str()), "{bytes}");
        assert_eq!(served.get("/file", "").line("Linerate-Sum"), None, "nobody asked");
        let ranged = served.get("/file", "Linerate-Sum: xxh3-64\r\nRange: bytes=0-0\r\n");
        assert_eq!(ranged.line("Linerate-Sum"), None, "it is of the whole");
    }
}
