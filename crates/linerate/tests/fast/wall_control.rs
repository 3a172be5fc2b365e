//! The control channel of a wall over real TCP connections on loopback: every request, the barrier, and all
//! that a bad peer may do.

use crate::support::fake_wall::{FRAMES, Fake, now};
use linerate::agent::Key;
use linerate::wall::control::{
    Client, Conductor, ControlMessage, ControlRequest, Hub, HubSettings, News, ScreenReport, View,
};
use linerate::wall::geometry::TileId;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a loaded machine may take for anything here.
const PATIENCE: Duration = Duration::from_secs(20);
const TILE: TileId = TileId { row: 0, column: 0 };

fn key() -> Key {
    Key::from_hex(&"5a".repeat(32)).expect("a key")
}

fn hub(fake: &Arc<Fake>) -> Hub {
    let conductor: Arc<dyn Conductor> = fake.clone();
    let settings =
        HubSettings { listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))], page: None, key: key() };
    Hub::start(conductor, settings).expect("a hub")
}

fn client(hub: &Hub) -> Client {
    Client::connect(&hub.addresses()[0].to_string(), &key(), PATIENCE).expect("a connection")
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
    let fake = Fake::new(5, 3);
    let hub = hub(&fake);
    let mut client = client(&hub);
    let asked = [
        ControlRequest::Pause,
        ControlRequest::Play,
        ControlRequest::Seek { frame: 100 },
        ControlRequest::Speed { speed: -0.5 },
        ControlRequest::Loop { on: false },
        ControlRequest::View(View { left: 1.0, top: 2.0, zoom: 0.5 }),
        ControlRequest::Pan { right: 10.0, down: -5.0, zoom: 1.1 },
        ControlRequest::Open { movie: "holiday".into() },
    ];
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
    let fake = Fake::new(2, 1);
    let hub = hub(&fake);
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
    hub.teller()(News::Timeline);
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
    let fake = Fake::new(1, 1);
    let hub = hub(&fake);
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
    let fake = Fake::new(3, 1);
    let hub = hub(&fake);
    let mut screens: Vec<Client> = (0..3).map(|_| client(&hub)).collect();
    let tile = |column: usize| TileId { row: 0, column: column as u16 };
    for (column, screen) in screens.iter_mut().enumerate() {
        screen.ask(&ControlRequest::Join { tile: tile(column) }, PATIENCE).expect("an answer");
    }
    let shown = |client: &mut Client, tick: u64| {
        until(client, |message| {
            matches!(message, ControlMessage::Show { tick: shown } if shown >= tick).then_some(())
        });
    };
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
    let fake = Fake::new(2, 1);
    let hub = hub(&fake);
    let (mut screen, mut server) = (client(&hub), client(&hub));
    screen.ask(&ControlRequest::Join { tile: TILE }, PATIENCE).expect("an answer");
    server.ask(&ControlRequest::Follow { server: "right".into() }, PATIENCE).expect("an answer");
    let shown = |client: &mut Client, tick: u64| {
        until(client, |message| {
            matches!(message, ControlMessage::Show { tick: shown } if shown >= tick).then_some(())
        });
    };
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
fn another_key_gets_no_byte_and_is_refused_here() {
    let fake = Fake::new(1, 1);
    let hub = hub(&fake);
    let other = Key::from_hex(&"5b".repeat(32)).expect("a key");
    let failure =
        Client::connect(&hub.addresses()[0].to_string(), &other, PATIENCE).map(drop).expect_err("refused");
    assert!(failure.to_string().contains("another key"), "{failure}");
    // The agent's channel under the same key is none of our own, and the other way round.
    let mut agents = TcpStream::connect(hub.addresses()[0]).expect("a connection");
    agents.write_all(b"LRc1").expect("sent");
    agents.write_all(&[0; 50]).expect("sent");
    let mut answer = Vec::new();
    agents.read_to_end(&mut answer).ok();
    assert_eq!(answer, b"");
    // Another version is told ours, and nothing else.
    let mut newer = TcpStream::connect(hub.addresses()[0]).expect("a connection");
    newer.write_all(b"LRw9").expect("sent");
    newer.read_to_end(&mut answer).ok();
    assert_eq!(answer, b"LRw1");
    // What answers there is none of our own.
    let foreign = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = foreign.local_addr().expect("an address").to_string();
    let web = std::thread::spawn(move || {
        let (mut stream, _) = foreign.accept().expect("a connection");
        stream.write_all(&[b'x'; 100]).ok();
        std::io::copy(&mut stream, &mut std::io::sink()).ok();
    });
    let failure = Client::connect(&address, &key(), PATIENCE).map(drop).expect_err("refused");
    assert!(failure.to_string().contains("no server of a wall"), "{failure}");
    web.join().expect("it ends");
    let failure = Client::connect(&address, &key(), PATIENCE).map(drop).expect_err("nobody is there");
    assert!(failure.to_string().contains("nothing listens"), "{failure}");
}

#[test]
fn a_silent_unknown_client_and_garbage_are_closed_without_a_byte() {
    let fake = Fake::new(1, 1);
    let hub = hub(&fake);
    let strangers: Vec<TcpStream> =
        [&b""[..], b"L", b"GET / HTTP/1.1\r\n\r\n", &[0xff; 4096], b"LRw1", b"LRw1\0\x30garbage"]
            .iter()
            .map(|bytes| {
                let mut stream = TcpStream::connect(hub.addresses()[0]).expect("a connection");
                stream.write_all(bytes).ok();
                stream
            })
            .collect();
    let mut client = client(&hub);
    for mut stream in strangers {
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let mut answer = Vec::new();
        // A reset is an end as well.
        if let Err(error) = stream.read_to_end(&mut answer) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
        assert_eq!(answer, b"");
    }
    client.ask(&ControlRequest::Status, PATIENCE).expect("the others go on");
}

#[test]
fn what_is_not_understood_is_refused_and_too_much_is_closed() {
    let fake = Fake::new(1, 1);
    let hub = hub(&fake);
    let mut client = client(&hub);
    let odd = client.ask(&ControlRequest::Speed { speed: f64::NAN }, PATIENCE).expect("an answer");
    assert!(
        matches!(odd, ControlMessage::Refused { why } if why.contains("not understood")),
        "JSON has no NaN"
    );
    client.ask(&ControlRequest::Play, PATIENCE).expect("the connection goes on");
    // Beyond 64 KiB it is no request.
    client.send(&ControlRequest::Open { movie: "x".repeat(70_000) }).expect("sent");
    let why = ending(&mut client);
    assert!(why.contains("closed") || why.contains("lost"), "{why}");
    assert!(!fake.asked().iter().any(|request| matches!(request, ControlRequest::Open { .. })));
}

#[test]
fn a_flooder_is_closed_with_a_sentence_and_a_joystick_beside_it_is_not_disturbed() {
    let fake = Fake::new(1, 1);
    let hub = hub(&fake);
    let (mut flooder, mut joystick) = (client(&hub), client(&hub));
    let flood = std::thread::spawn(move || {
        for _ in 0..200_000 {
            if let Err(failure) = flooder.send(&ControlRequest::Pan { right: 1.0, down: 0.0, zoom: 1.0 }) {
                return failure.to_string();
            }
            // It reads what it is told.
            loop {
                match flooder.next(Duration::ZERO) {
                    Ok(Some(ControlMessage::Refused { why })) => return why,
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(failure) => return failure.to_string(),
                }
            }
        }
        "it was never closed".to_string()
    });
    for _ in 0..120 {
        let answer = joystick
            .ask(&ControlRequest::Pan { right: 0.0, down: 1.0, zoom: 1.0 }, PATIENCE)
            .expect("an answer");
        assert_eq!(answer, ControlMessage::Done);
        std::thread::sleep(Duration::from_millis(10));
    }
    let why = flood.join().expect("it ends");
    assert!(why.contains("too many requests"), "{why}");
    let of_flooder =
        fake.asked().iter().filter(|asked| matches!(asked, ControlRequest::Pan { right: 1.0, .. })).count();
    assert!((600..20_000).contains(&of_flooder), "{of_flooder}");
}

#[test]
fn who_asks_and_does_not_read_is_closed_and_the_hub_keeps_little() {
    let fake = Fake::new(60, 60);
    let hub = hub(&fake);
    let mut deaf = client(&hub);
    let mut other = client(&hub);
    // A status of 3,600 tiles is two megabytes: a few of them fill the sockets' buffers, then the queue.
    let began = Instant::now();
    let mut failed = None;
    while failed.is_none() && began.elapsed() < PATIENCE {
        failed = deaf.send(&ControlRequest::Status).err();
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(failed.is_some(), "it was never closed");
    assert_eq!(other.ask(&ControlRequest::Play, PATIENCE).expect("an answer"), ControlMessage::Done);
}

#[test]
fn one_origin_takes_half_of_the_places() {
    let fake = Fake::new(1, 1);
    let hub = hub(&fake);
    // 64 and two for the tile; half of it.
    let mut clients: Vec<Client> = (0..33).map(|_| client(&hub)).collect();
    let mut last = client(&hub);
    let refused = last.ask(&ControlRequest::Status, PATIENCE);
    let why = match refused {
        Ok(ControlMessage::Refused { why }) => why,
        Ok(other) => panic!("{other:?}"),
        Err(failure) => failure.to_string(),
    };
    assert!(why.contains("too many connections"), "{why}");
    for client in &mut clients {
        client.ask(&ControlRequest::Play, PATIENCE).expect("those that are there stay");
    }
    drop(clients);
    // Their places come back.
    let deadline = Instant::now() + PATIENCE;
    while !matches!(client(&hub).ask(&ControlRequest::Play, PATIENCE), Ok(ControlMessage::Done)) {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A connection from an address of 127.0.0.0/8.
fn connect_from(origin: [u8; 4], address: std::net::SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.bind(&std::net::SocketAddr::from((origin, 0)).into()).expect("bound");
    socket.connect(&address.into()).expect("a connection");
    socket.into()
}

#[test]
fn a_flood_from_several_origins_keeps_no_owner_out() {
    let fake = Fake::new(1, 1);
    let hub = hub(&fake);
    let silent: Vec<TcpStream> =
        (0..200).map(|number| connect_from([127, 0, 0, 2 + number % 3], hub.addresses()[0])).collect();
    // All of them are pending, or were crowded out, when this one comes from an origin of its own.
    let mut owner = client(&hub);
    assert_eq!(owner.ask(&ControlRequest::Play, PATIENCE).expect("an answer"), ControlMessage::Done);
    drop(silent);
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

mod program {
    //! `linerate wall control`.

    use super::*;
    use std::process::{Output, Stdio};

    fn control(hub: &Hub, arguments: &[&str], input: Option<&str>) -> Output {
        let mut child = crate::support::linerate()
            .args(["wall", "control", "--server", &hub.addresses()[0].to_string()])
            .args(arguments)
            .env("LINERATE_KEY", key().to_hex())
            .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
            stdin.write_all(input.as_bytes()).expect("its input");
        }
        child.wait_with_output().expect("the program ends")
    }

    fn text(bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).into_owned()
    }

    #[test]
    fn every_verb_does_what_it_says() {
        let fake = Fake::new(5, 3);
        let hub = hub(&fake);
        let verbs: [(&[&str], ControlRequest); 8] = [
            (&["pause"], ControlRequest::Pause),
            (&["play"], ControlRequest::Play),
            (&["seek", "99"], ControlRequest::Seek { frame: 99 }),
            (&["speed", "-0.5"], ControlRequest::Speed { speed: -0.5 }),
            (&["loop", "off"], ControlRequest::Loop { on: false }),
            (&["loop", "on"], ControlRequest::Loop { on: true }),
            (&["view", "-10,20,1.5"], ControlRequest::View(View { left: -10.0, top: 20.0, zoom: 1.5 })),
            (&["open", "holiday"], ControlRequest::Open { movie: "holiday".into() }),
        ];
        for (arguments, request) in verbs {
            let output = control(&hub, arguments, None);
            assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
            assert_eq!(fake.asked().last(), Some(&request));
        }
        fake.trouble(true);
        let status = text(&control(&hub, &["status"], None).stdout);
        for expected in [
            "of 2880, 24 frames/s",
            "eth3",
            "no carrier",
            "10.0.2.14:5004",
            "1824",
            "limited by: eth3",
            "no power meter",
        ] {
            assert!(status.contains(expected), "{expected}:\n{status}");
        }
        fake.odd_names();
        // The hub gives the same status to all who ask within 40 ms.
        std::thread::sleep(Duration::from_millis(200));
        let odd = text(&control(&hub, &["status"], None).stdout);
        assert!(odd.contains("<img") && !odd.contains('\u{202e}'), "{odd}");
        let json = text(&control(&hub, &["status", "--json"], None).stdout);
        assert!(matches!(serde_json::from_str(&json), Ok(ControlMessage::Status(_))), "{json}");
        let movies = text(&control(&hub, &["movies"], None).stdout);
        assert!(movies.contains("  holiday  12800x4800 pixels, 2880 frames at 24 frames/s"), "{movies}");
        let refused = control(&hub, &["open", "none"], None);
        assert_eq!((refused.status.code(), refused.stdout.len()), (Some(3), 0));
        assert!(text(&refused.stderr).contains("the server says: there is no movie"));
    }

    #[test]
    fn lines_go_in_and_lines_come_out() {
        let fake = Fake::new(1, 1);
        let hub = hub(&fake);
        let input = "{\"do\":\"pan\",\"right\":1,\"down\":0,\"zoom\":1}\n\n{\"do\":\"fly\"}\n{\"do\":\"movies\"}\n{\"do\":\"status\"}\n";
        let output = control(&hub, &[], Some(input));
        assert!(output.status.success(), "{}", text(&output.stderr));
        let told: Vec<ControlMessage> =
            text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("a message")).collect();
        let count =
            |wanted: fn(&ControlMessage) -> bool| told.iter().filter(|message| wanted(message)).count();
        assert_eq!(told.len(), 4, "{told:?}");
        assert_eq!(count(|message| matches!(message, ControlMessage::Done)), 1);
        assert_eq!(
            count(|message| matches!(message, ControlMessage::Refused { why } if why.contains("fly"))),
            1
        );
        assert_eq!(
            count(|message| matches!(message, ControlMessage::Movies { .. } | ControlMessage::Status(_))),
            2
        );
        assert_eq!(fake.asked(), [ControlRequest::Pan { right: 1.0, down: 0.0, zoom: 1.0 }]);
    }

    #[test]
    fn wrong_words_and_a_wrong_key_are_reported() {
        let fake = Fake::new(1, 1);
        let hub = hub(&fake);
        for (arguments, status) in
            [(&["seek", "-1"][..], 2), (&["view", "1,2"], 2), (&["--server", "a b", "play"], 2)]
        {
            assert_eq!(control(&hub, arguments, None).status.code(), Some(status), "{arguments:?}");
        }
        let output = crate::support::linerate()
            .args(["wall", "control", "play"])
            .env_remove("LINERATE_KEY")
            .output()
            .expect("the program");
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("--key-file"));
        let output = crate::support::linerate()
            .args(["wall", "control", "--server", &hub.addresses()[0].to_string(), "play"])
            .env("LINERATE_KEY", "5b".repeat(32))
            .output()
            .expect("the program");
        assert_eq!(output.status.code(), Some(3));
        assert!(text(&output.stderr).contains("another key"), "{}", text(&output.stderr));
        assert!(fake.asked().is_empty());
    }
}
