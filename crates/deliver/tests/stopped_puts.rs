//! Clients that begin to put files and stop: they cost no disk, little memory and few threads, and others are served
//! beside them.

use linerate_deliver::serve::{BearerToken, FileServer, FileServerSettings, ServedTree};
use linerate_facts::room::StorageLimits;
use linerate_system::stop::Stop;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

const TOKEN: &str = "0123456789abcdef0123";
/// Of a PUT that never comes whole.
const LARGE: u64 = 66_060_288;
/// Generous: the machine that tests may be busy.
const PATIENCE: Duration = Duration::from_secs(60);
/// Far below what clients waited for where others held all threads.
const HONEST_WAIT: Duration = Duration::from_secs(5);
/// Keeps nothing free, so that the tests run on any disk.
const ALL: StorageLimits = StorageLimits { keep_bytes: Some(0), limit_bytes: None };

/// A server in this process, and the folder that it serves.
struct Place {
    address: SocketAddr,
    folder: PathBuf,
}

impl Place {
    /// A connection from one of eight addresses that has sent these bytes.
    fn send(&self, number: usize, bytes: &[u8]) -> TcpStream {
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
        let own = Ipv4Addr::new(127, 0, 0, 1 + (number % 8) as u8);
        socket.bind(&SocketAddr::from((own, 0)).into()).expect("an address of its own");
        socket.connect(&self.address.into()).expect("connected");
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        // It may be refused before all of it is sent.
        let _ = stream.write_all(bytes);
        stream
    }

    /// The status of the answer.
    fn status(&self, head: &str, body: &[u8]) -> u16 {
        let mut answer = Vec::new();
        let mut stream = self.send(0, &[head.as_bytes(), body].concat());
        let _ = stream.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer);
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        status.unwrap_or_else(|| panic!("no answer: {text}"))
    }

    fn put(&self, target: &str, body: &[u8]) -> u16 {
        self.status(&head(target, body.len() as u64, "Connection: close\r\n"), body)
    }

    /// How long a client waits for the one file that is there.
    fn honest_get(&self) -> Duration {
        let begun = Instant::now();
        let lines = format!("Authorization: Bearer {TOKEN}\r\nConnection: close\r\n");
        assert_eq!(self.status(&format!("GET /file HTTP/1.1\r\nHost: h\r\n{lines}\r\n"), b""), 200);
        begun.elapsed()
    }

    /// How long a client needs that tries again where it is asked to.
    fn honest_put(&self, target: &str) -> Duration {
        let begun = Instant::now();
        loop {
            match self.put(target, b"honest") {
                201 => return begun.elapsed(),
                status => assert_eq!(status, 503),
            }
            assert!(begun.elapsed() < PATIENCE, "it is never taken");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.folder).expect("a list").flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// A client that sends this and leaves once the server takes it: its part goes.
    fn starts_and_leaves(&self, name: &str, bytes: &[u8]) {
        let stream = self.send(0, bytes);
        until("the part is there", || self.part(name).exists());
        drop(stream);
        until("the part is gone", || !self.part(name).exists());
    }

    fn part(&self, name: &str) -> PathBuf {
        self.folder.join(format!(".{name}.linerate-part"))
    }
}

fn head(target: &str, length: u64, lines: &str) -> String {
    format!(
        "PUT {target} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {length}\r\n{lines}\r\n"
    )
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Of /proc/self/status: this process, in which the server is.
fn status(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("readable");
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    value.and_then(|value| value.split_whitespace().next()?.parse().ok()).expect("a number")
}

/// The tests count what this process has: one after another.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with_server(limits: StorageLimits, check: impl FnOnce(&Place)) {
    with_prepared(limits, |_| {}, check);
}

fn with_prepared(limits: StorageLimits, prepare: impl FnOnce(&Path), check: impl FnOnce(&Place)) {
    let _alone = alone();
    let place = tempfile::tempdir().expect("a folder");
    let (folder, token) = (place.path().join("data"), place.path().join("token"));
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("file"), "inside").expect("written");
    std::fs::write(&token, TOKEN).expect("written");
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).expect("a mode");
    prepare(&folder);
    let (token, writable) = (Some(BearerToken::read(&token).expect("a token")), Some(limits));
    let settings =
        FileServerSettings { connections: 4000, handshakes: 64, token, writable, ..Default::default() };
    let tree = ServedTree::open(std::slice::from_ref(&folder)).expect("a tree");
    let server =
        FileServer::bind(&["127.0.0.1:0".parse().expect("an address")], tree, settings).expect("a server");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, server.local_addresses()[0].port()));
    let stop = Stop::new();
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.serve(&stop, &mut |_| {}));
        let checked =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&Place { address, folder })));
        stop.end();
        serving.join().expect("the server");
        checked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[test]
fn a_put_that_stops_reserves_no_more_than_came_and_a_start_without_bytes_leaves_no_file() {
    with_server(ALL, |place| {
        // Nothing came.
        place.starts_and_leaves("none", head("/none?linerate=hold&from=0", LARGE, "").as_bytes());
        // 200 bytes came, which its client goes on with.
        let part = place.part("some");
        let start = [head("/some?linerate=hold&from=0", LARGE, "").as_bytes(), &[7; 200]].concat();
        drop(place.send(0, &start));
        until("the part is there", || part.metadata().is_ok_and(|part| part.len() == 200));
        until("what was reserved is free", || {
            part.metadata().is_ok_and(|part| part.blocks() * 512 <= 64 << 10)
        });
        // As long as it comes, as much again is reserved at most, and a little.
        let came = 3 << 20;
        let body = vec![7; came - 200];
        let stream =
            place.send(0, &[head("/some?linerate=hold&from=200", LARGE, "").as_bytes(), &body].concat());
        until("3 MiB are there", || {
            part.metadata().is_ok_and(|part| part.len() >= came as u64 - (256 << 10))
        });
        let reserved = part.metadata().expect("there").blocks() * 512;
        assert!(reserved <= 2 * came as u64 + (1 << 20), "{reserved}");
        drop(stream);
        let is_as_long = |part: std::fs::Metadata| part.blocks() * 512 <= part.len() + (64 << 10);
        until("what was reserved is free", || part.metadata().is_ok_and(is_as_long));
        // Of a client that does not go on nothing stays.
        place.starts_and_leaves("other", &[head("/other", LARGE, "").as_bytes(), &[7; 200]].concat());
        assert_eq!(place.names(), [".some.linerate-part", "file"]);
    });
}

#[test]
fn four_hundred_half_sent_puts_cost_little_and_others_are_served_beside_them() {
    with_server(ALL, |place| {
        let before = status("VmRSS");
        let mut clients: Vec<TcpStream> = (0..400)
            .map(|number| {
                let target = format!("/x{number}?linerate=hold&from=0");
                place.send(number, head(&target, LARGE, "").as_bytes())
            })
            .collect();
        // What they send, as far as the server takes it: none of them waits.
        for client in &mut clients {
            client.set_nonblocking(true).expect("set");
            let _ = client.write(&[7; 1 << 20]);
        }
        let gets: Vec<Duration> = (0..5).map(|_| place.honest_get()).collect();
        let (threads, resident) = (status("Threads"), status("VmRSS").saturating_sub(before) / 1024);
        let put = place.honest_put("/honest");
        let most = *gets.iter().max().expect("some");
        println!("GET {most:?}, PUT {put:?}, {threads} threads, {resident} MiB more");
        assert!(most < HONEST_WAIT && put < HONEST_WAIT, "GET {most:?}, PUT {put:?}");
        // 64 that move bytes, 128 whose client puts a file, and the server's and the test's own.
        assert!(threads <= 210, "{threads} threads");
        assert!(resident <= 100, "{resident} MiB");
        drop(clients);
        until("all are over", || status("Threads") <= 80);
        assert_eq!(place.put("/more", b"more"), 201);
    });
}

/// A file that came whole waits for its sum, as long as its client likes to be idle.
#[test]
fn files_that_wait_for_their_sums_do_not_take_the_threads_of_others() {
    with_server(ALL, |place| {
        let mut clients: Vec<TcpStream> = (0..120)
            .map(|number| {
                let start = head(&format!("/x{number}?linerate=hold"), 3, "") + "abc";
                place.send(number, start.as_bytes())
            })
            .collect();
        for client in &mut clients {
            let mut answer = [0; 12];
            client.read_exact(&mut answer).expect("an answer");
            assert_eq!(&answer, b"HTTP/1.1 202");
        }
        let get = place.honest_get();
        println!("GET {get:?}");
        assert!(get < HONEST_WAIT, "{get:?}");
        drop(clients);
        until("they are gone", || place.names() == ["file"]);
    });
}

#[test]
fn the_owner_says_what_stays_free_and_how_much_is_taken() {
    let keeps = |keep_bytes| StorageLimits { keep_bytes, limit_bytes: None };
    with_server(keeps(Some(1 << 60)), |place| {
        assert_eq!((place.put("/x", b"abc"), place.names()), (507, vec!["file".to_string()]));
    });
    let limit = StorageLimits { limit_bytes: Some(1 << 20), ..ALL };
    with_server(limit, |place| {
        let (large, half) = (vec![7; 700 << 10], vec![7; 300 << 10]);
        let length = large.len() as u64;
        // What did not come whole and what differs count no more.
        place.starts_and_leaves("left", &[head("/left", length, "").as_bytes(), &half].concat());
        let digest = "Repr-Digest: sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:\r\n";
        let wrong = head("/x", length, &format!("{digest}Connection: close\r\n"));
        assert_eq!(place.status(&wrong, &large), 422);
        assert_eq!((place.put("/x", &large), place.put("/y", &large)), (201, 507));
        assert_eq!((place.put("/y", &half), place.put("/z", &half)), (201, 507));
        // What its client goes on with does, as far as it came.
        let part = place.part("z");
        drop(place.send(0, (head("/z?linerate=hold&from=0", 20 << 10, "") + "abc").as_bytes()));
        until("its bytes are there", || part.metadata().is_ok_and(|part| part.len() == 3));
        until("the rest is free", || place.put("/small", &[7; 20 << 10]) == 201);
        assert_eq!(place.names(), [".z.linerate-part", "file", "small", "x", "y"]);
    });
}

#[test]
fn parts_of_more_than_a_day_go_at_the_start() {
    let hour = Duration::from_secs(3600);
    let prepare = |folder: &Path| {
        std::fs::create_dir_all(folder.join("a/b")).expect("folders");
        for (name, hours) in [
            (".old.linerate-part", 25),
            ("a/b/.old.linerate-journal", 25),
            (".new.linerate-part", 23),
            ("old.linerate-part", 25),
            ("old", 25),
        ] {
            let file = std::fs::File::create(folder.join(name)).expect("a file");
            file.set_modified(SystemTime::now() - hour * hours).expect("a time");
        }
    };
    with_prepared(ALL, prepare, |place| {
        until("the old part is gone", || !place.part("old").exists());
        until("the old journal is gone", || !place.folder.join("a/b/.old.linerate-journal").exists());
        assert_eq!(place.names(), [".new.linerate-part", "a", "file", "old", "old.linerate-part"]);
        assert!(place.folder.join("a/b").is_dir());
    });
}
