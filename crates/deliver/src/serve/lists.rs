//! Lists and pages of folders: made one at a time, and one copy of each for all clients that take it.

use super::opened::FileId;
use super::reply::Reply;
use linerate_system::lock;
use linerate_transport::admission::{Permit, Permits};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Of all lists that clients have not taken yet; those that one client asked for have half of it at most.
const MOST_BYTES: usize = 32 << 20;
/// They are counted in pieces of this.
const PIECE_BYTES: usize = 4 << 10;
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

/// The lists that clients take now, and those that were made last.
#[derive(Debug)]
pub(super) struct SharedLists {
    permits: Arc<Permits>,
    recent: Mutex<HashMap<ListKey, RecentList>>,
}

#[derive(Debug)]
struct RecentList {
    body: Weak<ListBody>,
    /// It can be used again until then.
    fresh: Option<(Arc<ListBody>, Instant)>,
}

impl Default for SharedLists {
    fn default() -> Self {
        SharedLists { permits: Permits::shared(MOST_BYTES / PIECE_BYTES), recent: Mutex::default() }
    }
}

impl SharedLists {
    /// The list, made now if need be. Others wait meanwhile: to make one takes much more memory than to have it.
    pub(super) fn get(
        &self,
        client: IpAddr,
        key: ListKey,
        make: impl FnOnce() -> Result<Vec<u8>, Reply>,
    ) -> Result<Arc<ListBody>, Reply> {
        let mut recent = lock(&self.recent);
        let begun = Instant::now();
        forget_old(&mut recent, begun);
        if let Some((body, _)) = recent.get(&key).and_then(|list| list.fresh.as_ref()) {
            return Ok(Arc::clone(body));
        }
        let bytes = make()?;
        let taken = recent.get(&key).and_then(|list| list.body.upgrade());
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
        let made = Instant::now();
        let until = made + ((made - begun) * REUSE).min(LONGEST_REUSE);
        let fresh = Some((Arc::clone(&body), until));
        recent.insert(key, RecentList { body: Arc::downgrade(&body), fresh });
        Ok(body)
    }

    /// Lets go of lists that nobody takes any more, unless one is being made.
    pub(super) fn forget_old(&self) {
        if let Ok(mut recent) = self.recent.try_lock() {
            forget_old(&mut recent, Instant::now());
        }
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

    fn key(page: &str) -> ListKey {
        ListKey { folder: None, page_of: Some(page.into()) }
    }

    fn client(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    #[test]
    fn one_copy_is_taken_by_all_also_when_it_was_made_again() {
        let lists = SharedLists::default();
        let first = lists.get(client(1), key("/"), || Ok(vec![1; 100])).expect("made");
        // What took no time is not used again, but it is the same.
        std::thread::sleep(Duration::from_millis(5));
        let again = lists.get(client(2), key("/"), || Ok(vec![1; 100])).expect("made");
        assert!(Arc::ptr_eq(&first, &again));
        std::thread::sleep(Duration::from_millis(5));
        let changed = lists.get(client(2), key("/"), || Ok(vec![2; 100])).expect("made");
        assert_eq!((first.bytes[0], changed.bytes[0]), (1, 2));
        drop((first, again, changed));
        std::thread::sleep(Duration::from_millis(5));
        lists.forget_old();
        assert!(lock(&lists.recent).is_empty() && lists.permits.taken() == 0);
    }

    #[test]
    fn what_took_long_to_make_is_made_once_for_a_while() {
        let lists = SharedLists::default();
        let slow = || {
            std::thread::sleep(Duration::from_millis(100));
            Ok(vec![1])
        };
        drop(lists.get(client(1), key("/"), slow).expect("made"));
        let again = lists.get(client(2), key("/"), || panic!("it is there"));
        assert_eq!(again.expect("there").bytes, [1]);
    }

    #[test]
    fn lists_that_nobody_takes_have_a_bound_and_leave_others_room() {
        let lists = SharedLists::default();
        let large = |number: u8, page: &str| {
            lists
                .get(client(number), key(page), || Ok(vec![number; MOST_BYTES / 4]))
                .map_err(|reply| reply.status)
        };
        let held = [large(1, "/a"), large(1, "/b")];
        assert!(held.iter().all(Result::is_ok));
        assert_eq!(large(1, "/c").err(), Some(503), "one client has half");
        let others = [large(2, "/c"), large(3, "/d")];
        assert!(others.iter().all(Result::is_ok));
        assert_eq!(large(4, "/e").err(), Some(503), "all is taken");
        drop(held);
        std::thread::sleep(LONGEST_REUSE);
        assert!(large(4, "/e").is_ok());
    }
}
