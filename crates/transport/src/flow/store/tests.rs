use super::*;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::FileExt;

fn file(length_bytes: u64) -> StoreFile {
    let directory = tempfile::tempdir().expect("a directory");
    let (file, direct) = linerate_system::storage::nameless(directory.path()).expect("a file");
    StoreFile { file, length_bytes, direct, name: "the sink /srv".into(), settles: AtomicBool::new(false) }
}

/// Sends the bytes to a receiver that stores them.
fn stored(bytes: &[u8], into: &StoreFile, terms: &Terms) -> StreamCounters {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("its address");
    let counters = StreamCounters::new(Instant::now());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut stream = TcpStream::connect(address).expect("a connection");
            stream.write_all(bytes).expect("sent");
        });
        let (stream, _) = listener.accept().expect("accepted");
        store(Some(stream), into, terms, &counters, &Stop::new()).expect("stored");
    });
    counters
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 31 + (index >> 8)) as u8).collect()
}

#[test]
fn stores_what_was_sent_to_the_last_byte() {
    let (bytes, into) = (pattern(5 * BLOCK_BYTES as usize + 12_345), file(16 * BLOCK_BYTES));
    let terms = Terms { verify: true, ..Terms::default() };
    let counters = stored(&bytes, &into, &terms);
    assert_eq!(counters.progress.mark().bytes, bytes.len() as u64);
    assert!(counters.sync_nanos.load(Ordering::Relaxed) > 0);
    let sum = linerate_sums::crc(linerate_sums::CrcAlgorithm::Crc64Nvme, &bytes);
    assert_eq!(counters.checksum.load(Ordering::Relaxed), sum);
    // Past the page cache only whole aligned blocks can be read: through another opening.
    let plain = linerate_system::storage::reopen(&into.file, Default::default()).expect("opened again");
    let mut read = vec![0; bytes.len()];
    plain.read_exact_at(&mut read, 0).expect("read");
    assert!(read == bytes, "the file differs from what was sent");
}

#[test]
fn a_file_is_written_round_and_round() {
    let (bytes, into) = (pattern(7 * BLOCK_BYTES as usize), file(2 * BLOCK_BYTES));
    let counters = stored(&bytes, &into, &Terms::default());
    assert_eq!(counters.progress.mark().bytes, bytes.len() as u64);
    assert_eq!(into.file.metadata().expect("metadata").len(), 2 * BLOCK_BYTES);
}

#[test]
fn without_a_stream_it_writes_until_it_is_stopped() {
    let into = file(4 * BLOCK_BYTES);
    let counters = StreamCounters::new(Instant::now());
    let stop = Stop::new();
    std::thread::scope(|scope| {
        let terms = Terms::default();
        let (into, counters, stop) = (&into, &counters, &stop);
        let writer = scope.spawn(move || store(None, into, &terms, counters, stop));
        while counters.progress.mark().bytes < 8 * BLOCK_BYTES && !writer.is_finished() {
            std::thread::sleep(Duration::from_millis(2));
        }
        stop.end();
        writer.join().expect("no panic").expect("stored");
    });
    assert!(counters.progress.mark().bytes >= 8 * BLOCK_BYTES);
    assert_eq!(counters.waiting_network_nanos.load(Ordering::Relaxed), 0);
}

#[test]
fn a_disk_that_is_full_is_one_sentence() {
    let said = |kind: io::ErrorKind| file(BLOCK_BYTES).explained("fsync", &kind.into()).to_string();
    let full = said(io::ErrorKind::StorageFull);
    assert!(full.starts_with("the sink /srv became full while it was written; make room"), "{full}");
    let broken = said(io::ErrorKind::Other);
    assert!(
        broken.starts_with("the fsync of the sink /srv failed (") && broken.contains("broken?"),
        "{broken}"
    );
}

#[test]
fn what_settles_takes_no_more_and_is_kept() {
    for sent in [false, true] {
        let into = file(4 * BLOCK_BYTES);
        let counters = StreamCounters::new(Instant::now());
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        // A sender that never ends.
        let sender = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
        let (stream, _) = listener.accept().expect("accepted");
        std::thread::scope(|scope| {
            let (into, counters) = (&into, &counters);
            let stream = sent.then_some(stream);
            let never = Stop::new();
            let writer = scope.spawn(move || store(stream, into, &Terms::default(), counters, &never));
            if sent {
                scope.spawn(|| (&sender).write_all(&pattern(2 * BLOCK_BYTES as usize + 1000)).expect("sent"));
            }
            let least = if sent { 2 * BLOCK_BYTES } else { 8 * BLOCK_BYTES };
            while counters.progress.mark().bytes < least && !writer.is_finished() {
                std::thread::sleep(Duration::from_millis(2));
            }
            into.settles.store(true, Ordering::Relaxed);
            writer.join().expect("no panic").expect("kept");
            assert!(counters.progress.mark().bytes >= least, "{}", counters.progress.mark().bytes);
        });
        assert!(counters.sync_nanos.load(Ordering::Relaxed) > 0);
    }
}
