//! Memory and sockets as the firmware tells them, against other readings of the same machines: 2,048 texts of
//! dmidecode with a summary that another program made of them, and tables in bytes with their decoded form.
//! The captures are not part of this project: without them (`LINERATE_CAPTURES`, or `../shared/captures`
//! beside the workspace) these tests are skipped and say so.

mod dumps;
mod tables;

use crate::support::place::captures;
