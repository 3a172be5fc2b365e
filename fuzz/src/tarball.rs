//! A tarball of a recorded machine that somebody sends us: plain or compressed, damaged, or made to do harm.

use linerate::probe::probe;
use linerate::sysroot::{Archive, ArchiveLimits, Sysroot};

/// Small, so that an input that unpacks without end is found by its message, not by the clock.
fn limits() -> ArchiveLimits {
    ArchiveLimits {
        unpacked_bytes: 4 << 20,
        kept_bytes: 1 << 20,
        members: 2000,
        header_bytes: 16 << 10,
        path_bytes: 300,
        depth: 12,
    }
}

/// Any bytes. What was read stays within its tree and its limits, and can be probed.
pub fn tarball(input: &[u8]) {
    let archive = match Archive::read_from(input, &limits()) {
        Ok(archive) => archive,
        Err(why) => {
            assert!(!why.to_string().is_empty());
            return;
        }
    };
    assert!(archive.left_out().len() <= 9);
    let sysroot = Sysroot::archive(archive);
    let mut pending = vec![(String::new(), 0)];
    let mut seen = 0;
    while let Some((folder, depth)) = pending.pop() {
        // Links may lead round.
        if depth > 12 || seen > 500 {
            continue;
        }
        for name in sysroot.list(format!("/{folder}")) {
            assert!(!name.contains('/') && name != "." && name != "..", "{name:?}");
            let path = format!("{folder}/{name}");
            seen += 1;
            if let Some(real) = sysroot.follow(format!("/{path}")) {
                assert!(
                    real.is_absolute() && !real.components().any(|part| part.as_os_str() == ".."),
                    "{real:?}"
                );
            }
            if let Ok(bytes) = sysroot.bytes(format!("/{path}")) {
                assert!(bytes.len() <= 1 << 20);
            }
            pending.push((path, depth + 1));
        }
    }
    let machine = probe(&sysroot);
    serde_json::to_string(&machine).expect("a machine is JSON");
}
