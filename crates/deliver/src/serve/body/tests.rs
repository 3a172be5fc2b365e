use super::super::{FileServerSettings, ServedTree};
use super::*;
use crate::blocks::BlockSum;
use crate::body_paths::CALL_BYTES;
use linerate_system::file::lies_in_memory;
use linerate_system::stop::Stop;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A file and a server of it alone.
struct Served {
    _place: tempfile::TempDir,
    path: std::path::PathBuf,
    tree: ServedTree,
    settings: FileServerSettings,
    stop: Stop,
}

impl Served {
    fn with(write: impl FnOnce(&File) -> io::Result<()>) -> Self {
        let place = tempfile::tempdir().expect("a folder");
        let path = place.path().join("file");
        File::create(&path).and_then(|file| write(&file)).expect("a file");
        let tree = ServedTree::open(std::slice::from_ref(&path)).expect("a tree");
        let settings = FileServerSettings { connections: 1, handshakes: 1, ..Default::default() };
        Served { _place: place, path, tree, settings, stop: Stop::new() }
    }

    /// Sends all of it over a connection; what became of that, and the bytes that arrived.
    fn send(&self, shared: &Shared<'_>, keys: Option<(u64, u64)>) -> (io::Result<Sent>, u64) {
        let (socket, client) = connected();
        let came = std::thread::spawn(move || io::copy(&mut &client, &mut io::sink()).expect("read"));
        let opened = File::open(&self.path).and_then(OpenedFile::new).expect("opened");
        let length = opened.file.metadata().expect("its length").len();
        let body = FileBody { opened: &opened, label: "file", offset: 0, length, block_bytes: None };
        let stream = match keys {
            Some((used_up, spent)) => ServedStream::with_keys_for(&socket, used_up, spent),
            None => ServedStream::plain(&socket, false),
        };
        let sent = BodySender::new(&stream, shared).send(&body, &mut Patience::default());
        socket.shutdown(std::net::Shutdown::Both).expect("ended");
        (sent, came.join().expect("read"))
    }
}

/// The client of a long file gets what its keys may encrypt, and the end of the connection.
#[test]
fn an_answer_under_spent_keys_is_cut_after_the_piece_at_hand() {
    let served = Served::with(|file| file.set_len(3 * PIECE_BYTES));
    let shared = Shared::new(&served.tree, &served.settings, &served.stop);
    let (sent, came) = served.send(&shared, Some((1 << 20, 4 << 20)));
    assert!(sent.is_err_and(|error| error.to_string().contains("keys of the connection")));
    assert_eq!(shared.tally.cut_short.load(Ordering::Relaxed), 1);
    assert_eq!(came, PIECE_BYTES);
}

/// The client asks for the sums next: all of the file would be read once more. From the page cache and past it; and for a
/// client that was waited for from the page cache again, so that it holds no ring.
#[test]
fn what_is_encrypted_is_summed_on_its_way() {
    const BLOCK_BYTES: u64 = 1 << 20;
    let content: Vec<u8> = (0..12 * BLOCK_BYTES + 5).map(|at| (at * 31 % 251) as u8).collect();
    let served = Served::with(|mut file| file.write_all(&content).and_then(|()| file.sync_all()));
    for (is_cold, is_slow) in [(false, false), (true, false), (true, true)] {
        let shared = Shared::new(&served.tree, &served.settings, &served.stop);
        let opened = File::open(&served.path).and_then(OpenedFile::new).expect("opened");
        if is_cold {
            linerate_system::file::drop_pages(&opened.file).expect("dropped");
        }
        let (socket, mut client) = connected();
        socket2::SockRef::from(&socket).set_send_buffer_size(64 << 10).expect("a buffer's size");
        let came = std::thread::spawn(move || {
            if is_slow {
                std::thread::sleep(3 * WAITED);
            }
            let mut came = Vec::new();
            client.read_to_end(&mut came).map(|_| came).expect("read")
        });
        let length = content.len() as u64;
        let body =
            FileBody { opened: &opened, label: "file", offset: 0, length, block_bytes: Some(BLOCK_BYTES) };
        let stream = ServedStream::plain(&socket, false);
        let mut sender = BodySender::new(&stream, &shared);
        let sent = sender.send_encrypted(&body, 0, length).expect("sent");
        socket.shutdown(std::net::Shutdown::Both).expect("ended");
        assert_eq!(sent, length);
        assert!(came.join().expect("read") == content);
        let expects_direct = is_cold && !is_slow && !lies_in_memory(&opened.file);
        assert_eq!(sender.paths.direct().is_ok(), expects_direct);
        for (block, bytes) in content.chunks(BLOCK_BYTES as usize).enumerate() {
            let mut sum = BlockSum::begin();
            sum.add(bytes);
            let kept = shared.sums.get(opened.id, BLOCK_BYTES, block as u64);
            assert_eq!(kept, Some(sum.end()), "block {block}");
        }
    }
}

/// It is not asked again where a file lies while it comes from the page cache, but as soon as it does not.
#[test]
fn a_file_of_which_the_rest_is_cold_is_read_past_the_page_cache_from_there() {
    const COLD_BYTES: u64 = 32 << 20;
    let block = vec![7; 1 << 20];
    let served = Served::with(|mut file| {
        (0..(PIECE_BYTES + COLD_BYTES) >> 20).try_for_each(|_| file.write_all(&block))?;
        file.sync_all()
    });
    let file = File::open(&served.path).expect("opened");
    if lies_in_memory(&file) {
        eprintln!("skipped: the temporary folder is in memory");
        return;
    }
    linerate_system::file::drop_pages(&file).expect("dropped");
    io::copy(&mut (&file).take(PIECE_BYTES), &mut io::sink()).expect("read");
    let shared = Shared::new(&served.tree, &served.settings, &served.stop);
    let (sent, came) = served.send(&shared, None);
    assert!(matches!(sent, Ok(Sent::Whole)));
    assert_eq!(came, PIECE_BYTES + COLD_BYTES);
    let from_disk = shared.tally.from_disk.load(Ordering::Relaxed);
    assert!((COLD_BYTES / 2..=COLD_BYTES).contains(&from_disk), "{from_disk}");
}

/// The client pauses while the first bytes that were not cached come: what is left of them in the pipe is not sent
/// again later.
#[test]
fn what_waits_in_the_pipe_when_the_way_of_sending_changes_is_dropped() {
    let words = (0..(8 << 20) / 8_u64).map(|word| word.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let content: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    let served = Served::with(|mut file| {
        file.write_all(&content)?;
        file.sync_all()
    });
    let opened = File::open(&served.path).and_then(OpenedFile::new).expect("opened");
    if lies_in_memory(&opened.file) {
        eprintln!("skipped: the temporary folder is in memory");
        return;
    }
    linerate_system::file::drop_pages(&opened.file).expect("dropped");
    let shared = Shared::new(&served.tree, &served.settings, &served.stop);
    let (socket, mut client) = connected();
    // Less than a call has, so that it ends short.
    socket2::SockRef::from(&socket).set_send_buffer_size(64 << 10).expect("a buffer's size");
    socket.set_write_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    let stream = ServedStream::plain(&socket, false);
    let mut sender = BodySender::new(&stream, &shared);
    let body = |offset| FileBody {
        opened: &opened,
        label: "file",
        offset,
        length: content.len() as u64 - offset,
        block_bytes: None,
    };
    // As if the piece before had been cached.
    sender.paths.begin_cached(true);
    let sent = &shared.flow.sent;
    let first = sent.active(|| sender.send_hot(&body(0), 0, content.len() as u64)).expect("sent");
    let waiting_disk = sent.figures().worker(0, 1.0, false).waiting_source;
    assert!(waiting_disk < 0.5, "{waiting_disk} of the wait for room in the socket");
    assert!((1..CALL_BYTES as u64).contains(&first), "{first}");
    assert!(!sender.paths.has_pipe_with_bytes());
    let came = std::thread::spawn(move || {
        let mut came = Vec::new();
        client.read_to_end(&mut came).map(|_| came).expect("read")
    });
    socket.set_write_timeout(None).expect("no timeout");
    assert!(matches!(sender.send(&body(first), &mut Patience::default()), Ok(Sent::Whole)));
    socket.shutdown(std::net::Shutdown::Both).expect("ended");
    assert!(came.join().expect("read") == content, "each byte once");
}

/// The server's end, and the client's.
fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
    (listener.accept().expect("accepted").0, client)
}
