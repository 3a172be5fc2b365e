//! `linerate wall generate`, `import` and `plan` as a user runs them: what they make, print and refuse.

use crate::support::names;
use crate::support::process::{Ends, ProcessEnd, signal, until};
use crate::support::rights::{has, there};
use linerate::sysroot::Sysroot;
use linerate::wall::geometry::{Size, TileId, WallGrid};
use linerate::wall::movie::Movie;
use linerate::wall::picture::{Proof, prove, sum};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn wall(words: &[&str]) -> ProcessEnd {
    crate::support::linerate().arg("wall").args(words).ended()
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[track_caller]
fn done(output: &ProcessEnd) -> String {
    output.gives(0);
    output.stdout.clone()
}

/// It ended with this status and one sentence that holds these words.
#[track_caller]
fn refused(output: &ProcessEnd, status: i32, words: &[&str]) {
    output.gives(status).mentions(words);
    assert!(output.stdout.is_empty(), "{output}");
}

/// The bytes of one frame.
fn frame(movie: &Movie, tile: TileId, number: u32) -> Vec<u8> {
    let bytes = std::fs::read(movie.tile_path(tile)).expect("a tile");
    let size = movie.manifest.tile.frame_bytes();
    bytes[number as usize * size..(number as usize + 1) * size].to_vec()
}

#[test]
fn every_frame_of_a_generated_movie_proves_itself() {
    let directory = tempfile::tempdir().expect("a folder");
    let disks = [directory.path().join("disk1"), directory.path().join("disk2")];
    disks.iter().for_each(|disk| std::fs::create_dir(disk).expect("a folder"));
    let folder = directory.path().join("film");
    let mut words = vec!["generate", path(&folder), "--spread", path(&disks[0]), "--spread", path(&disks[1])];
    words.extend("--grid 3x1 --tile 200x120 --fps 30000/1001 --frames 40".split(' '));
    let said = done(&wall(&words));
    assert!(said.contains("3 tiles of 200x120 pixels, 40 frames at 30000/1001 a second"), "{said}");
    let movie = Movie::open(&folder).expect("a movie");
    assert_eq!(movie.problems(), Vec::<String>::new());
    assert_eq!(names(&folder), ["movie.toml", "r0c0.crc32c", "r0c1.crc32c", "r0c2.crc32c"]);
    assert_eq!(names(&disks[0].join("film")), ["r0c0.rgb", "r0c2.rgb"]);
    assert!(movie.manifest.stamped && movie.size() == Size { width: 600, height: 120 });
    for tile in movie.manifest.grid.tiles() {
        let sums = movie.sums(tile, 0, 40);
        for number in 0..40 {
            let bytes = frame(&movie, tile, number);
            assert_eq!(prove(&bytes, movie.manifest.tile), Ok(Proof { tile, frame: number }));
            assert_eq!(Some(&sum(&bytes)), sums.get(number as usize));
        }
    }
}

#[test]
fn what_cannot_be_generated_is_refused_and_leaves_nothing() {
    let directory = tempfile::tempdir().expect("a folder");
    let (full, new) = (directory.path().join("full"), directory.path().join("new"));
    std::fs::create_dir(&full).expect("a folder");
    std::fs::write(full.join("mine"), "mine").expect("a file");
    let generate = |folder: &Path, more: &[&str]| wall(&[&["generate", path(folder)], more].concat());
    refused(&generate(&full, &["--tile", "64x64"]), 2, &["not empty", "name a folder"]);
    refused(&generate(&new, &["--tile", "63x16"]), 2, &["too small", "64x16"]);
    refused(&generate(&new, &["--grid", "5by3"]), 2, &["5by3", "columns x rows"]);
    refused(&generate(&new, &["--fps", "0"]), 2, &["frame rate"]);
    refused(&generate(&new, &["--frames", "0"]), 2, &["--frames"]);
    refused(
        &generate(&new, &["--grid", "64x64", "--tile", "32768x32768", "--frames", "9999999"]),
        3,
        &["need", "are free", "--spread"],
    );
    refused(&generate(&new, &["--spread", path(&full.join("none"))]), 3, &["is not a folder"]);
    refused(&generate(&full.join("a/b"), &[]), 3, &["above it is not there"]);
    assert_eq!(names(directory.path()), ["full"]);
    assert_eq!(names(&full), ["mine"]);
}

/// What `linerate wall` says that gets a signal once its movie's first file is there.
fn interrupted(mut command: Command, folder: &Path, signal_name: &str) -> ProcessEnd {
    command.stderr(Stdio::piped()).stdout(Stdio::piped());
    let child = command.spawn().expect("linerate runs");
    until("its first file is there", || folder.join("r0c0.rgb").exists());
    signal(&child, signal_name);
    child.ended()
}

#[test]
fn an_interrupted_movie_is_removed() {
    let directory = tempfile::tempdir().expect("a folder");
    let folder = directory.path().join("film");
    // Far more than a debug build paints in the time that this takes, far less than the disk has.
    let words = ["generate", path(&folder), "--tile", "640x400", "--frames", "2000"];
    let mut command = crate::support::linerate();
    command.arg("wall").args(words);
    let output = interrupted(command, &folder, "INT");
    if output.status.success() {
        println!("skipped: the movie was complete before it could be interrupted");
        return;
    }
    refused(&output, 1, &["interrupted", "removed"]);
    assert!(!folder.exists());
}

/// A film without loss, and its pixels.
fn film(directory: &Path) -> (PathBuf, Vec<u8>) {
    let (film, raw) = (directory.join("film.mkv"), directory.join("film.raw"));
    let source = "testsrc2=size=120x80:rate=25:duration=0.4";
    let words = ["-v", "error", "-f", "lavfi", "-i", source, "-c:v", "ffv1", "-pix_fmt", "bgr0", path(&film)];
    let back = ["-v", "error", "-i", path(&film), "-f", "rawvideo", "-pix_fmt", "rgb24", path(&raw)];
    for words in [&words[..], &back[..]] {
        let made = Command::new("ffmpeg").args(words).status().expect("ffmpeg runs");
        assert!(made.success());
    }
    (film, std::fs::read(raw).expect("pixels"))
}

#[test]
fn a_film_is_cut_without_losing_a_pixel() {
    if !there("ffmpeg") {
        return;
    }
    let directory = tempfile::tempdir().expect("a folder");
    let (film, pixels) = film(directory.path());
    let folder = directory.path().join("cut");
    let said = done(&wall(&["import", path(&film), path(&folder), "--grid", "3x2"]));
    assert!(said.contains("6 tiles of 40x40 pixels, 10 frames at 25 a second"), "{said}");
    let movie = Movie::open(&folder).expect("a movie");
    assert_eq!(movie.problems(), Vec::<String>::new());
    let (line, tile_line) = (120 * 3, 40 * 3);
    for tile in (WallGrid { columns: 3, rows: 2 }).tiles() {
        for number in 0..10 {
            let bytes = frame(&movie, tile, number);
            assert_eq!(movie.sums(tile, number, 1), [sum(&bytes)]);
            for (index, own) in bytes.chunks_exact(tile_line).enumerate() {
                let row = usize::from(tile.row) * 40 + index;
                let from = number as usize * 80 * line + row * line + usize::from(tile.column) * tile_line;
                assert!(own == &pixels[from..from + tile_line], "{tile} frame {number} line {index}");
            }
        }
    }
}

/// CosmoGrid's movies are raw RGB: pictures one after the other, without a header.
#[test]
fn raw_pictures_are_a_film_whose_size_is_given() {
    if !there("ffmpeg") {
        return;
    }
    let directory = tempfile::tempdir().expect("a folder");
    let (_, pixels) = film(directory.path());
    let raw = directory.path().join("cosmos.rgb");
    std::fs::write(&raw, &pixels).expect("raw pictures");
    let import = |folder: &Path, size: &str| {
        let words =
            ["import", path(&raw), path(folder), "--size", size, "--pixels", "rgb24", "--grid", "3x2"];
        wall(&[&words[..], &["--fps", "25"]].concat())
    };
    let folder = directory.path().join("cut");
    let said = done(&import(&folder, "120x80"));
    assert!(said.contains("6 tiles of 40x40 pixels, 10 frames at 25 a second"), "{said}");
    let movie = Movie::open(&folder).expect("a movie");
    let last = frame(&movie, TileId { row: 1, column: 2 }, 9);
    let (line, tile_line) = (120 * 3, 40 * 3);
    for (index, own) in last.chunks_exact(tile_line).enumerate() {
        let from = 9 * 80 * line + (40 + index) * line + 2 * tile_line;
        assert!(own == &pixels[from..from + tile_line], "line {index}");
    }
    let other = directory.path().join("other");
    refused(&import(&other, "121x80"), 2, &["not a multiple of a frame of 121x80 pixels", "check --size"]);
    assert!(!other.exists());
    refused(&wall(&["import", path(&raw), path(&other), "--size", "120x80"]), 2, &["--pixels"]);
}

#[test]
fn a_film_of_a_phone_that_was_held_upright_is_upright() {
    if !there("ffmpeg") {
        return;
    }
    let directory = tempfile::tempdir().expect("a folder");
    let (film, pixels) = film(directory.path());
    let (lying, turned) = (directory.path().join("lying.mov"), directory.path().join("turned.mov"));
    let convert = |words: &[&str]| {
        let done = Command::new("ffmpeg").args(["-v", "error"]).args(words).status().expect("ffmpeg runs");
        done.success()
    };
    assert!(convert(&["-i", path(&film), "-c:v", "png", "-pix_fmt", "rgb24", path(&lying)]));
    // Since version 6, and before.
    let told = convert(&["-display_rotation", "90", "-i", path(&lying), "-c", "copy", path(&turned)])
        || convert(&["-i", path(&lying), "-c", "copy", "-metadata:s:v:0", "rotate=90", "-y", path(&turned)]);
    assert!(told, "ffmpeg writes how a film is to be turned");
    let folder = directory.path().join("upright");
    let said = done(&wall(&["import", path(&turned), path(&folder), "--frames", "2"]));
    assert!(said.contains("1 tile of 80x120 pixels"), "{said}");
    // A quarter turn; which way the second writing means has changed between versions of ffmpeg.
    let upright = frame(&Movie::open(&folder).expect("a movie"), TileId { row: 0, column: 0 }, 1);
    let (own, lying) = (|x: usize, y: usize| &upright[(y * 80 + x) * 3..][..3], &pixels[120 * 80 * 3..]);
    let turned = |place: fn(usize, usize) -> (usize, usize)| {
        let pixels = (0..80).flat_map(|x| (0..120).map(move |y| (x, y)));
        pixels.into_iter().all(|(x, y)| {
            let (column, line) = place(x, y);
            own(x, y) == &lying[(line * 120 + column) * 3..][..3]
        })
    };
    assert!(
        turned(|x, y| (119 - y, x)) || turned(|x, y| (y, 79 - x)),
        "its pixels are those of the film, turned"
    );
}

#[test]
fn a_film_whose_pixels_are_no_squares_keeps_its_shape() {
    if !there("ffmpeg") {
        return;
    }
    let directory = tempfile::tempdir().expect("a folder");
    let film = directory.path().join("wide.mkv");
    // Left half red, right half blue, 60 × 40 pixels of 2:1, which are seen as 120 × 40.
    let source = "color=red:size=30x40:rate=25:duration=0.12[a];color=blue:size=30x40:rate=25:duration=0.12[b];[a][b]hstack,setsar=2/1";
    let words = ["-v", "error", "-f", "lavfi", "-i", source, "-c:v", "ffv1", "-pix_fmt", "bgr0", path(&film)];
    assert!(Command::new("ffmpeg").args(words).status().expect("ffmpeg runs").success());
    let import = |name: &str, more: &[&str]| {
        let folder = directory.path().join(name);
        let output = wall(&[&["import", path(&film), path(&folder)], more].concat());
        let said = done(&output);
        (said, output.stderr, frame(&Movie::open(&folder).expect("a movie"), TileId { row: 0, column: 0 }, 1))
    };
    let (red, blue) = ([255u8, 0, 0], [0u8, 0, 255]);
    let near =
        |pixel: &[u8], wanted: [u8; 3]| pixel.iter().zip(wanted).all(|(is, wanted)| is.abs_diff(wanted) <= 6);
    let (said, noted, pixels) = import("whole", &[]);
    assert!(said.contains("1 tile of 120x40 pixels"), "{said}");
    assert!(noted.contains("its pixels are 2:1") && noted.contains("60x40 are seen as 120x40"), "{noted}");
    for line in pixels.chunks_exact(120 * 3) {
        let at = |x: usize| &line[x * 3..][..3];
        assert!(
            [0, 30, 55].iter().all(|x| near(at(*x), red)) && [65, 90, 119].iter().all(|x| near(at(*x), blue))
        );
    }
    // In a square tile there are bars above and below, a third of it each: 60 × 20 of 60 × 60 are seen.
    let (_, _, pixels) = import("padded", &["--tile", "60x60"]);
    let black = |line: &[u8]| line.chunks_exact(3).all(|pixel| near(pixel, [0; 3]));
    let lines: Vec<bool> = pixels.chunks_exact(60 * 3).map(black).collect();
    assert!(lines[..20].iter().all(|black| *black) && lines[40..].iter().all(|black| *black), "{lines:?}");
    assert!(lines[20..40].iter().all(|black| !black), "{lines:?}");
}

#[test]
fn pictures_are_cut_padded_cropped_and_stamped() {
    if !there("ffmpeg") {
        return;
    }
    let directory = tempfile::tempdir().expect("a folder");
    let (film, _) = film(directory.path());
    let pattern = directory.path().join("p%03d.png");
    let made = Command::new("ffmpeg").args(["-v", "error", "-i", path(&film), path(&pattern)]).status();
    assert!(made.expect("ffmpeg runs").success());
    let import = |name: &str, more: &[&str]| {
        let folder = directory.path().join(name);
        done(&wall(&[&["import", path(&pattern), path(&folder), "--tile", "120x160"], more].concat()));
        Movie::open(&folder).expect("a movie")
    };
    let corner = TileId { row: 0, column: 0 };
    // 120 × 80 in 120 × 160: 40 black lines above it, or none.
    let padded = import("padded", &["--fps", "10", "--frames", "4"]);
    assert_eq!((padded.manifest.frames, padded.manifest.frames_per_second.to_string()), (4, "10".into()));
    let lines = frame(&padded, corner, 2);
    assert!(
        lines[..40 * 360].iter().all(|byte| *byte == 0) && lines[41 * 360..].iter().any(|byte| *byte > 0)
    );
    let cropped = frame(&import("cropped", &["--fit", "crop"]), corner, 2);
    assert!(cropped[..40 * 360].iter().any(|byte| *byte > 0));
    let stamped = import("stamped", &["--stamp", "--fit", "stretch"]);
    assert!(stamped.manifest.stamped && stamped.manifest.frames_per_second.to_string() == "24");
    for number in 0..stamped.manifest.frames {
        let proof = prove(&frame(&stamped, corner, number), stamped.manifest.tile);
        assert_eq!(proof, Ok(Proof { tile: corner, frame: number }));
    }
}

#[test]
fn what_is_no_film_is_refused() {
    let directory = tempfile::tempdir().expect("a folder");
    let (text_file, folder) = (directory.path().join("text.mkv"), directory.path().join("film"));
    std::fs::write(&text_file, "no film").expect("a file");
    let absent = path(&directory.path().join("none.mkv")).to_string();
    refused(&wall(&["import", &absent, path(&folder)]), 3, &["not there", "frame%04d.png"]);
    let words = ["import", path(&text_file), path(&folder)];
    let mut without = crate::support::linerate();
    without.arg("wall").args(words).env("PATH", directory.path());
    refused(&without.ended(), 3, &["is not in a folder of PATH", "install ffmpeg"]);
    if has("ffmpeg") {
        refused(&wall(&words), 3, &["not a film that ffmpeg reads", "--size WIDTHxHEIGHT --pixels rgb24"]);
    }
    assert_eq!(names(directory.path()), ["text.mkv"]);
}

/// An import of this film with stand-ins for ffmpeg in the folder: what it says of a film, and what it does with it.
fn import_with(directory: &Path, does: &str, film: &Path, folder: &Path) -> Command {
    let told = r#"{"streams":[{"width":4,"height":2,"r_frame_rate":"25/1","avg_frame_rate":"25/1","nb_frames":"5"}]}"#;
    for (name, script) in [("ffprobe", format!("echo '{told}'")), ("ffmpeg", does.to_string())] {
        let file = directory.join(name);
        std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a script");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("a program");
    }
    let mut command = crate::support::linerate();
    let inherited = std::env::var("PATH").expect("PATH");
    command.env("PATH", format!("{}:{inherited}", path(directory)));
    command.args(["wall", "import"]).args([film, folder]);
    command
}

#[test]
fn a_film_that_breaks_off_is_said_and_removed() {
    let directory = tempfile::tempdir().expect("a folder");
    let (film, folder) = (directory.path().join("film.mkv"), directory.path().join("film"));
    std::fs::write(&film, "").expect("a file");
    // A frame has 24 bytes.
    for (does, words) in [
        ("head -c 60 /dev/zero; echo 'disk on fire' >&2; exit 1", &["midst of frame 2", "disk on fire"][..]),
        (
            "head -c 48 /dev/zero; echo 'a bad packet' >&2; exit 9",
            &["gave up after 2 frames", "a bad packet"],
        ),
        (
            "head -c 48 /dev/zero; echo 'ended early' >&2",
            &["only 2 of 5 frames", "ended early", "--frames 2"],
        ),
        ("exit 0", &["not one picture"]),
        ("yes 'many words' | head -n 200000 >&2; exit 1", &["gave up after 0 frames", "many words"]),
    ] {
        let output = import_with(directory.path(), does, &film, &folder).ended();
        refused(&output, 3, words);
        refused(&output, 3, &["what was written is removed"]);
        assert!(!folder.exists(), "{does}");
    }
    let does = "head -c 120 /dev/zero; echo 'one blemish' >&2";
    let output = import_with(directory.path(), does, &film, &folder).ended();
    assert!(done(&output).contains("5 frames") && output.stderr.contains("one blemish"));
}

#[test]
fn an_ffmpeg_that_hangs_is_ended_with_us() {
    let directory = tempfile::tempdir().expect("a folder");
    let (film, folder) = (directory.path().join("film.mkv"), directory.path().join("film"));
    std::fs::write(&film, "").expect("a file");
    let command = import_with(directory.path(), "head -c 30 /dev/zero; exec sleep 600", &film, &folder);
    let output = interrupted(command, &folder, "TERM");
    refused(&output, 1, &["interrupted", "removed"]);
    assert!(!folder.exists());
}

#[test]
fn the_wall_of_the_seeds_is_planned() {
    let words = ["plan", "--grid", "5x3", "--tile", "2560x1600", "--fps", "24", "--mtu", "9000"];
    let screen = wall(&words);
    let json = wall(&[&words[..], &["--json"]].concat());
    // A machine without any NIC has no plan: then it says so.
    if !screen.status.success() {
        refused(&screen, 3, &["no nic"]);
        return;
    }
    let screen = done(&screen);
    let all = "35.4 Gb/s|35.8 Gb/s on the wire with an MTU of 9000|12800x4800|verdict|\
                   CPU seconds per GB";
    for word in all.split('|') {
        assert!(screen.contains(word), "“{word}” in:\n{screen}");
    }
    let value: Value = serde_json::from_str(&done(&json)).expect("JSON and nothing else");
    let rate = value["need"]["pixel_bytes_per_second"].as_f64().expect("a rate");
    assert_eq!(rate, 15.0 * 2560.0 * 1600.0 * 3.0 * 24.0);
    assert!(["yes", "no", "unknown"].iter().any(|word| value["fits"] == *word), "{value}");
}

#[test]
fn a_movie_is_planned_with_its_disks_and_wrong_words_are_refused() {
    let directory = tempfile::tempdir().expect("a folder");
    let folder = directory.path().join("film");
    done(&wall(&["generate", path(&folder), "--grid", "2x1", "--tile", "64x16", "--frames", "2"]));
    let output = wall(&["plan", path(&folder), "--json"]);
    if output.status.success() {
        let value: Value = serde_json::from_str(&done(&output)).expect("JSON");
        let shares = value["disks"].as_array().expect("disks");
        let worth: f64 = shares.iter().filter_map(|share| share["tiles_worth"].as_f64()).sum();
        assert!((worth - 2.0).abs() < 1e-9, "{value}");
        let live = Sysroot::live();
        let machine = linerate::probe::probe(&live);
        let movie = Movie::open(&folder).expect("a movie");
        let places = linerate::wall::need::places_of(&live, &machine, &movie);
        assert_eq!(places.len(), shares.len());
    } else {
        refused(&output, 3, &["no nic"]);
    }
    // A tile that is not there is said before anything else; figures of another machine, of another schema
    // and of nothing are refused.
    std::fs::remove_file(folder.join("r0c1.rgb")).expect("removed");
    let said = wall(&["plan", path(&folder)]).stderr;
    assert!(said.contains("r0c1.rgb: cannot be read") && said.contains("[files]"), "{said}");
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let other = fixtures.join("run-big-server.json");
    refused(
        &wall(&["plan", path(&folder), "--measured", path(&other)]),
        2,
        &["measured on", "measure there"],
    );
    let newer = directory.path().join("newer.json");
    let run = std::fs::read_to_string(&other).expect("a run").replacen("\"schema\": 2", "\"schema\": 7", 1);
    std::fs::write(&newer, run).expect("written");
    refused(&wall(&["plan", path(&folder), "--measured", path(&newer)]), 2, &["schema 7"]);
    refused(&wall(&["plan", path(&folder), "--measured", path(&folder)]), 3, &["run.json is not there"]);
    refused(&wall(&["plan", path(directory.path())]), 3, &["movie.toml cannot be read"]);
    refused(&wall(&["plan"]), 2, &["--grid"]);
    refused(&wall(&["plan", "--grid", "2x2"]), 2, &["--tile"]);
    refused(&wall(&["plan", path(&folder), "--grid", "2x2"]), 2, &["cannot be used with"]);
    refused(&wall(&["plan", "--grid", "2x2", "--tile", "64x64", "--mtu", "1"]), 2, &["--mtu"]);
    refused(&wall(&["plan", "--grid", "2x2", "--tile", "64x64", "--nic", "none0"]), 3, &["none0"]);
}
