//! Rings one after another within RLIMIT_MEMLOCK: the memory of the last one is free for the next. Alone in
//! its program, because the limit is the process's.

use linerate_system::buffers::Pool;
use linerate_system::queue::ring::RingQueue;
use rustix::process::{Resource, Rlimit, geteuid, setrlimit};

const POOL_BYTES: usize = 4 << 20;

#[test]
fn the_next_ring_registers_its_buffers_as_well() {
    if !geteuid().is_root() {
        eprintln!("skipped: only root can become a user whose memory is not shared with other tests");
        return;
    }
    let limit = Some(POOL_BYTES as u64 + (2 << 20));
    setrlimit(Resource::Memlock, Rlimit { current: limit, maximum: limit }).expect("a lower limit");
    let methods = std::thread::spawn(|| {
        // Linux keeps the user of each thread apart. Locked memory is counted by user: one that nobody else
        // is.
        let user = rustix::fs::Uid::from_raw(64_000 + std::process::id() % 1000);
        rustix::thread::set_thread_res_uid(user, user, user).ok()?;
        let methods = (0..20).map(|_| {
            let pool = Pool::new(4, POOL_BYTES / 4).expect("a pool");
            RingQueue::new(Vec::new(), &pool).map(|ring| format!("{ring:?}"))
        });
        Some(methods.collect::<Result<Vec<_>, _>>())
    });
    match methods.join().expect("the other user") {
        Some(Ok(methods)) => {
            let kept = methods.iter().filter(|method| method.contains(", registered buffers")).count();
            assert_eq!(kept, methods.len(), "{methods:?}");
        }
        Some(Err(error)) => eprintln!("skipped: no io_uring for this user: {error}"),
        None => eprintln!("skipped: cannot become another user here"),
    }
}
