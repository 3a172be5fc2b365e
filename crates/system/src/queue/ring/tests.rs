use super::*;

/// Whether a type is `Send`: where it is, its own constant hides that of the trait.
struct Is<T>(PhantomData<T>);

trait Otherwise {
    const SEND: bool = false;
}

impl<T> Otherwise for Is<T> {}

impl<T: Send> Is<T> {
    const SEND: bool = true;
}

#[test]
fn a_ring_stays_on_its_thread() {
    const { assert!(Is::<Vec<u8>>::SEND, "types that are Send differ from those that are not") };
    const { assert!(!Is::<RingQueue>::SEND) };
}

#[test]
fn requests_left_under_way_end_with_the_queue() {
    let (reader, _writer) = std::io::pipe().expect("a pipe");
    let file: Arc<File> = Arc::new(std::os::fd::OwnedFd::from(reader).into());
    let mut pool = Pool::new(2, 4096).expect("a pool");
    let Ok(mut queue) = RingQueue::new(vec![file], &pool) else {
        eprintln!("skipped: no io_uring here");
        return;
    };
    // Nobody writes to the pipe: this read would wait for ever.
    let read = Transfer { action: Action::Read, file: 0, offset: u64::MAX, from: 0, length: 1 };
    queue.submit(pool.take().expect("a block"), read);
    queue.turn(Some(Duration::from_millis(20)), &mut Vec::new()).expect("a turn");
    assert_eq!(queue.in_flight(), 1);
    let before = Instant::now();
    drop(queue);
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
}

/// Both ends of a connection over loopback.
fn connected() -> (Arc<File>, std::net::TcpStream) {
    let (near, far) = crate::socket::tests::connected();
    (Arc::new(File::from(std::os::fd::OwnedFd::from(near))), far)
}

/// A queue of this socket with a pool of this many blocks of this many bytes; none, with a message, where this kernel
/// cannot.
fn sending_without_copy(socket: Arc<File>, blocks: usize, bytes: usize) -> Option<(RingQueue, Pool)> {
    let pool = Pool::new(blocks, bytes).expect("a pool");
    let Ok(queue) = RingQueue::new(vec![socket], &pool) else {
        eprintln!("skipped: no io_uring here");
        return None;
    };
    if !queue.zero_copy() {
        eprintln!("skipped: this kernel sends nothing without a copy, or locks too little memory");
        return None;
    }
    Some((queue, pool))
}

/// The other end acknowledges nothing, so the kernel gives the block back to nobody.
#[test]
fn a_block_that_is_lent_for_long_does_not_stay_mapped() {
    let (socket, _far) = connected();
    let Some((mut queue, mut pool)) = sending_without_copy(socket, 1, 16 << 20) else { return };
    for (zero_copy, stays) in [(true, false), (false, true)] {
        assert_eq!(queue.is_pinned(Action::Send { train_bytes: 0, zero_copy }), !stays);
    }
    let action = Action::Send { train_bytes: 0, zero_copy: true };
    let lease = pool.take().expect("a block");
    queue.submit(lease, Transfer { action, file: 0, offset: 0, from: 0, length: 16 << 20 });
    queue.turn(Some(Duration::from_millis(20)), &mut Vec::new()).expect("a turn");
    assert_eq!(queue.in_flight(), 1);
    let region = Arc::downgrade(&pool.region);
    drop((queue, pool));
    assert!(region.upgrade().is_none(), "its memory stays mapped");
}

#[test]
fn what_was_never_handed_over_comes_back_at_once() {
    let file: Arc<File> = Arc::new(tempfile::tempfile().expect("a file"));
    let mut pool = Pool::new(1, 1 << 16).expect("a pool");
    let Ok(mut queue) = RingQueue::new(vec![file], &pool) else {
        eprintln!("skipped: no io_uring here");
        return;
    };
    // More trains than the ring has entries, none of which is sent.
    let send = Action::Send { train_bytes: 100, zero_copy: false };
    let lease = pool.take().expect("a block");
    queue.submit(lease, Transfer { action: send, file: 0, offset: 0, from: 0, length: 1 << 16 });
    assert!(!queue.waiting.is_empty());
    let region = Arc::downgrade(&pool.region);
    let before = Instant::now();
    drop((queue, pool));
    assert!(before.elapsed() < Duration::from_millis(150), "{:?}", before.elapsed());
    assert!(region.upgrade().is_none(), "its memory is free");
}

/// The kernel reports that it took the bytes before it gives the block back; on loopback it copies them all the same,
/// and says so.
#[test]
fn a_send_without_a_copy_is_reported_twice() {
    use std::io::Read;
    let (socket, mut far) = connected();
    let Some((mut queue, mut pool)) = sending_without_copy(socket, 2, 1 << 16) else { return };
    let mut lease = pool.take().expect("a block");
    lease.bytes_mut().fill(7);
    let action = Action::Send { train_bytes: 0, zero_copy: true };
    queue.submit(lease, Transfer { action, file: 0, offset: 0, from: 1, length: 60_000 });
    let (mut taken, mut done) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        if !done.is_empty() {
            break;
        }
        queue.turn(Some(Duration::from_millis(50)), &mut done).expect("a turn");
        queue.taken(&mut taken);
        assert!(done.is_empty() || !taken.is_empty(), "the block is back before the send was reported");
    }
    assert!(matches!(taken[..], [Taken { bytes: 60_000, .. }]), "{taken:?}");
    assert!(matches!(done[..], [Completion { result: Ok(60_000), .. }]), "{done:?}");
    assert_eq!((queue.in_flight(), queue.zero_copy_sends().sends), (0, 1));
    let mut bytes = vec![0; 60_000];
    far.read_exact(&mut bytes).expect("bytes");
    assert!(bytes.iter().all(|byte| *byte == 7));
}

/// The other end takes nothing: what the socket has taken of a send is known when it is called back.
#[test]
fn a_send_that_is_called_back_says_what_it_has_moved() {
    let (socket, mut far) = connected();
    let mut pool = Pool::new(1, 16 << 20).expect("a pool");
    let Ok(mut queue) = RingQueue::new(vec![socket], &pool) else {
        eprintln!("skipped: no io_uring here");
        return;
    };
    let action = Action::Send { train_bytes: 0, zero_copy: false };
    let lease = pool.take().expect("a block");
    queue.submit(lease, Transfer { action, file: 0, offset: 0, from: 0, length: 16 << 20 });
    let mut done = Vec::new();
    queue.turn(Some(Duration::from_millis(50)), &mut done).expect("a turn");
    assert!(done.is_empty(), "{done:?}");
    if !queue.cancel(0) {
        eprintln!("skipped: this kernel calls nothing back (before Linux 6.0)");
        return;
    }
    let patience = Instant::now() + Duration::from_secs(5);
    while done.is_empty() && Instant::now() < patience {
        queue.turn(Some(Duration::from_millis(50)), &mut done).expect("a turn");
    }
    let moved = *done[0].result.as_ref().expect("a part of it");
    assert!((1..16 << 20).contains(&moved), "{moved}");
    drop((done, queue, pool));
    use std::io::Read;
    assert_eq!(far.read_to_end(&mut Vec::new()).expect("its end"), moved, "no more and no less arrives");
}
