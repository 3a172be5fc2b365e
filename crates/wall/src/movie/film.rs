//! A film as ffmpeg's own tools see it, before anything is cut.
//!
//! A film may also be raw pictures, one after the other without any header, as CosmoGrid's movies are: such a
//! file does not say what it is, so the user does, and its length says how many frames there are.

use crate::geometry::{FrameRate, Size};
use linerate_facts::failure::Failure;
use linerate_facts::units::show_size;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What of a film must be known to cut it.
#[derive(Clone, Debug, PartialEq)]
pub struct Film {
    /// As it is seen, in square pixels.
    pub size: Size,
    /// Pixels that are stored, upright, and the shape of one of them, width : height, where that is no
    /// square.
    pub oblong: Option<(Size, (u32, u32))>,
    /// Where it tells one that can be played.
    pub frames_per_second: Option<FrameRate>,
    /// About how long, where it tells.
    pub seconds: Option<f64>,
    /// Exactly, where it tells.
    pub frames: Option<u64>,
}

/// The film is a numbered sequence of pictures: ffmpeg's pattern, like `frame%04d.png`.
pub fn is_sequence(film: &Path) -> bool {
    let name = film.to_string_lossy();
    name.split('%').skip(1).any(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with('d'))
}

/// How a film is named to ffmpeg: no name is taken for an option.
pub(super) fn argument(film: &Path) -> PathBuf {
    if film.to_string_lossy().starts_with('-') { Path::new(".").join(film) } else { film.to_path_buf() }
}

/// A program that does not start; its absence is the usual reason.
pub(super) fn not_started(program: &str, error: &std::io::Error) -> Failure {
    if error.kind() == std::io::ErrorKind::NotFound {
        return Failure::Lacks(format!(
            "{program} is not in a folder of PATH, and films are cut by it: install ffmpeg (Debian: `apt install ffmpeg`)"
        ));
    }
    Failure::Lacks(format!("{program} cannot be started: {error}; put another before it in PATH"))
}

/// The last line of what a program said on its standard error, for an error of our own.
pub(super) fn last_line(stderr: &str) -> &str {
    stderr.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it did not say why")
}

/// Asks `ffprobe`, which comes with `ffmpeg`.
pub fn look_at(film: &Path) -> Result<Film, Failure> {
    let shown = film.display();
    let entries = "stream=width,height,sample_aspect_ratio,r_frame_rate,avg_frame_rate,nb_frames,duration:format=duration:stream_side_data=rotation:stream_tags=rotate";
    let output = Command::new("ffprobe")
        .args(["-v", "error", "-select_streams", "v:0", "-of", "json", "-show_entries", entries])
        .arg(argument(film))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| not_started("ffprobe", &error))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(Failure::Lacks(format!(
            "{shown} is not a film that ffmpeg reads, nor a sequence of pictures: {}; raw pictures without a header \
             become a movie by `linerate wall import {shown} FOLDER --size WIDTHxHEIGHT --pixels rgb24`",
            last_line(&stderr)
        )));
    }
    let probed: ProbedFilm = serde_json::from_slice(&output.stdout).map_err(|error| {
        Failure::Lacks(format!("what ffprobe reports about {shown} is not understood: {error}"))
    })?;
    probed
        .film()
        .ok_or_else(|| Failure::Lacks(format!("{shown} has no pictures: name a film, not a sound or a text")))
}

/// What ffprobe writes.
#[derive(Debug, Deserialize)]
struct ProbedFilm {
    #[serde(default)]
    streams: Vec<Stream>,
    #[serde(default)]
    format: Format,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Stream {
    width: u32,
    height: u32,
    sample_aspect_ratio: String,
    r_frame_rate: String,
    avg_frame_rate: String,
    nb_frames: Option<String>,
    duration: Option<String>,
    side_data_list: Vec<SideData>,
    tags: Tags,
}

/// Of the display matrix, with which phones say how they were held.
#[derive(Debug, Default, Deserialize)]
struct SideData {
    rotation: Option<f64>,
}

/// Where older ones said it.
#[derive(Debug, Default, Deserialize)]
struct Tags {
    rotate: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Format {
    duration: Option<String>,
}

impl ProbedFilm {
    fn film(&self) -> Option<Film> {
        let stream = self.streams.first().filter(|stream| stream.width > 0 && stream.height > 0)?;
        let seconds = [&stream.duration, &self.format.duration].into_iter().flatten();
        // The rate that all its times fit; where they have none in common that is huge, and the mean is
        // meant.
        let (base, mean) = (parse_rate(&stream.r_frame_rate), parse_rate(&stream.avg_frame_rate));
        let near = |base: &FrameRate| mean.is_none_or(|mean| base.per_second() < 1.5 * mean.per_second());
        let (stored, shape) = stream.stored();
        Some(Film {
            size: in_square_pixels(stored, shape),
            oblong: (shape.0 != shape.1).then_some((stored, shape)),
            frames_per_second: base.filter(near).or(mean),
            seconds: seconds.filter_map(|text| text.parse().ok()).find(|seconds: &f64| *seconds > 0.0),
            frames: stream.nb_frames.as_ref().and_then(|text| text.parse().ok()).filter(|frames| *frames > 0),
        })
    }
}

impl Stream {
    /// Its pixels and the shape of one, upright: ffmpeg turns a film before it hands out its pictures, and
    /// its pixels with it.
    fn stored(&self) -> (Size, (u32, u32)) {
        let Stream { width, height, .. } = *self;
        let (wide, high) = pixel_shape(&self.sample_aspect_ratio);
        let probed = self.side_data_list.iter().find_map(|data| data.rotation);
        let degrees = probed.or_else(|| self.tags.rotate.as_ref()?.parse().ok()).unwrap_or(0.0);
        // Nobody holds a phone at 45 degrees; ffmpeg leaves such a film upright.
        let lies = (degrees.abs() % 180.0 - 90.0).abs() < 1.0;
        if lies {
            (Size { width: height, height: width }, (high, wide))
        } else {
            (Size { width, height }, (wide, high))
        }
    }
}

/// `64:45`; where the film says nothing (`0:1`, `N/A`) pixels are squares.
fn pixel_shape(text: &str) -> (u32, u32) {
    let probed = text.split_once(':').and_then(|(wide, high)| Some((wide.parse().ok()?, high.parse().ok()?)));
    probed.filter(|(wide, high)| *wide > 0 && *high > 0).unwrap_or((1, 1))
}

/// The same picture in square pixels: as many lines, wider or narrower ones. So does [`super::import`]'s
/// filter.
fn in_square_pixels(Size { width, height }: Size, (wide, high): (u32, u32)) -> Size {
    let shown_width = (u64::from(width) * u64::from(wide) + u64::from(high) / 2) / u64::from(high);
    Size { width: u32::try_from(shown_width).unwrap_or(u32::MAX).max(1), height }
}

/// `30000/1001`, reduced; `0/0` is none.
fn parse_rate(text: &str) -> Option<FrameRate> {
    let (above, below) = text.split_once('/')?;
    let (above, below): (u64, u64) = (above.parse().ok()?, below.parse().ok()?);
    let (mut a, mut b) = (above, below);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    let divisor = a.max(1);
    format!("{}/{}", above / divisor, below / divisor).parse().ok()
}

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

    fn probed(json: &str) -> Option<Film> {
        serde_json::from_str::<ProbedFilm>(json).expect("JSON").film()
    }

    #[test]
    fn what_ffprobe_reports() {
        let film = probed(
            r#"{"streams":[{"width":320,"height":200,"r_frame_rate":"60000/2002","avg_frame_rate":"30000/1001","nb_frames":"90","duration":"3.003"}],"format":{}}"#,
        );
        let ntsc = FrameRate { numerator: 30_000, denominator: 1001 };
        let wanted = Film {
            size: Size { width: 320, height: 200 },
            oblong: None,
            frames_per_second: Some(ntsc),
            seconds: Some(3.003),
            frames: Some(90),
        };
        assert_eq!(film, Some(wanted));
        let uneven = probed(
            r#"{"streams":[{"width":2,"height":2,"r_frame_rate":"90000/1","avg_frame_rate":"25/1","nb_frames":"N/A"}],"format":{"duration":"2.0"}}"#,
        )
        .expect("a film");
        assert_eq!(
            (uneven.frames_per_second.map(|rate| rate.to_string()), uneven.frames),
            (Some("25".into()), None)
        );
        assert_eq!(uneven.seconds, Some(2.0));
        assert_eq!(probed(r#"{"streams":[],"format":{"duration":"2.0"}}"#), None);
        assert_eq!(probed("{}"), None);
        for (turned, size) in [
            (r#""side_data_list":[{},{"rotation":-90}]"#, "2x4"),
            (r#""side_data_list":[{"rotation":180}]"#, "4x2"),
            (r#""tags":{"rotate":"270"}"#, "2x4"),
            (r#""tags":{"rotate":"x"}"#, "4x2"),
        ] {
            let film =
                probed(&format!(r#"{{"streams":[{{"width":4,"height":2,{turned}}}]}}"#)).expect("a film");
            assert_eq!(film.size.to_string(), size, "{turned}");
        }
        for (told_shape, turned, size, oblong) in [
            ("1:1", "", "720x576", None),
            ("0:1", "", "720x576", None),
            ("N/A", "", "720x576", None),
            ("7:0", "", "720x576", None),
            ("64:45", "", "1024x576", Some("720x576")),
            ("8:9", "", "640x576", Some("720x576")),
            ("1:4294967295", "", "1x576", Some("720x576")),
            // Lying on its side a wide pixel is a high one.
            ("2:1", r#","side_data_list":[{"rotation":90}]"#, "288x720", Some("576x720")),
        ] {
            let film = probed(&format!(
                r#"{{"streams":[{{"width":720,"height":576,"sample_aspect_ratio":"{told_shape}"{turned}}}]}}"#
            ))
            .expect("a film");
            let stored = film.oblong.map(|(size, _)| size.to_string());
            assert_eq!((film.size.to_string().as_str(), stored.as_deref()), (size, oblong), "{told_shape}");
        }
        assert_eq!(parse_rate("0/0"), None);
    }

    #[test]
    fn sequences_are_known_by_their_pattern() {
        for (name, is) in [
            ("a%04d.png", true),
            ("a%d.png", true),
            ("100%.mkv", false),
            ("a%s.png", false),
            ("a.mkv", false),
        ] {
            assert_eq!(is_sequence(Path::new(name)), is, "{name}");
        }
        assert_eq!(argument(Path::new("-y.mkv")), Path::new("./-y.mkv"));
    }

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
