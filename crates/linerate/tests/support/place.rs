//! Where the captures of real machines lie. They are no part of this project: a test that needs them is
//! skipped without them.

use std::path::{Path, PathBuf};

/// `LINERATE_CAPTURES`, or `../shared/captures` beside the workspace; none, with a message, where there is no
/// such folder.
pub fn captures() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/captures");
    let place = std::env::var_os("LINERATE_CAPTURES").map_or(beside, PathBuf::from);
    if !place.is_dir() {
        println!("skipped: no captures");
        return None;
    }
    Some(place)
}
