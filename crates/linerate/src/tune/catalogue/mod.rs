//! The settings that linerate knows: one small entry each, checked against the source that it names. What could not be checked is not here.

mod cpu;
mod disk;
mod entry;
mod memory;
mod nic;
mod nic_advice;
mod sockets;
mod spots;
mod tcp;

pub use entry::{Advice, Entry, Look, Risk, Stage};
pub use spots::{Spot, Where};

/// All entries, in the order in which they are changed: what re-creates queues stands before what is set for each queue.
pub fn all() -> impl Iterator<Item = &'static Entry> {
    [sockets::ENTRIES, tcp::ENTRIES, memory::ENTRIES, cpu::ENTRIES, nic::ENTRIES, disk::ENTRIES]
        .into_iter()
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_whole() {
        let mut ids = std::collections::BTreeSet::new();
        for entry in all() {
            assert!(ids.insert(entry.id), "{} stands twice", entry.id);
            assert!(
                entry
                    .id
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            );
            assert!(entry.source.starts_with("https://"), "{}: a public source", entry.id);
            assert!(!entry.what.is_empty() && !entry.harm.is_empty(), "{}", entry.id);
        }
        assert!(ids.len() > 70, "{}", ids.len());
    }
}
