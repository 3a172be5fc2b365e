//! Lists and pages of folders: each made by one thread at a time, and one copy of it for all clients that take it.

use super::reply::Reply;
use crate::blocks::FileId;
use linerate_system::{clock, lock};
use linerate_transport::admission::{Permit, Permits};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Of all lists that clients have not taken yet; those that one client asked for have half of it at most.
const MOST_BYTES: usize = 32 << 20;
/// They are counted in pieces of this.
const PIECE_BYTES: usize = 4 << 10;
/// Lists that are made at a time, and those of folders on one disk: one that hangs leaves the others some.
const MOST_MAKING: usize = 4;
const MOST_OF_DISK: usize = 2;
/// A list that another thread makes is waited for until it has taken so long: then its disk hangs.
const LIST_TIME: Duration = Duration::from_secs(10);
/// And other lists that are in its way, until they have taken so long.
const PATIENCE: Duration = Duration::from_secs(1);
/// A list is used again for so many times the time that it took, so that making lists costs a fifth of a CPU at most. What
/// changes within a file meanwhile is not in it, as what changed while it was made.
const REUSE: u32 = 4;
/// But no longer than this.
const LONGEST_REUSE: Duration = Duration::from_secs(1);

/// A list as it is sent.
#[derive(Debug)]
pub(super) struct ListBody {
    pub(super) bytes: Vec<u8>,
    _permit: Permit,
}

/// What a list is of. A folder has one content until a name in it comes or goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ListKey {
    pub(super) folder: Option<FileId>,
    /// For people, under this path; none: for programs.
    pub(super) page_of: Option<String>,
}

/// The lists that clients take now, those that were made last, and those that are being made.
#[derive(Debug)]
pub(super) struct SharedLists {
    permits: Arc<Permits>,
    state: Mutex<ListsState>,
    /// A list was made, or could not be.
    made: Condvar,
    /// To write a list takes much more memory than to have it: one at a time.
    writing: Mutex<()>,
    list_time: Duration,
}

#[derive(Debug, Default)]
struct ListsState {
    recent: HashMap<ListKey, RecentList>,
    /// Since when each is being made.
    making: HashMap<ListKey, Instant>,
}

#[derive(Debug)]
struct RecentList {
    body: Weak<ListBody>,
    /// It can be used again until then.
    fresh: Option<(Arc<ListBody>, Instant)>,
}

impl Default for SharedLists {
    fn default() -> Self {
        SharedLists {
            permits: Permits::shared(MOST_BYTES / PIECE_BYTES),
            state: Mutex::default(),
            made: Condvar::new(),
            writing: Mutex::default(),
            list_time: LIST_TIME,
        }
    }
}

impl SharedLists {
    /// The list, made now if need be, from what `read` finds in the folder.
    pub(super) fn get<T>(
        &self,
        client: IpAddr,
        key: ListKey,
        read: impl FnOnce() -> Result<T, Reply>,
        write: impl FnOnce(T) -> Result<Vec<u8>, Reply>,
    ) -> Result<Arc<ListBody>, Reply> {
        if let Some(body) = self.begin(&key)? {
            return Ok(body);
        }
        let _ends = EndsMaking(self, &key);
        let begun = clock::now();
        let found = read()?;
        let bytes = {
            let _alone = lock(&self.writing);
            write(found)?
        };
        let mut state = lock(&self.state);
        let taken = state.recent.get(&key).and_then(|list| list.body.upgrade());
        let body = match taken.filter(|body| body.bytes == bytes) {
            Some(same) => same,
            None => {
                let permit = self.permits.take_many(client, bytes.len().div_ceil(PIECE_BYTES));
                let permit = permit.map_err(|_| {
                    Reply::busy("Other lists that were not taken yet are all that the server holds.")
                })?;
                Arc::new(ListBody { bytes, _permit: permit })
            }
        };
        let made = clock::now();
        let until = made + ((made - begun) * REUSE).min(LONGEST_REUSE);
        let fresh = Some((Arc::clone(&body), until));
        state.recent.insert(key.clone(), RecentList { body: Arc::downgrade(&body), fresh });
        Ok(body)
    }

    /// The list, if it is there; none: the caller makes it. What is in the way is waited for.
    fn begin(&self, key: &ListKey) -> Result<Option<Arc<ListBody>>, Reply> {
        let (begun, mut state) = (clock::now(), lock(&self.state));
        loop {
            let now = clock::now();
            forget_old(&mut state.recent, now);
            if let Some((body, _)) = state.recent.get(key).and_then(|list| list.fresh.as_ref()) {
                return Ok(Some(Arc::clone(body)));
            }
            let Some(since) = state.in_the_way(key) else {
                state.making.insert(key.clone(), now);
                return Ok(None);
            };
            let is_same = state.making.contains_key(key);
            let patience = if is_same { self.list_time } else { PATIENCE };
            let left = (since.min(begun) + patience).saturating_duration_since(now);
            if left.is_zero() {
                return Err(Reply::busy(
                    "Folders are being read, and the disk takes long; try again in a moment.",
                ));
            }
            state = self.made.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// None is held, or being made.
    pub(super) fn is_empty(&self) -> bool {
        let state = lock(&self.state);
        state.recent.is_empty() && state.making.is_empty()
    }

    /// Lets go of lists that nobody takes any more.
    pub(super) fn forget_old(&self) {
        forget_old(&mut lock(&self.state).recent, clock::now());
    }
}

impl ListsState {
    /// Since when that is being made which has to end before this list can be made; none: nothing has to.
    fn in_the_way(&self, key: &ListKey) -> Option<Instant> {
        let disk = |key: &ListKey| key.folder.map(|folder| folder.device);
        let of_disk = self.making.iter().filter(|(other, _)| disk(other) == disk(key));
        let of_disk: Vec<Instant> = of_disk.map(|(_, since)| *since).collect();
        match self.making.get(key) {
            Some(since) => Some(*since),
            None if self.making.len() >= MOST_MAKING => self.making.values().max().copied(),
            None if of_disk.len() >= MOST_OF_DISK => of_disk.into_iter().max(),
            None => None,
        }
    }
}

/// Others may make the list now, or have it.
struct EndsMaking<'a>(&'a SharedLists, &'a ListKey);

impl Drop for EndsMaking<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).making.remove(self.1);
        self.0.made.notify_all();
    }
}

fn forget_old(recent: &mut HashMap<ListKey, RecentList>, now: Instant) {
    recent.retain(|_, list| {
        list.fresh.take_if(|(_, until)| *until <= now);
        list.body.strong_count() > 0
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_system::clock::simulated::SimulatedClock;

    fn key(page: &str) -> ListKey {
        ListKey { folder: None, page_of: Some(page.into()) }
    }

    fn client(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    #[test]
    fn one_copy_is_taken_by_all_also_when_it_was_made_again() {
        let (_stands, lists) = (SimulatedClock::new().enter(), SharedLists::default());
        let first = lists.get(client(1), key("/"), || Ok(vec![1; 100]), Ok).expect("made");
        // What took no time is not used again, but it is the same.
        let again = lists.get(client(2), key("/"), || Ok(vec![1; 100]), Ok).expect("made");
        assert!(Arc::ptr_eq(&first, &again));
        let changed = lists.get(client(2), key("/"), || Ok(vec![2; 100]), Ok).expect("made");
        assert_eq!((first.bytes[0], changed.bytes[0]), (1, 2));
        drop((first, again, changed));
        lists.forget_old();
        assert!(lock(&lists.state).recent.is_empty() && lists.permits.taken() == 0);
    }

    #[test]
    fn what_took_long_to_make_is_made_once_for_a_while() {
        let lists = SharedLists::default();
        let slow = || {
            std::thread::sleep(Duration::from_millis(100));
            Ok(vec![1])
        };
        drop(lists.get(client(1), key("/"), slow, Ok).expect("made"));
        let again = lists.get(client(2), key("/"), || panic!("it is there"), Ok);
        assert_eq!(again.expect("there").bytes, [1]);
    }

    #[test]
    fn lists_that_nobody_takes_have_a_bound_and_leave_others_room() {
        let (_stands, lists) = (SimulatedClock::new().enter(), SharedLists::default());
        let large = |number: u8, page: &str| {
            lists
                .get(client(number), key(page), || Ok(vec![number; MOST_BYTES / 4]), Ok)
                .map_err(|reply| reply.status)
        };
        let held = [large(1, "/a"), large(1, "/b")];
        assert!(held.iter().all(Result::is_ok));
        assert_eq!(large(1, "/c").err(), Some(503), "one client has half");
        let others = [large(2, "/c"), large(3, "/d")];
        assert!(others.iter().all(Result::is_ok));
        assert_eq!(large(4, "/e").err(), Some(503), "all is taken");
        drop(held);
        assert!(large(4, "/e").is_ok());
    }

    /// Two folders of one disk are never read to their end.
    #[test]
    fn a_disk_that_hangs_keeps_the_lists_of_its_own_folders_alone() {
        let lists = SharedLists { list_time: PATIENCE, ..SharedLists::default() };
        let place = tempfile::tempdir().expect("a folder");
        let folder = FileId::new(&place.path().metadata().expect("its metadata"));
        let on_disk = |page: &str| ListKey { folder: Some(folder), ..key(page) };
        let status = |key: ListKey| {
            let begun = Instant::now();
            let answered = lists.get(client(2), key, || Ok(vec![1]), Ok);
            (answered.err().map(|reply| reply.status), begun.elapsed())
        };
        let hangs = Mutex::new(());
        let held = lock(&hangs);
        std::thread::scope(|scope| {
            for page in ["/a", "/b"] {
                let (lists, hangs) = (&lists, &hangs);
                let key = on_disk(page);
                let read = move || {
                    drop(lock(hangs));
                    Ok(vec![1])
                };
                scope.spawn(move || lists.get(client(1), key, read, Ok).map(|_| ()));
            }
            while lock(&lists.state).making.len() < 2 {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(status(key("/")).0, None, "another disk's");
            let (refused, waited) = status(on_disk("/a"));
            assert!(refused == Some(503) && waited < 2 * PATIENCE, "{refused:?} after {waited:?}");
            let (refused, waited) = status(on_disk("/c"));
            assert!(refused == Some(503) && waited < PATIENCE / 2, "{refused:?} after {waited:?}");
            drop(held);
        });
        assert_eq!(status(on_disk("/a")).0, None, "it does not hang any more");
    }
}
