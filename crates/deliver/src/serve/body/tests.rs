use super::super::{FileServerSettings, ServedTree};
use super::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;

/// A file and a server of it alone.
struct Served {
    _place: tempfile::TempDir,
    path: std::path::PathBuf,
    tree: ServedTree,
    settings: FileServerSettings,
    stop: AtomicBool,
}

impl Served {
    fn with(write: impl FnOnce(&File) -> io::Result<()>) -> Self {
        let place = tempfile::tempdir().expect("a folder");
        let path = place.path().join("file");
        File::create(&path).and_then(|file| write(&file)).expect("a file");
        let tree = ServedTree::open(std::slice::from_ref(&path)).expect("a tree");
        let settings = FileServerSettings {
            connections: 1,
            bytes_per_second: None,
            token: None,
            writable: false,
            tls: None,
            disks: Default::default(),
        };
        Served { _place: place, path, tree, settings, stop: AtomicBool::new(false) }
    }

    /// Sends all of it over a connection; what became of that, and the bytes that arrived.
    fn send(&self, shared: &Shared<'_>, keys: Option<(u64, u64)>) -> (io::Result<Sent>, u64) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let socket = listener.accept().expect("accepted").0;
        let came = std::thread::spawn(move || io::copy(&mut &client, &mut io::sink()).expect("read"));
        let opened = File::open(&self.path).and_then(OpenedFile::new).expect("opened");
        let length = opened.file.metadata().expect("its length").len();
        let body = FileBody {
            opened: &opened,
            label: "file",
            open_direct: &|| self.tree.open_file(&[b"file".to_vec()], true),
            offset: 0,
            length,
            block_bytes: None,
        };
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

/// What waits in a pipe when the way of sending changes is never sent twice, nor in another answer.
#[test]
fn a_client_that_pauses_gets_each_byte_once_whichever_way_it_comes() {
    const COLD_BYTES: u64 = 24 << 20;
    let words = (0..(PIECE_BYTES + COLD_BYTES) / 8).map(|word| word.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let content: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    let served = Served::with(|mut file| {
        file.write_all(&content)?;
        file.sync_all()
    });
    let shared = Shared::new(&served.tree, &served.settings, &served.stop);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
    let socket = listener.accept().expect("accepted").0;
    // Shorter than the client's pauses, and less than a call has.
    socket.set_write_timeout(Some(Duration::from_millis(10))).expect("a timeout");
    socket2::SockRef::from(&socket).set_send_buffer_size(64 << 10).expect("a buffer's size");
    socket2::SockRef::from(&client).set_recv_buffer_size(64 << 10).expect("a buffer's size");
    let answers = 2;
    let came = std::thread::spawn(move || paused_read(client, answers * content.len(), &content));
    let stream = ServedStream::plain(&socket, false);
    let mut sender = BodySender::new(&stream, &shared);
    for _ in 0..answers {
        // The first piece is cached, the rest is not.
        let file = File::open(&served.path).expect("opened");
        linerate_system::file::drop_pages(&file).expect("dropped");
        io::copy(&mut (&file).take(PIECE_BYTES), &mut io::sink()).expect("read");
        send_whole(&mut sender, &served);
    }
    socket.shutdown(std::net::Shutdown::Write).expect("ended");
    came.join().expect("every byte once, in order");
}

/// Reads until the end, with pauses; all of it is the content, again and again.
fn paused_read(mut client: TcpStream, length: usize, content: &[u8]) {
    let (mut at, mut room) = (0, vec![0; 300_000]);
    loop {
        let read = client.read(&mut room).expect("read");
        if read == 0 {
            break assert_eq!(at, length);
        }
        for (position, byte) in room[..read].iter().enumerate() {
            assert_eq!(*byte, content[(at + position) % content.len()], "byte {}", at + position);
        }
        if at / (5 << 20) < (at + read) / (5 << 20) {
            std::thread::sleep(Duration::from_millis(25));
        }
        at += read;
    }
}

/// As its turns would.
fn send_whole(sender: &mut BodySender<'_>, served: &Served) {
    let opened = File::open(&served.path).and_then(OpenedFile::new).expect("opened");
    let (mut offset, end) = (0, opened.file.metadata().expect("its length").len());
    while offset < end {
        let open_direct = || served.tree.open_file(&[b"file".to_vec()], true);
        let length = end - offset;
        let body = FileBody {
            opened: &opened,
            label: "file",
            open_direct: &open_direct,
            offset,
            length,
            block_bytes: None,
        };
        offset += match sender.send(&body, &mut Patience::default()).expect("sent") {
            Sent::Whole => length,
            Sent::UntilFull { bytes } | Sent::UntilOthersWait { bytes } => {
                sender.resume(true).expect("resumed");
                bytes
            }
        };
    }
}
