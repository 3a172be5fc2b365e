//! A queue in which the clients take turns, however much each of them has in it.

use linerate_transport::admission::origin;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// Entries by their client: one of each in turn, those of one client first come, first served.
pub(super) struct FairQueue<T> {
    of_client: HashMap<IpAddr, VecDeque<T>>,
    /// Clients that have entries, the next one first.
    turns: VecDeque<IpAddr>,
    count: usize,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        FairQueue { of_client: HashMap::new(), turns: VecDeque::new(), count: 0 }
    }
}

impl<T> FairQueue<T> {
    pub(super) fn push(&mut self, client: IpAddr, entry: T) {
        let client = origin(client);
        let own = self.of_client.entry(client).or_default();
        if own.is_empty() {
            self.turns.push_back(client);
        }
        own.push_back(entry);
        self.count += 1;
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let client = self.turns.pop_front()?;
        let own = self.of_client.get_mut(&client)?;
        let entry = own.pop_front();
        if own.is_empty() {
            self.of_client.remove(&client);
        } else {
            self.turns.push_back(client);
        }
        self.count -= 1;
        entry
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_with_many_entries_lets_others_go_between() {
        let mut queue = FairQueue::default();
        let client = |number: u8| IpAddr::from([192, 0, 2, number]);
        for entry in 0..100 {
            queue.push(client(1), entry);
        }
        queue.push(client(2), 200);
        queue.push(client(3), 300);
        let first: Vec<i32> = (0..5).filter_map(|_| queue.pop()).collect();
        assert_eq!(first, [0, 200, 300, 1, 2]);
        queue.push(client(2), 201);
        assert_eq!([queue.pop(), queue.pop(), queue.pop()], [Some(3), Some(201), Some(4)]);
        let rest = std::iter::from_fn(|| queue.pop()).count();
        assert_eq!((rest, queue.len(), queue.is_empty(), queue.of_client.len()), (95, 0, true, 0));
    }
}
