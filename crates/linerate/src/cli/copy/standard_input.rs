//! Standard input as the file that is copied. A fetch needs the length of a file, and reads parts of it again where a
//! connection breaks; so all of it goes to a file without a name first, of which nothing stays whatever ends the copy.

use linerate_deliver::serve::ServedTree;
use linerate_facts::failure::Failure;
use linerate_facts::units::show_size;
use linerate_system::file::space_at;
use linerate_system::stop::Stop;
use linerate_system::storage::{Opening, nameless, reopen};
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;

/// Not the folder of TMPDIR's default, which is often in memory.
const USUAL_FOLDER: &str = "/var/tmp";
const PIECE_BYTES: usize = 256 << 10;

/// Reads it to its end. What Ctrl-C ended is never taken for all of it: the program that writes it ends by the same key.
pub(super) fn stored_standard_input(stop: &Stop) -> Result<ServedTree, Failure> {
    let input = io::stdin();
    if input.is_terminal() {
        return Err(Failure::usage(
            "- is standard input, which is a terminal here: pipe a program into it, as in `tar c set | linerate copy - \
             HOST:set.tar`",
        ));
    }
    let folder = std::env::var_os("TMPDIR").filter(|folder| !folder.is_empty());
    let folder = PathBuf::from(folder.unwrap_or_else(|| USUAL_FOLDER.into()));
    let failed = |error: io::Error| {
        let free = space_at(&folder).map_or("an unknown amount".into(), |(free, _)| show_size(free));
        Failure::Lacks(format!(
            "standard input: {error}; it is kept in {} until it is copied, where {free} are free: TMPDIR names another folder",
            folder.display()
        ))
    };
    let (file, _) = nameless(&folder).map_err(failed)?;
    // Through the page cache: what is piped has no alignment.
    let mut file = reopen(&file, Opening { write: true, ..Opening::default() }).map_err(failed)?;
    let input = input.as_fd().try_clone_to_owned().map_err(failed)?;
    copy_to_end(input.into(), &mut file, stop).map_err(failed)?;
    if stop.is_ended() {
        return Err(Failure::Interrupted);
    }
    ServedTree::of_nameless(file, "standard-input".into(), &folder).map_err(failed)
}

/// Until its end, or Ctrl-C.
fn copy_to_end(mut input: File, file: &mut File, stop: &Stop) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    while !stop.is_ended() {
        if stop.wait_readable(&input, None)? {
            match input.read(&mut piece)? {
                0 => break,
                read => file.write_all(&piece[..read])?,
            }
        }
    }
    Ok(())
}
