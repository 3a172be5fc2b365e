//! A sink's disk that takes long to keep what was written, or cannot: the client hears it.

use super::running::{COUNTING, RunningAgent, sample_when, until, workers};
use linerate::agent::{AgentLimits, AgentSession, AgentSettings, OpenRequest, Receivers, SinkRequest};
use linerate::flow::receive::Terms;
use linerate::flow::sink::{SinkFolder, SinkSettings};
use linerate::flow::store::StoreFile;
use linerate::flow::stream::StreamCounters;
use linerate::protocol::Protocol;
use linerate_facts::room::StorageLimits;
use linerate_system::stop::Stop;
use std::io;
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Longer than a test may take to end when it is closed.
const SYNC: Duration = Duration::from_millis(2500);

/// Has taken something, and waits for its end.
fn until_settled(into: &StoreFile, received: &StreamCounters, stop: &Stop) {
    received.progress.add(1);
    while !stop.is_ended() && !into.settles.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn keeps_slowly(
    _: Option<TcpStream>,
    into: &StoreFile,
    _: &Terms,
    received: &StreamCounters,
    stop: &Stop,
) -> io::Result<()> {
    until_settled(into, received, stop);
    std::thread::sleep(SYNC);
    received.sync_nanos.store(SYNC.as_nanos() as u64, Ordering::Relaxed);
    Ok(())
}

fn keeps_nothing(
    _: Option<TcpStream>,
    into: &StoreFile,
    _: &Terms,
    received: &StreamCounters,
    stop: &Stop,
) -> io::Result<()> {
    until_settled(into, received, stop);
    Err(io::Error::other(format!("the fsync of {} failed", into.name)))
}

/// An agent that stores in a folder, and a test in which it writes alone.
fn writing(receivers: Receivers, check: impl FnOnce(&RunningAgent, &AgentSession)) {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = SinkSettings {
        directory: folder.path().to_path_buf(),
        limits: StorageLimits { keep_bytes: Some(0), limit_bytes: Some(64 << 20) },
        disk: None,
    };
    let sink = Some(SinkFolder::open(settings).expect("a sink"));
    let settings = AgentSettings { sink, ..AgentLimits::default().into() };
    let running = RunningAgent::with(settings, receivers, "127.0.0.1:0");
    let session = running.connect();
    let request = OpenRequest { sink: Some(SinkRequest::WriteAlone), ..workers(&[Protocol::Tcp]) };
    session.open(request).expect("opened");
    sample_when(&session, |sample| sample.streams[0].bytes > 0);
    check(&running, &session);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a list").count(), 0);
}

#[test]
fn a_slow_fsync_is_waited_for_and_its_seconds_arrive() {
    writing(Receivers { store: keeps_slowly, ..COUNTING }, |_, session| {
        let began = Instant::now();
        let early = session.settle(Duration::ZERO).expect("an answer at once");
        assert!(!early.streams[0].ended && began.elapsed() < SYNC);
        let kept = session.settle(Duration::from_secs(20)).expect("kept");
        let worker = &kept.streams[0];
        assert!(worker.ended && worker.error.is_none(), "{worker:?}");
        assert_eq!(worker.sync_nanos, SYNC.as_nanos() as u64);
        assert_eq!(session.close().expect("closed").streams[0].sync_nanos, worker.sync_nanos);
    });
}

#[test]
fn the_error_of_an_fsync_arrives_with_the_end_of_its_worker() {
    writing(Receivers { store: keeps_nothing, ..COUNTING }, |_, session| {
        session.settle(Duration::ZERO).expect("an answer");
        let sample = sample_when(session, |sample| sample.streams[0].ended);
        let why = sample.streams[0].error.clone().expect("why");
        assert!(why.starts_with("the fsync of the sink /") && why.ends_with(" failed"), "{why}");
    });
}

#[test]
fn a_client_that_does_not_wait_leaves_the_agent_usable() {
    writing(Receivers { store: keeps_slowly, ..COUNTING }, |running, session| {
        let last = session.close().expect("closed in time");
        assert!(!last.streams[0].ended, "its disk is not done");
        until("the end of the disk's work", || running.agent.load().1 == 0);
        let request = OpenRequest { sink: Some(SinkRequest::Receive), ..workers(&[Protocol::Tcp]) };
        session.open(request).expect("its room is free again");
        // Nobody came with the token.
        assert!(session.settle(Duration::from_secs(20)).expect("an answer").streams[0].ended);
    });
}
