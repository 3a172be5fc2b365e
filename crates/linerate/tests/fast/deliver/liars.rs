//! Servers that lie: lengths, contents, redirections, endless answers. What comes of it is the right file, or none
//! and a sentence.

use crate::support::served::{FakeServer, Served, content, fails, get_json, place};
use crate::support::{names, text};
use linerate::deliver::blocks::{BlockList, BlockRequest, BlockSum};
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

fn out() -> (tempfile::TempDir, std::path::PathBuf) {
    let (folder, _, out) = place(b"");
    (folder, out)
}

pub fn reply(stream: &mut TcpStream, status: &str, lines: &str, body: &[u8]) {
    let _ = write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\n{lines}\r\n");
    let _ = stream.write_all(body);
}

/// It fails, and nothing is left at the place or beside it.
fn fails_cleanly(server: &FakeServer, out: &Path, status: i32, says: &str) {
    fails(&[&server.url("file"), "--output", text(out), "--timeout", "1s"], status, says);
    assert_eq!(names(out), [""; 0], "{says}");
}

/// The bytes that a head asks for.
fn asked(head: &str, length: usize) -> (usize, usize) {
    let range = head.lines().find_map(|line| line.strip_prefix("Range: bytes="));
    let Some((first, last)) = range.and_then(|range| range.split_once('-')) else { return (0, length) };
    (first.parse().expect("digits"), last.parse::<usize>().expect("digits") + 1)
}

/// The sums of the blocks that a query asks for.
pub fn sums_of(content: &[u8], query: &str) -> Vec<u8> {
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

/// A server of ranges, of which each answer's body may be spoilt.
pub fn ranges(
    content: Vec<u8>,
    lines: &'static str,
    spoil: impl Fn(usize, &mut Vec<u8>) + Send + Sync + 'static,
) -> FakeServer {
    FakeServer::start(move |head, stream| {
        let (from, to) = asked(head, content.len());
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
        let mut body = content[from..to].to_vec();
        spoil(from, &mut body);
        let named = format!("Content-Range: bytes {from}-{}/{}\r\n", to - 1, content.len());
        let status = if head.contains("Range: ") { "206 Partial Content" } else { "200 OK" };
        let named = if head.contains("Range: ") { named } else { String::new() };
        reply(stream, status, &(common + &named), &body);
    })
}

#[test]
fn a_connection_that_ends_early_is_noticed_and_taken_up() {
    let (_folder, out) = out();
    let short = FakeServer::start(|head, stream| {
        let body: &[u8] = if head.starts_with("HEAD") { b"" } else { b"only this" };
        reply(stream, "200 OK", "Content-Length: 100\r\n", body);
    });
    fails_cleanly(&short, &out, 1, "91 bytes early");
    // Cut off in its first answers, the rest is asked for again.
    let content = content(23, 14 << 20);
    let cuts = AtomicU32::new(3);
    let spoil = move |_, body: &mut Vec<u8>| {
        if cuts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            body.truncate(1 << 20);
        }
    };
    let cut = ranges(content.clone(), "ETag: \"a\"\r\n", spoil);
    let (status, report, errors) = get_json(&[&cut.url("file"), "--output", text(&out), "--streams", "2"]);
    assert_eq!(status, Some(0), "{errors} {report}");
    assert!(std::fs::read(out.join("file")).expect("there") == content);
}

#[test]
fn a_bit_that_flips_on_the_way_is_noticed_by_the_sums() {
    let (_folder, out) = out();
    let content = content(25, 9 << 20);
    let flips = Arc::new(AtomicU32::new(1));
    let left = Arc::clone(&flips);
    let lines = "ETag: \"a\"\r\nLinerate: blocks\r\n";
    let spoil = move |_, body: &mut Vec<u8>| {
        if left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            body[5000] ^= 16;
        }
    };
    let server = ranges(content.clone(), lines, spoil);
    let words = [&server.url("file"), "--output", text(&out), "--streams", "1"];
    let (status, report, errors) = get_json(&words);
    assert_eq!(status, Some(0), "{errors}");
    assert_eq!(report["transfer"]["repeated_bytes"], 4 << 20, "{report}");
    assert!(std::fs::read(out.join("file")).expect("there") == content);
    std::fs::remove_file(out.join("file")).expect("removed");
    // Always: it is given up.
    flips.store(u32::MAX, Ordering::SeqCst);
    fails(&words, 1, "differs from the server's");
    assert_eq!(names(&out), [""; 0]);
}

#[test]
fn a_file_that_changes_in_the_middle_is_noticed() {
    let (_folder, out) = out();
    let content = content(27, 9 << 20);
    let answers = AtomicU32::new(0);
    let server = FakeServer::start(move |head, stream| {
        let count = answers.fetch_add(1, Ordering::SeqCst);
        let tag = if count < 3 { "a" } else { "b" };
        let (from, to) = asked(head, content.len());
        let lines = format!("ETag: \"{tag}\"\r\nAccept-Ranges: bytes\r\nContent-Length: {}\r\n", to - from);
        if head.starts_with("HEAD") {
            return reply(stream, "200 OK", &lines, b"");
        }
        let lines = lines + &format!("Content-Range: bytes {from}-{}/{}\r\n", to - 1, content.len());
        reply(stream, "206 Partial Content", &lines, &content[from..to]);
    });
    fails(&[&server.url("file"), "--output", text(&out), "--streams", "1"], 1, "changed on the server");
    assert_eq!(names(&out), [""; 0]);
    // The real one, under `linerate serve`.
    let (folder, data, out) = place(&crate::support::served::content(29, 24 << 20));
    let server = Served::start(&[&data], &["--rate-limit", "20MB/s"]);
    let (file, part) = (data.join("file"), out.join(".file.linerate-part"));
    let writer = std::thread::spawn(move || {
        let patience = Instant::now() + Duration::from_secs(20);
        while !part.exists() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::fs::write(file, crate::support::served::content(31, 24 << 20)).expect("written");
    });
    fails(&[&server.url("file"), "--output", text(&out)], 1, "changed on the server");
    writer.join().expect("written");
    assert_eq!(names(&out), [""; 0]);
    drop(folder);
}

#[test]
fn what_has_no_end_is_given_up() {
    let (_folder, out) = out();
    let no_length = FakeServer::start(|_, stream| {
        reply(stream, "200 OK", "", b"");
        while stream.write_all(&[0; 4096]).is_ok() {}
    });
    fails_cleanly(&no_length, &out, 3, "does not say how long");
    let chunked = FakeServer::start(|_, stream| {
        reply(stream, "200 OK", "Transfer-Encoding: chunked\r\n", b"0\r\n\r\n")
    });
    fails_cleanly(&chunked, &out, 3, "does not say how long");
    let head = FakeServer::start(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        while stream.write_all(b"A: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n").is_ok() {}
    });
    fails_cleanly(&head, &out, 3, "is no HTTP");
    let interim = FakeServer::start(|_, stream| while stream.write_all(b"HTTP/1.1 100 C\r\n\r\n").is_ok() {});
    fails_cleanly(&interim, &out, 3, "status 100");
    let begun = Instant::now();
    let silent = FakeServer::start(|_, _| std::thread::sleep(Duration::from_secs(60)));
    fails_cleanly(&silent, &out, 1, "next to nothing came for 1 s");
    let dribbles = FakeServer::start(|head, stream| {
        reply(stream, "200 OK", "Content-Length: 100000\r\n", b"");
        while !head.starts_with("HEAD") && stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    fails_cleanly(&dribbles, &out, 1, "next to nothing came for 1 s");
    assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
}

#[test]
fn redirections_and_statuses_are_bounded() {
    let (_folder, out) = out();
    let round = FakeServer::start(|head, stream| {
        let target = head.split(' ').nth(1).unwrap_or_default().to_string();
        reply(stream, "302 Found", &format!("Location: {target}x\r\nContent-Length: 0\r\n"), b"");
    });
    fails_cleanly(&round, &out, 3, "redirections");
    let round = FakeServer::start(|head, stream| {
        let lines =
            format!("Location: {}x\r\nContent-Length: 0\r\n", head.split(' ').nth(1).unwrap_or_default());
        reply(stream, "301 Moved", &lines, b"");
    });
    fails_cleanly(&round, &out, 3, "in circles");
    for (location, says) in [
        ("https://127.0.0.1:1/", "no connection"),
        ("file:///etc/passwd", "speaks HTTP only, not file"),
        ("http://a:b@h/", "--token-file"),
    ] {
        let server = FakeServer::start(move |_, stream| {
            reply(stream, "302 Found", &format!("Location: {location}\r\nContent-Length: 0\r\n"), b"");
        });
        fails_cleanly(&server, &out, 3, says);
    }
    for (status, says) in [
        ("404 Not Found", "404"),
        ("403 Forbidden", "403"),
        ("500 Oh", "status 500"),
        ("503 Busy", "503"),
        ("204 None", "status 204"),
        ("999 Odd", "status 999"),
    ] {
        let server = FakeServer::start(move |_, stream| reply(stream, status, "Content-Length: 0\r\n", b""));
        fails_cleanly(&server, &out, 3, says);
    }
    let packed = FakeServer::start(|_, stream| {
        reply(stream, "200 OK", "Content-Encoding: gzip\r\nContent-Length: 0\r\n", b"");
    });
    fails_cleanly(&packed, &out, 3, "packed (gzip)");
    let folder = FakeServer::start(|_, stream| reply(stream, "200 OK", "Content-Length: 0\r\n", b""));
    fails(&[&folder.url("x/"), "--output", text(&out)], 3, "no list of its files");
    let no_http = FakeServer::start(|_, stream| drop(stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")));
    fails_cleanly(&no_http, &out, 3, "is no HTTP");
    let closes = FakeServer::start(|_, _| {});
    fails_cleanly(&closes, &out, 1, "closed without an answer");
}

#[test]
fn other_parts_than_those_asked_for_are_refused() {
    let (_folder, out) = out();
    let content = content(33, 9 << 20);
    let server = FakeServer::start(move |head, stream| {
        let (from, to) = asked(head, content.len());
        let lines = format!("ETag: \"a\"\r\nAccept-Ranges: bytes\r\nContent-Length: {}\r\n", to - from);
        if head.starts_with("HEAD") {
            return reply(stream, "200 OK", &lines, b"");
        }
        // One byte further than it was asked.
        let lines = lines + &format!("Content-Range: bytes {}-{to}/{}\r\n", from + 1, content.len());
        reply(stream, "206 Partial Content", &lines, &content[from..to]);
    });
    fails_cleanly(&server, &out, 1, "another part");
}

/// A page of another server: what it calls so that no file here may have it is named, and the rest comes.
#[test]
fn pages_of_a_server_lead_nowhere_else() {
    let (folder, out) = out();
    let links = [
        "../evil",
        "/etc/evil",
        "http://127.0.0.1:1/evil",
        "..",
        "%2e%2e%2fevil",
        ".a.linerate-part",
        "closed/",
        "good",
    ];
    let links: String = links.iter().map(|link| format!("<a href=\"{link}\">x</a>\n")).collect();
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
    fails(&[&other.url(""), "--output", text(&out)], 3, "no list of its files");
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
        fails(&[&server.url(""), "--output", text(&out)], 3, "no name of a file");
    }
    // Folders without end.
    let json = r#"{"entries":[{"name":"x","href":"x/","kind":"folder"}]}"#;
    let server = lists(json.into());
    fails(&[&server.url(""), "--output", text(&out)], 3, "64 deep");
    assert_eq!(names(folder.path()), ["data"], "nothing was written");
}

/// The sum goes ahead of the file: what does not sum up to it comes again, and is not kept where it never does.
#[test]
fn a_small_file_that_differs_from_its_sum_comes_again_and_is_not_kept() {
    let small = content(43, 5000);
    let mut sum = BlockSum::begin();
    sum.add(&small);
    let sum = sum.end();
    for spoilt in [1, u32::MAX] {
        let (answers, right) = (Arc::new(AtomicU32::new(0)), small.clone());
        let answered = Arc::clone(&answers);
        let server = FakeServer::start(move |head, stream| {
            let mut body = right.clone();
            let lines = format!("Linerate: blocks\r\nContent-Length: {}\r\n", body.len());
            if head.starts_with("HEAD") {
                return reply(stream, "200 OK", &lines, b"");
            }
            assert!(head.contains("Linerate-Sum: xxh3-64\r\n"), "{head}");
            if answered.fetch_add(1, Ordering::Relaxed) < spoilt {
                body[4000] ^= 1;
            }
            reply(stream, "200 OK", &format!("{lines}Linerate-Sum: {sum:016x}\r\n"), &body);
        });
        let (_folder, out) = out();
        if spoilt > 1 {
            fails_cleanly(&server, &out, 1, "block 0 differs from the server's");
            continue;
        }
        let (status, report, errors) = get_json(&[&server.url("file"), "--output", text(&out)]);
        assert_eq!(status, Some(0), "{errors}");
        assert_eq!(report["transfer"]["files"][0]["verified"][0], "xxh3-64", "{report}");
        assert!(std::fs::read(out.join("file")).expect("there") == small);
        assert_eq!(answers.load(Ordering::Relaxed), 2);
    }
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
