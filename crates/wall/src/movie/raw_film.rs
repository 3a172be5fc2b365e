//! A film of raw pictures, one after the other without any header, as CosmoGrid's movies are: the file does not say
//! what it is, so the user does, and its length says how many frames there are.

use super::Film;
use crate::geometry::Size;
use linerate_facts::failure::Failure;
use linerate_facts::units::show_size;
use std::path::Path;

/// What the file holds, where its pictures have this size and three bytes a pixel.
pub fn look_at_raw(film: &Path, size: Size) -> Result<Film, Failure> {
    let shown = film.display();
    let bytes = std::fs::metadata(film).map_err(|error| {
        Failure::Lacks(format!("{shown}: its length cannot be read: {error}; name a file of raw pictures"))
    })?;
    if !bytes.is_file() {
        return Err(Failure::Usage(format!("{shown} is not a file: raw pictures are read from one file")));
    }
    let (frame, bytes) = (size.frame_bytes() as u64, bytes.len());
    let (frames, rest) = (bytes / frame, bytes % frame);
    if frames == 0 || rest != 0 {
        return Err(Failure::Usage(format!(
            "{shown} has {bytes} bytes, which is not a multiple of a frame of {size} pixels ({frame} bytes, {}): \
             {frames} frames and {rest} bytes; check --size",
            show_size(frame)
        )));
    }
    Ok(Film { size, oblong: None, frames_per_second: None, seconds: None, frames: Some(frames) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn frames_are_counted_by_the_length_of_the_file() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(&[7; 4 * 2 * 3 * 5]).expect("five frames");
        let size = |width, height| Size { width, height };
        let film = look_at_raw(file.path(), size(4, 2)).expect("a film");
        assert_eq!((film.size, film.frames, film.frames_per_second), (size(4, 2), Some(5), None));
        for (width, height, expected) in
            [(4, 3, "3 frames and 12 bytes"), (400, 200, "0 frames and 120 bytes")]
        {
            let why = look_at_raw(file.path(), size(width, height)).expect_err("another size").to_string();
            assert!(why.contains("not a multiple of a frame") && why.contains(expected), "{why}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        assert!(look_at_raw(folder.path(), size(4, 2)).is_err());
        assert!(look_at_raw(&folder.path().join("absent"), size(4, 2)).is_err());
    }
}
