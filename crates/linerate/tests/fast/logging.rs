//! `LINERATE_LOG` and `--log FILE`: what is in a log, what is never in it, and nonsense.

use crate::agent::running::{token, worker_stream, workers};
use crate::support::agent::StartedAgent;
use crate::support::process::Ends;
use crate::support::{linerate, text as word};
use linerate::agent::{AgentSession, Key};
use linerate::protocol::Protocol;
use std::io::{Read, Write};
use std::net::TcpStream;

#[test]
fn a_log_has_connections_and_refusals_and_no_secret() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let mut begin = linerate();
    begin.env("LINERATE_LOG", "trace");
    let agent = StartedAgent::of(begin, "127.0.0.1:0", &["--log", word(&log)]);
    let (key, _) = Key::find_or_make(Some(&agent.key_file())).expect("a key");
    let session = AgentSession::connect(agent.address, &key).expect("a session");
    let opened = session.open(workers(&[Protocol::Tcp])).expect("a test");
    drop(worker_stream(&session, &opened[0]).expect("a stream"));
    let other = Key::random().expect("a key");
    AgentSession::connect(agent.address, &other).map(drop).expect_err("another key");
    let mut garbage = TcpStream::connect(agent.address).expect("a connection");
    garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
    let _ = garbage.read_to_end(&mut Vec::new());
    drop(session);
    drop(agent);
    let text = std::fs::read_to_string(&log).expect("the log");
    let all = "INFO  linerate::cli::commands: linerate starts|session begins client=127.0.0.1|\
                   test requested|data connection admitted|control connection refused";
    for expected in all.split('|') {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let token: String = token(&opened[0]).iter().map(|byte| format!("{byte:02x}")).collect();
    for secret in [key.to_hex(), other.to_hex(), token] {
        // Not in parts either.
        for part in [&secret[..16], &secret[48..]] {
            assert!(!text.contains(part), "a secret is in the log: {text}");
        }
    }
}

#[test]
fn nonsense_is_one_sentence_and_silence_is_the_default() {
    for nonsense in ["loud", "debug,", "kernel=debug", "7"] {
        let told = linerate().env("LINERATE_LOG", nonsense).args(["plan", "rates", "--help"]).ended();
        assert!(told.status.success(), "help needs no log");
        let told = linerate().env("LINERATE_LOG", nonsense).args(["plan", "rates"]).ended();
        let text = &told.stderr;
        assert_eq!((told.status.code(), text.lines().count()), (Some(2), 1), "{text}");
        assert!(text.contains("LINERATE_LOG") && told.stdout.is_empty(), "{text}");
    }
    let quiet = linerate().args(["plan", "rates"]).ended();
    assert!(quiet.status.success() && quiet.stderr.is_empty() && !quiet.stdout.is_empty());
    let loud = linerate().env("LINERATE_LOG", "info").args(["plan", "rates"]).ended();
    let text = &loud.stderr;
    assert!(text.contains("linerate starts") && text.contains("linerate ends status=0"), "{text}");
    assert_eq!(loud.stdout, quiet.stdout, "the product is not mixed with the log");
}

#[test]
fn a_log_file_is_added_to_and_one_that_cannot_be_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    for _ in 0..2 {
        let told = linerate().args(["plan", "rates"]).arg("--log").arg(&log).ended();
        assert!(told.status.success() && told.stderr.is_empty());
    }
    let text = std::fs::read_to_string(&log).expect("the log");
    assert_eq!(text.matches("linerate starts").count(), 2, "{text}");
    let told = linerate().args(["plan", "rates"]).arg("--log").arg(folder.path()).ended();
    let text = &told.stderr;
    assert!(told.status.code() == Some(3) && text.contains("--log") && text.contains("name a file"));
}
