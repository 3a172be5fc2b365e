//! What `linerate serve` says on the wire: RFC 9110 and RFC 9112, case by case.

use crate::support::served::{HttpAnswer, Served, content, place};
use crate::support::{text, write_secret};
use std::io::{Read, Write};
use std::time::{Duration, SystemTime};

const DATE: u64 = 784_111_777;

fn served(content: &[u8]) -> (tempfile::TempDir, Served) {
    let (folder, data, _) = place(content);
    let file = std::fs::File::options().write(true).open(data.join("file")).expect("opened");
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(DATE)).expect("a time");
    let server = Served::start(&[&data], &[]);
    (folder, server)
}

#[test]
fn ranges_and_conditions_are_those_of_the_rfc() {
    let content = content(1, 10_000);
    let (_folder, server) = served(&content);
    let whole = server.get("/file", "");
    assert_eq!((whole.status, &whole.body), (200, &content));
    let tag = whole.line("ETag").expect("a tag").to_string();
    assert_eq!(whole.line("Last-Modified"), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
    assert_eq!((whole.line("Accept-Ranges"), whole.line("Content-Length")), (Some("bytes"), Some("10000")));
    let same = "Sun, 06 Nov 1994 08:49:37 GMT";
    let later = "Sun, 06 Nov 1994 08:49:38 GMT";
    let earlier = "Sun, 06 Nov 1994 08:49:36 GMT";
    let range = |text: &str| format!("Range: {text}\r\n");
    let all = || Some((0, 10_000));
    // Lines of the request; the status, and which bytes come.
    type Case = (String, u16, Option<(usize, usize)>);
    let cases: Vec<Case> = vec![
        (range("bytes=0-499"), 206, Some((0, 500))),
        (range("bytes=500-999"), 206, Some((500, 1000))),
        (range("bytes=-500"), 206, Some((9500, 10_000))),
        (range("bytes=9500-"), 206, Some((9500, 10_000))),
        (range("bytes=0-0"), 206, Some((0, 1))),
        (range("bytes=9999-20000"), 206, Some((9999, 10_000))),
        (range("bytes=-20000"), 206, all()),
        (range("bytes=0-9223372036854775808"), 206, all()),
        (range("bytes=0-18446744073709551616"), 206, all()),
        (range("bytes=10000-"), 416, None),
        (range("bytes=9223372036854775808-"), 416, None),
        (range("bytes=18446744073709551616-18446744073709551617"), 416, None),
        (range("bytes=-0"), 416, None),
        (range("bytes=0-1,3-4"), 200, all()),
        (range("bytes=1-0"), 200, all()),
        (range("lines=0-1"), 200, all()),
        (range("bytes=x"), 200, all()),
        (range("bytes=0-1") + &format!("If-Range: {tag}\r\n"), 206, Some((0, 2))),
        (range("bytes=0-1") + &format!("If-Range: {same}\r\n"), 206, Some((0, 2))),
        (range("bytes=0-1") + "If-Range: \"other\"\r\n", 200, all()),
        (range("bytes=0-1") + &format!("If-Range: W/{tag}\r\n"), 200, all()),
        (range("bytes=0-1") + &format!("If-Range: {later}\r\n"), 200, all()),
        (range("bytes=10000-") + "If-Range: \"other\"\r\n", 200, all()),
        (format!("If-None-Match: {tag}\r\n"), 304, None),
        (format!("If-None-Match: W/{tag}\r\n"), 304, None),
        ("If-None-Match: *\r\n".into(), 304, None),
        ("If-None-Match: \"a\", \"b\"\r\n".into(), 200, all()),
        (format!("If-None-Match: \"a\"\r\nIf-Modified-Since: {same}\r\n"), 200, all()),
        (format!("If-Modified-Since: {same}\r\n"), 304, None),
        (format!("If-Modified-Since: {earlier}\r\n"), 200, all()),
        ("If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT\r\n".into(), 304, None),
        ("If-Modified-Since: nonsense\r\n".into(), 200, all()),
        (format!("If-Match: {tag}\r\n"), 200, all()),
        ("If-Match: *\r\n".into(), 200, all()),
        (format!("If-Match: \"other\", {tag}\r\n"), 200, all()),
        ("If-Match: \"other\"\r\n".into(), 412, None),
        (format!("If-Match: W/{tag}\r\n"), 412, None),
        (format!("If-Match: {tag}\r\nIf-Unmodified-Since: {earlier}\r\n"), 200, all()),
        (format!("If-None-Match: \"a\"\r\nIf-None-Match: {tag}\r\n"), 304, None),
        (format!("If-Match: {tag}\r\nIf-None-Match: {tag}\r\n"), 304, None),
        (format!("If-Match: \"other\"\r\nIf-None-Match: {tag}\r\n"), 412, None),
        (format!("If-Unmodified-Since: {earlier}\r\n"), 412, None),
        (format!("If-Unmodified-Since: {same}\r\n"), 200, all()),
        (range("bytes=0-1") + &format!("If-Range: {earlier}\r\n"), 200, all()),
        (range("bytes=0-1") + "If-Range: nonsense\r\n", 200, all()),
        (format!("If-Range: {tag}\r\n"), 200, all()),
        (range("bytes=0-1") + &format!("If-Unmodified-Since: {earlier}\r\n"), 412, None),
        (range("bytes=10000-") + &format!("If-None-Match: {tag}\r\n"), 304, None),
        (range("bytes=0-1") + "If-Match: \"other\"\r\n", 412, None),
        (range("bytes=0-1") + &format!("If-None-Match: {tag}\r\n"), 304, None),
    ];
    for (lines, status, bytes) in cases {
        let answer = server.get("/file", &lines);
        assert_eq!(answer.status, status, "{lines}");
        if let Some((from, to)) = bytes {
            assert!(answer.body == content[from..to], "{lines}: {} bytes", answer.body.len());
            let expected = format!("bytes {from}-{}/10000", to - 1);
            let named = answer.line("Content-Range");
            assert_eq!(named, (status == 206).then_some(expected.as_str()), "{lines}");
        }
        match status {
            416 => assert_eq!(answer.line("Content-Range"), Some("bytes */10000"), "{lines}"),
            304 => assert!(answer.body.is_empty() && answer.line("ETag") == Some(&tag), "{lines}"),
            _ => {}
        }
    }
}

#[test]
fn head_has_the_lines_of_get_and_no_body() {
    let (_folder, server) = served(b"0123456789");
    for (lines, status, length) in [
        ("", 200, Some("10")),
        ("Range: bytes=0-1\r\n", 200, Some("10")),
        ("If-None-Match: *\r\n", 304, None),
    ] {
        let request = format!("HEAD /file HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{lines}\r\n");
        let answer = server.ask(&request);
        assert_eq!(
            (answer.status, answer.line("Content-Length"), answer.text()),
            (status, length, String::new())
        );
    }
    let missing = server.ask("HEAD /none HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert_eq!((missing.status, missing.body.len()), (404, 0));
}

#[test]
fn one_connection_serves_many_requests_also_when_they_come_at_once() {
    let (_folder, server) = served(b"0123456789");
    let one = |range: &str| format!("GET /file HTTP/1.1\r\nHost: h\r\nRange: bytes={range}\r\n\r\n");
    let last = "GET /file HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".to_string();
    let mut stream = server.send([one("0-1"), one("2-4"), one("20-"), last].concat().as_bytes());
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("all answers");
    let text = String::from_utf8_lossy(&bytes);
    assert_eq!(text.matches("HTTP/1.1 206").count(), 2, "{text}");
    assert_eq!(
        (text.matches("HTTP/1.1 416").count(), text.matches("HTTP/1.1 200").count()),
        (1, 1),
        "{text}"
    );
    assert!(text.ends_with("0123456789"), "{text}");
    // HTTP/1.0 closes, unless it asks for more; a request may come a byte at a time.
    let answer = server.ask("GET /file HTTP/1.0\r\n\r\n");
    assert_eq!((answer.status, answer.line("Connection")), (200, Some("close")));
    let mut slow = server.send(b"");
    for byte in b"GET http://h/file HTTP/1.0\r\n\r\n" {
        slow.write_all(&[*byte]).expect("sent");
    }
    assert_eq!(HttpAnswer::read(slow).text(), "0123456789");
}

#[test]
fn folders_have_a_page_and_a_list_and_their_slash() {
    let (folder, server) = served(b"x");
    let data = folder.path().join("data");
    std::fs::create_dir(data.join("a & b")).expect("a folder");
    std::fs::write(data.join("a & b/<i>.txt"), "text").expect("written");
    let page = server.get("/", "");
    assert_eq!((page.status, page.line("Content-Type")), (200, Some("text/html; charset=utf-8")));
    assert!(page.text().contains("href=\"./a%20%26%20b/\""), "{}", page.text());
    let page = server.get("/a%20%26%20b/", "").text();
    assert!(page.contains("&lt;i&gt;.txt") && !page.contains("<i>"), "{page}");
    let list = server.get("/?linerate=list", "");
    assert_eq!(list.line("Content-Type"), Some("application/json"));
    let list: serde_json::Value = serde_json::from_slice(&list.body).expect("JSON");
    assert_eq!(list["entries"][0]["kind"], "folder", "{list}");
    assert_eq!(list["entries"][1]["bytes"], 1, "{list}");
    let moved = server.get("/a%20%26%20b", "");
    assert_eq!((moved.status, moved.line("Location")), (301, Some("/a%20%26%20b/")));
    // Not to another host.
    let moved = server.get("//a%20%26%20b", "");
    assert_eq!(moved.line("Location"), Some("/a%20%26%20b/"));
    assert_eq!(server.get("/file/", "").status, 404);
    assert_eq!(server.get("/a%20%26%20b/%3Ci%3E.txt", "").text(), "text");
}

#[test]
fn sums_of_blocks_are_those_of_the_file() {
    use linerate::deliver::blocks::{BlockList, BlockRequest, BlockSum};
    let block_bytes = 4 << 20;
    let content = content(3, 3 * block_bytes + 1000);
    let (_folder, server) = served(&content);
    let asked = BlockRequest { block_bytes: block_bytes as u64, first: 1, count: 3 };
    let answer = server.get(&format!("/file?{}", asked.query()), "");
    let sums = BlockList::parse(&answer.body, asked).expect("a list");
    let expected = |block: usize| {
        let mut sum = BlockSum::begin();
        sum.add(&content[block * block_bytes..content.len().min((block + 1) * block_bytes)]);
        sum.end()
    };
    assert_eq!(sums, [expected(1), expected(2), expected(3)]);
    // No sizes of blocks that `get` does not use: each would be another set of sums.
    for wrong in ["bytes=1", "bytes=65536", "bytes=8388608", "bytes=1048576&count=1", "first=5", "count=9"] {
        assert_eq!(server.get(&format!("/file?linerate=blocks&{wrong}"), "").status, 400, "{wrong}");
    }
    let changed = server.get(&format!("/file?{}", asked.query()), "If-Match: \"other\"\r\n");
    assert_eq!(changed.status, 412);
}

#[test]
fn a_token_is_wanted_where_there_is_one() {
    let (folder, data, _) = place(b"secret");
    let token = folder.path().join("token");
    write_secret(&token, "0123456789abcdef0123\n");
    let server = Served::start(&[&data], &["--token-file", token.to_str().expect("UTF-8")]);
    let refused = server.get("/file", "");
    assert_eq!((refused.status, refused.text().contains("secret")), (401, false));
    assert!(refused.line("WWW-Authenticate").is_some_and(|line| line.starts_with("Bearer")));
    assert_eq!(server.get("/none", "").status, 401, "nothing is said of what is there");
    assert_eq!(server.get("/file", "Authorization: Bearer 0123456789abcdef0124\r\n").status, 401);
    assert_eq!(server.get("/file", "Authorization: Bearer 0123456789abcdef0123\r\n").text(), "secret");
}

#[test]
fn each_answer_is_a_line_of_the_access_log() {
    let (place, data, _) = place(b"twelve bytes");
    let log = place.path().join("log");
    let server = Served::start(&[&data], &["--access-log", text(&log)]);
    for (target, range) in [("/file", ""), ("/none", ""), ("/file", "Range: bytes=2-4\r\n")] {
        let _ = server.get(target, &format!("User-Agent: a \"b\"\r\n{range}"));
    }
    let _ = server.stop();
    let lines = std::fs::read_to_string(&log).expect("the log");
    let of = |line: &str| {
        let quoted: Vec<String> = line.split('"').map(String::from).collect();
        (quoted[1].clone(), quoted[2].trim().to_string())
    };
    let found: Vec<(String, String)> = lines.lines().map(of).collect();
    assert_eq!(found[0], ("GET /file HTTP/1.1".into(), "200 12".into()), "{lines}");
    assert!(found[1].1.starts_with("404 ") && found[2].1 == "206 3", "{lines}");
    assert!(lines.contains("\"a \\\"b\\\"\"") && lines.starts_with("127.0.0.1 - - ["), "{lines}");
}
