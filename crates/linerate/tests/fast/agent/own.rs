//! The agent of our own on loopback: a second process.

use super::running::COUNTING;
use linerate::agent::{AgentSession, AgentSettings, Key, OwnAgent, serve_own, serve_own_on};
use linerate::failure::Failure;
use std::io::{self, BufRead, BufReader, Write};

fn counting() -> AgentSettings {
    AgentSettings { receivers: COUNTING, ..AgentSettings::default() }
}

/// No test by itself: the process that `OwnAgent` starts below.
#[test]
fn own_agent_process() {
    if std::env::var_os("LINERATE_TEST_OWN_AGENT").is_none() {
        return;
    }
    println!();
    let listen = ["127.0.0.1:0".parse().expect("an address")];
    serve_own(&listen, counting()).expect("served");
}

fn own_agent_command() -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "agent::own::own_agent_process", "--nocapture", "--test-threads=1"]);
    command.env("LINERATE_TEST_OWN_AGENT", "1");
    command
}

#[test]
fn an_agent_of_our_own_serves_and_goes_with_us() {
    let own = OwnAgent::start_command(own_agent_command()).expect("an agent");
    let session = AgentSession::connect(own.address(), own.key()).expect("a session");
    session.sample().expect("a sample");
    let process = std::path::PathBuf::from(format!("/proc/{}", own.process_id()));
    assert!(process.exists());
    drop(own);
    assert!(!process.exists(), "ended and waited for");
    assert!(session.sample().is_err());
}

#[test]
fn an_agent_of_our_own_that_cannot_start_says_why() {
    for program in ["/nonexistent/linerate", "/bin/false"] {
        let text = match OwnAgent::start_command(std::process::Command::new(program)) {
            Ok(_) => panic!("it started"),
            Err(failure) => failure.to_string(),
        };
        assert!(text.contains("cannot start") && text.contains("--peer"), "{text}");
    }
}

#[test]
fn an_agent_of_our_own_ends_with_its_standard_input() {
    let (input, mut to_agent) = io::pipe().expect("a pipe");
    let (from_agent, output) = io::pipe().expect("a pipe");
    let listen = ["127.0.0.1:0".parse().expect("an address")];
    let serving =
        std::thread::spawn(move || serve_own_on(BufReader::new(input), output, &listen, counting()));
    let key = Key::random().expect("a key");
    writeln!(to_agent, "{}", key.to_hex()).expect("the key");
    let mut line = String::new();
    BufReader::new(from_agent).read_line(&mut line).expect("a line");
    let address = line.trim().rsplit(' ').next().expect("a word").parse().expect("an address");
    AgentSession::connect(address, &key).expect("a session");
    drop(to_agent);
    serving.join().expect("the agent ends").expect("without a failure");

    let refused = serve_own_on(&b"no key\n"[..], io::sink(), &listen, counting());
    assert!(matches!(refused, Err(Failure::Usage(text)) if text.contains("standard input")));
}
