//! The control channel of a wall over real TCP connections on loopback: every request, the barrier, and all
//! that a bad peer may do.

mod program;
mod strangers;

use crate::support::fake_wall::{FRAMES, Fake, all_that_is_done, now};
use linerate::agent::Key;
use linerate::wall::control::{
    Client, Conductor, ControlMessage, ControlRequest, Hub, HubSettings, News, ScreenReport, View,
};
use linerate::wall::geometry::TileId;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a loaded machine may take for anything here.
const PATIENCE: Duration = Duration::from_secs(20);
const TILE: TileId = TileId { row: 0, column: 0 };

pub fn key() -> Key {
    Key::from_hex(&"5a".repeat(32)).expect("a key")
}

fn hub(fake: &Arc<Fake>) -> Hub {
    let conductor: Arc<dyn Conductor> = fake.clone();
    let settings =
        HubSettings { listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))], page: None, key: key() };
    Hub::start(conductor, settings).expect("a hub")
}

/// A wall of so many columns and rows, and its hub.
fn served(columns: u16, rows: u16) -> (Arc<Fake>, Hub) {
    let fake = Fake::new(columns, rows);
    let hub = hub(&fake);
    (fake, hub)
}

fn client(hub: &Hub) -> Client {
    Client::connect(&hub.addresses()[0].to_string(), &key(), PATIENCE).expect("a connection")
}

/// It is told to show this tick, or a later one.
fn shown(client: &mut Client, tick: u64) {
    until(client, |message| {
        matches!(message, ControlMessage::Show { tick: shown } if shown >= tick).then_some(())
    });
}

/// The next message for which `wanted` gives something.
fn until<T>(client: &mut Client, wanted: impl Fn(ControlMessage) -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let message = client.next(Duration::from_millis(200)).expect("the connection stands");
        if let Some(found) = message.and_then(&wanted) {
            return found;
        }
    }
    panic!("it did not come within {PATIENCE:?}");
}

/// Why the server ended the connection.
fn ending(client: &mut Client) -> String {
    let deadline = Instant::now() + PATIENCE;
    let mut why = String::new();
    while Instant::now() < deadline {
        match client.next(Duration::from_millis(200)) {
            Ok(Some(ControlMessage::Refused { why: said })) => why = said,
            Ok(_) => {}
            Err(failure) => return format!("{why} / {failure}"),
        }
    }
    panic!("the connection stands after {PATIENCE:?}");
}

#[test]
fn every_request_has_its_answer() {
    let (fake, hub) = served(5, 3);
    let mut client = client(&hub);
    let asked = all_that_is_done(-0.5);
    for request in &asked {
        assert_eq!(client.ask(request, PATIENCE).expect("an answer"), ControlMessage::Done, "{request:?}");
    }
    assert_eq!(fake.asked(), asked);
    let refused = client.ask(&ControlRequest::Open { movie: "none".into() }, PATIENCE).expect("an answer");
    assert!(matches!(refused, ControlMessage::Refused { why } if why.contains("no movie")));
    let ControlMessage::Movies { movies } = client.ask(&ControlRequest::Movies, PATIENCE).expect("an answer")
    else {
        panic!("movies")
    };
    assert!(movies.iter().any(|movie| movie.name == "holiday" && movie.playing));
    let ControlMessage::Status(status) = client.ask(&ControlRequest::Status, PATIENCE).expect("an answer")
    else {
        panic!("a status")
    };
    assert_eq!((status.frames, status.movie.as_str(), status.tiles.len()), (FRAMES, "holiday", 15));
    let sums = client
        .ask(&ControlRequest::Sums { tile: TILE, from: 7, count: 1_000_000 }, PATIENCE)
        .expect("an answer");
    assert!(matches!(sums, ControlMessage::Sums { from: 7, sums, .. } if sums.len() == 4096), "bounded");
    let ControlMessage::Assignment(assignment) =
        client.ask(&ControlRequest::Join { tile: TILE }, PATIENCE).expect("an answer")
    else {
        panic!("an assignment")
    };
    assert_eq!(assignment.timeline, fake.timeline());
    let none = client
        .ask(&ControlRequest::Join { tile: TileId { row: 9, column: 0 } }, PATIENCE)
        .expect("an answer");
    assert!(matches!(none, ControlMessage::Refused { why } if why.contains("no tile r9c0")));
    client
        .send(&ControlRequest::Report(ScreenReport { frames_shown: 3, ..ScreenReport::default() }))
        .expect("sent");
    client.ask(&ControlRequest::Status, PATIENCE).expect("an answer, so the report was heard");
    assert_eq!(fake.reports()[0].tile, Some(TILE), "it is the one that joined");
    let failure =
        client.ask(&ControlRequest::Ready { tile: TILE, tick: 1 }, PATIENCE).expect_err("no answer comes");
    assert!(failure.to_string().contains("no answer"));
}

#[test]
fn changes_reach_who_watches_and_who_joined_and_nobody_else() {
    let (fake, hub) = served(2, 1);
    let (mut watcher, mut screen, mut other) = (client(&hub), client(&hub), client(&hub));
    watcher.ask(&ControlRequest::Watch { per_second: 10.0 }, PATIENCE).expect("an answer");
    screen.ask(&ControlRequest::Join { tile: TILE }, PATIENCE).expect("an answer");
    until(&mut watcher, |message| matches!(message, ControlMessage::Timeline(_)).then_some(()));
    until(&mut watcher, |message| matches!(message, ControlMessage::Status(_)).then_some(()));
    // By a request of somebody else.
    other.ask(&ControlRequest::Seek { frame: 77 }, PATIENCE).expect("an answer");
    for client in [&mut watcher, &mut screen] {
        let timeline = until(client, |message| match message {
            ControlMessage::Timeline(timeline) => Some(timeline),
            _ => None,
        });
        assert_eq!(timeline, fake.timeline());
    }
    // By the server itself.
    fake.change(|timeline| timeline.pause(now()));
    hub.notifier()(News::Timeline);
    let generation = fake.timeline().generation;
    for client in [&mut watcher, &mut screen] {
        until(client, |message| {
            matches!(message, ControlMessage::Timeline(line) if line.generation == generation).then_some(())
        });
    }
    assert_eq!(other.next(Duration::from_millis(100)).expect("it stands"), None);
    // It ends when asked to: the last ones may be on their way.
    watcher.ask(&ControlRequest::Watch { per_second: 0.0 }, PATIENCE).expect("an answer");
    while watcher.next(Duration::from_millis(300)).expect("it stands").is_some() {}
    assert_eq!(watcher.next(Duration::from_millis(300)).expect("it stands"), None);
}

#[test]
fn answers_come_in_order_whatever_comes_between() {
    let (_fake, hub) = served(1, 1);
    let mut client = client(&hub);
    client.ask(&ControlRequest::Watch { per_second: 10.0 }, PATIENCE).expect("an answer");
    for frame in 0..100 {
        client.send(&ControlRequest::Seek { frame }).expect("sent");
        if frame % 10 == 0 {
            assert!(matches!(
                client.ask(&ControlRequest::Movies, PATIENCE).expect("an answer"),
                ControlMessage::Movies { .. }
            ));
        }
    }
    let mut kept = 0;
    while let Some(message) = client.next(Duration::from_millis(0)).expect("it stands") {
        kept += usize::from(message == ControlMessage::Done);
    }
    assert!(kept >= 91, "answers to what was sent before the last question are kept: {kept}");
}

#[test]
fn the_barrier_waits_for_all_and_not_for_the_dead() {
    let (_fake, hub) = served(3, 1);
    let mut screens: Vec<Client> = (0..3).map(|_| client(&hub)).collect();
    let tile = |column: usize| TileId { row: 0, column: column as u16 };
    for (column, screen) in screens.iter_mut().enumerate() {
        screen.ask(&ControlRequest::Join { tile: tile(column) }, PATIENCE).expect("an answer");
    }
    let start = now();
    let ready = |screens: &mut [Client], tick: u64| {
        for (column, screen) in screens.iter_mut().enumerate() {
            screen.send(&ControlRequest::Ready { tile: tile(column), tick }).expect("sent");
        }
    };
    for tick in start..start + 20 {
        ready(&mut screens, tick);
        screens.iter_mut().for_each(|screen| shown(screen, tick));
    }
    // The third says nothing more, but stays connected: the others wait a moment once.
    ready(&mut screens[..2], start + 20);
    screens.iter_mut().take(2).for_each(|screen| shown(screen, start + 20));
    // Not at all afterwards: 200 ticks would take 20 s at the barrier's patience.
    let began = Instant::now();
    for tick in start + 21..start + 221 {
        ready(&mut screens[..2], tick);
        screens.iter_mut().take(2).for_each(|screen| shown(screen, tick));
    }
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    // It comes back, and is waited for; then it is gone, and is not.
    ready(&mut screens, start + 221);
    screens.iter_mut().for_each(|screen| shown(screen, start + 221));
    screens.pop();
    ready(&mut screens, start + 222);
    screens.iter_mut().for_each(|screen| shown(screen, start + 222));
    // A tick of another day.
    screens[0].send(&ControlRequest::Ready { tile: tile(0), tick: u64::MAX }).expect("sent");
    let why = ending(&mut screens[0]);
    assert!(why.contains("more than a minute"), "{why}");
    // Who has not joined has nothing to report.
    let mut stranger = client(&hub);
    stranger.send(&ControlRequest::Ready { tile: tile(1), tick: start }).expect("sent");
    assert!(ending(&mut stranger).contains("send “join” first"));
}

#[test]
fn at_the_barrier_a_server_that_follows_speaks_for_its_screens() {
    let (_fake, hub) = served(2, 1);
    let (mut screen, mut server) = (client(&hub), client(&hub));
    screen.ask(&ControlRequest::Join { tile: TILE }, PATIENCE).expect("an answer");
    server.ask(&ControlRequest::Follow { server: "right".into() }, PATIENCE).expect("an answer");
    let start = now();
    for tick in start..start + 10 {
        screen.send(&ControlRequest::Ready { tile: TILE, tick }).expect("sent");
        server.send(&ControlRequest::AllReady { tick }).expect("sent");
        shown(&mut screen, tick);
        shown(&mut server, tick);
    }
    // Its screens do not hold the next one: all wait, for a moment.
    let began = Instant::now();
    screen.send(&ControlRequest::Ready { tile: TILE, tick: start + 10 }).expect("sent");
    shown(&mut screen, start + 10);
    assert!(began.elapsed() > Duration::from_millis(80), "{:?}", began.elapsed());
    server.send(&ControlRequest::AllReady { tick: start + 10 }).expect("sent");
    shown(&mut server, start + 10);
    let mut stranger = client(&hub);
    stranger.send(&ControlRequest::AllReady { tick: start }).expect("sent");
    assert!(ending(&mut stranger).contains("send “follow” first"));
}

#[test]
fn a_hub_that_is_dropped_ends_its_connections_and_frees_its_port() {
    let fake = Fake::new(1, 1);
    let first = hub(&fake);
    let address = first.addresses()[0];
    let mut client = client(&first);
    let conductor: Arc<dyn Conductor> = fake.clone();
    let settings = HubSettings { listen: vec![address], page: None, key: key() };
    let failure = Hub::start(conductor.clone(), settings.clone()).map(drop).expect_err("taken");
    assert!(failure.to_string().contains("is in use"), "{failure}");
    drop(first);
    assert!(ending(&mut client).contains("closed the connection"));
    let again = Hub::start(conductor, settings).expect("the port is free");
    drop(again);
    assert_eq!(Arc::strong_count(&fake), 1, "nothing holds the conductor");
}
