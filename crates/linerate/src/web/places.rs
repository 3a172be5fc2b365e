//! Places for connections, in all and by origin: who opens many takes them from himself.

use crate::agent::lock;
use crate::flow::origin::origin;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// So many places; one origin (an IPv4 address, an IPv6 network of 64 bits) takes at most half of them.
pub struct Places {
    most: usize,
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// A place that is taken; given back when this is dropped.
pub struct Place {
    places: Arc<Places>,
    origin: IpAddr,
}

impl Places {
    /// All are free.
    pub fn new(most: usize) -> Arc<Places> {
        Arc::new(Places { most, taken: Mutex::default() })
    }

    /// Takes one; none where all are taken, or half of them by this origin.
    pub fn take(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let origin = origin(address);
        let mut taken = lock(&self.taken);
        let of_origin = taken.get(&origin).copied().unwrap_or(0);
        if taken.values().sum::<usize>() >= self.most || of_origin >= self.most.div_ceil(2) {
            return None;
        }
        taken.insert(origin, of_origin + 1);
        Some(Place { places: self.clone(), origin })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.places.taken);
        if let Some(count) = taken.get_mut(&self.origin) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.origin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_takes_half_and_all_come_back() {
        let places = Places::new(4);
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        let one: Vec<Place> = (0..2).filter_map(|_| places.take(address("192.0.2.1"))).collect();
        assert_eq!(one.len(), 2);
        assert!(places.take(address("192.0.2.1")).is_none(), "half are its own");
        let other = [places.take(address("2001:db8::1")), places.take(address("2001:db8::2"))];
        assert!(other.iter().all(Option::is_some));
        assert!(places.take(address("192.0.2.3")).is_none(), "all are taken");
        drop((one, other));
        assert!(lock(&places.taken).is_empty());
    }
}
