//! Servers of which each lies in its own way, all the time: what comes of it is a sentence, in its time, and no file.

use super::super::plan::WantedFile;
use super::{SERVER, TIMEOUT, fetched};
use crate::client::TransferError;
use crate::http::head::RequestHead;
use crate::tests::network::{Answering, Answers, FarEnd, Sent};
use crate::tests::server::head_of;
use linerate_system::clock::simulated::SimulatedClock;
use linerate_testing::folder_in_memory;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// What comes of a file that such a server has, how long that takes, and how often it is connected to.
fn ended(answer: impl FnMut(&RequestHead, &mut Answers) + Clone + 'static) -> (TransferError, Duration, u32) {
    let (folder, clock, connections) = (folder_in_memory(), SimulatedClock::new(), Rc::new(Cell::new(0)));
    let counted = Rc::clone(&connections);
    let url = format!("{SERVER}/file").parse().expect("a URL");
    let wanted = WantedFile::new(url, folder.path().join("file"), None, None);
    let accept = move || {
        counted.set(counted.get() + 1);
        Some(Box::new(Answering(answer.clone())) as Box<dyn FarEnd>)
    };
    let (reports, mut errors, time, _) = fetched(vec![wanted], accept, &clock);
    let left = std::fs::read_dir(folder.path()).expect("a list").count();
    assert_eq!((reports.len(), errors.len(), left), (1, 1, 0), "{errors:?}");
    (errors.remove(0), time, connections.get())
}

fn empty(status: u16, lines: &str, answers: &mut Answers) {
    answers.push_back(head_of(status, &format!("{lines}Content-Length: 0\r\n")));
}

/// The answer to a HEAD, and this to what follows.
fn then(head: &RequestHead, answers: &mut Answers, lines: &str, body: &[u8]) {
    let is_part = head.method == "GET" && lines.contains("Content-Range");
    answers.push_back(head_of(if is_part { 206 } else { 200 }, lines));
    if head.method == "GET" {
        answers.extend([Sent::from(body.to_vec()), Sent::End]);
    }
}

const LARGE: &str = "ETag: \"a\"\r\nAccept-Ranges: bytes\r\nContent-Length: 9000000\r\n";

#[test]
fn each_lie_is_a_sentence_in_its_time() {
    type Lie = fn(&RequestHead, &mut Answers);
    // What it says, and whether it is for good: then it is not asked again.
    let lies: [(&str, bool, Lie); 20] = [
        ("does not say how long", true, |_, answers| answers.push_back(head_of(200, ""))),
        ("does not say how long", true, |_, answers| empty(200, "Transfer-Encoding: chunked\r\n", answers)),
        ("packed (gzip)", true, |_, answers| empty(200, "Content-Encoding: gzip\r\n", answers)),
        ("404", true, |_, answers| empty(404, "", answers)),
        ("403", true, |_, answers| empty(403, "", answers)),
        ("421", true, |_, answers| empty(421, "", answers)),
        ("status 204", true, |_, answers| empty(204, "", answers)),
        ("status 999", false, |_, answers| empty(999, "", answers)),
        ("status 302", true, |_, answers| empty(302, "", answers)),
        ("more than 10 redirections", true, |head, answers| {
            empty(302, &format!("Location: {}x\r\n", head.target), answers);
        }),
        ("speaks HTTP only, not file", true, |_, answers| {
            empty(301, "Location: file:///etc/passwd\r\n", answers)
        }),
        ("--token-file", true, |_, answers| empty(301, "Location: http://a:b@h/\r\n", answers)),
        ("status 100", true, |_, answers| answers.push_back(Sent::Endless(b"HTTP/1.1 100 C\r\n\r\n"))),
        ("block 0 differs from the server's", false, |_, answers| {
            empty(200, "Linerate-Sum: 0123456789abcdef\r\n", answers);
        }),
        ("status 500", false, |_, answers| empty(500, "", answers)),
        ("503", false, |_, answers| empty(503, "Retry-After: 1\r\n", answers)),
        ("is not HTTP", false, |_, answers| answers.push_back(Sent::Endless(b"A: bbbbbbbbbbbbbbb\r\n"))),
        ("closed without an answer", false, |_, answers| answers.push_back(Sent::End)),
        ("next to nothing came for 5 s", false, |_, _| {}),
        ("another part", false, |head, answers| {
            then(head, answers, &format!("{LARGE}Content-Range: bytes 1-9000000/9000001\r\n"), b"");
        }),
    ];
    for (says, is_final, lie) in lies {
        let (error, time, connections) = ended(lie);
        assert!(error.to_string().contains(says), "{says}: {error}");
        assert_eq!(connections < 2, is_final, "{says}: {connections}");
        let most = if is_final { TIMEOUT } else { 6 * TIMEOUT };
        assert!(time < most && (is_final || time >= Duration::from_millis(700)), "{says}: {time:?}");
    }
}

/// It is waited for as long as it asks, within bounds, and five minutes in all: at once, where it announced a small file or
/// of a large one, and at the end of one.
#[test]
fn a_server_that_is_always_busy_is_given_up() {
    for (seconds, requests, (answered, lines)) in [
        ("7", 43..45, (0, "")),
        ("1000", 30..32, (0, "")),
        ("0", 2_900..3_100, (0, "")),
        ("7", 43..45, (1, "Content-Length: 3\r\n")),
        ("7", 43..45, (1, LARGE)),
        ("7", 44..46, (2, "ETag: \"a\"\r\nContent-Length: 2000000\r\n")),
    ] {
        let asked = Rc::new(Cell::new(0));
        let counted = Rc::clone(&asked);
        let (error, time, connections) = ended(move |head, answers| {
            counted.set(counted.get() + 1);
            if counted.get() <= answered {
                return then(head, answers, lines, &[0; 2_000_000]);
            }
            empty(503, &format!("Server: linerate/1\r\nRetry-After: {seconds}\r\n"), answers);
        });
        assert!(matches!(error, TransferError::AlwaysBusy { .. }), "{lines} {error}");
        let busy = asked.get() - answered;
        assert!(
            requests.contains(&busy) && connections == 1 + answered / 2,
            "{seconds}: {busy} {connections}"
        );
        assert!(time >= Duration::from_secs(300) && time < Duration::from_secs(311), "{seconds}: {time:?}");
    }
}

/// The address that has the file is gone, in the middle of it or at its end, and the other one of the name has another
/// copy.
#[test]
fn an_address_with_another_copy_is_not_asked_without_end() {
    const WHOLE: &str = "Content-Length: 2000000\r\n";
    const CUT: &str =
        "Accept-Ranges: bytes\r\nContent-Range: bytes 0-1999999/2000000\r\nContent-Length: 2000000\r\n";
    for (lines, bytes) in [(WHOLE, 2_000_000), (CUT, 1_000_000)] {
        let (folder, mut connections) = (folder_in_memory(), 0);
        let url = "http://copies.example/file".parse().expect("a URL");
        let wanted = WantedFile::new(url, folder.path().join("file"), None, None);
        let accept = move || {
            connections += 1;
            assert!(connections < 500, "connections without end");
            let lines = format!("ETag: \"{}\"\r\n{lines}", connections.min(2));
            let answer = move |head: &RequestHead, answers: &mut Answers| {
                then(head, answers, &lines, &vec![0; bytes]);
            };
            // After the first, each to the other address comes behind one to the address that is gone.
            (connections % 2 == 1).then(|| Box::new(Answering(answer)) as Box<dyn FarEnd>)
        };
        let (_, errors, ..) = fetched(vec![wanted], accept, &SimulatedClock::new());
        assert!(matches!(errors[..], [TransferError::OtherCopy { .. }]), "{errors:?}");
    }
}

/// Into a folder that is gone, but for the first: each is asked for once, and nothing of them counts as there.
#[test]
fn what_the_disk_refuses_is_not_fetched_again() {
    let (folder, requests) = (folder_in_memory(), Rc::new(Cell::new(0)));
    let counted = Rc::clone(&requests);
    let wanted = (0..20).map(|number| {
        let place = if number == 0 { folder.path().join("file") } else { folder.path().join("gone/file") };
        WantedFile::new(format!("{SERVER}/{number}").parse().expect("a URL"), place, Some(3), None)
    });
    let accept = move || {
        let counted = Rc::clone(&counted);
        let answer = move |_: &RequestHead, answers: &mut Answers| {
            counted.set(counted.get() + 1);
            answers.extend([head_of(200, "Content-Length: 3\r\n"), Sent::from(b"abc".to_vec())]);
        };
        Some(Box::new(Answering(answer)) as Box<dyn FarEnd>)
    };
    let (_, errors, _, there) = fetched(wanted.collect(), accept, &SimulatedClock::new());
    assert_eq!((errors.len(), there, requests.get()), (19, 3, 20), "{:?}", errors.first());
}
