//! Memory and sockets as the firmware tells them, against other readings of the same machines: 2,049 texts of dmidecode with a summary that
//! another program made of them, and tables in bytes with their decoded form. The captures are no part of this project: without them
//! (`LINERATE_CAPTURES`, or `../shared/captures` beside the workspace) these tests are skipped and say so.

#[path = "smbios/dumps.rs"]
mod dumps;
#[path = "smbios/tables.rs"]
mod tables;

use std::path::{Path, PathBuf};

fn captures() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/captures");
    let place = std::env::var_os("LINERATE_CAPTURES").map_or(beside, PathBuf::from);
    if !place.is_dir() {
        println!("skipped: no captures");
        return None;
    }
    Some(place)
}
