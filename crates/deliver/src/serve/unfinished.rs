//! Parts that no client came back for: they go after a day.

use super::Shared;
use linerate_system::clock;
use std::time::Duration;

/// A client that goes on with a part does so within this.
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// Removes those that are old, now and each time that `every` is over, until the server ends.
pub(super) fn remove_old_parts(shared: &Shared<'_>, every: Duration) {
    let started = clock::date();
    loop {
        let removed = shared.tree.remove_unfinished(clock::date() - KEPT, shared.stop);
        for (path, bytes) in removed {
            tracing::info!(path = %path.display(), bytes, "an unfinished file of more than a day was removed");
            // What was there before the start was never counted.
            if clock::date() - KEPT > started {
                shared.incoming.gave_back(bytes);
            }
        }
        if shared.stop.wait(every) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FileServerSettings, ServedTree};
    use super::*;
    use linerate_facts::room::StorageLimits;
    use linerate_system::stop::Stop;
    use std::collections::BTreeSet;
    use std::time::Instant;
    use std::time::SystemTime;

    #[test]
    fn old_parts_go_each_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let tree = ServedTree::open(&[folder.path().to_path_buf()]).expect("a tree");
        let settings = FileServerSettings {
            connections: 2,
            handshakes: 2,
            bytes_per_second: None,
            token: None,
            names: Vec::new(),
            writable: Some(StorageLimits::default()),
            tls: None,
            disks: BTreeSet::new(),
        };
        let stop = Stop::new();
        let shared = Shared::new(&tree, &settings, &stop);
        let left = std::thread::scope(|scope| {
            scope.spawn(|| remove_old_parts(&shared, Duration::from_millis(5)));
            let left = (0..3).find(|number| {
                let path = folder.path().join(format!(".{number}.linerate-part"));
                std::fs::write(&path, "text").expect("written");
                let file = std::fs::File::open(&path).expect("opened");
                file.set_modified(SystemTime::now() - KEPT - Duration::from_secs(2)).expect("a time");
                let begun = Instant::now();
                while path.exists() && begun.elapsed() < Duration::from_secs(60) {
                    std::thread::sleep(Duration::from_millis(2));
                }
                path.exists()
            });
            stop.end();
            left
        });
        assert_eq!(left, None);
    }
}
