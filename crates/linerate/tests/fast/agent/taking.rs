//! What an experiment has an agent take of its CPUs: only beside a test of its own session, never after that, and not at
//! all where the owner does not let it.

use super::running::{COUNTING, RunningAgent, until, worker_stream, workers};
use crate::support::process::threads_named;
use linerate::agent::{AgentLimits, AgentSession, AgentSettings, TakeRequest, TakenSample};
use linerate::protocol::Protocol;
use std::io::Write;
use std::net::TcpStream;

const ALL: TakeRequest = TakeRequest { slot: 1, nanos_per_second: 1e9, millis: 60_000 };

/// Threads of this process that take: each test has a process of its own.
fn takers() -> usize {
    threads_named("cpu taker", std::process::id())
}

fn taken(session: &AgentSession) -> TakenSample {
    session.take(ALL).expect("taken")
}

/// A session with a worker that receives.
fn receiving(running: &RunningAgent) -> (AgentSession, TcpStream) {
    let session = running.connect();
    let opened = session.open(workers(&[Protocol::Tcp])).expect("opened");
    let mut stream = worker_stream(&session, &opened[0]).expect("a stream");
    stream.write_all(&[7; 64 << 10]).expect("sent");
    (session, stream)
}

#[test]
fn cpus_of_a_session_s_own_streams_are_taken_from_until_its_test_or_its_client_ends() {
    let running = RunningAgent::start();
    let idle = running.connect();
    assert!(idle.hello().takes_cpu && idle.hello().boot_id.is_some());
    let text = idle.take(ALL).expect_err("no test").to_string();
    assert!(text.contains("no test is running"), "{text}");
    idle.open(workers(&[Protocol::Tcp])).expect("opened");
    assert_eq!(taken(&idle), TakenSample::default(), "nobody came to its stream");
    for killed in [false, true] {
        let (session, stream) = receiving(&running);
        until("something is taken", || {
            let now = taken(&session);
            now.cpus.len() == 1 && now.cpu_nanos > 0
        });
        assert_eq!(takers(), 1);
        if killed {
            drop(session);
        } else {
            session.close().expect("closed");
        }
        until("nothing takes", || takers() == 0);
        drop(stream);
    }
}

#[test]
fn an_owner_may_let_nothing_be_taken() {
    let settings = AgentSettings { experiments: false, ..AgentLimits::default().into() };
    let running = RunningAgent::with(settings, COUNTING, "127.0.0.1:0");
    let (session, _stream) = receiving(&running);
    assert!(!session.hello().takes_cpu);
    let text = session.take(ALL).expect_err("refused").to_string();
    assert!(text.contains("its owner lets no client take of its CPUs (--no-experiment)"), "{text}");
    assert_eq!(takers(), 0);
    session.sample().expect("the session goes on");
}
