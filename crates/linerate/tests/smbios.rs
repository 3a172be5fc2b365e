//! Memory and sockets as the firmware tells them, against other readings of the same machines: 2,048 texts of dmidecode with a summary that
//! another program made of them, and tables in bytes with their decoded form. The captures are no part of this project: without them
//! (`LINERATE_CAPTURES`, or `../shared/captures` beside the workspace) these tests are skipped and say so.

#[path = "support/place.rs"]
mod place;

#[path = "smbios/dumps.rs"]
mod dumps;
#[path = "smbios/tables.rs"]
mod tables;

use place::captures;
