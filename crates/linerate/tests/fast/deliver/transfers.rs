//! `linerate get` from `linerate serve`.

use super::others::assert_same;
use crate::support::process::{Ends, signal, until};
use crate::support::served::{Served, content, fails, get, get_json, place};
use crate::support::{names, text, write_secret};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

#[test]
fn a_large_file_comes_whole_in_blocks_over_several_streams() {
    let content = content(7, (21 << 20) + 5);
    let (_folder, data, out) = place(&content);
    let server = Served::start(&[&data], &[]);
    let words = [&server.url("file"), "--output", text(&out), "--streams", "3"];
    let (status, report, errors) = get_json(&words);
    assert_eq!(status, Some(0), "{errors}");
    assert_same(&out.join("file"), &content);
    assert_eq!(names(&out), ["file"]);
    let file = &report["transfer"]["files"][0];
    assert_eq!(file["outcome"], "fetched", "{report}");
    assert_eq!(file["verified"], serde_json::json!(["xxh3-64"]), "{report}");
    assert_eq!(report["transfer"]["moved_bytes"], content.len(), "{report}");
    assert_eq!(report["errors"], serde_json::json!([]));
    assert!(!report["diagnosis"]["bottleneck"]["sentence"].as_str().expect("a sentence").is_empty());
    let time = |path: &Path| std::fs::metadata(path).expect("there").mtime();
    assert_eq!(time(&out.join("file")), time(&data.join("file")));
    // Again: it is there. Another content is not replaced, unless that is asked for.
    let (status, report, _) = get_json(&words);
    assert_eq!(
        (status, &report["transfer"]["files"][0]["outcome"]),
        (Some(0), &"already-there".into()),
        "{report}"
    );
    assert_eq!(report["transfer"]["moved_bytes"], 0);
    std::fs::write(out.join("file"), "mine").expect("written");
    fails(&words, 3, "--replace");
    assert_same(&out.join("file"), b"mine");
    assert_eq!(get(&[&words[..], &["--replace"]].concat()).status.code(), Some(0));
    assert_same(&out.join("file"), &content);
    let (_, summary) = server.stop();
    assert!(summary.contains(" from the page cache\n"), "{summary}");
}

#[test]
fn the_last_line_has_both_units_and_what_limited_it() {
    let (_folder, data, out) = place(&content(7, 3 << 20));
    let server = Served::start(&[&data], &[]);
    let output = get(&[&server.url("file"), "--output", text(&out), "--rate-limit", "6MB/s"]);
    let screen = &output.stdout;
    let last = screen.lines().last().expect("a line");
    assert!(last.contains("MB/s (") && last.contains("Mb/s), "), "{screen}");
    // On a loaded machine the disk takes its time at the end, and the rate is not met.
    let limit = last.split_once("Mb/s), ").map_or("", |(_, limit)| limit);
    let said =
        "limited by the |what limited it: |what probably limited it: |no single limit|it was too short";
    assert!(said.split('|').any(|start| limit.starts_with(start)), "{screen}");
}

#[test]
fn a_folder_comes_with_all_that_is_below_it() {
    let (_folder, data, out) = place(b"top");
    let sub = data.join("sub folder/ü");
    std::fs::create_dir_all(&sub).expect("folders");
    std::fs::create_dir(data.join("empty")).expect("a folder");
    let large = content(9, (5 << 20) + 1);
    std::fs::write(sub.join("large#?%"), &large).expect("written");
    std::fs::write(sub.join("nothing"), b"").expect("written");
    for index in 0..300 {
        std::fs::write(sub.join(format!("small{index}")), content(index, index as usize)).expect("written");
    }
    std::os::unix::fs::symlink("sub folder", data.join("link")).expect("a link");
    std::os::unix::fs::symlink("file", data.join("file link")).expect("a link");
    let server = Served::start(&[&data], &[]);
    let words = [&server.url(""), "--output", text(&out)];
    let output = get(&words);
    let (screen, errors) = (output.stdout, output.stderr);
    assert_eq!(output.status.code(), Some(0), "{screen}{errors}");
    assert!(screen.contains("304 files in all") && screen.contains("1 link to folders left out"), "{screen}");
    assert_eq!(names(&out), ["empty", "file", "file link", "sub folder"]);
    assert_same(&out.join("file link"), b"top");
    let got = out.join("sub folder/ü");
    assert_same(&got.join("large#?%"), &large);
    assert_same(&got.join("nothing"), b"");
    assert_eq!(names(&got).len(), 302);
    for index in 0..300 {
        assert_same(&got.join(format!("small{index}")), &content(index, index as usize));
    }
    // What is there is not fetched again, and what is gone is.
    std::fs::remove_file(got.join("small7")).expect("removed");
    let (status, report, errors) = get_json(&words);
    assert_eq!((status, &report["transfer"]["moved_bytes"]), (Some(0), &7.into()), "{errors}");
    // A part of it, into a folder of its name.
    let some = out.join("some");
    let output = get(&[&server.url("sub%20folder/"), "--output", text(&some)]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(names(&some.join("sub folder/ü")).len(), 302);
}

#[test]
fn several_urls_and_files_that_are_not_there() {
    let (_folder, data, out) = place(b"one");
    std::fs::write(data.join("two"), "two").expect("written");
    let server = Served::start(&[&data], &[]);
    let (one, two, none) = (server.url("file"), server.url("two"), server.url("none"));
    let output = get(&[&one, &two, "--output", text(&out)]);
    assert_eq!((output.status.code(), names(&out)), (Some(0), vec!["file".into(), "two".to_string()]));
    fails(&[&none, "--output", text(&out)], 3, "no such file (404)");
    fails(&[&one, &one, "--output", text(&out)], 2, "two of the files");
    fails(&[&server.url(""), "--sha256", &"0".repeat(64)], 2, "name a file of it");
}

#[test]
fn a_published_sum_decides() {
    let (_folder, data, out) = place(b"abc");
    let server = Served::start(&[&data], &[]);
    let right = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let url = server.url("file");
    fails(&[&url, "--output", text(&out), "--sha256", &"0".repeat(64)], 1, "nothing of it was kept");
    assert_eq!(names(&out), [""; 0]);
    let (status, report, _) = get_json(&[&url, "--output", text(&out), "--sha256", &right.to_uppercase()]);
    assert_eq!(
        (status, &report["transfer"]["files"][0]["verified"]),
        (Some(0), &serde_json::json!(["sha256", "xxh3-64"]))
    );
    let large = content(11, 5 << 20);
    std::fs::write(data.join("large"), &large).expect("written");
    fails(&[&server.url("large"), "--output", text(&out), "--sha256", right], 1, "SHA-256");
    assert_eq!(names(&out), ["file"]);
}

#[test]
fn a_token_is_shown_to_its_server_alone() {
    use crate::support::served::FakeServer;
    use std::io::Write;
    let (folder, data, out) = place(b"secret");
    let token = folder.path().join("token");
    write_secret(&token, "0123456789abcdef0123");
    let server = Served::start(&[&data], &["--token-file", text(&token)]);
    let url = server.url("file");
    fails(&[&url, "--output", text(&out)], 3, "--token-file");
    let words = [&url, "--output", text(&out), "--token-file", text(&token)];
    assert_eq!(get(&words).status.code(), Some(0));
    assert_same(&out.join("file"), b"secret");
    // Another server, to which the first sends on, does not see it.
    let other = FakeServer::start(|head, stream| {
        assert!(!head.contains("0123456789abcdef"), "{head}");
        let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    });
    let location = other.url("x");
    let first = FakeServer::start(move |head, stream| {
        assert!(head.contains("Bearer 0123456789abcdef0123"), "{head}");
        let _ = write!(
            stream,
            "HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
    });
    fails(&[&first.url("x"), "--token-file", text(&token), "--output", text(&out)], 3, "404");
}

/// What the page cache has goes out from there, what it has not past it; both are the same bytes.
#[test]
fn cold_files_are_read_past_the_page_cache() {
    let content = content(13, (9 << 20) + 77);
    // Not on tmpfs, which has no disk below it.
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let (data, out) = (place.path().join("file"), place.path().join("out"));
    std::fs::write(&data, &content).expect("written");
    let file = std::fs::File::open(&data).expect("opened");
    file.sync_all().expect("synced");
    linerate_system::file::drop_pages(&file).expect("dropped");
    if linerate_system::file::cached_share(&file, content.len() as u64).map_or(true, |share| share > 0.1) {
        eprintln!("skipped: the pages of a file cannot be dropped here");
        return;
    }
    let server = Served::start(&[&data], &[]);
    let (status, report, errors) = get_json(&[&server.url("file"), "--output", text(&out)]);
    assert_eq!(status, Some(0), "{errors} {report}");
    assert_same(&out.join("file"), &content);
    let (_, summary) = server.stop();
    assert!(summary.contains("past it, by"), "{summary}");
}

#[test]
fn a_server_keeps_to_its_rate_limit() {
    let (_folder, data, out) = place(&content(15, 4 << 20));
    let server = Served::start(&[&data], &["--rate-limit", "4MB/s"]);
    let (status, report, errors) = get_json(&[&server.url("file"), "--output", text(&out)]);
    assert_eq!(status, Some(0), "{errors}");
    // What the socket's buffers took at once came sooner.
    let measured = &report["measurements"][0];
    assert!(measured["bytes_per_second"].as_f64().expect("a rate") < 8e6, "{report}");
    // The client is told, and says so.
    assert_eq!(measured["sender_rate_limit"].as_f64(), Some(4e6), "{report}");
    let limit = &report["diagnosis"]["bottleneck"];
    let said = limit["sentence"].as_str().expect("a sentence");
    assert!(
        limit["kind"] == "sender" && said.starts_with("limited by the server's --rate-limit: "),
        "{said}"
    );
    let served = server.stop().1;
    assert!(served.contains("served 4 MiB"), "{served}");
}

/// `localhost` has two addresses, and only one of them answers; a redirection leads to the file, and its name is
/// that of the URL that was given.
#[test]
fn names_with_dead_addresses_and_redirections_lead_to_the_file() {
    use crate::support::served::FakeServer;
    use std::io::Write;
    let (_folder, data, out) = place(b"content");
    let server = Served::start(&[&data], &[]);
    let url = format!("http://localhost:{}/file", server.port);
    assert_eq!(get(&[&url, "--output", text(&out)]).status.code(), Some(0));
    assert_same(&out.join("file"), b"content");
    let location = server.url("file");
    let first = FakeServer::start(move |_, stream| {
        let lines = format!("Location: {location}\r\nContent-Length: 0\r\nConnection: close\r\n");
        let _ = write!(stream, "HTTP/1.1 307 Temporary Redirect\r\n{lines}\r\n");
    });
    assert_eq!(get(&[&first.url("other"), "--output", text(&out)]).status.code(), Some(0));
    assert_same(&out.join("other"), b"content");
}

#[test]
fn a_file_is_fetched_by_one_at_a_time() {
    let content = content(17, 12 << 20);
    let (_folder, data, out) = place(&content);
    let server = Served::start(&[&data], &["--rate-limit", "6MB/s"]);
    let url = server.url("file");
    let words = [&url, "--output", text(&out)];
    let first = crate::support::linerate().arg("get").args(words).spawn().expect("it starts");
    until("it is fetched", || names(&out).len() >= 2);
    fails(&words, 3, "another linerate fetches it");
    assert!(first.ended().status.success());
    assert_same(&out.join("file"), &content);
}

#[test]
fn a_server_says_at_its_end_what_was_served_as_json() {
    use crate::support::linerate;
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    let (_folder, data, out) = place(b"0123456789");
    let mut serve = linerate();
    serve.arg("serve").arg(&data).args(["--listen", "127.0.0.1:0", "--json"]);
    let mut child = serve.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(child.stderr.take().expect("its errors")).lines();
    let mut urls = lines.map_while(Result::ok).filter(|line| line.contains("http://127.0.0.1:"));
    let url = urls.next().expect("a URL").trim().to_string() + "file";
    assert_eq!(get(&[&url, "--output", text(&out)]).status.code(), Some(0));
    signal(&child, "TERM");
    let output = child.ended();
    let summary = output.json();
    assert_eq!((output.status.code(), &summary["served"]["bytes"]), (Some(0), &10.into()), "{summary}");
    assert_eq!(summary["served"]["bytes_from_page_cache"], 10, "{summary}");
}
